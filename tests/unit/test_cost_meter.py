"""The line at the top: whole where there is room, else its most important parts."""

from decimal import Decimal

import msgspec
import pytest
from textual.geometry import Size

from runners.cost.meter import Meter
from runners.cost.sessions import Session
from runners.guard.rule import GuardState, GuardView, Stage, new_rule
from runners.host.clock import moment_now
from runners.model.run import Run
from runners.model.spec import Price
from runners.model.states import State
from tui.panel.widgets.meter import MeterBar
from tui.snapshot.feed import PanelSnapshot
from tui.views.runs.run_view import RunView, view_run

NOON = 1_790_000_000.0
SESSION = Session(NOON - 9000, "here", Price("15.92", "machine", "session"), 8, "100")
METER = Meter(
    *map(Decimal, ("15.92", "41.20", "38.08", "58.80")),
    "",
    Decimal("3.12"),
    NOON + 13_297,
    "177 days old",
)


def line(
    width: int,
    meter: Meter = METER,
    session: Session | None = SESSION,
    guard: GuardView | None = None,
    runs: tuple[RunView, ...] = (),
) -> str:
    """What the meter shows on a terminal of `width` cells."""
    snapshot = PanelSnapshot(NOON, "gpu-box-3", runs, {}, None, {}, session, meter, 0, guard=guard)
    pane = type("Narrow", (MeterBar,), {"size": Size(width, 1), "read_only": False})()
    pane.snapshot = snapshot
    shown = pane.render()
    assert shown.cell_len <= width
    return shown.plain


def counting_down() -> GuardView:
    rule = new_rule(max_age_s=3600.0, countdown_s=3600.0)
    return GuardView(rule, GuardState(rule.id, Stage.WARNED, moment_now(), "age 1h"), True)


def test_a_wide_line_tells_everything() -> None:
    shown = line(160)
    assert (
        "fresnel-tui  gpu-box-3" in shown
        and "$15.92/h est." in shown
        and "session $41.20 (idle $3.12)" in shown
    )
    assert (
        "budget █████▉░░░░ $58.80, until " in shown
        and "price 177 days old" in shown
        and "0 running" in shown
    )


@pytest.mark.parametrize("guard", [None, "counting down"])
def test_80_columns_hold_what_matters_most(guard: str | None) -> None:
    shown = line(80, guard=counting_down() if guard else None)
    assert "$15.92/h" in shown and "session $41.20" in shown and "$58.80, until" in shown
    assert ("⚠ guard 1h00m" in shown or "⚠ guard 59m" in shown) is bool(guard)


def test_a_narrow_line_keeps_the_budget_and_the_guard() -> None:
    shown = line(60, guard=counting_down())
    assert "⚠ guard" in shown and "$58.80, until" in shown and "session" not in shown


def test_a_budget_that_is_used_up_says_so() -> None:
    over = msgspec.structs.replace(METER, budget_left=Decimal("-0.01"), until=NOON)
    assert "budget ░░░░░░░░░░ used up" in line(160, over)


def test_without_a_session_or_a_price_nothing_is_made_up() -> None:
    run = Run("id", "command", "one", State.RUNNING, "", "/nowhere", NOON)
    shown = line(80, Meter(None, None, None, None, ""), None, runs=(view_run(run, brief=True),))
    assert "—/h" in shown and "no session" in shown and "$" not in shown


def test_who_waits_is_not_counted_as_running_where_there_is_room() -> None:
    states = [State.RUNNING, State.STOPPING, State.QUEUED, State.DONE]
    runs = [Run(str(state), "command", "one", state, "", "/nowhere", NOON) for state in states]
    views = tuple(view_run(run, brief=True) for run in runs)
    assert "  2 running · 1 queued" in line(160, runs=views)
    assert all(line(width, runs=views).rstrip().endswith("  2 running") for width in (100, 112))
    assert "  2 running · 1 queued" in line(80, session=None, runs=views)
    narrow = line(35, session=None, runs=views)
    assert narrow.rstrip().endswith("2 running"), narrow


def test_who_has_no_run_yet_reads_nothing_of_money() -> None:
    shown = line(80, Meter(None, None, None, None, ""), None)
    assert shown.split() == ["fresnel-tui", "gpu-box-3", "0", "running"]
    assert "$3.00/h" in line(80, msgspec.structs.replace(METER, per_hour=Decimal(3)), None)


def test_a_budget_that_lasts_long_names_the_day() -> None:
    long = msgspec.structs.replace(METER, until=NOON + 30 * 86_400)
    assert "until 21 Oct" in line(160, long) or "until 22 Oct" in line(160, long)


@pytest.mark.parametrize("width", [200, 120, 80])
def test_a_guard_in_trouble_shows_at_every_width(width: int) -> None:
    rule = new_rule(max_age_s=3600.0, end_command="x")
    ended = GuardState(rule.id, Stage.ENDED, moment_now(), "age 1h", note="every run has ended")
    assert "⚠ guard" in line(width, guard=GuardView(rule, ended, True))
    failing = GuardState(rule.id, Stage.ENDING, moment_now(), "age 1h", note="exit code 1")
    shown = line(width, guard=GuardView(rule, failing, True))
    assert "⚠" in shown and "has acted" not in shown


def test_a_price_that_does_not_fit_shows() -> None:
    doubted = msgspec.structs.replace(METER, caveat="price x is for 8 × H100")
    assert "$15.92/h est. ⚠ price does not fit" in line(160, doubted)
