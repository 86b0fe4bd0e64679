"""One answer to "what did this run cost": every surface is asked for the same runs, and agrees."""

import csv
import io
import json
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from runners.cost.cost_reader import CostReader, costs_of
from runners.cost.sessions import Session
from runners.host.clock import Moment, moment_now
from runners.host.identity import host_name
from runners.model.plan import AssignedGpu
from runners.model.run import RunRecord
from runners.model.spec import Price
from runners.model.states import State
from runners.state.layout import StateDirectory
from runners.state.runs import read_run
from tests.command_text import GPUS_NOT_READ, LEFT_OF, price_for, price_note
from tests.process.conftest import CommandLine, record
from tests.stubs import nvml as stub
from tests.support import CEILING_S, eventually, make_plan
from tui.api import RunHandle
from tui.panel.screens.stop import StopScreen
from tui.panel.widgets.metrics.settings_pane import describe
from tui.snapshot.feed import SnapshotFeed
from tui.views.runs.run_details import describe_run
from tui.views.runs.run_json import to_json
from tui.views.runs.run_view import view_run

HOUR = 3600.0
GPU = AssignedGpu(0, "GPU-0", "H100", 0)
OWN = Price("3.39", "gpu", "flag")


def ago(seconds: float) -> Moment:
    return after(moment_now(), -seconds)


def after(moment: Moment, seconds: float) -> Moment:
    """Exactly so much later: two looks at the clock are further apart than they ask for."""
    at_ns = (moment.boot_ns or 0) + round(seconds * 1e9)
    return Moment(moment.wall + seconds, moment.boot, at_ns)


def open_session(state: StateDirectory, began: Moment, ended: Moment | None, **told: Any) -> None:
    session = Session(
        began.wall,
        host_name(),
        Price("2", "gpu", "session"),
        1,
        ended=None if ended is None else ended.wall,
        id="session",
        began=began,
        finished=ended,
        uuids=("GPU-0",),
        **told,
    )
    state.session.write_bytes(msgspec.json.encode(session))


def write_run(
    state: StateDirectory,
    run_id: str,
    began: Moment,
    ended: Moment,
    gpus: tuple[AssignedGpu, ...] = (GPU,),
    price: Price | None = OWN,
) -> None:
    """A run that has ended, as its supervisor leaves it, but without its line in the ledger."""
    directory = state.run(run_id)
    directory.path.mkdir(parents=True)
    origin = msgspec.structs.replace(make_plan().origin, host=host_name())
    plan = make_plan(run_id, origin=origin, directory=str(directory.path), gpus=gpus, price=price)
    record = RunRecord(
        State.DONE,
        host=host_name(),
        started=began.wall,
        ended=ended.wall,
        began=began,
        finished=ended,
        exit_code=0,
    )
    directory.plan.write_bytes(msgspec.json.encode(plan))
    directory.state.write_bytes(msgspec.json.encode(record))


def ask_every_surface(cli: CommandLine, runs: list[str]) -> dict[str, dict[str, Any]]:
    """What each run cost by surface and run: real commands, the panel's snapshot, its dialogs."""
    listed = {row["id"]: row["cost_usd"] for row in cli.json("list", "--all")}
    booked = {row["id"]: row["cost_usd"] for row in cli.json("cost")["runs"]}
    rows = csv.DictReader(io.StringIO(cli.run("cost", "export").stdout))
    exported = {row["id"]: float(row["usd"]) for row in rows if row["kind"] == "run"}
    as_json = {row["id"]: row["usd"] for row in cli.json("cost", "export") if row["kind"] == "run"}
    snapshot = SnapshotFeed(cli.state, read_only=True).first_snapshot(CEILING_S)
    assert snapshot is not None
    shown = {view.run.id: float(view.money.cost or 0) for view in snapshot.runs}
    found = {
        "list": listed,
        "cost": booked,
        "export --csv": exported,
        "export --json": as_json,
        "panel": shown,
        "status": {run: cli.json("status", run)["cost_usd"] for run in runs},
        "wait": {run: cli.json("wait", run)["cost_usd"] for run in runs},
        "api": {run: round(RunHandle(run, cli.state).cost_usd or 0.0, 6) for run in runs},
        "curve": {},
    }
    if len(runs) > 1:
        found["compare"] = {
            row["id"]: row["cost_usd"] for row in cli.json("compare", *runs)["runs"]
        }
    for run in runs:
        (curve,) = cli.json("metrics", run, "--name", "^cost$")["metrics"]
        found["curve"][run] = round(curve["values"][-1], 6)
        # Found by what is shown, and not by what is a little more or less.
        cost = listed[run]
        queries = (f"cost>{cost - 1e-5}", f"cost<{cost + 1e-5}")
        assert all(run in {row["id"] for row in cli.json("list", query)} for query in queries)
    return {surface: {run: costs[run] for run in runs} for surface, costs in found.items()}


def test_two_that_share_a_gpu_for_an_hour_pay_half_each_on_every_surface(cli: CommandLine) -> None:
    state = cli.state.create()
    began = ago(2 * HOUR)
    ended = after(began, HOUR)
    open_session(state, began, ended)
    write_run(state, "20261120-101500-a-0001", began, ended)
    write_run(state, "20261120-101500-b-0002", began, ended)
    runs = ["20261120-101500-a-0001", "20261120-101500-b-0002"]
    for surface, costs in ask_every_surface(cli, runs).items():
        assert costs == dict.fromkeys(runs, 1.0), surface
    for words in (("list",), ("status", runs[0]), ("cost",)):
        assert "$1.00" in cli.run(*words).stdout, words
    snapshot = SnapshotFeed(state, read_only=True).first_snapshot(CEILING_S)
    assert snapshot is not None
    (view, _) = snapshot.runs
    assert "$1.00" in StopScreen(view)._text().plain
    assert ("cost", "$1.00 at $1.00/h (by its share of the session; estimate of GPU time)") in (
        describe_run(view)
    )
    assert describe(view, {}, [])[0][1]["cost"] == "$1.00"


def test_a_run_on_the_cpu_of_a_gpu_machine_costs_nothing_of_the_gpus_anywhere(
    cli: CommandLine,
) -> None:
    state = cli.state.create()
    began = ago(2 * HOUR)
    ended = after(began, HOUR)
    open_session(state, began, ended)
    write_run(state, "20261120-101500-cpu-0001", began, ended, gpus=())
    for surface, costs in ask_every_surface(cli, ["20261120-101500-cpu-0001"]).items():
        assert costs == {"20261120-101500-cpu-0001": 0.0}, surface


def test_nothing_is_spent_where_nothing_is_rented_on_any_surface(cli: CommandLine) -> None:
    state = cli.state.create()
    ended = ["20261120-101500-a-0001", "20261120-101500-b-0002"]
    for run in ended:
        write_run(state, run, ago(2 * HOUR), ago(HOUR))
    live = cli.command("sleep", "600", options=["--price", "3.60"])
    eventually(lambda: record(live).get("started"), what="a run that has begun")
    for row in (*cli.json("list", "--all"), *cli.json("cost")["runs"], cli.json("status", live.id)):
        money = ("cost_usd", "share_usd", "usd_per_hour", "usd_per_epoch", "projected_usd")
        assert [row[key] for key in money] == [None] * 5, row["id"]
    account = cli.json("cost")
    assert account["presets"] == {} and account["days"] == [] and account["all_usd"] == 0
    assert [account[key] for key in ("usd_per_hour", "live_runs_usd", "session_usd")] == [None] * 3
    rows = [row for row in cli.json("cost", "export") if row["kind"] == "run"]
    assert [(row["usd"], row["usd_per_hour"]) for row in rows] == [(None, None)] * 3
    assert [row["cost_usd"] for row in cli.json("compare", *ended)["runs"]] == [None, None]
    (shown,) = cli.json("monitor")["runs"]
    assert (shown["cost_usd"], shown["usd_per_hour"]) == (None, None)
    assert not cli.json("metrics", ended[0], "--name", "^cost$")["metrics"]
    assert cli.json("list", "cost>0") == []
    cli.run("report", *ended, "-o", str(page := cli.folder / "report.html"))
    assert "$1" not in page.read_text() and "$3" not in page.read_text()
    snapshot = SnapshotFeed(state, read_only=True).first_snapshot(CEILING_S)
    assert snapshot is not None and snapshot.meter.per_hour is None
    assert snapshot.meter.live_runs is None and snapshot.meter.spent is None
    assert [view.money.cost for view in snapshot.runs] == [None] * 3
    for words in (("list", "--all"), ("cost",), ("monitor",), ("compare", *ended)):
        assert "$" not in cli.run(*words).stdout, words
    # Where it is asked for, it says so: an hour at $3.39.
    assert cli.json("status", ended[0])["would_usd"] == pytest.approx(3.39, abs=1e-4)
    cli.run("stop", live.id, "--force", "--wait", exits=None)


def test_a_run_that_began_before_its_session_pays_from_then_on(
    cli: CommandLine,
) -> None:
    state = cli.state.create()
    open_session(state, ago(1.5 * HOUR), ago(0.5 * HOUR))
    write_run(state, "20261120-101500-a-0001", ago(2 * HOUR), ago(HOUR))
    found = ask_every_surface(cli, ["20261120-101500-a-0001"])
    for surface, costs in found.items():
        assert costs == found["list"], surface
    # Half an hour of it at $2/h; the half hour before it would have cost something, at $3.39/h.
    assert found["list"] == {"20261120-101500-a-0001": pytest.approx(1, abs=1e-4)}
    told = cli.json("status", "20261120-101500-a-0001")
    assert told["would_usd"] == pytest.approx(1.695, abs=1e-4)
    assert told["would_usd_per_hour"] == 3.39


def test_live_runs_agree_at_one_moment(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FRESNEL_GPUS", "sim:1xMI300X")
    cli.run("session", "start", "--rate", "3600", "--since", "now")
    (cli.folder / "shares.yaml").write_text(
        json.dumps(
            {
                "launcher": "command",
                "command": ["sleep", "600"],
                "gpus": {"count": 1, "share": {"memory": "20G"}},
            }
        )
    )
    first = cli.launch(str(cli.folder / "shares.yaml"))
    second = cli.launch(str(cli.folder / "shares.yaml"))
    for run in (first, second):
        eventually(lambda run=run: record(run).get("started"), what="a run that has begun")
    runs = [read_run(cli.state, run.id) for run in (first, second)]
    assert {gpu.uuid for run in runs if run.plan for gpu in run.plan.gpus} == {"SIM-MI300X-0"}
    now = moment_now()
    costs = costs_of(cli.state, runs, now)
    reader = CostReader(cli.state)
    reader.read(runs, Moment(now.wall - 1, now.boot, (now.boot_ns or 0) - 10**9), whole=True)
    kept = reader.read(runs, now, whole=True)
    for run in runs:
        assert costs.of(run) == kept.of(run), "added to, or reckoned anew"
        assert costs.of(run) == view_run(run, costs=costs).money
        assert to_json(view_run(run, costs=costs))["usd_per_hour"] == 1800
    before = time.time()
    found = {row["id"]: row for row in cli.json("cost")["runs"]}
    listed = {row["id"]: row for row in cli.json("list")}
    passed = 1.0 + time.time() - before
    for run in (first, second):
        assert found[run.id]["cost_usd"] == found[run.id]["share_usd"]
        assert 0 <= listed[run.id]["cost_usd"] - found[run.id]["cost_usd"] <= passed
    for run in (first, second):
        cli.run("stop", run.id, "--force", "--wait", exits=None)


def test_rows_in_json_add_up(cli: CommandLine) -> None:
    state = cli.state.create()
    open_session(state, ago(2 * HOUR), None)
    for i in range(30):
        began = ago(2 * HOUR - 7.7 * i)
        write_run(state, f"20261120-101500-r-{i:04}", began, ago(HOUR + 3.3 * i))
    found = cli.json("cost")
    assert len(found["runs"]) == 20 and found["earlier_runs"]["count"] == 10
    rows = [row["share_usd"] for row in found["runs"]]
    together = sum(rows) + found["earlier_runs"]["share_usd"] + found["idle_usd"]
    assert round(together, 6) == found["session_usd"]
    assert round(sum(day["usd"] for day in found["days"]), 6) == found["session_usd"]
    by_preset = sum(found["presets"].values()) + found["idle_usd"]
    assert by_preset == pytest.approx(found["session_usd"], abs=2e-5), "each row is rounded"
    assert any(round(row, 2) != row for row in rows), "six places, not cents"


def test_the_folder_is_where_a_view_looks_for_the_books(tmp_path: Path) -> None:
    state = StateDirectory(tmp_path / "other").create()
    began = ago(2 * HOUR)
    ended = after(began, HOUR)
    open_session(state, began, ended)
    write_run(state, "20261120-101500-a-0001", began, ended)
    view = view_run(read_run(state, "20261120-101500-a-0001"))
    assert view.money.cost == 2


# ── sessions that do not fit ──────────────────────────────────────────────────────────────────────


def test_a_card_cut_in_instances_is_one_gpu_and_a_run_on_one_pays_its_part(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    migs = "\n".join(f"mig 0 MIG-{one} 21474836480 1024" for one in ("aaaa", "bbbb", "cccc"))
    stub.install(monkeypatch, tmp_path, f"gpu 0 name NVIDIA H100 80GB HBM3\n{migs}\n")
    assert len(cli.json("gpus")) == 4, "the card and its three instances"
    cli.run("session", "start", "--price", "digitalocean-h100", "--since", "now", "--anyway")
    found = cli.json("session")
    assert found["usd_per_hour"] == 3.39 and " for 1 GPU " in found["basis"]
    run = cli.launch("--gpus", "1", "--", "sleep", "600")
    eventually(lambda: cli.status(run)["cost_usd"])
    assert cli.json("status", run.id)["usd_per_hour"] == 1.13
    assert "instance MIG-" in cli.run("plan", "--gpus", "1", "--", "true").stdout


def test_a_price_that_does_not_fit_waits_for_the_user_s_word(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FRESNEL_GPUS", "sim:1xMI300X")
    words = ("session", "start", "--price", "digitalocean-8xh100", "--since", "now")
    refused = cli.run(*words, exits=2)
    caveat = price_for("digitalocean-8xh100", "8 × H100 SXM", "1 × AMD Instinct MI300X")
    assert caveat in refused.stderr
    assert "--anyway" in refused.stderr and not cli.state.session.exists()
    cli.run(*words, "--anyway")
    assert f"⚠ {caveat}" in cli.run("cost").stdout
    assert cli.json("session")["caveat"] == caveat
    cli.run("session", "price", "--price", "amd-cloud-mi300x")
    corrected = cli.json("cost")
    assert (corrected["usd_per_hour"], corrected["caveat"]) == (1.99, None)
    assert corrected["session_started"] == cli.json("session")["session_started"]


def test_a_price_that_is_given_with_a_launch_says_what_it_means(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FRESNEL_GPUS", "sim:8xMI300X")
    words = ("launch", "--price", "digitalocean-8xh100", "--gpus", "1", "--", "true")
    without = cli.run(*words).stderr
    assert price_for("digitalocean-8xh100", "8 × H100 SXM", "8 × AMD Instinct MI300X") in without
    assert price_note("23.92") in without
    dear = ("launch", "--price", "1500", "--gpus", "1", "--", "true")
    assert price_note("1,500.00") in cli.run(*dear).stderr
    assert price_note("1,500.00") in cli.run("plan", *dear[1:]).stdout
    cli.run("session", "start", "--rate", "16", "--since", "now")
    inside = cli.run(*dear).stderr
    assert "--price" in inside and "1,500" not in inside
    planned = cli.run("plan", *dear[1:]).stdout
    assert "$2.00/h by session" in planned and "1,500" not in planned
    refused = cli.run("launch", "--price", "1,500", "--gpus", "1", "--", "true", exits=2)
    assert "1.99" in refused.stderr


def test_gpus_that_cannot_be_read_wait_for_the_user_s_word(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FRESNEL_GPUS", "nvml")  # whose library is not here
    if cli.json("gpus"):
        pytest.skip("this machine has NVIDIA GPUs")
    words = ("session", "start", "--price", "1.99", "--since", "now")
    refused = cli.run(*words, exits=2).stderr
    assert GPUS_NOT_READ in refused and "--gpus" in refused
    cli.run(*words, "--gpus", "8")
    assert cli.json("session")["usd_per_hour"] == 15.92


def test_a_budget_that_lasts_beyond_every_date_is_no_crash(cli: CommandLine) -> None:
    cli.run("session", "start", "--rate", "0.01", "--since", "now", "--budget", "1000000")
    for words in (("cost",), ("session",)):
        assert f"{LEFT_OF} $1,000,000.00" in cli.run(*words).stdout
        assert cli.json(*words)["budget_lasts_until"] is None
