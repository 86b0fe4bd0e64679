"""Whatever reading one run raises costs that run's row: every surface shows the others."""

import errno
import io
import os
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from runners.cost.ledger import RunEntry
from runners.gpus.client import latest
from runners.lifecycle.control.prune import Criteria, prune
from runners.lifecycle.control.trash import delete
from runners.model.gpus import UNREAD, GpuReading
from runners.state.boundary import ReadBoundary
from runners.state.layout import StateDirectory
from runners.state.leases import held_leases
from runners.state.runs import read_run
from tests.fuzz.world import ENDED, LIVE, World, make_world
from tests.support import CEILING_S
from tui.cli import run_command
from tui.cli.monitor import disks_of
from tui.snapshot.feed import PanelSnapshot, SnapshotFeed
from tui.views.runs.row_reading import row_of_ended, row_of_view
from tui.views.runs.run_view import view_run

READERS = (
    "runners.state.runs.read_plan",
    "runners.state.runs.read_record",
    "runners.state.runs.read_labels",
    "runners.state.runs.derive_state",
    "runners.state.leases.read_outline",
    "tui.views.runs.run_view.read_final",
    "tui.views.runs.row_reading.read_final",
    "runners.watch.metrics.checkpoints.run_checkpoint",
    "tui.views.runs.run_view.LiveReport",
)
COMMANDS = (
    *(("list",), ("list", "--json"), ("list", "--state", "failed"), ("monitor",), ("cost",)),
    *(("cost", "export"), ("gpus",), ("status", LIVE), ("status", ENDED), ("metrics", LIVE)),
    *(("prune", "--keep", "9", "--dry-run"), ("undelete",)),
)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    made = make_world(tmp_path / "state")
    monkeypatch.setenv("FRESNEL_STATE_DIR", str(made.state.root))
    monkeypatch.setenv("FRESNEL_GPUS", "none")
    for name in ("guard.keeper.ensure_guard", "guard.sweep_watch.ensure_sweep_watches"):
        monkeypatch.setattr(f"runners.{name}", lambda state: None)
    monkeypatch.setattr("tui.snapshot.feed.ensure_sampler", lambda state: None)
    # What lies in the trash stays there: each command would start a process that empties it.
    monkeypatch.setattr("runners.lifecycle.control.trash.expired", lambda state: [])
    for place in ("gpus", "monitor"):
        monkeypatch.setattr(f"tui.cli.{place}.read_gpus", _reading)
    return made


def _reading(state: StateDirectory) -> GpuReading:
    return latest(state) or GpuReading(0.0, "", UNREAD)


def _raises(monkeypatch: pytest.MonkeyPatch, name: str, odd: str) -> None:
    """From now on this reader raises for the run `odd`, as no reader is expected to."""
    module, _, function = name.rpartition(".")
    usual: Callable[..., Any] = getattr(__import__(module, fromlist=[function]), function)

    def read(subject: Any, *more: Any, **keys: Any) -> Any:
        if subject.id == odd:
            raise ZeroDivisionError("odd")
        return usual(subject, *more, **keys)

    monkeypatch.setattr(name, read)


def _command(words: tuple[str, ...]) -> str:
    output = io.StringIO()
    with redirect_stdout(output), redirect_stderr(output):
        code = run_command(words)
    assert code in (0, 1), (words, output.getvalue())
    return output.getvalue()


def _snapshot(state: StateDirectory) -> PanelSnapshot:
    feed = SnapshotFeed(state, read_only=True)
    try:
        assert feed.first_snapshot(CEILING_S) is not None
        for _ in range(2):
            snapshot = feed._reader.submit(feed._take).result(CEILING_S)
        return snapshot
    finally:
        feed._reader.shutdown()


@pytest.mark.parametrize("odd", [LIVE, ENDED])
@pytest.mark.parametrize("reader", READERS)
def test_one_run_that_raises_is_one_row(
    world: World, reader: str, odd: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = ENDED if odd == LIVE else LIVE
    _raises(monkeypatch, reader, odd)
    for words in COMMANDS:
        text = _command(words)
        if words in (("list",), ("list", "--json")):
            assert good in text and odd in text
    snapshot = _snapshot(world.state)
    assert {good, odd} <= {view.run.id for view in snapshot.runs}
    assert snapshot.ended.ids == {ENDED}
    _command(("report", LIVE, ENDED, "-o", str(world.state.root.parent / "report.html")))


@pytest.mark.parametrize("odd", [LIVE, ENDED])
def test_the_row_names_the_file(world: World, odd: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _raises(monkeypatch, "runners.state.runs.read_plan", odd)
    run = read_run(world.state, odd)
    assert run.problem == "cannot be read: plan.json (ZeroDivisionError: odd)"
    view = view_run(run)
    assert view.problem == run.problem
    assert run.problem in row_of_view(view).remark
    assert disks_of(view)
    if odd == ENDED:
        assert "cannot be read: plan.json" in row_of_ended(run, 0).remark
        # What nobody can read is not thrown away.
        assert run.problem in prune(world.state, Criteria(keep=0)).left.values()
        assert delete(world.state, [run]).kept == {odd: run.problem}
        assert world.ended.path.is_dir()


def test_a_run_whose_money_raises_is_left_out_of_the_sums_and_said(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = RunEntry.span

    def span(entry: RunEntry, *more: Any) -> tuple[int, int]:
        if entry.run == ENDED:
            raise OverflowError("too large")
        return usual(entry, *more)

    monkeypatch.setattr(RunEntry, "span", span)
    assert f"cannot be read: {ENDED} (OverflowError" in _command(("cost",))
    assert ENDED in _command(("list",))
    assert ENDED in {view.run.id for view in _snapshot(world.state).runs}
    exported = _command(("cost", "export")).splitlines()
    assert not [row for row in exported if row.startswith("run,") and ENDED in row]


def test_gpus_of_a_run_whose_locks_cannot_be_looked_at_stay_its_own(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    _raises(monkeypatch, "runners.state.leases.holds_gpus", LIVE)
    assert [lease.run for lease in held_leases(world.state)["GPU-0"]] == [LIVE]


def test_an_odd_file_is_logged_once_by_each_process(world: World) -> None:
    def fail() -> None:
        raise ValueError("wrong")

    for _ in range(3):
        boundary = ReadBoundary(world.live.path)
        boundary.read("x.json", fail, None)
        assert boundary.problems == ("cannot be read: x.json (ValueError: wrong)",)
    assert (world.state.host / "unreadable.log").read_text().count("Traceback") == 1


def test_a_state_folder_that_cannot_be_read_for_a_moment_ends_no_panel(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> list[str]:
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))

    feed = SnapshotFeed(world.state, read_only=True)
    try:
        before = feed.first_snapshot(CEILING_S)
        assert before is not None and before.runs
        with monkeypatch.context() as patch:
            patch.setattr("tui.snapshot.feed.list_runs", refuse)
            meanwhile = feed._reader.submit(feed._take).result(CEILING_S)
        assert meanwhile.runs == before.runs and os.strerror(errno.ESTALE) in meanwhile.problem
        assert not feed._reader.submit(feed._take).result(CEILING_S).problem
    finally:
        feed._reader.shutdown()
