"""`launch --slurm`: a run is a job whose body is its supervisor."""

import json
import shlex
import stat
import sys
from pathlib import Path

import pytest

from runners.host.procfs import marked_processes
from runners.slurm.queue import refresh
from runners.state.leases import live_run_ids
from tests.process.conftest import record
from tests.slurm.cluster import Cluster
from tests.support import eventually, files_below

_SECRET = "hf_1234567890abcdefghijklmnop"


def test_a_preset_runs_as_a_job(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """It waits, starts on the GPUs that Slurm gives, and is listed and recorded like any run."""
    cluster.lab.submit("sleep 600", "--gres=gpu:3")
    monkeypatch.setenv("HF_TOKEN", _SECRET)
    line = cluster.line
    program = "echo gpus $CUDA_VISIBLE_DEVICES; echo token $HF_TOKEN; echo job $SLURM_JOB_ID"
    run = line.launch("--slurm", "--gpus", "2", "--time", "5m", "--", "sh", "-c", program)
    ended = line.ended(run)
    assert (ended["state"], ended["exit_code"]) == ("done", 0)
    job = json.loads(run.job.read_text())["id"]
    assert ended["job"] == job
    said = dict(text.split(" ", 1) for text in run.output.read_text().splitlines())
    assert said == {"gpus": "3,4", "token": _SECRET, "job": job}
    assert [gpu["index"] for gpu in json.loads(run.plan.read_text())["gpus"]] == [3, 4]
    # In no environment that Slurm keeps, and nowhere once it has been read.
    spool = cluster.lab.folder / "save"
    kept = files_below(spool) | files_below(run.path)
    assert [path for path in kept if _SECRET.encode() in kept[path]] == [run.output]
    assert not run.environment.exists()
    assert eventually(lambda: cluster.lab.job(job)["JobState"] == "COMPLETED")


def test_a_waiting_job_says_why(cluster: Cluster) -> None:
    """Its state is queued, with Slurm's reason in words; its environment is its user's only."""
    cluster.lab.submit("sleep 600", "--gres=gpu:8")
    run = cluster.line.launch("--slurm", "--gpus", "1", "--", "sleep", "600")
    assert stat.S_IMODE(run.environment.stat().st_mode) == 0o600
    job = json.loads(run.job.read_text())["id"]
    eventually(lambda: cluster.lab.job(job)["Reason"] in ("Resources", "Priority"))
    refresh(cluster.line.state, every_s=0.0)
    shown = cluster.line.json("status", run.id)
    assert shown["state"] == "queued"
    assert job in shown["reason"] and shown["job"] == job
    starts = cluster.line.state.expected_starts
    assert "Place" not in cluster.line.run("status", run.id).stdout, "Slurm's queue has others, too"
    asked = json.loads(starts.read_text())[job]
    assert asked["before"] is not None
    cluster.line.run("status", run.id)
    assert json.loads(starts.read_text())[job] == asked, "once a minute at most"
    cluster.line.run("stop", run.id)
    ended = cluster.line.ended(run)
    assert ended["state"] == "cancelled"
    assert cluster.lab.job(job)["JobState"] == "CANCELLED"


def test_a_plan_shows_the_script_and_what_slurm_says(cluster: Cluster) -> None:
    """And submits nothing."""
    words = ("--slurm", "--gpus", "2", "--partition", "short", "--time", "90s")
    plan = cluster.line.json("plan", *words, "--", "true")
    lines = plan["slurm_script"].splitlines()
    assert lines[0] == "#!/bin/sh"
    options = {text.removeprefix("#SBATCH ") for text in lines if text.startswith("#SBATCH")}
    assert {"--gres=gpu:2", "--partition=short", "--time=2", "--no-requeue"} <= options
    shown = cluster.line.run("plan", *words, "--", "true")
    assert cluster.lab.nodes[0] in shown.stderr
    wrong = cluster.line.run("plan", "--slurm", "--partition", "none", "--", "true")
    assert "partition" in wrong.stderr
    assert not cluster.lab.call("squeue", "-h")
    assert not cluster.line.state.runs.exists()


def test_what_slurm_refuses_leaves_nothing(cluster: Cluster) -> None:
    """Exit code 4, and no run."""
    state = cluster.line.state
    cluster.line.run("launch", "--slurm", "--partition", "none", "--", "true", exits=4)
    assert not list(state.runs.iterdir()) and not live_run_ids(state)
    cluster.line.run("launch", "--slurm", "--gpu-ids", "0", "--", "true", exits=2)
    assert not list(state.runs.iterdir()) and not live_run_ids(state)


def test_a_sweep_is_one_array(cluster: Cluster) -> None:
    """One submission for all of it, each task its own run."""
    line = cluster.line
    launched = line.run(
        *("launch", "--slurm", "--gpus", "1", "--array-limit", "2", "--set", "lr=1,2,3"),
        *("--", "sh", "-c", "echo lr={lr} $SLURM_ARRAY_JOB_ID"),
    )
    runs = [line.state.run(run_id) for run_id in launched.stdout.split()]
    assert len(runs) == 3
    assert [line.ended(run)["state"] for run in runs] == ["done"] * 3
    said = [run.output.read_text().split() for run in runs]
    assert [words[0] for words in said] == ["lr=1", "lr=2", "lr=3"]
    assert len({words[1] for words in said}) == 1


def test_scancel_of_a_submitted_run(cluster: Cluster) -> None:
    """Its supervisor is what Slurm signals: the ladder is taken, and the program saves."""
    file = Path(cluster.line.folder / "program.py")
    file.write_text(
        "import signal, sys, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "try:\n"
        "    print('ready', flush=True)\n"
        "    time.sleep(600)\n"
        "except KeyboardInterrupt: print('saved', flush=True)\n"
    )
    run = cluster.line.launch("--slurm", "--gpus", "1", "--", sys.executable, str(file))
    eventually(lambda: run.output.exists() and "ready" in run.output.read_text())
    job = json.loads(run.job.read_text())["id"]
    cluster.lab.call("scancel", job)
    ended = cluster.line.ended(run)
    assert ended["ending"]["cause"] == "slurm"
    assert ended["ending"]["job_end"] == "cancelled"
    assert "saved" in run.output.read_text()
    assert not marked_processes(run.id)
    assert record(run)["state"] == "stopped"


def test_a_stop_is_the_ladder(cluster: Cluster) -> None:
    """`stop` reaches the supervisor through Slurm, wherever it runs."""
    program = shlex.split("sh -c 'trap \"echo saved; exit 0\" INT; echo ready; sleep 600 & wait'")
    run = cluster.line.launch("--slurm", "--gpus", "1", "--", *program)
    eventually(lambda: run.output.exists() and "ready" in run.output.read_text())
    cluster.line.run("stop", run.id)
    ended = cluster.line.ended(run)
    assert (ended["state"], ended["ending"]["cause"]) == ("stopped", "stopped")
    assert "saved" in run.output.read_text()


def test_the_gpus_of_the_cluster_and_own_jobs_on_them(cluster: Cluster) -> None:
    """By partition, as Slurm counts them, whatever this machine has."""
    job = cluster.lab.submit("sleep 600", "--gres=gpu:3")
    eventually(lambda: cluster.lab.job(job)["JobState"] == "RUNNING")
    cluster.lab.submit("sleep 600", "--gres=gpu:8")
    refresh(cluster.line.state.create(), every_s=0.0)
    found = {row["partition"]: row for row in cluster.line.json("gpus", "--slurm")["partitions"]}
    shown = found["gpu"]
    assert (shown["total"], shown["free"], shown["used"], shown["down"]) == (8, 5, 3, 0)
    assert (shown["own_running"], shown["own_waiting"], shown["is_default"]) == (1, 1, True)
    assert (found["closed"]["free"], found["closed"]["down"]) == (0, 5)
    assert found["short"]["limit_s"] == 120


_COUNTS = """\
launcher: command
shell: true
command: >-
  from() { while [ $# -gt 0 ]; do [ "$1" = --resume ] && cat "$2"; shift; done; };
  n=$(from "$0" "$@"); echo "from $${n:-nothing}"; mkdir -p $FRESNEL_RUN_DIR/c;
  echo $(( $${n:-0} + 5 )) > $FRESNEL_RUN_DIR/c/e.txt
gpus: 0
parameters: {resume: {value: null, type: str}}
resume: {parameter: resume}
checkpoints: ["${run_dir}/c/*.txt"]
place: {slurm: {time: 5m}}
"""


def test_a_job_resumes_from_the_checkpoint_of_an_earlier_one(cluster: Cluster) -> None:
    """As a run of this machine does."""
    preset = cluster.line.folder / "count.yaml"
    preset.write_text(_COUNTS)
    first = cluster.line.launch(str(preset))
    assert cluster.line.ended(first)["state"] == "done"
    second = cluster.line.launch("--resume", first.id)
    assert cluster.line.ended(second)["state"] == "done"
    assert second.output.read_text().strip() == "from 5"
    assert json.loads(second.job.read_text())["id"] != json.loads(first.job.read_text())["id"]
