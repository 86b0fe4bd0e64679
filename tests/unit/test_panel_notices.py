"""What the panel tells of runs that ended between two snapshots."""

import msgspec

from runners.cost.meter import Meter
from runners.model.run import Progress
from runners.model.states import State
from runners.presets.reading.user_settings import NoticeKeys
from tests.support import make_plan, make_run
from tui.panel.notifications import Notification, changes_between, summed_up
from tui.snapshot.feed import PanelSnapshot
from tui.views.runs.run_view import RunView


def view(name: str, state: State, group: str = "", reason: str = "") -> RunView:
    run_id = f"20261120-101500-{name}-7f3a"
    plan = make_plan(run_id, name=name, group=group)
    run = make_run(state, ended=1005.0, id=run_id, name=name, reason=reason, plan=plan)
    return RunView(run, Progress(), {}, {}, (), None, (), 1.0)


def told(*after: RunView) -> list[tuple[str, str, str]]:
    """Of runs that all ran before: title, text and severity of each notice."""
    before = [
        msgspec.structs.replace(
            one, run=msgspec.structs.replace(one.run, state=State.RUNNING, reason="")
        )
        for one in after
    ]
    nothing = Meter(None, None, None, None, "")
    earlier, later = (
        PanelSnapshot(1005.0, "box", tuple(runs), {}, None, {}, None, nothing, 0)
        for runs in (before, after)
    )
    notices = changes_between(earlier, later, NoticeKeys().on)
    return [(notice.name, notice.text, notice.severity) for notice in notices]


def test_runs_of_a_sweep_that_end_together_are_one_notice() -> None:
    sweep = [view(f"lr{i}", State.DONE, "sweep") for i in range(5)]
    failed = view("lr5", State.FAILED, "sweep", "out of memory")
    other, alone = view("other", State.DONE), view("alone", State.DONE, "another")
    (first, second, third) = told(*sweep, failed, other, alone)
    assert first == (
        "sweep",
        "6 runs ended: 5 done, 1 failed\nlr5: failed after 5s: out of memory",
        "error",
    )
    assert [second[0], third[0]] == ["other", "alone"]
    assert told(*sweep) == [("sweep", "5 runs done", "information")]


def test_runs_are_called_by_their_names() -> None:
    failed = view("b", State.FAILED, reason="20261120-101500-a-7f3a ended as stopped")
    assert told(failed) == [("b", "failed after 5s: a ended as stopped", "error")]


def test_many_runs_of_no_sweep_that_end_together_are_one_notice() -> None:
    assert len(told(*(view(f"run{i}", State.DONE) for i in range(3)))) == 3
    runs = [view(f"run{i}", State.DONE) for i in range(4)]
    assert told(*runs) == [("runs", "4 runs done", "information")]


def test_alerts_are_told_one_by_one() -> None:
    alerts = [Notification("alert", "run", f"alert {i}") for i in range(5)]
    ended = [Notification(State.DONE, f"run{i}", "done", "sweep on far") for i in range(2)]
    assert summed_up([*alerts, *ended]) == [
        *alerts,
        Notification("done", "sweep on far", "2 runs done"),
    ]
