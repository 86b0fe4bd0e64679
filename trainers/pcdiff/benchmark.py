"""The three files about a whole sampling run: benchmark_{cases.csv,summary.json,stage_report.json}.

Names and columns are those of DimensionLab/pcdiff-implant (MIT).
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from trainers.common.files import write_text_whole, write_whole

COLUMNS = (
    "case_name",
    "case_dir",
    "input_points_path",
    "sample_points_path",
    "shift_path",
    "scale_path",
    "num_generated_implants",
    "runtime_sec",
    "gpu_peak_memory_mb",
)


@dataclass(frozen=True)
class CaseRecord:
    """What one case took."""

    name: str
    folder: Path
    members: int
    seconds: float
    memory: int


def write_array(path: Path, array: Any) -> int:
    """Write an .npy file that is whole or absent; return its bytes."""
    return write_whole(path, lambda file: np.save(file, array))


def write_benchmark(settings: argparse.Namespace, records: Sequence[CaseRecord]) -> None:
    """Write the files for the cases of this run into the results folder."""
    folder = settings.eval_path.absolute()
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for record in sorted(records, key=lambda record: record.name):
        paths = [record.folder / f"{name}.npy" for name in ("input", "sample", "shift", "scale")]
        memory = f"{record.memory / 2**20:.0f}"
        writer.writerow(
            [record.name, record.folder, *paths, record.members, f"{record.seconds:.3f}", memory]
        )
    write_text_whole(folder / "benchmark_cases.csv", text.getvalue())
    fields = {
        "runtime_sec": [record.seconds for record in records],
        "gpu_peak_memory_mb": [record.memory / 2**20 for record in records],
    }
    summary = {name: _spread(values) for name, values in fields.items()} | {
        "case_count": len(records),
        "ensemble_size": settings.num_ens,
        "sampling_method": settings.sampling_method,
        "sampling_steps": settings.sampling_steps,
    }
    write_text_whole(folder / "benchmark_summary.json", json.dumps(summary, indent=2) + "\n")
    report = {
        "stage": "pcdiff",
        "model": str(settings.model),
        "eval_path": str(folder),
        "summary": summary,
    }
    write_text_whole(folder / "benchmark_stage_report.json", json.dumps(report, indent=2) + "\n")


def _spread(values: Sequence[float]) -> dict[str, float]:
    return {
        "count": len(values),
        "mean": statistics.fmean(values),
        "std": statistics.pstdev(values),
        "min": min(values),
        "max": max(values),
    }
