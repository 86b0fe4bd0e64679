"""`--after` of a run that is a job: Slurm waits for the other run's job."""

import json

from runners.slurm.queue import refresh
from runners.state.jobs import read_job, read_table
from runners.state.layout import RunDirectory
from runners.state.leases import live_run_ids
from tests.process.conftest import record
from tests.slurm.cluster import Cluster
from tests.support import eventually


def _first(cluster: Cluster, code: int) -> RunDirectory:
    program = f"until [ -e go ]; do sleep 0.1; done; exit {code}"
    return cluster.line.launch("--slurm", "--gpus", "0", "--", "sh", "-c", program)


def test_a_job_begins_after_the_job_of_another_run(cluster: Cluster) -> None:
    """It waits for that, and for nothing of ours: it holds no GPU meanwhile."""
    first = _first(cluster, 0)
    words = ("--slurm", "--gpus", "1", "--after")
    second = cluster.line.launch(*words, first.id, "--", "true")
    note, job = read_job(second), read_job(first)
    assert note is not None and job is not None
    assert job.id in cluster.lab.job(note.id)["Dependency"]
    assert cluster.lab.job(note.id)["JobState"] == "PENDING"
    (cluster.line.folder / "go").touch()
    ended = [cluster.line.ended(run) for run in (first, second)]
    assert [found["state"] for found in ended] == ["done", "done"]
    assert record(second)["started"] > record(first)["ended"] - 1.0
    # What has ended as it should needs not be waited for.
    third = cluster.line.launch(*words, first.id, "--", "true")
    assert cluster.line.ended(third)["state"] == "done"


def test_a_job_whose_turn_never_comes_says_so(cluster: Cluster) -> None:
    """The other failed: it stays in the queue with that reason, until it is stopped."""
    first = _first(cluster, 3)
    second = cluster.line.launch("--slurm", "--gpus", "0", "--after", first.id, "--", "true")
    (cluster.line.folder / "go").touch()
    assert cluster.line.ended(first)["state"] == "failed"
    state, note = cluster.line.state, read_job(second)
    assert note is not None

    def reason() -> bool:
        refresh(state, every_s=0.0)
        return read_table(state)[1][note.id].reason == "DependencyNeverSatisfied"

    eventually(reason, what="a dependency that is never satisfied")
    assert cluster.line.json("status", second.id)["state"] == "queued"
    cluster.line.run("stop", second.id)
    assert cluster.line.ended(second)["state"] == "cancelled"
    # Asked for now, it is refused at once.
    cluster.line.run("launch", "--slurm", "--after", first.id, "--", "true", exits=4)


def test_what_slurm_cannot_wait_for_is_refused(cluster: Cluster) -> None:
    """A run of this machine; and nothing is left. The other way round works."""
    here = cluster.line.command("sh", "-c", "until [ -e go ]; do sleep 0.1; done")
    cluster.line.run("launch", "--slurm", "--after", here.id, "--", "true", exits=4)
    plan = cluster.line.run("plan", "--slurm", "--after", here.id, "--", "true", exits=4)
    assert here.id in plan.stderr
    assert live_run_ids(cluster.line.state) == [here.id]
    job = _first(cluster, 0)
    local = cluster.line.launch("--gpus", "0", "--after", job.id, "--", "true")
    assert json.loads(local.plan.read_text())["phase"] == "queued"
    (cluster.line.folder / "go").touch()
    assert cluster.line.ended(local)["state"] == "done"
