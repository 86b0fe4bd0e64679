"""How often the disk forecast cries wolf, and how early it is right: real runs in real time.

    python tests/bench/disk_alarms.py                   eighty minutes, next to no processor
    python tests/bench/disk_alarms.py --minutes 30      the false alarms alone

Every habit of `tests/disk_habits.py` is a run of its own on one small disk (a tmpfs, so it takes
root) that none of them fills within a day. Another keeps all it writes on a disk that is full when
the time is over: the moment of its alarm is compared with the one at which it was really full.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from measure import machine, revision, write
from place import PYTHON, Place

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.disk_habits import ALL_KEPT_MB, MINUTE_S, QUIET, all_kept  # noqa: E402

SHARED_MB = 600
PROGRAM = [*PYTHON, str(ROOT / "tests" / "disk_habits.py")]
PRESET = f"""\
launcher: command
command: {json.dumps(PROGRAM)}
parameters: {{habit: {{value: null, type: str}}, folder: {{value: null, type: str}}, minutes: 1}}
gpus: 0
checkpoints: ["${{parameters.folder}}/*"]
"""


@contextmanager
def small_disk(folder: Path, megabytes: int) -> Iterator[Path]:
    """A file system of its own at `folder`."""
    folder.mkdir()
    size = f"size={megabytes * 10**6}"
    subprocess.run(["mount", "-t", "tmpfs", "-o", size, "tmpfs", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=False)


def launch(place: Place, habit: str, disk: Path, minutes: int) -> Path:
    """A run that writes by a habit; its folder."""
    folder = disk / habit
    folder.mkdir()
    settings = (f"habit={habit}", f"folder={folder}", f"minutes={minutes}")
    told = place.run("launch", "habit", "--name", habit, "--set", *settings)
    return place.state / "runs" / told.stdout.strip()


def alarms(run: Path) -> list[dict[str, Any]]:
    """What the run's supervisor said of the disk."""
    lines = (run / "supervisor.jsonl").read_text().splitlines()
    events = [json.loads(line) for line in lines]
    return [event for event in events if event["type"] == "alert" and "the disk of" in str(event)]


def is_over(run: Path) -> bool:
    """Whether the run's ending is recorded; RuntimeError where its program failed too early."""
    found = json.loads((run / "state.json").read_text())
    if found["state"] == "failed" and "all_kept" not in run.name:
        raise RuntimeError(f"{run.name} failed")
    return bool(found.get("ended"))


def main() -> int:
    """Run them all; 1 when there was a false alarm, or no true one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=int, default=80, help="how long each goes on (80)")
    minutes = parser.parse_args().minutes
    write(f"{machine()}, commit {revision()}, load {os.getloadavg()[0]:.2f}")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fresnel-disk-")))
        shared = stack.enter_context(small_disk(folder / "shared", SHARED_MB))
        filled_mb = max(1, minutes - 1) * ALL_KEPT_MB
        filled = stack.enter_context(small_disk(folder / "filled", filled_mb))
        place = stack.enter_context(Place(folder / "place"))
        (place.presets / "habit.yaml").write_text(PRESET)
        began = time.time()
        quiet = {habit: launch(place, habit, shared, minutes) for habit in QUIET}
        filling = launch(place, all_kept.__name__, filled, 2 * minutes)
        full_at = None
        while not all(map(is_over, quiet.values())) or not is_over(filling):
            full = os.statvfs(filled).f_bavail * os.statvfs(filled).f_frsize < ALL_KEPT_MB * 10**6
            full_at = full_at or (time.time() if full else None)
            if time.time() - began > (minutes + 5) * MINUTE_S:
                break
            time.sleep(1)
        false = {habit: found for habit, run in quiet.items() if (found := alarms(run))}
        true = alarms(filling)
        print(f"{len(quiet)} runs of {minutes} minutes: {len(false)} with a false alarm")
        for habit, found in false.items():
            print(f"  {habit}, after {(found[0]['time'] - began) / 60:.0f} min: {found[0]['text']}")
        for alarm in true:
            print(f"the true one, after {(alarm['time'] - began) / 60:.1f} min: {alarm['text']}")
        if true and full_at:
            print(f"its disk was full {(full_at - true[0]['time']) / 60:.1f} min after it")
    return int(bool(false) or not true)


if __name__ == "__main__":
    sys.exit(main())
