"""Judge the whole way on a test list, and print our figures beside the published ones.

    python trainers/implants/evaluate.py --path test.csv --train_path train.csv --num_ens 5 \\
        --pcdiff best.pt --voxelizer model_best.pt --unet unet/checkpoints/best.pt
    python trainers/implants/evaluate.py --made_up 3 --completions true --voxelizer model_best.pt

All flags of implant.py, whose work it does first where it is not done; --results FOLDER only prints
what was done before. Published figures are quoted (published.py), never measured here, and stand
under their own heading; a list that is not the protocol's is said not to be comparable.
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
import math
from collections.abc import Iterable, Mapping

from trainers.common.errors import SettingsError, read_as
from trainers.common.files import write_text_whole
from trainers.common.main_program import run_making
from trainers.common.settings_parser import SettingsParser
from trainers.common.stopping import StopRequest
from trainers.implants import implant
from trainers.implants.published import PROTOCOLS, Protocol
from trainers.skulls.listing import SkullSample, check_split, read_listing
from trainers.skulls.metrics import Scores, summarise

OURS = {"": "PCDiff and voxelization", "mirror_": "mirrored healthy side", "unet_": "3D U-Net"}
"""What a prefix of the table's columns stands for."""
FIGURES = ("dice", "bdice_10mm", "hd95_mm")


def make_parser() -> SettingsParser:
    """Return the program's parser: implant.py's, and what is only judged."""
    parser = implant.make_parser()
    parser.description = __doc__
    # fmt: off
    parser.add_argument("--results", type=Path, help="folder of implants made before: only print")
    parser.add_argument("--train_path", type=Path,
        help="the list trained on: a skull in both lists is refused")
    parser.add_argument("--dataset", choices=tuple(PROTOCOLS),
        help="whose published table; by the cases' names")
    # fmt: on
    return parser


def read_cases(folder: Path) -> list[dict[str, str]]:
    """Return the rows of a folder's benchmark_cases.csv that were judged; raise SettingsError."""
    path = folder / "benchmark_cases.csv"
    with read_as(path, "a table of cases"):
        with path.open(newline="", encoding="utf-8") as file:
            rows = [row for row in csv.DictReader(file) if row.get("dice")]
        for row in rows:
            _ = row["case_name"], row["defect"], [scores_of(row, prefix) for prefix in OURS]
    if not rows:
        raise SettingsError(f"{path}: no case was judged: the true implants' volumes are missing")
    return rows


def scores_of(row: Mapping[str, str], prefix: str) -> Scores | None:
    """Return a row's figures of the method with a prefix; None where it was not judged by it."""
    if not row.get(f"{prefix}dice"):
        return None
    return Scores(*(float(row[f"{prefix}{figure}"]) for figure in FIGURES))


def protocol_sentence(
    rows: list[dict[str, str]], protocol: Protocol, training: list[SkullSample]
) -> str:
    """Return whether cases and training list are those of the published table, and what differs."""
    subjects = {row["case_name"].removeprefix(row["defect"]) for row in rows}
    defects = {row["defect"] for row in rows}
    found = len(subjects), len(defects), len(rows)
    wanted = (protocol.test_skulls, protocol.defects, protocol.test_skulls * protocol.defects)
    differing = []
    if found != wanted:
        differing.append(
            f"{found[2]} cases of {found[0]} skulls with {found[1]} kinds of defect, and not"
            f" {wanted[2]} of {wanted[0]} with {wanted[1]}"
        )
    skulls = len({sample.subject for sample in training})
    if training and skulls != protocol.training_skulls:
        differing.append(f"trained on {skulls} skulls, and not {protocol.training_skulls}")
    if not training:
        differing.append("what was trained on is not said (--train_path)")
    if differing:
        return f"NOT the published protocol: {'; '.join(differing)}. Do not compare the numbers."
    return "Cases and training list are as many as the published protocol's."


def table(rows: list[dict[str, str]], protocol: Protocol, name: str) -> list[str]:
    """Return Markdown rows: ours by method, then the published ones under their own heading."""
    lines = [f"| {name}: method | cases | DSC | bDSC 10 mm | HD95 mm |", "|---|---|---|---|---|"]
    for prefix, method in OURS.items():
        judged = [("all", scores) for row in rows if (scores := scores_of(row, prefix))]
        if judged:
            found = summarise(judged)["all"]
            lines.append(_row(f"{method} (here)", len(judged), (found[name] for name in FIGURES)))
    lines.append("| **published, not measured here** | | | | |")
    for row in protocol.rows:
        figures = (row.dice, row.bdice_10mm, row.hd95_mm)
        lines.append(_row(f"{row.method} ({row.source})", None, figures))
    return lines


def _row(method: str, cases: int | None, figures: Iterable[float]) -> str:
    """Return a row of the table; published figures stand with the digits they were given."""
    form = "{:.3f}" if cases else "{:g}"
    cells = ["–" if math.isnan(figure) else form.format(figure) for figure in figures]
    return f"| {method} | {cases or ''} | {' | '.join(cells)} |"


def evaluate(settings: argparse.Namespace, stop: StopRequest) -> int:
    """Make what is missing, print and write the table; return and raise what implant.py would."""
    training = read_listing(settings.train_path) if settings.train_path else []
    if training and settings.path:
        check_split(training, read_listing(settings.path))
    code, folder = 0, settings.results
    if folder is None:
        code, folder = implant.make_implants(settings, stop), implant.implants_folder(settings)
    rows = read_cases(folder)
    name = settings.dataset or ("SkullFix" if rows[0]["defect"] == "all" else "SkullBreak")
    protocol = PROTOCOLS[name]
    data = "Made-up skulls. " if settings.made_up else ""
    lines = [*table(rows, protocol, name), "", data + protocol_sentence(rows, protocol, training)]
    print("\n".join(["", *lines]))
    write_text_whole(folder / "evaluation.md", "\n".join(lines) + "\n")
    return code


def main(arguments: list[str] | None = None) -> int:
    """Run the program; return 0 when all is made and judged, 1 cases failed, 2 bad setting."""
    return run_making(evaluate, make_parser(), arguments)


if __name__ == "__main__":
    sys.exit(main())
