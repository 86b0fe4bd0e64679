"""Many Slurm jobs of one's own: a refresh of 100,000, and 5,000 as runs in the panel.

    python tests/bench/slurm_scale.py                 all
    python tests/bench/slurm_scale.py --runs 1000     fewer runs

A real Slurm on loopback holds the runs' jobs, arrays of two hundred.
"""

import argparse
import os
import resource
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

from tests.slurm.lab import PATH, running_lab, why_not  # noqa: E402

_JOBS = 100_000
_SWEEP = 200
_LINE = (
    "{n}\x1f{a}\x1f{k}\x1f20261123-101112-gaussian-validate-{n:06}\x1fPENDING\x1f{r}\x1fgpu,gpu-long\x1f\x1f"
    "1795500000\x1f1-00:00:00\x1f{n}\n"
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


def _first_paint(environment: dict[str, str], folder: Path, text: str) -> str:
    times = []
    for _ in range(5):
        with Screen(FRESNEL, environment, folder) as panel:
            times.append(panel.until(text, ceiling_s=120)[0] - panel.began)
            pump([panel], 1)
    return f"{statistics.median(times):.2f} s ({min(times):.2f}-{max(times):.2f})"


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
    with tempfile.TemporaryDirectory() as name, running_lab(Path(name) / "lab") as lab:
        folder = Path(name)
        own = {
            **os.environ,
            "PATH": PATH,
            "SLURM_CONF": str(lab.conf),
            "FRESNEL_GPUS": "sim:8xH100",
        }
        there = {**own, "FRESNEL_STATE_DIR": f"{name}/jobs", "TERM": "xterm-256color"}
        tools = folder / "tools"
        tools.mkdir()
        _answer(tools / "answer")
        (tools / "squeue").write_text(f"#!/bin/sh\nexec cat {tools}/answer\n")
        (tools / "squeue").chmod(0o700)
        scratch = {**own, "PATH": f"{tools}:{PATH}", "FRESNEL_STATE_DIR": f"{name}/scratch"}
        for _ in range(3):
            words = [sys.executable, __file__, "--refresh"]
            answer = subprocess.run(words, env=scratch, capture_output=True, text=True, check=True)
            jobs, asked, read, most = answer.stdout.split()
            size = (tools / "answer").stat().st_size / 1e6
            print(
                f"{jobs} jobs, {size:.0f} MB: refresh {asked} s of processor time, read from there "
                f"{read} s, {most} MB at most"
            )
        held = ["--slurm", "--gpus", "1", "--partition", "closed", "--", "sleep", "{seed}"]
        began = time.monotonic()
        for first in range(0, chosen.runs, _SWEEP):
            last = min(first + _SWEEP, chosen.runs) - 1
            words = [*FRESNEL, "launch", "--set", f"seed={first}..{last}", *held]
            subprocess.run(
                words, env=there, cwd=folder, check=True, stdout=-3, stderr=subprocess.DEVNULL
            )
        print(f"{chosen.runs} runs submitted in {time.monotonic() - began:.0f} s")
        print(f"first paint, {chosen.runs} jobs: " + _first_paint(there, folder, "sleep"))
        print(f"load {os.getloadavg()[0]:.1f}")
        lab.clear()
    return 0


if __name__ == "__main__":
    sys.exit(main())
