"""Whatever file is damaged, everything that shows all runs, machines or money shows the rest."""

import io
import json
from contextlib import redirect_stderr, redirect_stdout

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners.gpus.client import latest
from runners.guard.sweep_watch import SweepWatch
from runners.host.clock import moment_now
from runners.lifecycle.control.prune import Criteria, prune
from runners.lifecycle.control.trash import delete, list_deleted, undelete
from runners.model.errors import FresnelError
from runners.model.gpus import UNREAD, GpuReading
from runners.places.ssh.registry import RemoteHost, RemoteRegistry
from runners.state.decoding import read
from runners.state.layout import StateDirectory, config_dir
from runners.state.runs import find_runs
from tests.fuzz import samples
from tests.fuzz.mutations import STEPS, Step, changed_bytes, changed_json
from tests.fuzz.world import ENDED, LIVE, World, damaged, share
from tests.support import CEILING_S
from tui.cli import run_command
from tui.cli.compare import gather
from tui.cli.cost import report_json
from tui.panel.theme.themes import remembered_theme
from tui.snapshot.feed import PanelSnapshot, SnapshotFeed
from tui.views.metrics.pinned_charts import pinned_charts
from tui.views.money.cost_report import cost_notes, cost_tables, read_report
from tui.views.money.guard_text import guard_text
from tui.views.money.money_text import session_pairs
from tui.views.report.report import report_html
from tui.views.report.report_parts import make_report
from tui.views.runs.row_reading import row_of_view
from tui.views.runs.run_columns import COLUMNS, TableContext, table_text

COMMANDS = (
    *(("list",), ("list", "--json"), ("list", "--state", "failed"), ("monitor",)),
    *(("status", LIVE), ("status", ENDED, "--json"), ("metrics", LIVE), ("cost",)),
    *(("cost", "export"), ("gpus",), ("compare", LIVE, ENDED), ("diagnose", ENDED)),
    *(("undelete",), ("session",)),
)


def _feed(state: StateDirectory) -> None:
    """Three snapshots: the first screen, what is read after it, and the rows of all that ended."""
    feed = SnapshotFeed(state, read_only=True)
    try:
        assert feed.first_snapshot(CEILING_S) is not None
        for _ in range(2):
            snapshot = feed._reader.submit(feed._take).result(CEILING_S)
    finally:
        feed._reader.shutdown()
    _show(snapshot)


def _show(snapshot: PanelSnapshot) -> None:
    assert {LIVE, ENDED} <= {view.run.id for view in snapshot.runs}
    assert ENDED in {row.id for row in snapshot.ended.rows}
    context = TableContext(samples.START, None)
    for row in (*map(row_of_view, snapshot.runs), *snapshot.ended.rows):
        for key in COLUMNS:
            assert isinstance(table_text(key, context)(row), str)
    if snapshot.guard is not None:
        guard_text(snapshot.guard, moment_now())
    if snapshot.session is not None:
        session_pairs(snapshot.meter, snapshot.session, moment_now(), snapshot.guard)


def _cost(state: StateDirectory) -> None:
    report = read_report(state)
    assert {LIVE, ENDED} <= {row.view.run.id for row in report.rows}
    cost_tables(report)
    cost_notes(report)
    json.dumps(report_json(report))


def _report(state: StateDirectory) -> None:
    facts = gather(state, [LIVE, ENDED])
    assert LIVE in report_html(make_report(state, facts, "both"))


def _prune(state: StateDirectory) -> None:
    prune(state, Criteria(keep=0), dry_run=True)


def _delete(state: StateDirectory) -> None:
    """Into the trash and back again; what says of itself that it lives stays where it is."""
    deletion = delete(state, find_runs(state, [ENDED]))
    list_deleted(state)
    if deletion.deleted:
        assert [run.id for run in undelete(state, [ENDED])] == [ENDED]


def _machine(state: StateDirectory) -> None:
    """What only single pages read."""
    remembered_theme(state)
    pinned_charts(state)
    for path in state.sweeps.glob("*.json"):
        read(path, SweepWatch)


SURFACES = (_feed, _cost, _report, _prune, _delete, _machine)


@pytest.fixture(autouse=True)
def alone(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is adopted, guarded or sampled for these runs, and no reading is waited for."""

    def reading(state: StateDirectory, **_: float) -> GpuReading:
        return latest(state) or GpuReading(0.0, "", UNREAD)

    monkeypatch.setenv("FRESNEL_STATE_DIR", str(world.state.root))
    monkeypatch.setenv("FRESNEL_GPUS", "none")
    monkeypatch.setattr("runners.guard.keeper.ensure_guard", lambda state: None)
    monkeypatch.setattr("runners.guard.sweep_watch.ensure_sweep_watches", lambda state: None)
    monkeypatch.setattr("runners.housekeeping.adopt_orphans", lambda state: [])
    monkeypatch.setattr("runners.lifecycle.control.trash.expired", lambda state: [])
    monkeypatch.setattr("tui.snapshot.feed.ensure_sampler", lambda state: None)
    monkeypatch.setattr("tui.cli.gpus.read_gpus", reading)
    monkeypatch.setattr("tui.cli.monitor.read_gpus", reading)


def _show_all(state: StateDirectory, which: int) -> None:
    """One surface or command, by its number."""
    which %= len(SURFACES) + len(COMMANDS)
    if which < len(SURFACES):
        SURFACES[which](state)
        return
    command = COMMANDS[which - len(SURFACES)]
    output = io.StringIO()
    with redirect_stdout(output), redirect_stderr(output):
        code = run_command(command)
    assert code == 0 or code == 1, (command, output.getvalue())


@share(0.12)
@given(st.integers(0, 1 << 20), st.integers(0, 1 << 20), STEPS, st.booleans())
def test_a_damaged_file_of_a_run_costs_no_other_run(
    world: World, number: int, which: int, steps: list[Step], is_live: bool
) -> None:
    run = world.live if is_live else world.ended
    files = samples.files_of_a_run()
    states = sorted(samples.state_files(run, is_live).items())
    files += [samples.Sample(name, content, changed_json) for name, content in states] * 2
    sample = files[number % len(files)]
    with damaged(run.path / sample.name, sample.change(sample.content, steps)):
        _show_all(world.state, which)


@share(0.12)
@given(st.integers(0, 1 << 20), st.integers(0, 1 << 20), STEPS)
def test_a_damaged_file_of_the_machine_hides_no_run(
    world: World, number: int, which: int, steps: list[Step]
) -> None:
    files = sorted(samples.machine_files(LIVE, ENDED).items())
    name, content = files[number % len(files)]
    change = changed_bytes if name.endswith((".jsonl", "progress.json")) else changed_json
    with damaged(world.state.root / name, change(content, steps)):
        _show_all(world.state, which)


@share(0.02)
@given(st.integers(0, 2), STEPS)
def test_damaged_settings_and_machines_are_refused_with_words_or_taken(
    world: World, number: int, steps: list[Step]
) -> None:
    host = RemoteHost("box", "anna@box", price="1.99", added=samples.START)
    RemoteRegistry(world.state).save(host)
    path = world.state.remote / "box" / "host.json"
    own = config_dir()
    own.mkdir(parents=True, exist_ok=True)
    prices = b"prices:\n  mine: {provider: x, gpu: H100, usd_per_hour: 1.5, source: y}\n"
    settings = b"panel:\n  theme: nord\nnotify:\n  command: [echo]\n  on: [failed]\n"
    path, content = (
        (path, path.read_bytes()),
        (own / "prices.yaml", prices),
        (own / "settings.yaml", settings),
    )[number]
    with damaged(path, changed_bytes(content, steps)):
        try:
            RemoteRegistry(world.state).all()
        except FresnelError as error:
            assert error.message
        _show_all(world.state, len(SURFACES))
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            assert run_command(["cost", "plan", "gaussian-validate"]) in (0, 2)


@pytest.mark.parametrize("budget", ["nan", "x", "sNaN", "1E+999999999", ""])
def test_a_budget_that_is_no_amount_hides_no_run(world: World, budget: str) -> None:
    session = json.loads(world.state.session.read_bytes())
    with damaged(world.state.session, json.dumps({**session, "budget": budget}).encode()):
        _feed(world.state)
        _cost(world.state)
