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
from trainers.skulls.listing import members_of

COLUMNS = (
    "case_name", "case_dir", "input_points_path", "sample_points_path", "shift_path", "scale_path",
    "num_generated_implants", "runtime_sec", "gpu_peak_memory_mb",
)  # fmt: skip


RECORD = "record.json"


@dataclass(frozen=True)
class CaseRecord:
    """What one case took; `seconds` and `memory` are None where an earlier version drew it.

    `made_with` changes with the network and the settings that drew it.
    """

    name: str
    folder: Path
    members: int
    seconds: float | None = None
    memory: int | None = None
    made_with: str = ""


def write_array(path: Path, array: Any) -> int:
    """Write an .npy file that is whole or absent; return its bytes."""
    return write_whole(path, lambda file: np.save(file, array))


def write_record(record: CaseRecord) -> None:
    """Keep beside a case's arrays what it took, for all later starts."""
    names = ("members", "seconds", "memory", "made_with")
    content = {name: getattr(record, name) for name in names}
    write_text_whole(record.folder / RECORD, json.dumps(content) + "\n")


def read_record(name: str, folder: Path) -> CaseRecord | None:
    """Return what a case took; None where it is not drawn."""
    members = members_of(folder / "sample.npy")
    if not members:
        return None
    try:
        known = {**json.loads((folder / RECORD).read_text("utf-8")), "members": members}
        return CaseRecord(name, folder, **known)
    except (OSError, ValueError, TypeError):
        return CaseRecord(name, folder, members)


def write_benchmark(settings: argparse.Namespace, records: Sequence[CaseRecord]) -> None:
    """Write the files for all cases that are drawn, by this start or one before."""
    folder = settings.eval_path.absolute()
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for record in sorted(records, key=lambda record: record.name):
        paths = [record.folder / f"{name}.npy" for name in ("input", "sample", "shift", "scale")]
        seconds = "" if record.seconds is None else f"{record.seconds:.3f}"
        memory = "" if record.memory is None else f"{record.memory / 2**20:.0f}"
        writer.writerow([record.name, record.folder, *paths, record.members, seconds, memory])
    write_text_whole(folder / "benchmark_cases.csv", text.getvalue())
    fields = {
        "runtime_sec": [r.seconds for r in records if r.seconds is not None],
        "gpu_peak_memory_mb": [r.memory / 2**20 for r in records if r.memory is not None],
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
    if not values:
        return {"count": 0}
    return {
        "count": len(values),
        "mean": statistics.fmean(values),
        "std": statistics.pstdev(values),
        "min": min(values),
        "max": max(values),
    }
