"""Make implants of completed skulls with a trained voxelization network, and judge them.

    python trainers/voxelization/generate.py trainers/voxelization/configs/gen_skullbreak.yaml
    python trainers/voxelization/generate.py --path out/syn --root pcdiff/datasets/SkullBreak \\
        --model_file out/skullbreak/model_best.pt --num_ensemble 1

For each case in PATH: every member of its ensemble becomes a skull, at least half of them have to
agree on a voxel, and what the defective skull lacks at the defect is the implant. Written are
mean_impl.nrrd, implant.stl, slices.png and eval_metrics.yaml per case, benchmark_cases.csv and
benchmark_summary.json over all; the mirrored healthy side stands beside every figure. A case that
is done already is not done again.
"""

# Our own package can only be imported once sys.path is right.
# ruff: noqa: E402

from __future__ import annotations

import sys
from pathlib import Path

HERE, ROOT = Path(__file__).resolve().parent, Path(__file__).resolve().parents[2]
sys.path[:] = [str(ROOT), *(entry for entry in sys.path if Path(entry).resolve() != HERE)]

import trainers

trainers.begin(__name__)

# isort: split

import argparse
import csv
import io
import json
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from trainers.common.device_flags import add_device_flags
from trainers.common.errors import SettingsError
from trainers.common.files import content_of, write_text_whole
from trainers.common.holding import hold_folders
from trainers.common.main_program import run_making
from trainers.common.ranks import join_ranks
from trainers.common.report import EventLog, finite, run_directory
from trainers.common.settings_parser import SettingsParser, output_folder, whole_number
from trainers.common.stopping import StoppedError, StopRequest
from trainers.skulls.listing import SkullDataError
from trainers.skulls.metrics import summarise
from trainers.skulls.shaping import Shaping
from trainers.skulls.volumes import read_volume
from trainers.voxelization.cases import Output, make_implant, scores_of
from trainers.voxelization.completions import find_cases, read_completion, volume_of_case
from trainers.voxelization.config import read_config
from trainers.voxelization.reconstruction import Voxelization, load_voxelization

FIGURES = ("dice", "bdice_10mm", "hd95_mm")
OTHERS = ("mirror", "unet")
"""Whose figures stand beside: the healthy side's, and a 3-D U-Net's where one is given."""
COLUMNS = (
    "case_name", "case_dir", "mean_implant_path", "eval_metrics_path", *FIGURES,
    "runtime_sec", "gpu_peak_memory_mb", "defect",
    *(f"{other}_{name}" for other in OTHERS for name in FIGURES),
)  # fmt: skip

OVERRIDES = {
    "path": "data.path",
    "dset": "data.dset",
    "model_file": "test.model_file",
    "num_ensemble": "generation.num_ensemble",
    "psr_resolution": "generation.psr_resolution",
}


def complete(settings: argparse.Namespace) -> None:
    """Read the configuration, whose keys are `values` then; raises SettingsError."""
    changes = {key: getattr(settings, flag) for flag, key in OVERRIDES.items()}
    settings.values = read_config(settings.configuration, changes)
    for flag, key in OVERRIDES.items():
        setattr(settings, flag, settings.values[key])
    for flag in ("path", "model_file"):
        if not getattr(settings, flag):
            raise SettingsError(f"--{flag}, or {OVERRIDES[flag]} in the file, is needed")


def make_parser() -> SettingsParser:
    """Return the program's parser."""
    parser = SettingsParser(__doc__ or "", complete=complete)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    add, some = parser.add_argument, whole_number(1)
    # fmt: off
    add("configuration", nargs="?", type=Path, metavar="FILE", help="configuration, gen_*.yaml")
    add("--path", help="syn/ folder of completions (data.path)")
    add("--root", type=Path, help="data set's folder; default: two above --path, as upstream")
    add("--dset", choices=("SkullBreak", "SkullFix"), help="whose layout is expected (data.dset)")
    add("--originals", type=Path, help="SkullFix as it was before resampling, to put implants back")
    add("--model_file", help="model_best.pt, ours or the original project's (test.model_file)")
    add("--num_ensemble", type=some, help="completions of a case that vote")
    add("--psr_resolution", help="grid to solve on; the volume's own when left away")
    add("--dilation", type=whole_number(0, 8), help="voxels a skull grows; by the voxels' size")
    add("--output_dir", type=output_folder,
        help="where generation_dir goes; default: run folder or out_dir")
    add("--overwrite", action="store_true", help="do cases again that are done")
    add("--no_cuda", action="store_true", help="the same as --device cpu")
    # fmt: on
    add_device_flags(parser, "a case's arrays are read in milliseconds; use --threads")
    return parser


def shaping_of(values: dict[str, Any], defective: Path, dilation: int | None) -> Shaping:
    """Return how implants are shaped: the configuration's crop, sizes by the voxels."""
    by_size = Shaping.for_spacing(read_volume(defective).spacing)
    return Shaping(
        dilation=by_size.dilation if dilation is None else dilation,
        radius_scale=values["generation.postprocess.radius_scale"],
        crop=values["generation.postprocess.method"],
        margin=values["generation.postprocess.bbox_margin_voxels"],
        smooth=by_size.smooth,
    )


def make_all(
    cases: list[Path],
    root: Path,
    voxelization: Voxelization,
    output: Output,
    members: int,
    implant_points: int | None = None,
    overwrite: bool = False,
    stop: Callable[[], bool] = lambda: False,
    write: Callable[[str], None] = print,
) -> tuple[list[dict[str, Any]], list[str]]:
    """Make the implants of all cases; return their rows and what failed, one line each.

    A case that a stop was asked for in has no row.json, and is made anew the next time.
    """

    def pause() -> None:
        if stop():
            raise StoppedError

    rows: list[dict[str, Any]] = []
    failures: list[str] = []
    for number, folder in enumerate(cases, 1):
        saved = output.folder / folder.name / "row.json"
        made_with = f"{output.described()} {implant_points} {made_of(folder, root)}"
        done = None if overwrite else read_row(saved, made_with)
        if done is not None:
            rows.append(done)
            write(f"case {number}/{len(cases)} {folder.name}: done already")
            continue
        try:
            pause()
            write(f"case {number}/{len(cases)} {folder.name}")
            completion = read_completion(folder, members, implant_points)
            saved.unlink(missing_ok=True)  # what it tells of is about to be replaced
            row = make_implant(completion, root, voxelization, output, write, pause)
        except StoppedError:
            write(f"stopped before case {number}/{len(cases)} was done; start again to go on there")
            break
        except SkullDataError as problem:
            failures.append(str(problem))
            write(f"failed: {problem}")
            continue
        row["made_with"] = made_with
        write_text_whole(saved, json.dumps(finite_row(row)) + "\n")
        rows.append(row)
    return rows, failures


def read_row(path: Path, made_with: str) -> dict[str, Any] | None:
    """Return the row of a case that was made in the same way before, else None."""
    try:
        row: dict[str, Any] = dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None
    return row if row.get("made_with") == made_with else None


def describe_making(model: Path, *details: object) -> str:
    """Return a text that changes with the model's file and whatever else decides an implant."""
    seen = model.stat()
    return " ".join(map(str, (model, seen.st_size, seen.st_mtime_ns, *details)))


def made_of(folder: Path, root: Path) -> str:
    """Return a text that changes with a case's points, skull and true implant."""
    volumes = (volume_of_case(folder.name, root, part) for part in ("defective_skull", "implant"))
    return " ".join(content_of(path) or "none" for path in (folder / "sample.npy", *volumes))


def finite_row(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row that JSON holds: an infinite distance as text, which float() reads."""
    odd = {k: str(v) for k, v in row.items() if isinstance(v, float) and not math.isfinite(v)}
    return {**row, **odd}


def write_benchmark(
    folder: Path, rows: list[dict[str, Any]], facts: dict[str, Any]
) -> dict[str, Any]:
    """Write benchmark_cases.csv and benchmark_summary.json and return the summary."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, extrasaction="ignore", restval="")
    writer.writeheader()
    writer.writerows(rows)
    write_text_whole(folder / "benchmark_cases.csv", text.getvalue())
    judged = [row for row in rows if "dice" in row]
    summary: dict[str, Any] = {"case_count": len(rows), **facts}
    beside = [f"{other}_{name}" for other in OTHERS for name in FIGURES]
    for name in (*FIGURES, *beside, "runtime_sec"):
        found = np.array([float(row[name]) for row in rows if name in row])
        found = found[np.isfinite(found)]
        if len(found):
            summary[name] = {
                "count": len(found),
                "mean": float(found.mean()),
                "std": float(found.std()),
                "min": float(found.min()),
                "max": float(found.max()),
            }
    if judged:
        summary["per_defect"] = summarise((row["defect"], scores_of(row)) for row in judged)
        for other in OTHERS:
            theirs = [row for row in judged if f"{other}_dice" in row]
            if theirs:
                summary[f"per_defect_{other}"] = summarise(
                    (row["defect"], scores_of(row, f"{other}_")) for row in theirs
                )
    text = json.dumps(finite(summary), indent=2, allow_nan=False)
    write_text_whole(folder / "benchmark_summary.json", text + "\n")
    return summary


def print_table(summary: dict[str, Any], write: Callable[[str], None] = print) -> None:
    """Print the figures per kind of defect, the mirror's beside each."""
    if "per_defect" not in summary:
        return
    names = [other for other in OTHERS if f"per_defect_{other}" in summary]
    others = f"({', '.join(names)})"
    width = 7 * len(names) + 8
    heads = "  ".join(f"{f'{name} {others}':<{width}}" for name in ("DSC", "bDSC", "HD95 mm"))
    write(f"{'defect':<18}{'cases':>6}{'failed':>8}   {heads}")
    for kind, found in summary["per_defect"].items():
        beside = [summary[f"per_defect_{name}"][kind] for name in names]
        pairs = [
            f"{found[n]:.3f} ({', '.join(f'{other[n]:.3f}' for other in beside)})" for n in FIGURES
        ]
        columns = "  ".join(f"{pair:<{width}}" for pair in pairs)
        write(f"{kind:<18}{found['cases']:>6}{found['failed']:>8}   {columns}")
    found = summary["per_defect"]["all"]
    for name in names:
        plain = summary[f"per_defect_{name}"]["all"]
        verdict = "above" if found["dice"] > plain["dice"] else "not above"
        write(f"mean DSC {found['dice']:.4f}, {verdict} the {name} baseline's {plain['dice']:.4f}")


def report_rows(events: EventLog, rows: list[dict[str, Any]], summary: dict[str, Any]) -> None:
    """Report a panel the figures, the files and some pictures."""
    for number, row in enumerate(rows, 1):
        values = {name: float(row[name]) for name in FIGURES if name in row}
        beside = (f"{other}_{name}" for other in OTHERS for name in FIGURES)
        plain = {name: float(row[name]) for name in beside if name in row}
        events.emit("metrics", epoch=1, step=number, values={**values, **plain})
        if number <= 12:
            picture = Path(row["case_dir"]) / "slices.png"
            events.emit("image", path=picture, caption=row["case_name"])
    means = {name: summary[name]["mean"] for name in COLUMNS if name in summary}
    events.emit("summary", values=means)


def generate(settings: argparse.Namespace, stop: StopRequest) -> int:
    """Make and judge the implants; return 0, or 1 where cases failed. Raises StoppedError."""
    values, path = settings.values, Path(settings.path)
    cases = find_cases(path)
    root = settings.root or path.absolute().parents[1]
    ranks = join_ranks("cpu" if settings.no_cuda else settings.device)
    base = settings.output_dir or run_directory() or Path(values["train.out_dir"])
    folder = base.absolute() / values["generation.generation_dir"]
    hold_folders(ranks, "--output_dir", folder)
    voxelization = load_voxelization(
        Path(settings.model_file), values if settings.configuration else None, ranks.device
    )
    if settings.psr_resolution:
        voxelization.resolution = settings.psr_resolution
    first = read_completion(cases[0], 1)
    layout = "SkullBreak" if first.defect else "SkullFix"
    if settings.dset and settings.dset != layout:
        raise SettingsError(f"--dset {settings.dset}: {cases[0].name} is a case of {layout}")
    output = Output(
        folder,
        metrics=values["generation.compute_eval_metrics"],
        members=values["generation.save_ensemble_implants"],
        clouds=values["generation.exp_input"],
        truth=values["generation.exp_gt"],
        shaping=shaping_of(values, first.volume(root, "defective_skull"), settings.dilation),
        originals=settings.originals,
        made_with=describe_making(
            Path(settings.model_file),
            settings.num_ensemble,
            voxelization.resolution,
            voxelization.sigma,
            voxelization.level,
        ),
    )
    print(f"found        {len(cases)} cases of {layout} in {path}; data set in {root}")
    print(f"device       {ranks.device} ({ranks.reason})")
    print(f"output       {folder}")
    events = EventLog(run_directory())
    events.emit("start", epochs=1, steps=len(cases), settings={"cases": len(cases)})
    rows, failures = make_all(
        cases,
        root,
        voxelization,
        output,
        settings.num_ensemble,
        values["generation.defect_point_count"],
        settings.overwrite,
        stop.asked,
    )
    facts = {"ensemble_size": settings.num_ensemble, "failures": failures}
    summary = write_benchmark(folder, rows, facts)
    print_table(summary)
    report_rows(events, rows, summary)
    return all_made(cases, rows, failures)


def all_made(cases: Sequence[object], rows: Sequence[object], failures: Sequence[object]) -> int:
    """Return 0, or 1 where cases failed; raise StoppedError where some were not come to."""
    if len(rows) + len(failures) < len(cases):
        raise StoppedError
    return 1 if failures else 0


def main(arguments: list[str] | None = None) -> int:
    """Run the program; return 0 when all is made, 1 where cases failed, 2 for a bad setting."""
    return run_making(generate, make_parser(), arguments)


if __name__ == "__main__":
    sys.exit(main())
