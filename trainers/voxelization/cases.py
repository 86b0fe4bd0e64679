"""One case from its completions to an implant on disk, with figures where the truth is known."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml

from trainers.common.devices import peak_memory
from trainers.common.files import write_text_whole
from trainers.common.preview import write_preview
from trainers.skulls.listing import SkullDataError
from trainers.skulls.metrics import Scores, score
from trainers.skulls.mirror import mirror_implant
from trainers.skulls.resampling import Placement, placement_path, read_placement, restore
from trainers.skulls.shaping import Shaping, cut_out, largest, vote
from trainers.skulls.surfaces import surface_mesh
from trainers.skulls.volumes import Volume, axes_of, read_volume, write_volume
from trainers.voxelization.completions import Completion
from trainers.voxelization.mesh_files import write_cloud, write_mesh
from trainers.voxelization.reconstruction import Voxelization


@dataclass(frozen=True)
class Output:
    """What to write for a case, and how implants are shaped (None: by the voxels' size).

    `made_with` names model and ensemble; a case made with others is made again. `rivals` are other
    ways to an implant, by name, judged beside: from a defective skull's mask to the implant's.
    """

    folder: Path
    metrics: bool = True
    members: bool = False
    clouds: bool = True
    truth: bool = False
    shaping: Shaping | None = None
    originals: Path | None = None
    made_with: str = ""
    rivals: Mapping[str, Callable[[np.ndarray], np.ndarray]] = field(default_factory=dict)

    def described(self) -> str:
        """Return a text that changes with what is written and how, but not with where to."""
        return repr(replace(self, folder=Path(), rivals=dict.fromkeys(self.rivals)))


def make_implant(
    case: Completion,
    root: Path,
    voxelization: Voxelization,
    output: Output,
    write: Callable[[str], None] = print,
    pause: Callable[[], None] = lambda: None,
) -> dict[str, Any]:
    """Write mean_impl.nrrd, implant.stl and pictures of a case; return its row of figures.

    The root has the data set's defective skulls, and its implants where figures are wanted; pause
    is called before each part that takes long, and may raise.
    """
    begun = time.monotonic()
    folder = output.folder / case.name
    defective = read_volume(case.volume(root, "defective_skull"))
    shape = defective.mask.shape
    shaping = output.shaping or Shaping.for_spacing(defective.spacing)
    skulls = []
    for number, cloud in enumerate(case.clouds, 1):
        pause()
        write(f"Sampling step [{number}/{len(case.clouds)}] ...")
        skulls.append(voxelization.skull(cloud, (shape[0], shape[1], shape[2]), number))
    points = np.concatenate(case.implants)
    outside = float(((points < 0) | (points > np.array(shape))).any(axis=1).mean())
    if outside > 0.5:
        write(f"{outside:.0%} of the implant's points lie outside the volume: is PCDiff trained?")
    pause()
    implant = cut_out(vote(skulls, shaping.dilation), defective.mask, points, shaping)
    if output.members:
        for number, (skull, own) in enumerate(zip(skulls, case.implants, strict=True)):
            pause()
            member = cut_out(vote([skull], shaping.dilation), defective.mask, own, shaping)
            write_volume(folder / f"impl_{number}.nrrd", member, defective.spacing, defective.place)
    if output.clouds:
        write_cloud(folder / "input.ply", case.clouds[0])
    truth_path = case.volume(root, "implant")
    truth = read_volume(truth_path) if output.metrics and truth_path.is_file() else None
    if output.originals is not None:
        where = read_placement(placement_path(case.volume(root, "complete_skull")))
        implant, defective, truth = _put_back(case, implant, where, output.originals)
    path = folder / "mean_impl.nrrd"
    write_volume(path, implant, defective.spacing, defective.place)
    write_stl(folder / "implant.stl", replace(defective, mask=implant))
    row: dict[str, Any] = {
        "case_name": case.name,
        "defect": case.defect or "all",
        "case_dir": str(folder),
        "mean_implant_path": str(path),
        "eval_metrics_path": "",
        "runtime_sec": time.monotonic() - begun,
        "gpu_peak_memory_mb": _gpu_peak(voxelization.device),
    }
    if truth is not None:
        row |= _judge_all(folder, implant, truth, defective, output, write, pause)
    _picture(folder / "slices.png", case, implant, truth, defective)
    return row


def _judge_all(
    folder: Path,
    implant: np.ndarray,
    truth: Volume,
    defective: Volume,
    output: Output,
    write: Callable[[str], None],
    pause: Callable[[], None],
) -> dict[str, Any]:
    """The figures of an implant and of its rivals."""
    pause()
    row = _judge(folder, implant, truth, defective, write)
    for name, way in output.rivals.items():
        pause()
        other = way(defective.mask)
        write_volume(folder / f"{name}_impl.nrrd", other, defective.spacing, defective.place)
        found = score(other, truth.mask, defective.mask, defective.spacing)
        figures = f"{found.dice:.4f}   10mm {found.bdice_10mm:.4f}   HD95 {found.hd95_mm:.3f}"
        write(f"{name}: Dice {figures}")
        row |= {f"{name}_{figure}": value for figure, value in asdict(found).items()}
    if output.truth:
        write_volume(folder / "true_impl.nrrd", truth.mask, truth.spacing, truth.place)
    return row


def _judge(
    folder: Path,
    implant: np.ndarray,
    truth: Volume,
    defective: Volume,
    write: Callable[[str], None],
) -> dict[str, Any]:
    """Write eval_metrics.yaml and return the implant's figures and the mirror's."""
    if truth.mask.shape != defective.mask.shape:
        raise SkullDataError(
            f"{folder.name}: the implant's volume has shape {truth.mask.shape}, the defective"
            f" skull's {defective.mask.shape}"
        )
    if len({axes_of(place) for place in (truth.place, defective.place) if place}) > 1:
        raise SkullDataError(
            f"{folder.name}: the axes of the implant's volume run {axes_of(truth.place)}, the"
            f" defective skull's {axes_of(defective.place)}"
        )
    write(f"Compute eval metrics for: {folder}")
    write(f"Voxelspacing: {list(defective.spacing)}")
    found = score(implant, truth.mask, defective.mask, defective.spacing)
    mirrored = mirror_implant(defective.mask, defective.spacing)
    plain = score(mirrored, truth.mask, defective.mask, defective.spacing)
    write(f"Dice score: {found.dice:.4f}   mirror {plain.dice:.4f}")
    write(f"Boundary dice (10mm): {found.bdice_10mm:.4f}   mirror {plain.bdice_10mm:.4f}")
    write(f"95 percentile Hausdorff distance: {found.hd95_mm:.3f}   mirror {plain.hd95_mm:.3f}")
    if found.dice < plain.dice:
        write("below the mirror baseline: this implant shows nothing learnt")
    path = folder / "eval_metrics.yaml"
    table = {
        "dice": found.dice,
        "bdice": found.bdice_10mm,
        "bdice_10mm": found.bdice_10mm,
        "haussdorf95": found.hd95_mm,
        "hd95_mm": found.hd95_mm,
        "mirror": asdict(plain),
    }
    write_text_whole(path, yaml.safe_dump(table, sort_keys=False))
    mirror_row = {f"mirror_{name}": value for name, value in asdict(plain).items()}
    return {"eval_metrics_path": str(path), **asdict(found), **mirror_row}


def scores_of(row: dict[str, Any], prefix: str = "") -> Scores:
    """Return the figures of a case's row, or with the prefix `mirror_` or `unet_` another's."""
    names = ("dice", "bdice_10mm", "hd95_mm")
    return Scores(*(float(row[f"{prefix}{name}"]) for name in names))


def write_stl(path: Path, volume: Volume) -> bool:
    """Write a volume's surface in mm as a closed STL mesh; return whether there was any."""
    if not volume.mask.any():
        path.unlink(missing_ok=True)
        return False
    vertices, faces = surface_mesh(volume.mask, 0.5)
    write_mesh(path, volume.in_mm(vertices), faces)
    return True


def _put_back(
    case: Completion, implant: np.ndarray, where: Placement, originals: Path
) -> tuple[np.ndarray, Volume, Volume | None]:
    """Return the implant, defective skull and truth in the shape the volumes had before."""
    defective = read_volume(case.volume(originals, "defective_skull"))
    truth = case.volume(originals, "implant")
    return (
        largest(restore(implant, where)),
        defective,
        read_volume(truth) if truth.is_file() else None,
    )


def _gpu_peak(device: torch.device) -> float:
    return peak_memory(device) / 2**20 if device.type == "cuda" else 0.0


def _picture(
    path: Path, case: Completion, implant: np.ndarray, truth: Volume | None, defective: Volume
) -> None:
    """Draw the slices along each axis that hold most of the implant."""
    shown = truth.mask if truth is not None and truth.mask.any() else implant
    columns: list[np.ndarray] = []
    for axis in range(3):
        amount = shown.sum(axis=tuple(other for other in range(3) if other != axis))
        place = int(np.argmax(amount))
        bone = np.take(defective.mask, place, axis)
        colours = np.repeat(bone[..., None] * 0.55, 3, -1).astype(np.float32)
        found = np.take(implant, place, axis)
        colours[found] = (0.9, 0.3, 0.2)
        if truth is not None:
            true = np.take(truth.mask, place, axis)
            colours[true & ~found] = (0.2, 0.4, 0.95)
            colours[true & found] = (0.25, 0.8, 0.35)
        columns.append(colours.transpose(1, 0, 2)[::-1])
    title = f"{case.name}: green right, red too much, blue missing"
    write_preview(path, {"implant": columns}, title, ["axis 0", "axis 1", "axis 2"])
