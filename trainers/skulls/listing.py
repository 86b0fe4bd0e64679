"""Lists of skulls: the CSV files of SkullBreak and SkullFix, and the point clouds they stand for.

Layout and list formats are those of the pcdiff-implant project (MIT), in both of its generations:
rows such as `complete_skull/070_surf.npy`, relative to the list's folder, and rows such as
`datasets/SkullBreak/complete_skull/070.nrrd`, relative to the working directory. The four columns
`defective,implant,defect_type,name` of its helper script are read as well.
"""

from __future__ import annotations

import csv as csv_files
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import quote

import numpy as np

from trainers.common.files import DAMAGED
from trainers.common.settings_parser import SettingsError

DEFECTS = ("bilateral", "frontoorbital", "parietotemporal", "random_1", "random_2")
"""The five kinds of defect of SkullBreak, in the order of their numbers."""

LIST_HEAD = ("defective", "implant", "defect_type", "name")
"""The first row of a list of cases, which has four columns."""

FOLDERS = ("complete_skull", "defective_skull", "implant")
PREPARE = "python trainers/skulls/prepare.py --root"


class SkullDataError(SettingsError):
    """Skull data that cannot be used; the text names the file and what to do."""


@dataclass(frozen=True)
class SkullSample:
    """One defect of one skull: three `_surf.npy` clouds of (N, 3) points in voxel indices."""

    name: str
    defect: str | None
    complete: Path
    defective: Path
    implant: Path

    @property
    def subject(self) -> str:
        """The skull's number, which all of its defects share."""
        return self.complete.name.removesuffix("_surf.npy")

    @property
    def case(self) -> str:
        """The name of its folder among generated completions, `<defect><NNN>_surf`."""
        return f"{self.defect or ''}{self.subject}_surf"


def volume_of(cloud: Path) -> Path:
    """Return the NRRD volume beside a `_surf.npy` cloud."""
    return cloud.with_name(cloud.name.removesuffix("_surf.npy") + ".nrrd")


def cloud_of(volume: Path) -> Path:
    """Return the `_surf.npy` cloud beside an NRRD volume; a cloud's path is returned as it is."""
    name = volume.name
    for suffix in ("_surf.npy", ".nrrd", ".npy"):
        if name.endswith(suffix):
            return volume.with_name(name.removesuffix(suffix) + "_surf.npy")
    raise SkullDataError(f"{volume}: expected a name that ends in .nrrd or _surf.npy")


def defects_in(root: Path) -> tuple[str | None, ...]:
    """Return the kinds of defect under root: SkullBreak's five, or (None,) for SkullFix."""
    found = [kind for kind in DEFECTS if (root / "defective_skull" / kind).is_dir()]
    if not found:
        return (None,)
    missing = sorted(set(DEFECTS) - set(found))
    if missing:
        raise SkullDataError(
            f"{root / 'defective_skull'}: the folder of defect {missing[0]} is missing;"
            f" SkullBreak has {', '.join(DEFECTS)}"
        )
    return DEFECTS


def read_listing(csv: Path) -> list[SkullSample]:
    """Return the samples of a list: five for each SkullBreak row, one for each SkullFix row.

    Raises SkullDataError for a list that is missing, empty or badly formed, for a row listed
    twice, and for clouds that do not exist.
    """
    rows = rows_of(csv)
    if rows[0][0].strip() == "defective" and len(rows[0]) == 4:
        samples = [_from_columns(csv, number, row) for number, row in enumerate(rows[1:], 2)]
    else:
        samples = [
            sample for number, row in enumerate(rows, 1) for sample in _from_row(csv, number, row)
        ]
    if not samples:
        raise SkullDataError(f"{csv}: the list has a header and no rows")
    seen: set[str] = set()
    for sample in samples:
        if sample.name in seen:
            raise SkullDataError(f"{csv}: {sample.name} is listed twice; remove one of the rows")
        seen.add(sample.name)
        for path in (sample.complete, sample.defective, sample.implant):
            if not path.is_file():
                raise SkullDataError(_absent(csv, path))
    return samples


def rows_of(csv: Path) -> list[list[str]]:
    """Return a list's rows. Raises SkullDataError where it is missing, empty or no text."""
    if csv.is_dir():
        raise SkullDataError(
            f"{csv} is a folder; name the list in it, for example {csv / 'train.csv'}"
        )
    try:
        with csv.open(newline="", encoding="utf-8-sig") as file:
            rows = [row for row in csv_files.reader(file) if any(cell.strip() for cell in row)]
    except FileNotFoundError as problem:
        raise SkullDataError(
            f"{csv}: there is no such list; it has one complete skull's path a row, such as"
            " complete_skull/070.nrrd"
        ) from problem
    except OSError as problem:
        raise SkullDataError(f"{csv}: cannot be read ({problem.strerror})") from problem
    except (UnicodeDecodeError, csv_files.Error) as problem:
        raise SkullDataError(f"{csv}: is not a CSV text file ({problem})") from problem
    if not rows:
        raise SkullDataError(f"{csv}: the list is empty; it needs one complete skull's path a row")
    return rows


def csv_text(rows: Iterable[Sequence[object]]) -> str:
    """Return rows as the text of a list, so that a name with a comma is read as one."""
    text = io.StringIO()
    csv_files.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def _from_row(csv: Path, number: int, row: list[str]) -> list[SkullSample]:
    if len(row) != 1:
        raise SkullDataError(
            f"{csv}, row {number}: {len(row)} columns; expected one, the path of a complete skull"
        )
    complete = resolved(csv, cloud_of(Path(row[0].strip())))
    if complete.parent.name != "complete_skull":
        raise SkullDataError(
            f"{csv}, row {number}: {row[0].strip()} does not lie in a folder complete_skull"
        )
    root, name = complete.parents[1], complete.name
    subject, samples = name.removesuffix("_surf.npy"), []
    for kind in defects_in(root):
        samples.append(
            SkullSample(
                name=f"{subject}_{kind}" if kind else subject,
                defect=kind,
                complete=complete,
                defective=root / "defective_skull" / (kind or "") / name,
                implant=root / "implant" / (kind or "") / name,
            )
        )
    return samples


def _from_columns(csv: Path, number: int, row: list[str]) -> SkullSample:
    if len(row) != 4:
        raise SkullDataError(f"{csv}, row {number}: {len(row)} columns under a header of 4")
    defective = resolved(csv, cloud_of(Path(row[0].strip())))
    implant = resolved(csv, cloud_of(Path(row[1].strip())))
    kind: str | None = row[2].strip()
    if kind not in DEFECTS:
        kind = None
    above = defective.parents[2 if defective.parent.name in DEFECTS else 1]
    subject = defective.name.removesuffix("_surf.npy")
    return SkullSample(
        name=f"{subject}_{kind}" if kind else subject,
        defect=kind,
        complete=above / "complete_skull" / defective.name,
        defective=defective,
        implant=implant,
    )


def resolved(csv: Path, row: Path) -> Path:
    """Return a row's path: absolute, or under the list's folder, or under the working directory."""
    if row.is_absolute():
        return row
    beside, here = csv.parent / row, Path.cwd() / row
    if not any(path.is_file() for path in (beside, volume_of(beside))) and any(
        path.is_file() for path in (here, volume_of(here))
    ):
        return here
    return beside.absolute()


def _prepared(cloud: Path) -> str:
    folder = cloud.absolute().parent
    kind = folder.parent if folder.name in DEFECTS else folder
    return f"make the clouds with: {PREPARE} {quote(str(kind.parent))}"


def _absent(csv: Path, cloud: Path) -> str:
    if volume_of(cloud).is_file():
        return f"{cloud} is missing, though its volume is there; {_prepared(cloud)}"
    return f"{cloud} is missing and so is its volume: the pair listed in {csv} is incomplete"


def members_of(sample: Path) -> int:
    """Return how many completions a sample.npy holds; 0 where it is not there or damaged."""
    try:
        return len(np.load(sample, mmap_mode="r", allow_pickle=False))
    except DAMAGED:
        return 0


def load_cloud(path: Path) -> np.ndarray:
    """Return the points of a `_surf.npy` file, (N, 3) float32 in voxel indices.

    Raises SkullDataError where it cannot be read, has another shape, is empty or not finite.
    """
    try:
        points = np.load(path, allow_pickle=False)
    except DAMAGED as problem:
        raise SkullDataError(
            f"{path}: cannot be read as an array ({problem}); delete it and {_prepared(path)}"
        ) from problem
    if not isinstance(points, np.ndarray) or points.ndim != 2 or points.shape[1] != 3:
        shape = getattr(points, "shape", None)
        raise SkullDataError(f"{path}: has shape {shape}; a cloud is (N, 3)")
    if len(points) == 0:
        raise SkullDataError(f"{path}: holds no points; delete it and {_prepared(path)}")
    if not np.issubdtype(points.dtype, np.floating):
        raise SkullDataError(f"{path}: holds {points.dtype}; a cloud is of float32 or float64")
    points = points.astype(np.float32, copy=False)
    if not np.isfinite(points).all():
        raise SkullDataError(
            f"{path}: has points that are NaN or infinite; delete it and {_prepared(path)}"
        )
    return points


def check_clouds(samples: Iterable[SkullSample], complete: bool = False) -> None:
    """Read every defective and implant cloud (and complete ones); raise for the first bad one."""
    checked: set[Path] = set()
    for sample in samples:
        for path in (sample.defective, sample.implant, *([sample.complete] if complete else [])):
            if path not in checked:
                load_cloud(path)
                checked.add(path)


def check_volumes(samples: Iterable[SkullSample], parts: Iterable[str]) -> None:
    """Raise SkullDataError for the first of these parts of samples, whose volume is missing."""
    for sample in samples:
        for part in parts:
            volume = volume_of(getattr(sample, part))
            if not volume.is_file():
                raise SkullDataError(f"{volume} is missing: clouds alone do not suffice here")


def check_split(train: Iterable[SkullSample], test: Iterable[SkullSample]) -> None:
    """Raise SkullDataError where a skull is in both lists: its other defects would be known."""
    shared = sorted({sample.subject for sample in train} & {sample.subject for sample in test})
    if shared:
        raise SkullDataError(
            f"skull {shared[0]} is in the training list and in the test list ({len(shared)} such);"
            " split by skull, not by sample"
        )
