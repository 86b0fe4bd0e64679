"""Draw implants for defective skulls with a trained PCDiff.

Writes, for every case, <eval_path>/syn/<defect><NNN>_surf/ with input.npy (1, S, 3), sample.npy
(members, S + I, 3; the skull first), shift.npy (1, 1, 3) and scale.npy (1, 1, 1): points times
scale plus shift are voxels. trainers/voxelization/generate.py makes volumes of them.
Finished cases are
passed over, so a run that was cut short goes on; those of another network, of other settings or of
fewer members are drawn again.
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
import time
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import torch

from trainers.common.bar import bar
from trainers.common.device_flags import add_device_flags
from trainers.common.devices import describe_device, peak_memory
from trainers.common.errors import SettingsError
from trainers.common.files import content_of
from trainers.common.holding import hold_folders
from trainers.common.main_program import run_making
from trainers.common.randomness import sample_generator
from trainers.common.ranks import Ranks, from_leader, gather_from_ranks, join_ranks
from trainers.common.reporter import Reporter
from trainers.common.settings_parser import (
    SettingsParser,
    number_between,
    output_folder,
    seed_number,
    whole_number,
)
from trainers.common.stopping import StoppedError, StopRequest
from trainers.pcdiff.benchmark import (
    CaseRecord,
    read_record,
    write_array,
    write_benchmark,
    write_record,
)
from trainers.pcdiff.completing import load_network, noise_predictor
from trainers.pcdiff.data import draw_points, normalised
from trainers.pcdiff.diffusion import NOISE_SETTINGS, PointDiffusion
from trainers.pcdiff.geometry import SEARCHES
from trainers.pcdiff.model import PVCNN
from trainers.pcdiff.options import add_diffusion_flags, truth
from trainers.pcdiff.pictures import views, write_sheet
from trainers.pcdiff.samplers import METHODS, Sampling, draw
from trainers.skulls.listing import SkullSample, load_cloud, read_listing

EXAMPLES = """
python trainers/pcdiff/sample.py --path test.csv --model epoch_14999.pth --eval_path results
python trainers/pcdiff/sample.py --path test.csv --model best.pt --eval_path results --num_ens 5 \\
    --sampling_method ddim --sampling_steps 50
torchrun --nproc_per_node=8 trainers/pcdiff/sample.py --path test.csv --model best.pt \\
    --eval_path results
"""
SAVED = "input, sample, shift and scale are always saved"


def make_parser() -> SettingsParser:
    """Return the parser, with the flags of pcdiff/test_completion.py."""
    parser = SettingsParser(__doc__ or "", EXAMPLES)
    some, factor = whole_number(1), number_between(0, 100)
    add = parser.add_argument
    # fmt: off
    add("--config", type=Path, metavar="FILE", help="YAML or JSON of these settings; flags win")
    add("--path", type=Path, required=True, metavar="CSV",
        help="list of skulls, such as test.csv; or one skull's own cloud, NAME_surf.npy")
    add("--dataset", choices=("SkullBreak", "SkullFix"), help="whose layout is expected")
    add("--model", type=Path, required=True, metavar="FILE",
        help="epoch_N.pth, or a checkpoint of ours")
    add("--eval_path", type=output_folder, required=True, metavar="FOLDER",
        help="where syn/ is written")
    add("--num_ens", type=some, default=1, help="implants for each skull")
    add("--bs", type=some, default=1, help="implants drawn at a time")
    add("--sampling_method", choices=METHODS, default="ddpm", help="how they are drawn")
    add("--sampling_steps", type=some, default=1000, help="steps; ddim: 50, dpm_solver: 20")
    add("--ddim_order", type=int, choices=(1, 2), default=2,
        help="1: the paper's formula; 2: as many passes, smaller error")
    add("--num_points", type=whole_number(64), help="points of skull and implant; as trained")
    add("--num_nn", type=some, help="points of them that are the implant's; as trained")
    add("--embed_dim", type=some, help="has to agree with the checkpoint")
    add("--width_mult", type=factor, help="has to agree with the checkpoint")
    add("--vox_res_mult", type=factor, help="has to agree with the checkpoint; published: 1")
    add("--attention", type=truth, metavar="True|False", help="has to agree with the checkpoint")
    add("--neighbours", choices=SEARCHES, default="auto", help="how neighbours are found")
    add("--manualSeed", type=seed_number, default=48, help="decides points and noise")
    add("--overwrite", action="store_true", help="draw finished cases again")
    # fmt: on
    add_diffusion_flags(parser)
    # A checkpoint of ours knows them; a published one was trained with the defaults.
    parser.set_defaults(**dict.fromkeys(NOISE_SETTINGS))
    parser.refuse("--gpu", reason="choose GPUs with CUDA_VISIBLE_DEVICES")
    parser.refuse("--distr_train", reason="start it with torchrun to share the cases out")
    add_device_flags(parser, "a case is read in milliseconds, there is nothing to share out")
    parser.refuse("--dropout", reason="nothing is dropped when drawing")
    parser.refuse("--loss_type", reason="nothing is trained here")
    parser.refuse("--eval_saved", "--eval_recon_mvr", reason=SAVED)
    parser.refuse("--nc", reason="a point has three coordinates")
    return parser


def find_cases(path: Path, expected: str | None) -> list[SkullSample]:
    """Return the cases of a list, or the one case that a cloud file is.

    Raises SettingsError where a list has another layout than expected.
    """
    if path.name.endswith("_surf.npy"):
        load_cloud(path)
        name = path.name.removesuffix("_surf.npy")
        return [SkullSample(name, None, path, path, path)]
    cases = read_listing(path)
    layout = "SkullBreak" if cases[0].defect else "SkullFix"
    if expected not in (None, layout):
        raise SettingsError(f"--dataset {expected}: {path} is a list of {layout}")
    return cases


def case_folder(settings: argparse.Namespace, case: SkullSample) -> Path:
    """Return where a case's arrays go."""
    folder: Path = settings.eval_path.absolute() / "syn" / case.case
    return folder


def finished(settings: argparse.Namespace, cases: list[SkullSample], made_with: str) -> list[str]:
    """Return the cases that are not to be drawn any more; the others are dealt to the ranks."""
    if settings.overwrite:
        return []
    found = [read_record(case.case, case_folder(settings, case)) for case in cases]
    # An earlier version did not say what drew a case.
    return [
        record.name
        for record in found
        if record and record.members >= settings.num_ens and record.made_with in ("", made_with)
    ]


def drawn_with(settings: argparse.Namespace) -> str:
    """Return a text that changes with the network and whatever else decides a case's implants."""
    decided = ("sampling_method", "sampling_steps", "ddim_order", "model_var_type", "manualSeed",
               "num_points", "num_nn", "vox_res_mult", *NOISE_SETTINGS)  # fmt: skip
    given = (getattr(settings, name) for name in decided)
    return " ".join(map(str, (content_of(settings.model), *given)))


def draw_case(
    settings: argparse.Namespace,
    network: PVCNN,
    diffusion: PointDiffusion,
    case: SkullSample,
    place: int,
    ranks: Ranks,
    stop: StopRequest,
) -> dict[str, Any]:
    """Return a case's arrays: input, sample, shift, scale; raise StoppedError on request."""
    sizes, device = network.sizes, ranks.device
    chance = sample_generator(settings.manualSeed, 0, place)
    load_cloud(case.defective)
    points, shift, scale = normalised(
        draw_points(case.defective, sizes.points - sizes.implant_points, chance)
    )
    skull = torch.from_numpy(np.ascontiguousarray(points.T)).to(device)
    generator = torch.Generator(device).manual_seed(settings.manualSeed + 1_000_003 * place)
    sampling = Sampling(
        settings.sampling_method,
        settings.sampling_steps,
        settings.ddim_order,
        settings.model_var_type == "fixedlarge",
    )

    def watched(steps: Iterable[Any]) -> Iterator[Any]:
        return stop.watched(bar(steps, case.case, shown=ranks.leads))

    drawn = []
    for first in range(0, settings.num_ens, settings.bs):
        members = min(settings.bs, settings.num_ens - first)
        start = torch.randn(members, 3, sizes.implant_points, generator=generator, device=device)
        predict = noise_predictor(network, diffusion, skull)
        with torch.no_grad():
            found = draw(predict, start, diffusion, sampling, generator, watched)
        drawn.append(found.transpose(1, 2).cpu().numpy())
    implants = np.concatenate(drawn)
    beside = np.broadcast_to(points, (len(implants), *points.shape))
    return {
        "input": points[None],
        "sample": np.concatenate([beside, implants], axis=1).astype(np.float32),
        "shift": shift[None],
        "scale": scale[None],
    }


def write_case(
    arrays: dict[str, Any], network: PVCNN, case: SkullSample, record: CaseRecord
) -> Path:
    """Write a case's arrays, what it took and a picture of its implants; sample.npy comes last."""
    split, folder = network.sizes.points - network.sizes.implant_points, record.folder
    rows = {"drawn": [views(some[:split], some[split:]) for some in arrays["sample"][:6]]}
    picture = write_sheet(folder / "implants.png", dict(rows), case.case, [])
    # What is told of it is about to be replaced.
    (folder / "sample.npy").unlink(missing_ok=True)
    write_record(record)
    for name in ("input", "shift", "scale", "sample"):
        write_array(folder / f"{name}.npy", arrays[name])
    return picture


def sample(settings: argparse.Namespace, stop: StopRequest) -> int:
    """Draw implants as the settings say and return the exit code.

    Raises StoppedError once what is drawn is told, where a stop was asked for meanwhile.
    """
    ranks = join_ranks(settings.device)
    cases = find_cases(settings.path, settings.dataset)
    hold_folders(ranks, "--eval_path", settings.eval_path.absolute() / "syn")
    given = {
        "points": settings.num_points,
        "implant_points": settings.num_nn,
        "embedding": settings.embed_dim,
        "width": settings.width_mult,
        "voxels": settings.vox_res_mult,
        "attention": settings.attention,
        **{name: getattr(settings, name) for name in NOISE_SETTINGS},
    }
    network, diffusion, description = load_network(
        settings.model, given, settings.neighbours, ranks.device
    )
    log = Reporter(ranks, settings.eval_path, "pcdiff-sample", vars(settings), tensorboard=False)
    log.write(f"found        {len(cases)} cases; {description}")
    log.write(f"device       {describe_device(ranks.device)} ({ranks.reason})")
    log.write(
        f"work         {settings.num_ens} implants each, {settings.sampling_method} in"
        f" {settings.sampling_steps} steps"
    )
    network.warm_up(log.phase, (settings.num_ens, network.sizes.points))
    log.phase("validating")
    drawn, stopped = 0, False
    made_with = drawn_with(settings)
    done = from_leader(ranks, lambda: finished(settings, cases, made_with))
    for case in done:
        log.write(f"{case}  is there already")
    left = [place for place, case in enumerate(cases) if case.case not in done]
    for place in left[ranks.rank :: ranks.world]:
        case, begun = cases[place], time.monotonic()
        try:
            arrays = draw_case(settings, network, diffusion, case, place, ranks, stop)
        except StoppedError:
            stopped = True
            break
        seconds, memory = time.monotonic() - begun, peak_memory(ranks.device)
        folder = case_folder(settings, case)
        record = CaseRecord(case.case, folder, settings.num_ens, seconds, memory, made_with)
        picture = write_case(arrays, network, case, record)
        drawn += 1
        log.write(f"{case.case}  {settings.num_ens} implants in {seconds:.1f} s")
        log.image(picture, f"implants for {case.case}", place)
        log.step(1, place + 1, {"seconds_per_case": seconds}, always=True)
    everyone = sum(gather_from_ranks(drawn))
    found = (read_record(case.case, case_folder(settings, case)) for case in cases)
    if ranks.leads and (records := [record for record in found if record]):
        write_benchmark(settings, records)
    log.write(
        f"stopped on {stop.reason}" if stopped else f"results in {settings.eval_path / 'syn'}"
    )
    log.finish({"cases": float(everyone)})
    if stopped:
        raise StoppedError
    return 0


def main(arguments: list[str] | None = None) -> int:
    """Run the program; return the exit code."""
    return run_making(sample, make_parser(), arguments)


if __name__ == "__main__":
    sys.exit(main())
