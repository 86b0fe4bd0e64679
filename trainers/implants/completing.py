"""The pipeline's first half: completed clouds for each skull, from PCDiff or the truth."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
import zlib
from collections import deque
from collections.abc import Callable
from pathlib import Path

import numpy as np

from trainers.common.errors import SettingsError, StoppedError
from trainers.common.report import RUN_DIRECTORY
from trainers.skulls.listing import SkullSample, load_cloud, members_of
from trainers.skulls.volumes import write_array

TRAINERS = Path(__file__).resolve().parents[1]
SAMPLE = TRAINERS / "pcdiff" / "sample.py"


def missing_cases(samples: list[SkullSample], folder: Path, members: int) -> list[SkullSample]:
    """Return the samples without `members` completions in a syn/ folder."""
    return [
        sample for sample in samples if members_of(folder / sample.case / "sample.npy") < members
    ]


def complete_truly(samples: list[SkullSample], folder: Path, skull: int, implant: int) -> None:
    """Write completions whose implants are the true ones: what a perfect PCDiff would give."""
    for sample in samples:
        name = sample.subject
        number = int(name) if name.isdecimal() else zlib.crc32(name.encode())
        chance = np.random.default_rng([number, skull])
        known, true = load_cloud(sample.defective), load_cloud(sample.implant)
        known = known[chance.integers(0, len(known), skull)]
        true = true[chance.integers(0, len(true), implant)]
        low, high = known.min(0), known.max(0)
        shift, scale = (low + high) / 2, float((high - low).max()) / 6
        cloud = (np.concatenate([known, true]) - shift) / scale
        case = folder / sample.case
        write_array(case / "input.npy", ((known - shift) / scale)[None].astype(np.float32))
        write_array(case / "shift.npy", shift.reshape(1, 1, 3).astype(np.float32))
        write_array(case / "scale.npy", np.full((1, 1, 1), scale, np.float32))
        write_array(case / "sample.npy", cloud[None].astype(np.float32))


def run_program(command: list[str], stop: Callable[[], bool], events: Path) -> None:
    """Run one of our programs to its end; raise StoppedError where a stop was asked for meanwhile.

    Its events go to the folder `events`, not into this run's. Raises SettingsError with the
    program's last words where it fails.
    """
    events.mkdir(parents=True, exist_ok=True)
    process = subprocess.Popen(
        [sys.executable, *command],
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        errors="replace",
        env={**os.environ, RUN_DIRECTORY: str(events)},
    )
    last_lines: deque[str] = deque(maxlen=5)
    reader = threading.Thread(target=_pass_on, args=(process, last_lines), daemon=True)
    reader.start()
    stopped = False
    try:
        while process.poll() is None:
            if not stopped and stop():
                process.terminate()
                stopped = True
            time.sleep(0.05)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    reader.join(5)
    # Ctrl+C reaches both: the program may have ended before it was asked here.
    if stop():
        raise StoppedError
    if process.returncode:
        errors = [word for word in last_lines if word.startswith("error:")]
        last = (errors or list(last_lines) or ["it said nothing"])[-1]
        raise SettingsError(
            f"{Path(command[0]).parent.name}/{Path(command[0]).name} ended with exit code"
            f" {process.returncode}: {last.removeprefix('error: ')}"
        )


def _pass_on(process: subprocess.Popen[str], last_lines: deque[str]) -> None:
    assert process.stderr is not None
    for line in process.stderr:
        sys.stderr.write(line)
        sys.stderr.flush()
        last_lines.append(line.strip())
