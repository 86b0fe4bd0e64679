"""The cone-beam geometries of others by their own names: TIGRE's, DiffDRR's, and plain lengths.

Facts from TIGRE's documentation and kernels (github.com/CERN/TIGRE: pixel middles, the source on +x
at angle 0, v upwards from row to row) and DiffDRR's detector (github.com/eigenvivek/DiffDRR:
`sdd`, `delx`, pixel middles, the source at the pose's translation).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from trainers.cascade.geometry import (
    BACK,
    FRONT,
    LEFT,
    RIGHT,
    SIDES,
    ConeBeam,
    Geometry,
    ParallelBeam,
)
from trainers.common.errors import SettingsError, nearest

WHERE = "xray_config.geometry"
Given = Mapping[str, Any]
Fov = tuple[float, float, float]
TIGRE_SIDES = {90: BACK, 270: FRONT, 0: LEFT, 180: RIGHT}
TIGRE_REVERSED = (BACK, RIGHT)
"""With the source there, u runs against our columns."""


def tigre(given: Given, field_of_view: Fov) -> ConeBeam:
    """Return TIGRE's geometry: DSO, DSD, nDetector, dDetector and offDetector (v, u), angles.

    The volume is (z, y, x) as SimpleITK reads it: x to the patient's left, y to the back, z up. The
    angles, in degrees, are of the frontal and the lateral view: the source is on +x at 0, on +y at
    90. Its arrays have row 0 at the feet, and at 90 and 180 degrees column 0 on the far side.
    """
    angles = numbers(given, "angles", 2)
    sources = [TIGRE_SIDES.get(round(angle, 3) % 360, "") for angle in angles]
    check_sides(sources, "angles must be 90 or 270, then 0 or 180")
    (rows, columns), (high, wide) = numbers(given, "nDetector", 2), numbers(given, "dDetector", 2)
    up, along = numbers({"offDetector": [0, 0], **given}, "offDetector", 2)
    offsets = [(-up, -along if source in TIGRE_REVERSED else along) for source in sources]
    return cone(given, "DSO", "DSD", (rows * high, columns * wide), offsets, field_of_view, sources)


def diffdrr(given: Given, field_of_view: Fov) -> ConeBeam:
    """Return DiffDRR's geometry: sdd, height, width, delx, dely, distance, orientation.

    `distance` is the length of the pose's translation, from the source to the isocentre, and
    `orientation` AP (source in front) or PA. The lateral view is a quarter turn of that pose:
    `lateral`, left or right, is where its source comes to lie. width is height, and dely is delx,
    where they are not given. Images are upright, as its plot_drr shows them.
    """
    for name in ("x0", "y0"):
        if given.get(name):
            raise SettingsError(f"{WHERE}.{name} is refused: say it as offset_mm of plain lengths")
    front = {"AP": FRONT, "PA": BACK}.get(str(given.get("orientation", "AP")), "")
    sources = [front, str(given.get("lateral", LEFT))]
    check_sides(sources, "orientation must be AP or PA, and lateral left or right")
    (rows,), (wide,) = numbers(given, "height", 1), numbers(given, "delx", 1)
    (columns,) = numbers({"width": rows, **given}, "width", 1)
    (high,) = numbers({"dely": wide, **given}, "dely", 1)
    detector = (rows * high, columns * wide)
    return cone(given, "distance", "sdd", detector, [(0.0, 0.0)] * 2, field_of_view, sources)


def plain(given: Given, field_of_view: Fov) -> ConeBeam:
    """Return a geometry of lengths in mm, the detector's offset in rows and columns for each view.

    Keys: source_to_isocentre_mm, source_to_detector_mm, detector_mm, offset_mm and sources.
    """
    offsets = given.get("offset_mm", [[0, 0], [0, 0]])
    if not isinstance(offsets, list) or len(offsets) != 2:
        raise SettingsError(f"{WHERE}.offset_mm must be two pairs, of the frontal and lateral view")
    sources = given.get("sources", [FRONT, LEFT])
    check_sides(sources, "sources must be front or back, then left or right")
    high, wide = numbers(given, "detector_mm", 2)
    pairs = [numbers({"offset_mm": pair}, "offset_mm", 2) for pair in offsets]
    names = ("source_to_isocentre_mm", "source_to_detector_mm")
    return cone(given, *names, (high, wide), pairs, field_of_view, sources)


CONVENTIONS: dict[str, tuple[Callable[[Given, Fov], ConeBeam], tuple[str, ...]]] = {
    "tigre": (tigre, ("DSO", "DSD", "nDetector", "dDetector", "offDetector", "angles")),
    "diffdrr": (
        diffdrr,
        ("sdd", "distance", "height", "width", "delx", "dely", "x0", "y0", "orientation",
         "lateral"),
    ),
    "plain": (
        plain,
        ("source_to_isocentre_mm", "source_to_detector_mm", "detector_mm", "offset_mm", "sources"),
    ),
}  # fmt: skip


def read_geometry(given: Given | None) -> Geometry:
    """Return the geometry that a configuration's `geometry` describes; None is parallel rays.

    Raises SettingsError naming the key that is missing, unknown or cannot be.
    """
    if given is None:
        return ParallelBeam()
    name = given.get("convention")
    if not isinstance(name, str) or name not in CONVENTIONS:
        raise SettingsError(f"{WHERE}.convention must be one of {', '.join(CONVENTIONS)}")
    read, keys = CONVENTIONS[name]
    for key in given.keys() - {"convention", "field_of_view_mm", *keys}:
        raise SettingsError(f"unknown key {WHERE}.{key}{nearest(key, keys)}")
    depth, height, width = numbers(given, "field_of_view_mm", 3)
    return read(given, (depth, height, width))


def cone(
    given: Given,
    source: str,
    detector_at: str,
    detector: tuple[float, float],
    offsets: list[Any],
    field_of_view: Fov,
    sources: list[str],
) -> ConeBeam:
    """Return the geometry, whose two distances lie under these keys. Raises SettingsError."""
    (near,), (distant,) = numbers(given, source, 1), numbers(given, detector_at, 1)
    reach = max(field_of_view[0], field_of_view[2]) / 2
    if near <= reach:
        raise SettingsError(f"{WHERE}.{source} {near:g}: the source would lie in the volume")
    if distant < near:
        raise SettingsError(f"{WHERE}.{detector_at} {distant:g} is nearer than {source} {near:g}")
    if min(*detector, *field_of_view) <= 0:
        raise SettingsError(f"{WHERE}: sizes of detector and volume must be above 0")
    down, along = (tuple(pair) for pair in offsets)
    return ConeBeam(near, distant, detector, (down, along), field_of_view, (sources[0], sources[1]))


def numbers(given: Given, key: str, count: int) -> tuple[float, ...]:
    """Return a key's number, or list of as many. Raises SettingsError naming it."""
    value = given.get(key)
    found = value if isinstance(value, (list, tuple)) else [value]
    if len(found) != count or any(
        type(part) not in (int, float) or not math.isfinite(part) for part in found
    ):
        wanted = "a number" if count == 1 else f"a list of {count} numbers"
        raise SettingsError(f"{WHERE}.{key} must be {wanted}; found {value}")
    return tuple(float(part) for part in found)


def check_sides(sources: Any, rule: str) -> None:
    """Raise SettingsError with the rule unless each view's source is on a side of its own."""
    if (
        not isinstance(sources, (list, tuple))
        or len(sources) != 2
        or any(side not in known for side, known in zip(sources, SIDES.values(), strict=True))
    ):
        raise SettingsError(f"{WHERE}: {rule}")
