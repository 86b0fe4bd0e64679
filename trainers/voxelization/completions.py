"""Generated completions: what PCDiff's sampling writes for each case, read back as points.

A case's folder `<defect><NNN>_surf` has input.npy (1, S, 3), sample.npy (members, N, 3), shift.npy
and scale.npy; points times scale plus shift are voxel indices. sample.npy holds the skull's points
first and the implant's last; files with the implant alone are completed by input.npy.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from trainers.skulls.listing import DEFECTS, SkullDataError
from trainers.voxelization.data import from_box, read_array

CASE = re.compile(rf"({'|'.join(DEFECTS)})?(.+)_surf")


@dataclass(frozen=True)
class Completion:
    """One case: whole clouds (N, 3) of each member and their implants' points, in voxel indices."""

    name: str
    defect: str | None
    subject: str
    clouds: list[np.ndarray]
    implants: list[np.ndarray]

    def volume(self, root: Path, folder: str) -> Path:
        """Return the case's volume in one of a data set's folders."""
        return volume_of_case(self.name, root, folder)


def volume_of_case(name: str, root: Path, folder: str) -> Path:
    """Return the volume of a case's name in one of a data set's folders."""
    match = CASE.fullmatch(name)
    defect, subject = match.groups() if match else (None, name)
    inner = root / folder if folder == "complete_skull" else root / folder / (defect or "")
    return inner / f"{subject}.nrrd"


def find_cases(folder: Path) -> list[Path]:
    """Return the case folders in a syn/ folder; raises SkullDataError where there are none."""
    found = sorted(path for path in folder.glob("*_surf") if CASE.fullmatch(path.name))
    if not found:
        raise SkullDataError(
            f"{folder}: holds no completions such as bilateral070_surf; make them with"
            " trainers/pcdiff/sample.py"
        )
    return found


def read_completion(folder: Path, members: int, implant_points: int | None = None) -> Completion:
    """Return a case with at most `members` of its ensemble.

    implant_points says how many of the last points are the implant's where input.npy does not.
    Raises SkullDataError for missing or damaged files and for shapes that do not fit.
    """
    match = CASE.fullmatch(folder.name)
    if match is None:
        raise SkullDataError(f"{folder}: is not named <defect><NNN>_surf")
    arrays = {}
    for name in ("input", "sample", "shift", "scale"):
        path = folder / f"{name}.npy"
        if not path.is_file():
            raise SkullDataError(f"{path} is missing: complete this case again")
        arrays[name] = read_array(path)
    skull, samples = arrays["input"], arrays["sample"]
    if skull.ndim not in (2, 3) or skull.shape[-1] != 3 or not skull.size:
        raise SkullDataError(f"{folder / 'input.npy'}: shape {skull.shape}; expected (1, S, 3)")
    skull = skull.reshape(-1, 3)
    if samples.ndim != 3 or samples.shape[2] != 3 or not samples.shape[1]:
        raise SkullDataError(f"{folder / 'sample.npy'}: shape {samples.shape}; expected (n, N, 3)")
    if members > len(samples):
        raise SkullDataError(
            f"{folder / 'sample.npy'}: holds {len(samples)} completions and {members} are asked for"
        )
    whole = samples.shape[1] > len(skull)
    count = implant_points or (samples.shape[1] - len(skull) if whole else samples.shape[1])
    clouds, implants = [], []
    for sample in samples[:members]:
        cloud = sample if whole else np.concatenate([skull, sample])
        cloud = from_box(cloud, arrays["shift"], arrays["scale"], folder / "sample.npy")
        cloud = cloud.astype(np.float32)
        clouds.append(cloud)
        implants.append(cloud[-count:])
    return Completion(folder.name, match[1], match[2], clouds, implants)
