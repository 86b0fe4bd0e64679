"""Inside an allocation: only its GPUs exist, and its runs end with it."""

import json
import shlex
import sys
from pathlib import Path

from runners.host.procfs import marked_processes
from runners.state.runs import read_run
from tests.slurm.cluster import Cluster
from tests.support import eventually

_SAVES = """\
import signal, sys, time
def end(*_):
    print('saved', flush=True)
    sys.exit(0)
signal.signal(signal.SIGINT, end)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print('ready', flush=True)
while True: time.sleep(60)
"""


def _python(folder: Path, text: str) -> str:
    file = folder / "program.py"
    file.write_text(text)
    return shlex.join([sys.executable, str(file)])


def test_a_run_has_the_gpus_of_its_job_and_no_others(cluster: Cluster) -> None:
    """Another job has GPUs 0 and 1: the run takes 2 and 3, and says whose they are."""
    cluster.lab.submit("sleep 600", "--gres=gpu:2")
    shown, denied = cluster.line.folder / "shown", cluster.line.folder / "denied"
    job = cluster.submit(
        f"fresnel-tui gpus --host --json >{shown}\n"
        f"fresnel-tui plan --gpus 3 -- true >{denied} 2>&1; echo $? >>{denied}\n"
        "fresnel-tui launch --gpus 1 -- sleep 600\n"
        "fresnel-tui launch --gpus 1 --no-queue -- sh -c 'echo sees $CUDA_VISIBLE_DEVICES'\n"
        "sleep 600\n",
        "--gres=gpu:2",
    )
    state = cluster.line.state
    eventually(lambda: len(list(state.runs.glob("*/leader"))) == 2, what="both runs begun")
    # Begun within one second, their ids are not in the order of their launch.
    runs = [state.run(path.name) for path in state.runs.iterdir()]
    first, second = sorted(runs, key=lambda run: read_run(state, run.id).name != "sleep")
    eventually(lambda: "sees" in second.output.read_text())
    gpus = [json.loads(run.plan.read_text())["gpus"] for run in (first, second)]
    assert sorted(gpu["index"] for given in gpus for gpu in given) == [2, 3]
    assert second.output.read_text().split() == ["sees", str(gpus[1][0]["index"])]
    reading = json.loads(shown.read_text())
    assert reading["job"] == job
    assert [gpu["index"] for gpu in reading["gpus"]] == [2, 3]
    assert denied.read_text().split()[-1] == "4"
    status = cluster.line.json("status", first.id)
    assert status["job"] == job
    assert any(job in note for note in json.loads(first.plan.read_text())["notes"])


def test_a_run_of_the_whole_job_sees_what_slurm_shows(cluster: Cluster) -> None:
    """The variables are Slurm's own where the run has all GPUs of the job."""
    cluster.lab.submit("sleep 600", "--gres=gpu:5")
    out = cluster.line.folder / "out"
    cluster.submit(
        f"echo $CUDA_VISIBLE_DEVICES >{out}.1\n"
        f"fresnel-tui launch --gpus all --wait -- sh -c 'echo $CUDA_VISIBLE_DEVICES >{out}.2'\n",
        "--gres=gpu:3",
    )
    shown = eventually(lambda: Path(f"{out}.2").is_file() and Path(f"{out}.2").read_text())
    assert shown == Path(f"{out}.1").read_text() == "5,6,7\n"


def test_a_cancelled_job_ends_its_run_by_the_ladder(cluster: Cluster) -> None:
    """scancel begins the ladder, which is done within KillWait: the program saves."""
    program = _python(cluster.line.folder, _SAVES)
    line = f"fresnel-tui launch --gpus 1 --follow -- {program}"
    # With `exec` it is what Slurm waits for; a shell would end at once, and all else with it.
    job = cluster.submit(f"exec env {line}\n", "--gres=gpu:1")
    run = cluster.run()
    eventually(lambda: run.output.exists() and "ready" in run.output.read_text())
    cluster.lab.call("scancel", job)
    ended = cluster.line.ended(run)
    assert ended["state"] == "stopped"
    assert ended["ending"]["cause"] == "slurm"
    assert (ended["ending"]["job"], ended["ending"]["job_end"]) == (job, "cancelled")
    assert "saved" in run.output.read_text()
    assert not marked_processes(run.id)


def test_what_slurm_kills_is_recorded_as_ended_by_it(cluster: Cluster) -> None:
    """The script ends at once, and Slurm kills the supervisor with all else of the job."""
    job = cluster.submit("fresnel-tui launch --gpus 1 -- sleep 600\n", "--gres=gpu:1")
    run = cluster.run()
    eventually(lambda: cluster.lab.job(job)["JobState"] == "COMPLETED", what="the job's end")
    eventually(lambda: not marked_processes(run.id), what="no process left")
    ended = cluster.line.ended(run)
    assert (ended["state"], ended["ending"]["cause"]) == ("stopped", "slurm")
    assert ended["ending"]["job_end"] == "completed"
    # Nobody has started it again outside of its job.
    assert not marked_processes(run.id)
