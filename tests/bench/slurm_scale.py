"""Many Slurm jobs of one's own: a refresh of 100,000; 5,000 in the panel, and over a link at rest.

    python tests/bench/slurm_scale.py                 all; as root, with ip: the link too
    python tests/bench/slurm_scale.py --runs 1000     fewer runs

One run is submitted to a real Slurm on loopback, and the others are copies of it, of which a
recorded squeue tells. First paints come in pairs with as many ended runs of this machine.
"""

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(Path(__file__).parent)]

from measure import Screen, pump  # noqa: E402
from place import FRESNEL  # noqa: E402
from remote_link import at_rest  # noqa: E402

from tests.slurm.lab import PATH, running_lab, why_not  # noqa: E402

_JOBS = 100_000
_PAIRS = 5
_LINE = (
    "{n}\x1f{a}\x1f{k}\x1fPENDING\x1f{r}\x1fgpu,gpu-long\x1f\x1f1795500000\x1f1-00:00:00\x1f{n}\x1f/home/me/train.sh\x1f"
    "20261123-101112-gaussian-validate-{n:06}\x1e\n"
)
_REASONS = ("Priority", "Resources", "QOSMaxGRESPerUser", "Dependency")


def _answer(file: Path) -> None:
    """What squeue prints of so many jobs, a third of them in arrays."""
    with file.open("w") as output:
        for n in range(1, _JOBS + 1):
            place = n % 1000 if n % 3 == 0 else "N/A"
            output.write(_LINE.format(n=n, a=n - n % 1000, k=place, r=_REASONS[n % 4]))


def _refresh() -> None:
    """In a process of its own: asked, read, written down; then read as a front end does."""
    from runners.slurm.queue import refresh
    from runners.state import jobs
    from runners.state.layout import StateDirectory

    state = StateDirectory().create()
    began = time.process_time()
    table = refresh(state, every_s=0.0)
    asked = time.process_time()
    jobs.read_table(state)
    read = time.process_time()
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(len(table.jobs), f"{asked - began:.2f} {read - asked:.2f} {most:.0f}")


def _squeue(tools: Path) -> None:
    """A squeue that prints the answer beside it."""
    (tools / "squeue").write_text(f"#!/bin/sh\nexec cat {tools}/answer\n")
    (tools / "squeue").chmod(0o700)


def _copy(state: Path, run_id: str, runs: int, tools: Path) -> None:
    """Make so many waiting jobs of the one that is there, and what squeue says of them."""
    stem, rows = run_id.rpartition("-")[0], []
    for number in range(runs):
        name = f"{stem}-{number:04x}"
        folder = state / "runs" / name
        shutil.copytree(state / "runs" / run_id, folder, dirs_exist_ok=True)
        for file in filter(Path.is_file, folder.iterdir()):
            file.write_bytes(file.read_bytes().replace(run_id.encode(), name.encode()))
        note = json.loads((folder / "job.json").read_text())
        (folder / "job.json").write_text(json.dumps({**note, "id": str(10 + number)}))
        (state / "live" / name).touch()
        (state / "slurm" / f"{name}.sh").touch()
        fields = (10 + number, 10 + number, "N/A", "PENDING", "PartitionDown", "closed", "")
        rows.append("\x1f".join(map(str, (*fields, "N/A", "10:00", 9000 - number, "", name))))
    (tools / "answer").write_text("".join(f"{row}\x1e\n" for row in rows))
    _squeue(tools)


def _as_ended(state: Path, other: Path) -> None:
    """The same runs as ones of this machine, that have ended."""
    shutil.copytree(state, other)
    shutil.rmtree(other / "slurm")
    ended = {"state": "done", "attempt": 1, "started": 1e9, "ended": 1e9 + 60, "exit_code": 0}
    for folder in (other / "runs").iterdir():
        (other / "live" / folder.name).unlink(missing_ok=True)
        (folder / "job.json").unlink()
        plan = json.loads((folder / "plan.json").read_text())
        plan["spec"].pop("place", None)
        (folder / "plan.json").write_text(json.dumps({**plan, "phase": "final"}))
        (folder / "state.json").write_text(json.dumps({**ended, "ending": {"cause": "exited"}}))


def _first_paint(environment: dict[str, str], folder: Path) -> float:
    with Screen(FRESNEL, environment, folder) as panel:
        seconds = panel.until("sleep", ceiling_s=120)[0] - panel.began
        pump([panel], 1)
    return seconds


def main() -> int:
    """Measure; 2 where no Slurm can be started."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=5000)
    parser.add_argument("--refresh", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.refresh:
        _refresh()
        return 0
    if why_not():
        print(why_not())
        return 2
    with tempfile.TemporaryDirectory() as name:
        _measure(Path(name), chosen.runs)
    return 0


def _measure(folder: Path, runs: int) -> None:
    large, own = folder / "large", folder / "own"
    large.mkdir()
    own.mkdir()
    _answer(large / "answer")
    _squeue(large)
    there = {**os.environ, "FRESNEL_GPUS": "sim:8xH100", "TERM": "xterm-256color"}
    scratch = {**there, "PATH": f"{large}:{PATH}", "FRESNEL_STATE_DIR": f"{folder}/scratch"}
    for _ in range(3):
        words = [sys.executable, __file__, "--refresh"]
        answer = subprocess.run(words, env=scratch, capture_output=True, text=True, check=True)
        jobs, asked, read, most = answer.stdout.split()
        size = (large / "answer").stat().st_size / 1e6
        print(
            f"{jobs} jobs, {size:.0f} MB: refresh {asked} s of processor time, read from there "
            f"{read} s, {most} MB at most"
        )
    jobs_state, ended_state = folder / "jobs", folder / "ended"
    with running_lab(folder / "lab") as lab:
        held = ["launch", "--slurm", "--gpus", "1", "--partition", "closed", "--", "sleep", "600"]
        slurm = {"PATH": PATH, "SLURM_CONF": str(lab.conf), "FRESNEL_STATE_DIR": str(jobs_state)}
        done = subprocess.run(
            [*FRESNEL, *held],
            env={**there, **slurm},
            cwd=folder,
            check=True,
            capture_output=True,
            text=True,
        )
    run_id = done.stdout.strip()
    _copy(jobs_state, run_id, runs, own)
    shutil.rmtree(jobs_state / "runs" / run_id, ignore_errors=True)
    (jobs_state / "live" / run_id).unlink(missing_ok=True)
    _as_ended(jobs_state, ended_state)
    there["PATH"] = f"{own}:{PATH}"
    times: dict[Path, list[float]] = {jobs_state: [], ended_state: []}
    for _ in range(_PAIRS):
        for state, found in times.items():
            found.append(_first_paint({**there, "FRESNEL_STATE_DIR": str(state)}, folder))
    for state, found in times.items():
        text = f"{statistics.median(found):.2f} s ({min(found):.2f}-{max(found):.2f})"
        print(f"first paint, {runs} runs, {state.name}: {text}, load {os.getloadavg()[0]:.1f}")
    if os.geteuid() == 0 and shutil.which("ip"):
        told, rate = at_rest(
            folder, {"PATH": f"{own}:{PATH}", "FRESNEL_STATE_DIR": str(jobs_state)}
        )
        print(f"link at rest, {told} runs told: {rate:.0f} bytes/s, both ways, IP and all")


if __name__ == "__main__":
    sys.exit(main())
