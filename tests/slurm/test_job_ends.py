"""How jobs end that nobody here stopped: preempted and begun anew, at their limit, cancelled."""

import json
from pathlib import Path

import pytest

from runners.host.procfs import marked_processes
from runners.places.table import KINDS, KindRow
from runners.slurm.queue import refresh
from runners.state.layout import RunDirectory
from tests.process.conftest import events, record
from tests.slurm.cluster import Cluster
from tests.slurm.lab import PATH
from tests.support import eventually
from tests.ui.fake_place import RUN, FakePlace
from tests.ui.waiting import until
from tests.upgrades import AGAIN, UNTIL_IT_MAY, install, upgrade
from tui.panel.app import PanelApp
from tui.panel.widgets.runs import RunPane


def _ready(run: RunDirectory, text: str = "ready") -> str:
    eventually(lambda: run.output.exists() and text in run.output.read_text(), what=text)
    return str(json.loads(run.job.read_text())["id"])


def test_a_preempted_run_begins_anew(cluster: Cluster) -> None:
    """Where its preset says so: the same job, the next attempt, and nothing lost of the first."""
    program = 'echo ready $SLURM_RESTART_COUNT; [ -n "$SLURM_RESTART_COUNT" ] || sleep 600'
    run = cluster.line.launch(
        *("--slurm", "--gpus", "8", "--set", "restart=2", "--", "sh", "-c", program)
    )
    job = _ready(run)
    cluster.lab.submit("sleep 1", "--gres=gpu:8", "--partition=urgent")
    eventually(lambda: record(run).get("state") == "queued", what="put back into the queue")
    eventually(lambda: not run.stop.exists(), what="no stop of the attempt to come")
    eventually(lambda: cluster.lab.job(job)["JobState"] == "PENDING")
    cluster.lab.release()
    ended = cluster.line.ended(run)
    assert (ended["state"], ended["attempt"], ended["job"]) == ("done", 2, job)
    assert "ready 1" in run.output.read_text()
    first = run.path / "output.1.log"
    assert "ready" in first.read_text()
    assert events(run, "restart")[0]["ending"]["job_end"] == "preempted"
    assert json.loads(run.job.read_text())["waited"] > 0, "that is not paid for"


def test_a_run_whose_job_is_put_back_before_its_program_started_waits_again(
    cluster: Cluster,
) -> None:
    """It is not cancelled: nobody here stopped it."""
    line = cluster.line
    holder = line.launch("--gpus", "8", "--", "sleep", "600")
    run = line.launch("--slurm", "--gpus", "1", "--set", "restart=2", "--", "echo", "ready")
    eventually(lambda: record(run).get("state") == "queued", what="a body that waits")
    job = str(json.loads(run.job.read_text())["id"])
    refresh(line.state, every_s=0.0)
    eventually(lambda: holder.id in line.json("status", run.id)["reason"], what="for whom")
    cluster.lab.call("scontrol", "requeue", job)
    eventually(lambda: cluster.lab.job(job)["JobState"] == "PENDING")
    assert record(run)["state"] == "queued"
    line.run("stop", holder.id, "--wait")
    cluster.lab.release()
    ended = line.ended(run)
    assert (ended["state"], ended["attempt"], ended["job"]) == ("done", 1, job)


def test_a_stop_of_a_suspended_job_says_so_and_is_heeded_afterwards(cluster: Cluster) -> None:
    """Slurm passes on no signal to it."""
    line = cluster.line
    run, other = (
        line.launch("--slurm", "--gpus", "1", "--", "sh", "-c", "echo ready; sleep 600")
        for _ in range(2)
    )
    jobs = [_ready(run), _ready(other)]
    for job in jobs:
        cluster.lab.call("scontrol", "suspend", job)
    refresh(line.state, every_s=0.0)
    assert "suspended" in line.json("status", run.id)["reason"]
    assert "suspended" in line.run("stop", run.id, exits=1).stderr
    line.run("stop", "--force", other.id)
    assert line.ended(other)["state"] == "stopped"
    cluster.lab.call("scontrol", "resume", jobs[0])
    assert line.ended(run)["state"] == "stopped"


def test_a_run_is_stopped_before_its_time_limit(cluster: Cluster) -> None:
    """By its ladder, with time to save: the signal comes as long before as the ladder takes."""
    program = 'trap "echo saved; exit 0" INT; echo ready; sleep 600 & wait'
    run = cluster.line.launch("--slurm", "--gpus", "1", "--time", "1m", "--", "sh", "-c", program)
    _ready(run)
    eventually(lambda: not run.home.live_marker(run.id).exists())
    ended = cluster.line.ended(run)
    assert (ended["state"], ended["ending"]["job_end"]) == ("stopped", "time_limit")
    assert "saved" in run.output.read_text()


def test_a_run_that_fails_after_an_upgrade_is_started_again_in_its_job(
    cluster: Cluster, tmp_path: Path
) -> None:
    cluster.line.begins = install(tmp_path / "installed")
    run = cluster.line.launch("--slurm", "--gpus", "1", *AGAIN, "--", *UNTIL_IT_MAY)
    job = _ready(run)
    upgrade(tmp_path / "installed")
    (cluster.line.folder / "may_end").touch()
    ended = cluster.line.ended(run)
    assert (ended["state"], ended["attempt"], ended["job"]) == ("failed", 2, job)
    assert len(events(run, "adopted")) == 1
    eventually(lambda: cluster.lab.job(job)["ExitCode"] == "1:0", what="the job's own exit code")


def test_a_job_cancelled_while_it_waits(cluster: Cluster) -> None:
    """By somebody else: its run is cancelled, and says by which job."""
    cluster.lab.submit("sleep 600", "--gres=gpu:8")
    run = cluster.line.launch("--slurm", "--gpus", "1", "--", "true")
    job = str(json.loads(run.job.read_text())["id"])
    cluster.lab.call("scancel", job)
    refresh(cluster.line.state, every_s=0.0)
    ended = cluster.line.ended(run)
    assert (ended["state"], ended["ending"]["job_end"]) == ("cancelled", "cancelled")


def test_a_dead_controller_concludes_nothing(cluster: Cluster) -> None:
    """The run goes on, its end is recorded, and what waits is queued as before."""
    line, go = cluster.line, cluster.line.folder / "go"
    loop = f"echo ready; until [ -e {go} ]; do sleep 0.1; done"
    run = line.launch("--slurm", "--gpus", "1", "--", "sh", "-c", loop)
    _ready(run)
    waiting = line.launch("--slurm", "--gpus", "8", "--", "true")
    cluster.lab.kill_controller()
    try:
        assert refresh(line.state, every_s=0.0).problem
        assert line.json("status", waiting.id)["state"] == "queued"
        assert line.json("status", run.id)["state"] == "running"
        go.touch()
        assert line.ended(run)["state"] == "done"
    finally:
        cluster.lab.start_controller()
        eventually(lambda: not refresh(line.state, every_s=0.0).problem, what="an answer")
    assert line.ended(waiting)["state"] == "done"


def test_a_time_limit_is_raised(cluster: Cluster) -> None:
    """By so many minutes, and the run's own end moves with it; what is no live job is refused."""
    line = cluster.line
    run = line.launch(
        "--slurm", "--gpus", "0", "--time", "5m", "--", "sh", "-c", "echo ready; sleep 600"
    )
    job = _ready(run)
    assert line.json("extend", run.id, "90m")["limit_s"] == 95 * 60
    assert cluster.lab.job(job)["TimeLimit"] == "01:35:00"
    # As a cluster answers whoever is no administrator.
    tools = line.folder / "tools"
    tools.mkdir()
    (tools / "scontrol").write_text("#!/bin/sh\necho 'Access/permission denied' >&2\nexit 1\n")
    (tools / "scontrol").chmod(0o700)
    line.run("extend", run.id, "1h", exits=4, PATH=f"{tools}:{PATH}")
    line.run("extend", line.command("true").id, "1h", exits=2)


def test_a_run_that_reaches_its_time_limit_begins_anew(cluster: Cluster) -> None:
    """Where its preset says so, from its newest checkpoint, as often as that allows."""
    program = (
        'trap "echo weights > a.pt; exit 0" INT; echo ready $SLURM_RESTART_COUNT "$@"; '
        "while :; do sleep 0.1; done"
    )
    rule = "restart={times: 1, on: [time_limit], arguments: [--from, '${checkpoint}']}"
    run = cluster.line.launch(
        *("--slurm", "--gpus", "1", "--set", rule, "--set", "checkpoints=a.pt"),
        *("--", "sh", "-c", program, "sh"),
    )
    job = _ready(run)
    # As Slurm does at the time that the job's script has asked for.
    cluster.lab.call("scancel", "--batch", "--signal=USR2", job)
    eventually(lambda: record(run).get("state") == "queued", what="put back into the queue")
    eventually(lambda: cluster.lab.job(job)["JobState"] == "PENDING")
    cluster.lab.release()
    _ready(run, "ready 1 --from")
    assert run.output.read_text().strip().endswith("a.pt")
    cluster.lab.call("scancel", "--batch", "--signal=USR2", job)
    ended = cluster.line.ended(run)
    assert (ended["state"], ended["attempt"], ended["job"]) == ("stopped", 2, job)
    assert ended["ending"]["job_end"] == "time_limit"


def test_a_run_whose_job_may_not_be_put_back_is_submitted_anew(cluster: Cluster) -> None:
    """At its time limit by its own body, preempted by whoever looks next: another job, one run."""
    program = 'trap "exit 0" INT; echo ready $SLURM_JOB_ID; while :; do sleep 0.1; done'
    rule = "restart={times: 2, on: [time_limit, preempted]}"
    run = cluster.line.launch(
        *("--slurm", "--gpus", "8", "--set", rule),
        *("--set", "place.slurm.extra=[--no-requeue]", "--", "sh", "-c", program),
    )
    first = _ready(run)
    cluster.lab.call("scancel", "--batch", "--signal=USR2", first)
    eventually(lambda: record(run).get("attempt") == 2, what="begun anew")
    second = _ready(run)
    assert second != first
    cluster.lab.submit("sleep 1", "--gres=gpu:8", "--partition=urgent")

    def begins_anew() -> bool:
        cluster.line.json("status", run.id)
        refresh(cluster.line.state, every_s=0.0)
        return bool(record(run).get("attempt") == 3)

    eventually(begins_anew, what="begun anew once more")
    third = _ready(run)
    assert third not in (first, second)
    # That was the last time that its rule allows.
    cluster.lab.call("scancel", "--batch", "--signal=USR2", third)
    ended = cluster.line.ended(run)
    assert (ended["state"], ended["attempt"]) == ("stopped", 3)
    assert ended["ending"]["job_end"] == "time_limit"


def test_a_body_that_is_superseded_ends_its_program_and_records_nothing(cluster: Cluster) -> None:
    """As when a node that Slurm had lost still runs it, and no lock reaches from node to node."""
    file = cluster.line.folder / "out"
    run = cluster.line.launch(
        *("--slurm", "--gpus", "0", "--", "sh", "-c", f"echo ready; echo $$ >{file}; sleep 600")
    )
    job = _ready(run)
    before = json.loads(run.owner.read_text())
    assert before["job_id"] == job
    run.owner.write_text(json.dumps({**before, "name": "another", "host": "elsewhere"}))
    eventually(lambda: not marked_processes(run.id), what="its program ended")
    eventually(lambda: cluster.lab.job(job)["JobState"] == "FAILED", what="its job's end")
    assert run.owner_left.read_text() == before["name"]
    assert record(run)["state"] == "running", "that is for the other to say"
    assert not run.exit.exists()


async def test_one_key_raises_the_limits_of_those_that_can_be(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run of a place that is not reached, and one that is no job, keep no job from it."""
    monkeypatch.setitem(KINDS, "fake", KindRow("tests.ui.fake_place:FakeKind", lambda _: True))
    monkeypatch.setattr(FakePlace, "obstacle", "cluster is not reached")
    loop, line = ("sh", "-c", "echo ready; sleep 600"), cluster.line
    flags = ("--slurm", "--gpus", "0", "--time", "5m", "--")
    runs = [line.launch(*flags, *loop) for _ in range(2)]
    jobs = [_ready(run) for run in runs]
    none = line.launch("--gpus", "0", "--", *loop)
    app = PanelApp(line.state)
    async with app.run_test(size=(120, 30)) as pilot:
        pane = app.cockpit.query_one(RunPane)
        marked = {*(run.id for run in (*runs, none)), f"cluster/{RUN}"}
        await until(pilot, lambda: marked <= set(pane.keys))
        live = pane.lines.live
        await until(pilot, lambda: all(live[key].state.has_program for key in marked))
        live = pane.lines.live
        await until(pilot, lambda: all(live[key].state.has_program for key in marked))
        pane.focus()
        await pilot.press("home", *("space",) * len(marked))
        assert {row.id for row in pane.chosen} == marked
        await pilot.press("plus")
        for job in jobs:
            await until(pilot, lambda job=job: cluster.lab.job(job)["TimeLimit"] == "01:05:00")
        await until(pilot, lambda: len(app._notifications) >= 3)
        told = {notice.message for notice in app._notifications}
        assert "cluster is not reached" in told
        assert "2 runs: time limit raised by 60 min" in told
