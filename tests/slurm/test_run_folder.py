"""The body of a job looks whether its node sees the run's folder as it was submitted."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from runners.host.helpers import command
from runners.lifecycle.supervisor.job_folder import OTHER_FOLDER
from runners.slurm.queue import refresh
from runners.state.layout import RunDirectory
from tests.slurm.cluster import Cluster
from tests.support import CEILING_S, eventually


def _waiting(cluster: Cluster) -> RunDirectory:
    """A run whose job is held."""
    preset = cluster.line.folder / "held.yaml"
    preset.write_text('launcher: command\ncommand: "true"\nplace: {slurm: {extra: [--hold]}}\n')
    return cluster.line.launch(str(preset))


def _number(run: RunDirectory) -> str:
    return str(json.loads(run.job.read_text())["id"])


@pytest.mark.parametrize("has_log", [False, True])
def test_a_node_that_sees_another_folder_is_named(
    cluster: Cluster, tmp_path: Path, has_log: bool
) -> None:
    """By Slurm, where nothing is shared; by its log, where that is."""
    run, (node,) = _waiting(cluster), cluster.lab.nodes
    seen = run.path if has_log else run.home.root
    other = tmp_path / "other"
    (other / "slurm").mkdir(parents=True, mode=0o700)
    if not cluster.lab.show_other(node, seen, other):
        pytest.skip("no mount namespaces here")
    try:
        cluster.lab.call("scontrol", "release", _number(run))
        job = _number(run)
        eventually(lambda: cluster.lab.job(job)["JobState"] == "FAILED", what="its end")
        assert cluster.lab.job(job)["ExitCode"] == f"{OTHER_FOLDER}:0"
        log = run.home.slurm / f"{job}.log"
        assert log.exists() is has_log
        refresh(run.home, every_s=0.0)
        ended = cluster.line.ended(run)
        assert ended["state"] == "failed"
        reason = cluster.line.json("status", run.id)["reason"]
        assert node in reason and str(run.home.root) in reason
        assert (str(run.job) in reason) is has_log, "why, as far as it is known"
        assert not other.joinpath("state.json").exists(), "nothing was begun there"
    finally:
        cluster.lab.kill("slurmd", node)
        cluster.lab.start_node(node)
        cluster.lab.heal()


def _body(
    run: RunDirectory, *before: str, **environment: str
) -> "subprocess.CompletedProcess[str]":
    """A body started by hand, as Slurm does it on a node."""
    return subprocess.run(
        [*before, *command("supervisor", run.home.root), run.id, "--job"],
        env={**os.environ, "SLURMD_NODENAME": "n7", **environment},
        capture_output=True,
        text=True,
        timeout=CEILING_S,
        check=False,
    )


@pytest.mark.parametrize("what", ["missing", "older", "read-only"])
def test_a_body_says_what_is_wrong_with_its_folder(cluster: Cluster, what: str) -> None:
    """In a sentence with the node's name; and leaves everything as it is."""
    run = _waiting(cluster)
    before: tuple[str, ...] = ()
    number = _number(run)
    away = run.path.with_suffix(".away")
    if what == "missing":
        shutil.move(run.path, away)
    elif what == "older":
        number = str(int(number) + 1)
    else:
        mount = 'mount --bind "$1" "$1" && mount -o remount,ro,bind "$1" && shift && exec "$@"'
        unshare = ("unshare", "--mount", "--propagation", "private")
        before = (*unshare, "sh", "-c", mount, "sh", str(run.path))
        if subprocess.run((*unshare, "true"), capture_output=True, check=False).returncode:
            pytest.skip("no mount namespaces here")
    done = _body(run, *before, SLURM_JOB_ID=number)
    if away.exists():
        shutil.move(away, run.path)
    assert done.returncode == OTHER_FOLDER, done
    (line,) = done.stderr.splitlines()
    assert "n7" in line and str(run.path) in line
    assert not run.state.exists() and not run.owner.exists()
