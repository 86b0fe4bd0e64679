"""Money and guard in the panel: a session from price to total, the guard, the drain; all asked."""

import json
from collections.abc import Iterator

import pytest
from textual.binding import Binding

from runners.model.states import State
from tests.screen_text import (
    AT_ITS_LIMIT,
    BUDGET,
    DOLLARS_EXPECTED,
    DRAIN,
    DRAINED,
    END_DRAIN,
    END_SESSION,
    GUARD_OFF,
    GUARDED,
    MONEY,
    NO_GUARD,
    NO_RUNS,
    NO_SESSION,
    NO_SESSION_OPEN,
    NOTHING_WATCHED,
    POSTPONE,
    POSTPONED,
    PROJECTED,
    SESSION_ENDED,
    SO_FAR,
    field,
    help_of,
    run_row,
    watches,
)
from tests.support import eventually
from tests.terminal import Terminal, headless
from tests.ui.conftest import Show
from tui.panel.screen_keys import MONEY_KEYS


@pytest.fixture
def panel(show: Show, monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    monkeypatch.setenv("FRESNEL_GPUS", "sim:8xMI300X")
    yield show(columns=100, rows=30, until=NO_RUNS)
    headless("guard", "off")


def session() -> dict[str, object]:
    found: dict[str, object] = json.loads(headless("session", "--json").stdout)
    return found


def is_drained() -> bool:
    return bool(json.loads(headless("drain", "status", "--json").stdout)["drained"])


LONG = "a-name-as-long-as-those-of-sweeps-are"
STEPS = "i=0; while :; do i=$((i + 1)); echo step $i/100000 loss 0.5; sleep 0.5; done"


def test_no_row_of_a_table_is_broken_on_a_narrow_terminal(
    show: Show, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FRESNEL_GPUS", "sim:2xH100")
    assert headless("session", "start", "--price", "15.92").returncode == 0
    limit = ("--set", "limits.cost=2")
    launched = headless("launch", "--gpus", "1", "--name", LONG, *limit, "--", "sh", "-c", STEPS)
    assert launched.returncode == 0, launched.stderr
    panel = show(columns=80, rows=24, until=run_row(State.RUNNING))
    panel.press("$")
    panel.wait_for(rf"\n│ run .* {PROJECTED} ")
    panel.wait_for(rf"\n│ a-.* running .* \$2\.\d\d {AT_ITS_LIMIT}")


def test_no_hint_is_broken_on_a_narrow_terminal(show: Show) -> None:
    panel = show(columns=80, rows=24, until=NO_RUNS)
    panel.press("$")
    panel.wait_for(MONEY)
    for key in MONEY_KEYS:
        if isinstance(key, Binding) and key.show:
            panel.wait_for(rf"\b{key.key} {key.description}")


def test_a_number_that_is_typed_at_the_list_of_prices_is_a_rate(panel: Terminal) -> None:
    panel.press("$")
    panel.wait_for(NO_SESSION)
    panel.press("s")
    panel.wait_for(field("azure-mi300x", r"\$6\.00/h"))
    panel.press("1.9")
    panel.wait_for(field("or a rate", r"1\.9"))
    panel.wait_for(r"\$1\.90/h")


def test_a_session_is_started_given_a_budget_and_ended(panel: Terminal) -> None:
    panel.press("$")
    panel.wait_for(NO_SESSION)
    panel.press("e")
    panel.wait_for(NO_SESSION_OPEN)
    panel.press("s")
    panel.wait_for(field("amd-cloud-mi300x", r"\$1\.99/h"))
    panel.wait_for(r"\$15\.92/h for this machine")
    panel.press("F2")
    panel.wait_for(r"session rate \$15\.92/h for 8 simulated GPUs")
    assert session()["usd_per_hour"] == 15.92
    panel.press("b")
    panel.wait_for(BUDGET)
    panel.press("many", "Enter")
    panel.wait_for(DOLLARS_EXPECTED)
    panel.press(*["Backspace"] * 4, "500000", "Enter")
    panel.wait_for(field("budget", r"\$\S+ left of \$500,000"))
    assert session()["budget_usd"] == 500000.0
    panel.press("e")
    panel.wait_for(SO_FAR + r": \$\S+ in")
    panel.press("n")
    panel.wait_gone(SO_FAR)
    assert session()["usd_per_hour"] == 15.92, "asked, and left"
    panel.press("e")
    panel.wait_for(END_SESSION)
    panel.press("y")
    panel.wait_for(SESSION_ENDED + r" \S+: total \$\S+")
    eventually(lambda: session()["session_usd"] is None)


def test_the_guard_is_set_postponed_brought_back_and_lifted(panel: Terminal) -> None:
    panel.press("$")
    panel.wait_for(NO_GUARD)
    panel.press("g")
    panel.wait_for(NOTHING_WATCHED)
    panel.press("Tab")
    panel.wait_for(help_of("max age", ""))
    panel.press("9000h")
    panel.wait_for("age 375d00h → warning → 10m00s later")
    panel.press("F2")
    panel.wait_for(watches("age 375d00h"))
    eventually(lambda: json.loads(headless("guard", "--json").stdout)["rule"]["max_age_s"])
    panel.press("p")
    panel.wait_for(POSTPONE)
    panel.press("Enter")
    panel.wait_for(field("guard", r"postponed until"))
    panel.press("Escape")
    panel.wait_gone(MONEY)
    panel.wait_for(POSTPONED)
    panel.press("$")
    panel.wait_for(field("guard", r"postponed until"))
    panel.press("u")
    panel.wait_for(watches("age 375d00h"))
    panel.press("Escape")
    panel.wait_gone(MONEY)
    panel.wait_for(GUARDED)
    panel.press("$")
    panel.wait_for(watches("age 375d00h"))
    panel.press("o")
    panel.wait_for(GUARD_OFF)
    panel.press("y")
    panel.wait_for(NO_GUARD)
    assert json.loads(headless("guard", "--json").stdout) is None


def test_a_drain_is_asked_for_shown_and_ended(panel: Terminal) -> None:
    panel.press("D")
    panel.wait_for(DRAIN)
    panel.press("Enter")
    panel.wait_gone(DRAIN)
    assert not is_drained()
    panel.press("D")
    panel.wait_for(DRAIN)
    panel.press("y")
    panel.wait_for(DRAINED)
    assert is_drained()
    panel.press("D")
    panel.wait_for(END_DRAIN)
    panel.press("y")
    panel.wait_gone(DRAINED)
