"""What the guides' sizes take on one real GPU: time, memory, and what the preset expects of it.

    python tests/hardware/check_sizes.py [--only NAME …] [--markdown FILE]     a few minutes
    python tests/hardware/check_sizes.py --dry                                 small, on a CPU

Each case is a preset of this repository, launched as a user does, on data made up for it, for a few
steps. Read afterwards: the run's own figures (samples a second of its last steps, peak of the
allocator) and the panel's (most VRAM that NVML saw under the run, use, energy), beside the guide's
word and what the preset expects. Runs and data go to a temporary folder, or to --data, where data
that is there is used again. Exits 0 when every run ended well, 1 when not, 2 without a GPU.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "bench"), str(Path(__file__).resolve().parent)]

import numpy as np  # noqa: E402
from check_nvidia import Panel, ask_smi  # noqa: E402
from measure import Row, Table, keep, machine, revision, write  # noqa: E402
from PIL import Image  # noqa: E402

GIB = 2**30
MAKERS = ("skulls", "patients", "photographs")


class Case(NamedTuple):
    """A preset with settings, on which data, and the guide's word of its memory."""

    name: str
    preset: str
    data: str
    settings: Mapping[str, object] = MappingProxyType({})
    said: str = ""


def pcdiff(batch: int, said: str, **more: object) -> Case:
    """PCDiff's table of samples a GPU."""
    name = f"PCDiff, 30,720 points, {batch} a step" + "".join(f", {key}" for key in more)
    return Case(name, "pcdiff-1gpu", "skulls", {"bs": batch} | more, said)


CASES = (
    pcdiff(1, "about 6 GB"),
    pcdiff(4, "about 12 GB"),
    pcdiff(8, "about 20 GB; 77 s an epoch of 455 with the original on an H100"),
    pcdiff(16, "about 35 GB"),
    Case("voxelization, 512³, batch 4", "voxelization", "skulls", {"batch_size": 4}, "15-25 GB; 1.8 min an epoch of 456"),
    Case("cascade, three stages to 256³, batches 16, 8, 4", "cascade-4gpu-torchrun", "patients", said="~15, ~40, ~70 GB"),
    Case("Gaussian decoder, 256 px, K = 4, batch 128", "gaussian-standard", "photographs", said="20 GB"),
    Case("Gaussian decoder, fast schedule, batch 256", "gaussian-fast", "photographs"),
    Case("Gaussian decoder, 512 px, K = 8, batch 64", "gaussian-full", "photographs"),
    Case("3-D U-Net, 128³, batch 4", "skull-unet", "skulls"),
)  # fmt: skip


# ── data ──────────────────────────────────────────────────────────────────────────────────────────


def make_skulls(folder: Path, dry: bool) -> None:
    """Skulls in SkullBreak's layout, and the voxelization network's pairs."""
    size, count = (32, 3) if dry else (512, 6)
    _run("trainers/skulls/made_up.py", "--root", folder, "--count", count, "--size", size,
         "--points", 40_000, "--workers", 3 if dry else 12)  # fmt: skip
    _run("trainers/skulls/prepare.py", "--root", folder, "--steps", "pairs",
         "--workers", 3 if dry else 12)  # fmt: skip


def make_patients(folder: Path, dry: bool) -> None:
    """Patients of the cascade's largest stage."""
    size, count, pixels = (16, 6, 64) if dry else (256, 24, 512)
    _run("trainers/cascade/make_patients.py", folder, "--count", count, "--volume_size", size,
         "--img_size", pixels, "--device", "cpu", "--workers", 0 if dry else 8)  # fmt: skip


def make_photographs(folder: Path, dry: bool) -> None:
    """Crops of a photograph that scikit-image ships, with features of noise, as files of DINOv2."""
    import skimage.data

    chance = np.random.default_rng(0)
    whole = Image.fromarray(skimage.data.astronaut())
    (folder / "features").mkdir(parents=True, exist_ok=True)
    for number in range(8 if dry else 600):
        left, top = chance.integers(0, 256, 2).tolist()
        crop = whole.crop((left, top, left + 256, top + 256)).resize((512, 512))
        crop.save(folder / f"made_{number:04}.png", compress_level=1)
        features = chance.standard_normal((37, 37, 384), dtype=np.float32)
        features.tofile(folder / "features" / f"made_{number:04}_dinov2.bin")


def _run(program: str, *words: object) -> None:
    command = [sys.executable, str(ROOT / program), *map(str, words)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def make(data: Path, what: str, dry: bool) -> float:
    """Make one kind of data where it is not there whole; the seconds it took."""
    whole, began = data / f"{what}.made", time.monotonic()
    if not whole.is_file():
        {"skulls": make_skulls, "patients": make_patients, "photographs": make_photographs}[what](
            data / what, dry
        )
        whole.touch()
    return time.monotonic() - began


# ── runs ──────────────────────────────────────────────────────────────────────────────────────────


def settings_of(case: Case, data: Path, dry: bool) -> dict[str, object]:
    """The preset's settings: the data's place, a few steps, no pictures between."""
    folder = data / case.data
    kinds: dict[str, dict[str, object]] = {
        "pcdiff-1gpu": {"path": folder / "train.csv", "niter": 3, "vizIter": 0, "val_freq": 0},
        "voxelization": {
            "train_path": folder / "voxelization" / "train.csv",
            "eval_path": folder / "voxelization" / "eval.csv",
            "epochs": 3,
            "validate_every": 3,
        },
        "cascade-4gpu-torchrun": {
            "dataset_path": folder,
            "epochs": 2,
            "training.sampling_steps": 2,
        },
        "skull-unet": {"path": folder / "train.csv", "epochs": 4, "validate_every": 4},
    }
    usual = kinds.get(case.preset, {"data_dir": folder, "epochs": 3})
    small: dict[str, dict[str, object]] = {
        "pcdiff-1gpu": {"width_mult": 0.25, "niter": 1, "bs": 4, "workers": 0},
        "voxelization": {"grid_res": 32, "epochs": 1, "workers": 1},
        "cascade-4gpu-torchrun": {"config.file": "tiny.json", "epochs": 1},
        "skull-unet": {"grid_res": 32, "channels": 4, "levels": 2, "epochs": 1, "workers": 1},
    }
    lesser = small.get(case.preset, {"image_size": 32, "batch_size": 4, "epochs": 1, "workers": 0})
    return usual | dict(case.settings) | (lesser if dry else {})


def measured(panel: Panel, case: Case, data: Path, dry: bool) -> list[Row]:
    """Launch, wait, read; a row for each stage."""
    words = [f"--set={key}={value}" for key, value in settings_of(case, data, dry).items()]
    gpus = "0" if dry else "1"
    began = time.monotonic()
    folder = panel.folder / "work"
    folder.mkdir(exist_ok=True)
    try:
        panel.run("launch", case.preset, "--gpus", gpus, "--no-queue", "--wait", *words)
    except RuntimeError as problem:
        return [Row(case.name, str(problem)[-400:].replace("\n", " "), reached=False)]
    took = time.monotonic() - began
    run = json.loads(panel.run("status", "last", "--json"))
    events = [
        json.loads(line)
        for line in (panel.folder / "state" / "runs" / run["id"] / "events.jsonl")
        .read_text()
        .splitlines()
    ]
    seen = sum(usage["peak_memory"] or 0 for usage in run.get("usage") or [])
    rows = []
    for stage, values in _last_values(events).items():
        held = values.get("peak_memory_bytes", 0)
        name = case.name + (f": {stage}" if stage else "")
        here = f"{values.get('samples_per_second', 0):.2f} samples/s, {held / GIB:.1f} GiB"
        beside = f"NVML: {seen / GIB:.1f} GiB in the whole run" if seen else ""
        rows.append(Row(name, here, beside=beside, compared=f"{took:.0f} s with its start",
                        goal=case.said and f"guide: {case.said}"))  # fmt: skip
    return rows or [Row(case.name, "it wrote no figures", reached=False)]


def _last_values(events: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for event in events:
        if event["type"] in ("metrics", "epoch"):
            values = found.setdefault(event.get("stage") or "", {})
            values |= {key: value for key, value in event["values"].items() if value is not None}
    return found


def main() -> int:
    """Make the data, run every case, print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dry", action="store_true", help="small, on the CPU")
    parser.add_argument("--only", nargs="+", default=[], metavar="TEXT", help="cases named so")
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="where data is kept")
    parser.add_argument("--make", nargs="*", choices=MAKERS, help="make data there, and no more")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table there too")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fresnel-sizes-") as folder:
        data = (asked.data or Path(folder) / "data").absolute()
        data.mkdir(parents=True, exist_ok=True)
        if asked.make is not None:
            for what in asked.make or MAKERS:
                write(f"  {what} made in {make(data, what, asked.dry):.0f} s")
            return 0
        if not asked.dry and not ask_smi("index"):
            write("no NVIDIA GPU that nvidia-smi knows; --dry runs it small on the CPU")
            return 2
        name = "DRY: small, on a CPU" if asked.dry else ask_smi("name")[0]["name"]
        cases = [case for case in CASES if not asked.only or _is_asked(case, asked.only)]
        panel, rows = Panel(Path(folder)), list[Row]()
        table = Table("The guides' sizes on one GPU", rows, f"{name}; {machine()}; at {revision()}")
        if asked.dry:
            panel.env["FRESNEL_GPUS"] = "none"
        for case in cases:
            made = make(data, case.data, asked.dry)
            rows += (found := measured(panel, case, data, asked.dry))
            for row in found:
                write(f"  {row.what}: {row.here}; {row.beside} {row.compared} (data {made:.0f} s)")
            keep(table, asked.markdown)
    print(table.markdown())
    return int(any(row.reached is False for row in rows))


def _is_asked(case: Case, texts: list[str]) -> bool:
    return any(text in case.name for text in texts)


if __name__ == "__main__":
    sys.exit(main())
