"""What breaks in a cluster: its node, its memory, its daemons. Each is named as what it is."""

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from runners.host.locks import is_held
from runners.host.procfs import marked_processes
from runners.lifecycle.supervisor.spawn import spawn_supervisor
from runners.slurm.queue import refresh
from runners.state.jobs import JobRow, JobTable, read_job, write_table
from runners.state.layout import RunDirectory
from runners.state.leases import live_run_ids
from tests.process.conftest import leader, record
from tests.slurm.cluster import Cluster
from tests.slurm.lab import SlurmLab
from tests.support import eventually

_LOOP = "echo ready $SLURMD_NODENAME $SLURM_RESTART_COUNT; until [ -e go ]; do sleep 0.1; done"
_EATS = "import time; print('ready', flush=True); a = b'x' * (400 << 20); time.sleep(600)"


def _begun(cluster: Cluster, *options: str, program: tuple[str, ...] = ()) -> RunDirectory:
    words = program or ("sh", "-c", _LOOP)
    run = cluster.line.launch("--slurm", "--gpus", "1", *options, "--", *words)
    eventually(lambda: run.output.exists() and "ready" in run.output.read_text(), what="ready")
    # A program may have said something before it is recorded that it runs.
    eventually(lambda: record(run).get("state") == "running", what="a run that is recorded")
    return run


@contextmanager
def _lost_node(lab: SlurmLab, run: RunDirectory) -> Iterator[str]:
    """The node on which a run has begun is lost within the block: its name."""
    node = run.output.read_text().split()[1]
    lab.crash_node(node)
    try:
        yield node
    finally:
        lab.heal()


def test_a_job_without_memory_left_is_named(cluster: Cluster) -> None:
    """The kernel kills the program, its supervisor says of which job the memory was."""
    if not cluster.lab.limits_memory:
        pytest.skip("no control groups that limit memory here")
    run = _begun(cluster, "--mem", "300M", program=(sys.executable, "-c", _EATS))
    ended = cluster.line.ended(run)
    assert (ended["state"], ended["ending"]["cause"]) == ("failed", "slurm")
    assert (ended["ending"]["job_end"], ended["ending"]["signal"]) == ("out_of_memory", "SIGKILL")
    assert ended["ending"]["memory_kills"] == 1


def test_a_node_that_is_lost_is_named(cluster: Cluster) -> None:
    """Nothing is left to record it there: Slurm's word is taken."""
    run = _begun(cluster)
    with _lost_node(cluster.lab, run):
        refresh(cluster.line.state, every_s=0.0)
        ended = cluster.line.ended(run)
        assert (ended["state"], ended["ending"]["job_end"]) == ("failed", "node_failed")
    eventually(lambda: not marked_processes(run.id), what="no process left")


def test_a_run_of_a_lost_node_begins_anew_elsewhere(cluster_of_two: Cluster) -> None:
    """Where its preset says so: it waits until then, and says so, although its record is of the
    node that stays lost.
    """
    cluster = cluster_of_two
    run = _begun(cluster, "--set", "restart=1")
    with _lost_node(cluster.lab, run) as lost:
        refresh(cluster.line.state, every_s=0.0)
        shown = cluster.line.json("status", run.id)
        assert (record(run)["state"], shown["state"]) == ("running", "queued")
        assert not is_held(run.supervisor_lock)

        def begins_anew() -> bool:
            cluster.lab.release()  # Slurm lets what it puts back wait for two minutes
            return record(run)["attempt"] == 2

        eventually(begins_anew, what="the second attempt")
        (cluster.line.folder / "go").touch()
        ended = cluster.line.ended(run)
        assert (ended["state"], ended["attempt"]) == ("done", 2)
        (other,) = {*cluster.lab.nodes} - {lost}
        assert run.output.read_text().split() == ["ready", other, "1"]


def test_a_stop_of_a_run_whose_node_is_lost(cluster: Cluster) -> None:
    """Its job waits once more: it is cancelled, and the run stopped, not begun."""
    run = _begun(cluster, "--set", "restart=1")
    with _lost_node(cluster.lab, run):
        # Its last look is older than that: it still takes the job for running.
        cluster.line.run("stop", run.id)
        ended = cluster.line.ended(run)
        assert (ended["state"], ended["attempt"]) == ("stopped", 1)


def test_a_job_that_was_put_back_since_the_last_look_goes_on(cluster: Cluster) -> None:
    """What Slurm said then is not recorded as the run's end."""
    cluster.lab.submit("sleep 600", "--gres=gpu:8")
    run = cluster.line.launch("--slurm", "--gpus", "1", "--", "true")
    note = read_job(run)
    assert note is not None
    now = time.time()
    ended = JobRow(note.id, note.name, "NODE_FAIL")
    write_table(run.home, JobTable(now, now, jobs=(ended,)))
    spawn_supervisor(run, os.environ, [])
    eventually(lambda: not is_held(run.supervisor_lock), what="its supervisor gone")
    assert not record(run) or record(run)["state"] == "queued"
    refresh(run.home, every_s=0.0)
    assert cluster.line.json("status", run.id)["state"] == "queued"


def test_a_launch_that_cannot_reach_slurm_leaves_nothing(cluster: Cluster) -> None:
    """Exit code 4 and no run; what waits keeps its place."""
    line = cluster.line
    cluster.lab.submit("sleep 600", "--gres=gpu:8")
    waiting = line.launch("--slurm", "--gpus", "1", "--", "true")
    cluster.lab.kill_controller()
    try:
        line.run("launch", "--slurm", "--", "true", exits=4)
        assert live_run_ids(line.state) == [waiting.id]
    finally:
        cluster.lab.heal()


def test_credentials_that_cannot_be_made_conclude_nothing(cluster: Cluster) -> None:
    """Without munge each command of Slurm hangs: what runs goes on, and its end is recorded."""
    run = _begun(cluster)
    waiting = cluster.line.launch("--slurm", "--gpus", "8", "--", "true")
    cluster.lab.kill("munged")
    try:
        # Whoever else asks at this moment has it answered by what was known before.
        eventually(lambda: refresh(cluster.line.state, every_s=0.0, within_s=0.5).problem)
        assert cluster.line.json("status", run.id)["state"] == "running"
        assert cluster.line.json("status", waiting.id)["state"] == "queued"
        (cluster.line.folder / "go").touch()
        assert cluster.line.ended(run)["state"] == "done"
    finally:
        cluster.lab.heal()
    assert cluster.line.ended(waiting)["state"] == "done"


def test_a_controller_that_hangs_concludes_nothing(cluster: Cluster) -> None:
    """Its silence is said, and nothing waits for it longer than it may."""
    run = _begun(cluster)
    cluster.lab.freeze("slurmctld")
    try:
        assert refresh(cluster.line.state, every_s=0.0, within_s=0.5).problem
        shown = cluster.line.json("status", run.id)
        assert (shown["state"], bool(shown["reason"])) == ("running", True)
    finally:
        cluster.lab.freeze("slurmctld", False)
    eventually(lambda: not refresh(cluster.line.state, every_s=0.0).problem, what="an answer")
    os.kill(leader(run), signal.SIGKILL)
    assert cluster.line.ended(run)["ending"]["signal"] == "SIGKILL"
