"""Scenes of pictures whose cameras are known: RealEstate10K's files and COLMAP's folders.

RealEstate10K (Zhou et al. 2018): a text file a clip, whose first line names the film and every
other is a time stamp, the focal lengths and principal point in widths and heights of the picture,
two numbers of distortion, and the rows of a 3 x 4 matrix from the world to the camera. The pictures
lie beside it, in the folder of the clip's name, called as their time stamps. COLMAP's folders hold
`images/` and, in `sparse/0/`, `sparse/` or the folder itself, `cameras`, `images` and perhaps
`points3D`, as text or binary (https://colmap.github.io/format.html). Both look along +z, y down.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trainers.common.errors import SettingsError, read_as
from trainers.common.reading import stored_size

Matrix = NDArray[np.float64]
ENDINGS = (".png", ".jpg", ".jpeg", ".webp")
COLUMNS = 19
MODELS = {0: "SIMPLE_PINHOLE", 1: "PINHOLE", 2: "SIMPLE_RADIAL", 3: "RADIAL", 4: "OPENCV"}
NUMBERS = {"SIMPLE_PINHOLE": 3, "PINHOLE": 4, "SIMPLE_RADIAL": 4, "RADIAL": 5, "OPENCV": 8}
UNDISTORT = "make pictures of a pinhole first, as colmap's image_undistorter does"
UNLIKE = 0.02
"""How much the proportions of a picture may differ from its camera's: sizes are rounded."""
SKEWED = 0.01
"""How far the products of a rotation's rows may be from those of rows at right angles, of length 1.
"""
MIDDLE = 3.0
"""How far, in the decoder's world, the median point of a scene is brought: its depths are 2 to 4.
"""


class View(NamedTuple):
    """A picture of a scene: its place in the scene's order, and its camera.

    The lens is focal lengths x, y and principal point x, y, in widths and heights of the picture.
    A point X of the world is at `rotation @ X + translation` (3,) before the camera.
    """

    scene: str
    place: int
    picture: Path
    lens: tuple[float, float, float, float]
    rotation: Matrix
    translation: Matrix


class Lens(NamedTuple):
    """A camera of COLMAP's: its model's name, size in pixels and numbers."""

    model: str
    width: int
    height: int
    numbers: tuple[float, ...]


def read_scenes(folder: Path) -> list[View]:
    """Return all views of a folder: a COLMAP folder, folders of these, or RealEstate10K's clips.

    Raises SettingsError naming what is missing, damaged or distorted.
    """
    if not folder.is_dir():
        raise SettingsError(f"--scenes: there is no folder {folder}")
    folder = folder.resolve()
    # In a COLMAP folder `sparse` looks like one without pictures.
    inside = [folder] if colmap_model(folder) else sorted(filter(Path.is_dir, folder.iterdir()))
    views = [view for path in inside if (model := colmap_model(path)) for view in
             read_colmap(path, model)]  # fmt: skip
    clips = [path for path in sorted(folder.glob("*.txt")) if path.with_suffix("").is_dir()]
    if not views:
        views = [view for path in clips for view in read_clip(path)]
    if not views:
        raise SettingsError(
            f"--scenes: {folder} holds neither COLMAP's cameras and images nor RealEstate10K's"
            " CLIP.txt beside a folder CLIP of pictures"
        )
    for view in views:
        check_camera(view)
    return views


def check_camera(view: View) -> None:
    """Raise SettingsError where a view's camera is no pinhole's, or it is turned by no rotation."""
    numbers = np.array([*view.lens, *view.rotation.flat, *view.translation])
    apart = np.abs(view.rotation @ view.rotation.T - np.eye(3)).max()
    focal = min(view.lens[:2])
    if not (np.isfinite(numbers).all() and focal > 0 and apart < SKEWED):
        raise SettingsError(
            f"{view.picture}: its camera has the lens {view.lens} and a rotation that is"
            f" {apart:.2g} off: focal lengths are above 0, and all numbers finite"
        )


# ------------------------------------------------------------------------------- RealEstate10K


def read_clip(path: Path) -> list[View]:
    """Return the views of a RealEstate10K clip whose pictures are there, in the file's order."""
    views = []
    with read_as(path, "a clip's cameras"):
        lines = path.read_text(encoding="utf-8").splitlines()[1:]
    for number, line in enumerate(lines, start=2):
        fields = line.split()
        if not fields:
            continue
        try:
            fx, fy, cx, cy, *rest = (float(word) for word in fields[1:])
            matrix = np.array(rest[2:], dtype=np.float64).reshape(3, 4)
        except ValueError as problem:
            raise SettingsError(
                f"{path}, line {number}: not {COLUMNS} numbers of a camera ({problem})"
            ) from problem
        _refuse_distortion(rest[:2], f"{path}, line {number}")
        picture = _picture(path.with_suffix("") / fields[0])
        if picture is not None:
            lens = (fx, fy, cx, cy)
            views.append(View(path.stem, len(views), picture, lens, matrix[:, :3], matrix[:, 3]))
    if not views:
        raise SettingsError(f"{path}: none of its pictures are in {path.with_suffix('')}")
    return views


def _picture(stem: Path) -> Path | None:
    known = (stem.with_name(stem.name + ending) for ending in ENDINGS)
    return next((path for path in known if path.is_file()), None)


def _refuse_distortion(numbers: list[float] | tuple[float, ...], where: str) -> None:
    if any(abs(number) > 1e-9 for number in numbers):
        raise SettingsError(f"{where}: the lens is distorted; {UNDISTORT}")


# -------------------------------------------------------------------------------------- COLMAP


def colmap_model(folder: Path) -> Path | None:
    """Return where a COLMAP folder keeps its cameras, or None where it is none."""
    for place in (folder / "sparse" / "0", folder / "sparse", folder):
        for ending in (".bin", ".txt"):
            files = [place / f"{name}{ending}" for name in ("cameras", "images")]
            if all(path.is_file() for path in files):
                return place
    return None


def read_colmap(folder: Path, model: Path) -> list[View]:
    """Return the views of a COLMAP folder in the order of their names.

    With `points3D` the scene's unit becomes the decoder's: the median distance of its points before
    its cameras is MIDDLE.
    """
    binary = all((model / f"{name}.bin").is_file() for name in ("cameras", "images"))
    try:
        lenses = dict((_binary_cameras if binary else _text_cameras)(model))
        posed = sorted((_binary_images if binary else _text_images)(model))
        points = (_binary_points if binary else _text_points)(model)
    except (struct.error, ValueError, IndexError, KeyError, UnicodeDecodeError) as problem:
        raise SettingsError(f"{model}: damaged COLMAP files ({problem})") from problem
    views = []
    for name, lens, numbers in posed:
        picture = folder / "images" / name
        if not picture.is_file():
            raise SettingsError(f"{model}: there is no picture {picture}")
        if lens not in lenses:
            raise SettingsError(f"{model}: {name} is of camera {lens}, which is not there")
        where = pinhole(lenses[lens], f"{model}, camera {lens}")
        _refuse_cropped(picture, lenses[lens])
        turn, shift = quaternion_matrix(numbers[:4]), np.array(numbers[4:])
        views.append(View(folder.name, len(views), picture, where, turn, shift))
    if not views:
        raise SettingsError(f"{model}: no image has a camera")
    unit = unit_of(views, points)
    return [view._replace(translation=view.translation * unit) for view in views]


def _refuse_cropped(picture: Path, lens: Lens) -> None:
    """Raise SettingsError where a picture, as it is stored, has other proportions than its camera.

    COLMAP does not turn pictures as EXIF data says (colmap/colmap#1456).
    """
    width, height = stored_size(picture)
    if abs(width * lens.height - height * lens.width) > UNLIKE * height * lens.width:
        raise SettingsError(
            f"{picture} is {width} x {height} pixels, and its camera {lens.width} x {lens.height}:"
            " take the pictures that COLMAP was given, neither turned nor cut"
        )


def unit_of(views: list[View], points: Matrix) -> float:
    """Return how many units of the decoder's world a scene's unit is, 1 without points (N,3)."""
    if not len(points):
        return 1.0
    seen = np.concatenate([points @ view.rotation[2] + view.translation[2] for view in views])
    seen = seen[seen > 0]
    return MIDDLE / float(np.median(seen)) if seen.size else 1.0


def pinhole(lens: Lens, where: str) -> tuple[float, float, float, float]:
    """Return a lens as View has it. Raises SettingsError where it is no pinhole's."""
    if lens.model not in NUMBERS or len(lens.numbers) != NUMBERS[lens.model]:
        raise SettingsError(f"{where}: {lens.model} is none of {', '.join(NUMBERS)}; {UNDISTORT}")
    if min(lens.width, lens.height) < 1:
        raise SettingsError(f"{where}: it has {lens.width} x {lens.height} pixels")
    single = lens.model in ("SIMPLE_PINHOLE", "SIMPLE_RADIAL", "RADIAL")
    fx, fy, cx, cy, *bent = (lens.numbers[0], *lens.numbers) if single else lens.numbers
    _refuse_distortion(bent, where)
    return fx / lens.width, fy / lens.height, cx / lens.width, cy / lens.height


def quaternion_matrix(numbers: tuple[float, ...]) -> Matrix:
    """Return the rotation (3,3) of a quaternion w, x, y, z of any length; of 0 it is none."""
    w, x, y, z = np.array(numbers, dtype=np.float64) / (np.linalg.norm(numbers) or np.nan)
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
            [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
            [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
        ]
    )


Posed = tuple[str, int, tuple[float, ...]]
"""A picture's name, its camera's number, and seven numbers: quaternion and translation."""


def _text_lines(path: Path) -> list[str]:
    lines = path.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if not line.startswith("#")]


def _text_cameras(model: Path) -> Iterator[tuple[int, Lens]]:
    for line in _text_lines(model / "cameras.txt"):
        if fields := line.split():
            numbers = tuple(float(word) for word in fields[4:])
            yield int(fields[0]), Lens(fields[1], int(fields[2]), int(fields[3]), numbers)


def _text_images(model: Path) -> Iterator[Posed]:
    # Two lines each; the second, of points, may be empty.
    for line in _text_lines(model / "images.txt")[::2]:
        if fields := line.split(maxsplit=9):
            yield fields[9], int(fields[8]), tuple(float(word) for word in fields[1:8])


def _text_points(model: Path) -> Matrix:
    path = model / "points3D.txt"
    lines = _text_lines(path) if path.is_file() else []
    rows = [[float(word) for word in line.split()[1:4]] for line in lines if line.strip()]
    return np.array(rows, dtype=np.float64).reshape(-1, 3)


def _unpack(file: IO[bytes], layout: str) -> tuple[float, ...]:
    return struct.unpack(f"<{layout}", file.read(struct.calcsize(f"<{layout}")))


def _binary_cameras(model: Path) -> Iterator[tuple[int, Lens]]:
    with (model / "cameras.bin").open("rb") as file:
        for _ in range(int(_unpack(file, "Q")[0])):
            number, kind, width, height = (int(value) for value in _unpack(file, "iiQQ"))
            if kind not in MODELS:
                names = ", ".join(f"{number} ({name})" for number, name in MODELS.items())
                raise SettingsError(f"{model}: camera model {kind} is none of {names}; {UNDISTORT}")
            name = MODELS[kind]
            yield number, Lens(name, width, height, _unpack(file, "d" * NUMBERS[name]))


def _binary_images(model: Path) -> Iterator[Posed]:
    with (model / "images.bin").open("rb") as file:
        for _ in range(int(_unpack(file, "Q")[0])):
            _, *numbers, camera = _unpack(file, "i7di")
            name = b"".join(iter(lambda: _unpack(file, "c")[0], b"\0"))  # type: ignore[arg-type]
            file.seek(24 * int(_unpack(file, "Q")[0]), 1)
            yield name.decode(), int(camera), tuple(numbers)


def _binary_points(model: Path) -> Matrix:
    path, rows = model / "points3D.bin", []
    if path.is_file():
        with path.open("rb") as file:
            for _ in range(int(_unpack(file, "Q")[0])):
                _, *place = _unpack(file, "Q3d")
                rows.append(place)
                file.seek(11, 1)
                file.seek(8 * int(_unpack(file, "Q")[0]), 1)
    return np.array(rows, dtype=np.float64).reshape(-1, 3)
