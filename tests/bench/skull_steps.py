"""How many sampling steps an implant needs: DSC against steps, by trained networks.

    python tests/bench/skull_steps.py --pcdiff RUN/checkpoints/best.pt --voxelizer RUN/model_best.pt
    python tests/bench/skull_steps.py … --ways ddim:50 ddpm:1000 --markdown FILE

Made-up skulls that nobody trained on, every way on the same skulls, points and noise; a completion
each. The true implants' points stand beside: what a perfect PCDiff would reach with this voxelizer.
Seconds are of processors, starts of programs included.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WAYS = ("dpm_solver:10", "dpm_solver:20", "dpm_solver:50", "ddim:10", "ddim:20", "ddim:50")
FIGURES = ("dice", "bdice_10mm", "hd95_mm")


def judge(settings: argparse.Namespace, way: str, folder: Path) -> tuple[dict[str, float], float]:
    """Return the mean figures of a way to draw, with the mirror's, and its processor seconds."""
    method, _, steps = way.partition(":")
    words = [str(ROOT / "trainers" / "implants" / "implant.py"), "--device", "cpu"]
    words += ["--made_up", str(settings.skulls), "--made_up_size", str(settings.size)]
    words += ["--pcdiff", str(settings.pcdiff), "--voxelizer", str(settings.voxelizer)]
    words += ["--output_dir", str(folder), "--threads", "1"]
    if way == "true":
        words += ["--completions", "true"]
    else:
        words += ["--sampling_method", method, "--sampling_steps", steps]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *words], check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    place = folder / ("implants_true" if way == "true" else "implants")
    summary = json.loads((place / "benchmark_summary.json").read_text())
    found = {name: summary["per_defect"]["all"][name] for name in FIGURES}
    plain = {f"mirror_{name}": summary["per_defect_mirror"]["all"][name] for name in FIGURES}
    return {**found, **plain, "cases": summary["case_count"]}, used


def main() -> int:
    """Print a row for every way."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pcdiff", type=Path, required=True)
    parser.add_argument("--voxelizer", type=Path, required=True)
    parser.add_argument("--ways", nargs="+", default=WAYS, metavar="METHOD:STEPS")
    parser.add_argument("--skulls", type=int, default=2, help="with five defects each (2)")
    parser.add_argument("--size", type=int, default=64, help="voxels of their sides (64)")
    parser.add_argument("--markdown", type=Path, help="write the table there too")
    settings = parser.parse_args()
    lines = [
        "| drawn by | steps | DSC | bDSC 10 mm | HD95 mm | processor s a case |",
        "|---|---|---|---|---|---|",
    ]
    print("\n".join(lines), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for way in (*settings.ways, "true"):
            found, used = judge(settings, way, Path(folder) / way.replace(":", "_"))
            method, _, steps = way.partition(":")
            name = "true points instead" if way == "true" else method
            figures = [found[name] for name in FIGURES]
            lines.append(_row(name, steps, figures, used / found["cases"]))
            print(lines[-1], flush=True)
        mirror = [found[f"mirror_{name}"] for name in FIGURES]
    lines.append(_row("mirrored side", "", mirror, None))
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    lines.append(f"\n{found['cases']:.0f} cases; load {load}")
    print("\n".join(lines[-2:]))
    if settings.markdown:
        settings.markdown.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return 0


def _row(name: str, steps: str, figures: list[float], seconds: float | None) -> str:
    dice, near, far = figures
    took = "" if seconds is None else f"{seconds:.1f}"
    return f"| {name} | {steps} | {dice:.3f} | {near:.3f} | {far:.1f} | {took} |"


if __name__ == "__main__":
    sys.exit(main())
