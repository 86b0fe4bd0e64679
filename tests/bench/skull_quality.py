"""Implants for skulls nobody trained on: the tiny presets' networks trained longer, then judged.

    python tests/bench/skull_quality.py                 # seed 0
    python tests/bench/skull_quality.py --seeds 0 1 2   # with the spread

Both networks train side by side as `skull-both-tiny` does, each on one thread and on skulls it
makes up; what that takes is counted in seconds of processors, skulls and starts of programs
included. Ten defects of two more skulls are then completed and judged, beside the mirrored healthy
side, and once more with the true implants' points, which is what a perfect PCDiff would reach.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
BUDGET = 1_200
"""Seconds of processors that both trainings may take: ten minutes of two cores."""
LONGER = {
    "pcdiff": {
        "made_up": 40,
        "niter": 170,
        "val_freq": 85,
        "vizIter": 170,
        "saveIter": 170,
        "model": None,
        "lr": 2e-3,
        "vox_res_mult": 0.25,
        "up_convolutions": 3,
    },
    "voxelization": {"epochs": 25, "validate_every": 25},
}
"""What differs from the tiny presets, which end within minutes: more steps and skulls, and PCDiff
begins from nothing."""


def command(trainer: str, folder: Path, seed: int) -> list[str]:
    """Return the command of a tiny preset with the longer training's values."""
    preset = yaml.safe_load((ROOT / "presets" / f"{trainer}-tiny.yaml").read_text())
    values = {name: item["value"] for name, item in preset["parameters"].items()}
    values |= LONGER[trainer]
    values["manualSeed" if trainer == "pcdiff" else "seed"] = seed
    script = preset["script"].replace("${trainers}", str(ROOT / "trainers"))
    flags = [
        text.replace("${trainers}", str(ROOT / "trainers"))
        for name, value in values.items()
        if value is not None
        for text in (f"--{name}", str(value))
    ]
    where = ["--output_dir", str(folder), "--device", "cpu", "--no-tensorboard"]
    return [sys.executable, script, *flags, *where, "--threads", "1"]


def train_both(place: Path, seed: int) -> dict[str, float]:
    """Train both networks side by side; return the seconds of processors each of them took."""
    started = {}
    for trainer in LONGER:
        log = (place / f"{trainer}.log").open("w")
        started[trainer] = subprocess.Popen(
            command(trainer, place / trainer, seed), stdout=log, stderr=subprocess.STDOUT
        )
    used = {}
    for trainer, process in started.items():
        _, status, resources = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise RuntimeError((place / f"{trainer}.log").read_text()[-2000:])
        used[trainer] = resources.ru_utime + resources.ru_stime
    return used


def judge(place: Path, members: int, truly: bool) -> dict[str, dict[str, dict[str, float]]]:
    """Return the figures per kind of defect, `found` and the `mirror`'s."""
    words = [
        str(ROOT / "trainers" / "implants" / "implant.py"),
        "--made_up",
        "2",
        "--device",
        "cpu",
    ]
    words += ["--output_dir", str(place / "judged"), "--num_ens", str(members), "--threads", "1"]
    words += ["--sampling_steps", "20", "--completions", "true" if truly else "pcdiff"]
    for flag, trainer in (("--pcdiff", "pcdiff"), ("--voxelizer", "voxelization")):
        words += [flag, str(place / trainer / "checkpoints" / "last.pt")]
    subprocess.run([sys.executable, *words], check=True, capture_output=True)
    folder = place / "judged" / ("implants_true" if truly else "implants")
    summary = json.loads((folder / "benchmark_summary.json").read_text())
    return {"found": summary["per_defect"], "mirror": summary["per_defect_mirror"]}


def measure(seed: int, members: int, place: Path) -> float:
    """Print a seed's table and return its mean DSC."""
    begun = time.monotonic()
    used = train_both(place, seed)
    spent = " + ".join(f"{name} {seconds:.0f}" for name, seconds in used.items())
    total = sum(used.values())
    print(f"seed {seed}: {spent} = {total:.0f} s of processors ({total / BUDGET:.0%} of {BUDGET})")
    tables = {"drawn": judge(place, members, False), "true points": judge(place, members, True)}
    for kind, plain in tables["drawn"]["mirror"].items():
        columns = [_told(name, found["found"][kind]) for name, found in tables.items()]
        columns.append(_told("mirror", plain))
        print(f"  {kind:<16}" + "   ".join(columns), flush=True)
    print(f"  {time.monotonic() - begun:.0f} s in all", flush=True)
    return tables["drawn"]["found"]["all"]["dice"]


def _told(name: str, found: dict[str, float | None]) -> str:
    # All implants of a kind may be empty: such a kind has no distance.
    far = found["hd95_mm"]
    return f"{name} {found['dice']:.3f} / {'no implant' if far is None else f'{far:5.1f} mm'}"


def main() -> int:
    """Print DSC and HD95 for every seed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--members", type=int, default=3, help="completions that vote (3)")
    parser.add_argument("--keep", type=Path, help="folder for runs and implants")
    settings = parser.parse_args()
    found = []
    for seed in settings.seeds:
        with tempfile.TemporaryDirectory() as folder:
            place = (settings.keep or Path(folder)) / str(seed)
            place.mkdir(parents=True, exist_ok=True)
            found.append(measure(seed, settings.members, place))
    if len(found) > 1:
        spread = f"{min(found):.3f} to {max(found):.3f}"
        print(f"mean DSC over {len(found)} seeds {statistics.fmean(found):.3f}, {spread}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
