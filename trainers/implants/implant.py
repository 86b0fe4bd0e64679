"""From defective skulls to implants: complete their points, voxelize, subtract, judge, mesh.

    python trainers/implants/implant.py --path pcdiff/datasets/SkullBreak/test.csv \\
        --pcdiff pcdiff_best.pt --voxelizer model_best.pt --num_ens 5 --output_dir implants
    python trainers/implants/implant.py --made_up 3 --completions true --voxelizer model_best.pt

Each defective skull gets n completions (trainers/pcdiff/sample.py), each of them a volume, and
their vote an implant: mean_impl.nrrd, implant.stl and slices.png, with DSC, 10 mm boundary DSC and
HD95 beside those of the mirrored healthy side, and of a 3-D U-Net (--unet), per kind of defect.
`--completions true` uses the true implants' points, to judge the voxelizer alone. Started again, it
goes on where it was.
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
from collections.abc import Callable

import numpy as np

from trainers.common.device_flags import add_device_flags
from trainers.common.errors import SettingsError
from trainers.common.files import write_text_whole
from trainers.common.holding import hold_folders
from trainers.common.main_program import run_making
from trainers.common.ranks import Ranks, join_ranks
from trainers.common.report import EventLog, run_directory
from trainers.common.settings_parser import SettingsParser, output_folder, seed_number, whole_number
from trainers.common.stopping import StopRequest, Watched
from trainers.implants.completing import SAMPLE, complete_truly, missing_cases, run_program
from trainers.implants.trained_models import AUTO, SHIPPED, find_model
from trainers.implants.unet import TRAINER, load_unet
from trainers.skulls.listing import (
    LIST_HEAD,
    SkullSample,
    check_clouds,
    check_volumes,
    csv_text,
    read_listing,
)
from trainers.skulls.made_up import make_up
from trainers.voxelization.cases import Output
from trainers.voxelization.generate import (
    all_made,
    describe_making,
    make_all,
    print_table,
    report_rows,
    write_benchmark,
)
from trainers.voxelization.reconstruction import Voxelization, load_voxelization

MADE_WITH = "drawn_with.txt"
"""Beside syn/: what its completions were drawn with."""
Way = Callable[[np.ndarray], np.ndarray]
MADE_UP_SEED = 7_000
"""Seed of the skulls made up here, so that they are none a model was trained on by default."""


def make_parser() -> SettingsParser:
    """Return the program's parser."""
    parser = SettingsParser(__doc__ or "")
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    add, some = parser.add_argument, whole_number(1)
    # fmt: off
    add("--path", type=Path, help="list of skulls, such as test.csv")
    add("--made_up", type=whole_number(2), metavar="N", help="instead: make N skulls up")
    add("--made_up_size", type=whole_number(24, 512), default=64, help="voxels of their sides (64)")
    add("--limit", type=some, help="only the first so many cases")
    add("--pcdiff", default=AUTO, help="checkpoint; auto: the newest of runs beside this one")
    add("--voxelizer", default=AUTO, help="checkpoint; auto: the newest of runs beside this one")
    add("--unet", metavar="FILE|auto",
        help="a checkpoint of trainers/implants/train_unet.py, judged beside; auto: the newest")
    add("--shipped", action="store_true",
        help="where auto finds none: small models that come with this program, of made-up skulls")
    add("--completions", choices=("pcdiff", "true"), default="pcdiff",
        help="pcdiff, or the true implant's points, which no model has at hand")
    add("--num_ens", type=some, default=1, help="completions of each skull (1)")
    add("--sampling_method", choices=("ddpm", "ddim", "dpm_solver"), default="ddim", help="(ddim)")
    add("--sampling_steps", type=some, default=50, help="(50)")
    add("--seed", type=seed_number, default=48, help="of the completions (48)")
    add("--output_dir", type=output_folder, default=run_directory() or Path("implants"),
        help="results")
    add("--members", action="store_true", help="write each completion's own implant too")
    # fmt: on
    add_device_flags(parser, workers_help="processes that make skulls up; 0: this one does")
    return parser


def find_samples(
    settings: argparse.Namespace, watched: Watched = iter
) -> tuple[list[SkullSample], Path]:
    """Return the cases and the data set's folder; raises SettingsError for data that are bad."""
    if (settings.path is None) == (settings.made_up is None):
        raise SettingsError("name a list with --path, or try --made_up 3")
    listing: Path = settings.path
    if settings.made_up is not None:
        root = settings.output_dir.absolute() / "made_up"
        # One skull more than asked for: a set needs a training part.
        count, size = settings.made_up + 1, settings.made_up_size
        print(f"loading      making up {count} skulls in {root}")
        held, seed = settings.made_up, MADE_UP_SEED
        workers = settings.workers
        make_up(root, count, size, held_out=held, seed=seed, workers=workers, watched=watched)
        listing = root / "test.csv"
    samples = read_listing(listing)[: settings.limit]
    check_clouds(samples)
    roots = {sample.complete.parents[1] for sample in samples}
    if len(roots) > 1:
        raise SettingsError(
            f"{listing}: its skulls lie in {len(roots)} folders; use a list for each"
        )
    check_volumes(samples, ["defective"])
    return samples, roots.pop()


def drawn_with(model: Path, settings: argparse.Namespace) -> str:
    """Return a text that changes with whatever decides a completion."""
    details = (settings.sampling_method, settings.sampling_steps, settings.seed)
    return describe_making(model, *details)


def made_with(folder: Path) -> str:
    """Return what the completions in a syn/ folder were drawn with, or nothing."""
    try:
        return (folder.parent / MADE_WITH).read_text(encoding="utf-8")
    except OSError:
        return ""


def existing_model(settings: argparse.Namespace, which: str) -> Path | None:
    """Return a model's checkpoint where there is one, named, beside this run or shipped."""
    trainer = {"voxelizer": "voxelization"}.get(which, which)
    found = find_model(getattr(settings, which), trainer, f"--{which}")
    return found or (SHIPPED[trainer] if settings.shipped else None)


def need_model(settings: argparse.Namespace, which: str) -> Path:
    """Return a model's checkpoint; raises SettingsError where there is none."""
    found = existing_model(settings, which)
    if found is None:
        raise SettingsError(
            f"--{which} auto: no run beside this one has a checkpoint; launch skull-both or"
            f" skull-both-tiny first, name a file with --{which}, or use --shipped"
        )
    return found


def find_rivals(settings: argparse.Namespace, ranks: Ranks) -> tuple[Path | None, dict[str, Way]]:
    """Return the U-Net's checkpoint and other ways to an implant by name, where one is asked for.

    Raises SettingsError where `auto` finds none.
    """
    if settings.unet is None:
        return None, {}
    path = find_model(settings.unet, TRAINER, "--unet")
    if path is None:
        raise SettingsError("--unet auto: no run beside this one trained one; launch skull-unet")
    return path, {TRAINER: load_unet(path, ranks.device).implant}


def complete(
    settings: argparse.Namespace,
    samples: list[SkullSample],
    folder: Path,
    stop: StopRequest,
    voxelization: Voxelization,
) -> None:
    """Write the completions that are missing; raise StoppedError where a stop was asked for."""
    if settings.completions == "true":
        implant = voxelization.points // 10
        complete_truly(samples, folder, voxelization.points - implant, implant)
        return
    before, known = made_with(folder), existing_model(settings, "pcdiff")
    if known is not None and before not in ("", drawn_with(known, settings)):
        print("completions  were drawn with other settings: all are drawn again")
        # Before it is noted what the others are drawn with: a stop must not leave some of both.
        for drawn in folder.glob("*/sample.npy"):
            drawn.unlink()
    missing = missing_cases(samples, folder, settings.num_ens)
    for sample in missing:
        # One with too few members would be taken as drawn.
        (folder / sample.case / "sample.npy").unlink(missing_ok=True)
    if not missing:
        print("completions  all there already")
        return
    model = need_model(settings, "pcdiff")
    write_text_whole(folder.parent / MADE_WITH, drawn_with(model, settings))
    print(f"completions  {len(missing)} cases by {model}")
    listing = folder.parent / "to_complete.csv"
    listing.parent.mkdir(parents=True, exist_ok=True)
    # Those that are there too, which are left alone: a case is drawn by its place in the list. But
    # no others, as a list of skulls has, each with all of its defects.
    rows = [(case.defective, case.implant, case.defect or "", case.name) for case in samples]
    listing.write_text(csv_text([LIST_HEAD, *rows]), encoding="utf-8")
    command = [
        *(str(SAMPLE), "--path", str(listing), "--model", str(model)),
        *("--dataset", "SkullBreak" if samples[0].defect else "SkullFix"),
        *("--num_ens", str(settings.num_ens), "--eval_path", str(folder.parent)),
        *("--sampling_method", settings.sampling_method),
        *("--sampling_steps", str(settings.sampling_steps)),
        *("--manualSeed", str(settings.seed), "--device", settings.device),
        *("--threads", str(settings.threads)),
    ]
    run_program(command, stop.asked, folder.parent / "sampling")


def implants_folder(settings: argparse.Namespace) -> Path:
    """Return the folder of implants and figures."""
    output: Path = settings.output_dir.absolute()
    return output / ("implants_true" if settings.completions == "true" else "implants")


def make_implants(settings: argparse.Namespace, stop: StopRequest) -> int:
    """Run the pipeline; return 0, or 1 where cases failed. Raises StoppedError."""
    ranks: Ranks = join_ranks(settings.device)
    output, folder = settings.output_dir.absolute(), implants_folder(settings)
    hold_folders(ranks, "--output_dir", folder)
    events = EventLog(run_directory())
    events.emit("phase", phase="loading", text="skulls")
    if settings.made_up:
        # Making skulls up takes its time: what is not there is said before.
        need_model(settings, "voxelizer")
        existing_model(settings, "pcdiff")
    samples, root = find_samples(settings, stop.watched)
    print(f"found        {len(samples)} defective skulls in {root}")
    print(f"device       {ranks.device} ({ranks.reason})")
    events.emit("start", epochs=1, steps=len(samples), settings={"cases": len(samples)})
    voxelizer = need_model(settings, "voxelizer")
    print(f"voxelizer    {voxelizer}")
    voxelization = load_voxelization(voxelizer, None, ranks.device)
    unet, rivals = find_rivals(settings, ranks)
    syn = output / ("completions_true" if settings.completions == "true" else "completions") / "syn"
    complete(settings, samples, syn, stop, voxelization)
    truly = settings.completions == "true"
    members = 1 if truly else settings.num_ens
    rows, failures = make_all(
        [syn / sample.case for sample in samples],
        root,
        voxelization,
        Output(
            folder,
            members=settings.members,
            made_with=describe_making(
                voxelizer, members, made_with(syn), *([describe_making(unet)] if unet else [])
            ),
            rivals=rivals,
        ),
        members,
        stop=stop.asked,
    )
    facts = {"ensemble_size": settings.num_ens, "completions": settings.completions}
    summary = write_benchmark(folder, rows, {**facts, "failures": failures})
    print_table(summary)
    report_rows(events, rows, summary)
    print(f"implants     {folder}")
    return all_made(samples, rows, failures)


def main(arguments: list[str] | None = None) -> int:
    """Run the program; return 0 when all is made, 1 where cases failed, 2 for a bad setting."""
    return run_making(make_implants, make_parser(), arguments)


if __name__ == "__main__":
    sys.exit(main())
