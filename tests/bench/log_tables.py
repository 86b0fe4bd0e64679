"""The live log's figures: what bench_log.py prints, taken in as it is, with the goals beside."""

import subprocess
import sys
from pathlib import Path

from measure import REPOSITORY, Table
from place import Bench

GOALS = """
Goals: at 200 lines/s oldest newly shown ≤ 40 ms at ≤ 15 %; at 1,000,000 lines/s ≤ 100 ms, ≤ 20 %, ≤ 20 frames per
second, keys p95 ≤ 100 ms; for 1 GB its end on the screen ≤ 30 ms, the whole index ≤ 0.6 s, ≤ 40 MiB added; a rare
word's first hit ≤ 2 × `grep -c`, in a coloured log too; a filter or search that most lines match ≤ 8 s, no key
waiting for it. Peers, measured once on a like machine: at 200 lines/s toolong
53 ms and 46 %, RichLog 61 ms and 24 %; at 1,000,000 lines/s tmux is 2.1 s behind; for 1 GB less takes 3 ms, toolong
3.6 s and 1.4 GiB, lnav 6.4 s.
"""


def measure(bench: Bench) -> Table:
    """The tables of the log pane."""
    words = ["--gigabytes", "0.05", "--seconds", "1"] if bench.quick else []
    place = bench.place("log")
    ended = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("bench_log.py")), *words],
        env=place.env | {"TMPDIR": str(place.folder)},
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    if ended.returncode:
        raise RuntimeError(
            f"exit code {ended.returncode}: {ended.stderr.strip().splitlines()[-1:]}"
        )
    return Table("Live log", text=f"{ended.stdout.strip()}\n{GOALS}")
