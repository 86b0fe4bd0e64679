"""Money and guard in the panel: a session from price to total, the guard, the drain; all asked."""

import json
from collections.abc import Iterator

import pytest

from tests.screen_text import NO_RUNS
from tests.support import eventually
from tests.terminal import Terminal, headless
from tests.ui.conftest import Show


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


def test_a_session_is_started_given_a_budget_and_ended(panel: Terminal) -> None:
    panel.press("$")
    panel.wait_for("none is open: s starts one")
    panel.press("e")
    panel.wait_for("no session is open")
    panel.press("s")
    panel.wait_for(r"amd-cloud-mi300x +\$1\.99/h .*fits|amd-cloud-mi300x +\$1\.99/h")
    panel.wait_for(r"\$15\.92/h for this machine")
    panel.press("F2")
    panel.wait_for(r"session rate \$15\.92/h for 8 simulated GPUs")
    assert session()["usd_per_hour"] == 15.92
    panel.press("b")
    panel.wait_for("Budget of the session")
    panel.press("many", "Enter")
    panel.wait_for("expected US dollars")
    panel.press(*["Backspace"] * 4, "500000", "Enter")
    panel.wait_for(r"budget +\$\S+ left of \$500,000")
    assert session()["budget_usd"] == 500000.0
    panel.press("e")
    panel.wait_for(r"So far: \$\S+ in")
    panel.press("n")
    panel.wait_gone("So far")
    assert session()["usd_per_hour"] == 15.92, "asked, and left"
    panel.press("e")
    panel.wait_for("End the session")
    panel.press("y")
    panel.wait_for(r"session ended after \S+: total \$\S+")
    eventually(lambda: session()["session_usd"] is None)


def test_the_guard_is_set_postponed_brought_back_and_lifted(panel: Terminal) -> None:
    panel.press("$")
    panel.wait_for("none is set: g sets one")
    panel.press("g")
    panel.wait_for("say what the guard should watch")
    panel.press("Tab")
    panel.wait_for("max age: age of the session")
    panel.press("9000h")
    panel.wait_for("age 375d00h → warning → 10m00s later")
    panel.press("F2")
    panel.wait_for("watches age 375d00h")
    eventually(lambda: json.loads(headless("guard", "--json").stdout)["rule"]["max_age_s"])
    panel.press("p")
    panel.wait_for("For how long from now")
    panel.press("Enter")
    panel.wait_for(r"guard +postponed until")
    panel.press("Escape")
    panel.wait_gone("Money and guard")
    panel.wait_for(r"postponed (until )?(\w+ )?\d\d:\d\d")
    panel.press("$")
    panel.wait_for(r"guard +postponed until")
    panel.press("u")
    panel.wait_for("watches age 375d00h")
    panel.press("Escape")
    panel.wait_gone("Money and guard")
    panel.wait_for("guard set")
    panel.press("$")
    panel.wait_for("watches age 375d00h")
    panel.press("o")
    panel.wait_for("Guard off")
    panel.press("y")
    panel.wait_for("none is set: g sets one")
    assert json.loads(headless("guard", "--json").stdout) is None


def test_a_drain_is_asked_for_shown_and_ended(panel: Terminal) -> None:
    panel.press("D")
    panel.wait_for("no new run starts until drain is ended")
    panel.press("Enter")
    panel.wait_gone("no new run starts until drain is ended")
    assert not is_drained()
    panel.press("D")
    panel.wait_for("no new run starts until drain is ended")
    panel.press("y")
    panel.wait_for("⚠ drain")
    assert is_drained()
    panel.press("D")
    panel.wait_for("End the drain")
    panel.press("y")
    panel.wait_gone("⚠ drain")
