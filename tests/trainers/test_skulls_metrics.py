"""Figures of implants: known answers, scipy's distances, spacing, empty masks."""

import math

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("skimage")
pytest.importorskip("nrrd")

from scipy.spatial import cKDTree

from trainers.skulls.metrics import boundary_dice, dice, hd95, score, summarise
from trainers.skulls.mirror import mirror_implant, mirror_plane, reflect
from trainers.skulls.shaping import Shaping, clusters, cut_out, vote

pytestmark = pytest.mark.trainers


def box(shape, *limits) -> np.ndarray:
    mask = np.zeros(shape, bool)
    mask[tuple(slice(a, b) for a, b in limits)] = True
    return mask


def test_dice_of_shifted_boxes_and_of_nothing() -> None:
    a = box((20, 20, 20), (2, 12), (2, 12), (2, 12))
    b = box((20, 20, 20), (7, 17), (2, 12), (2, 12))
    assert dice(a, b) == 0.5
    assert dice(a, np.zeros_like(a)) == 0.0
    assert dice(np.zeros_like(a), np.zeros_like(a)) == 1.0


@pytest.mark.parametrize("spacing", [(1.0, 1.0, 1.0), (0.4, 0.5, 2.5)])
def test_hd95_is_the_pooled_percentile_of_surface_distances(spacing) -> None:
    chance = np.random.default_rng(0)
    a = box((24, 24, 24), (4, 14), (5, 15), (6, 16))
    b = box((24, 24, 24), (6, 19), (5, 14), (7, 18)) | (chance.random((24, 24, 24)) < 0.002)

    def surface(mask: np.ndarray) -> np.ndarray:
        inner = np.pad(mask, 1)
        eroded = inner.copy()
        for axis in range(3):
            eroded &= np.roll(inner, 1, axis) & np.roll(inner, -1, axis)
        return np.argwhere(mask & ~eroded[1:-1, 1:-1, 1:-1]) * spacing

    first, second = surface(a), surface(b)
    pooled = np.concatenate([cKDTree(second).query(first)[0], cKDTree(first).query(second)[0]])
    assert hd95(a, b, spacing) == pytest.approx(np.percentile(pooled, 95), abs=1e-9)
    assert hd95(a, b, spacing) == hd95(b, a, spacing)


def test_hd95_of_a_shift_is_the_shift_in_mm_and_of_empty_masks_is_defined() -> None:
    a = box((40, 10, 10), (0, 10), (0, 10), (0, 10))
    b = box((40, 10, 10), (30, 40), (0, 10), (0, 10))
    assert hd95(a, b, (0.5, 1, 1)) == pytest.approx(15.0)
    empty = np.zeros_like(a)
    assert hd95(empty, empty, (1, 1, 1)) == 0.0
    assert math.isinf(hd95(a, empty, (1, 1, 1)))
    assert math.isinf(hd95(empty, a, (1, 1, 1)))


def test_boundary_dice_sees_only_what_is_within_ten_millimetres_of_bone() -> None:
    shape = (60, 12, 12)
    skull = box(shape, (0, 10), (0, 12), (0, 12))
    truth = box(shape, (10, 50), (0, 12), (0, 12))
    # The same near the bone, nothing far away: perfect for the boundary, half for Dice.
    near = box(shape, (10, 20), (0, 12), (0, 12))
    assert boundary_dice(near, truth, skull, (1, 1, 1)) == 1.0
    assert dice(near, truth) == pytest.approx(0.4)
    # With voxels of 0.5 mm ten millimetres reach twenty voxels far.
    assert boundary_dice(near, truth, skull, (0.5, 1, 1)) == pytest.approx(2 * 10 / 30)
    with pytest.raises(ValueError, match="not empty"):
        boundary_dice(near, truth, np.zeros_like(skull), (1, 1, 1))


def test_scores_are_summed_up_by_defect_and_empty_implants_are_counted() -> None:
    skull = box((20, 20, 20), (0, 3), (0, 20), (0, 20))
    truth = box((20, 20, 20), (3, 8), (0, 20), (0, 20))
    right, nothing = (score(mask, truth, skull, (1, 1, 1)) for mask in (truth, truth & False))
    table = summarise([("a", right), ("a", nothing), ("b", right)])
    assert table["a"]["dice"] == 0.5
    assert table["a"]["failed"] == 1
    assert table["a"]["hd95_mm"] == 0.0
    assert table["b"] == {"cases": 1, "dice": 1, "bdice_10mm": 1, "hd95_mm": 0, "failed": 0}
    assert list(table)[-1] == "all" and table["all"]["cases"] == 3
    alike = summarise([("all", right), ("all", nothing)])
    assert (alike["all"]["cases"], alike["all"]["failed"]) == (2, 1)
    with pytest.raises(ValueError, match="shapes differ"):
        score(truth[1:], truth, skull, (1, 1, 1))


def test_the_mirror_finds_its_plane_and_fills_a_symmetric_skull_exactly() -> None:
    axes = np.ogrid[:40, :40, :40]
    radius = np.sqrt(
        sum((axis - middle) ** 2 for axis, middle in zip(axes, (17.5, 20, 20), strict=True))
    )
    skull = (radius < 16) & (radius > 11)
    assert mirror_plane(skull) == 35
    assert (reflect(skull, 35) == skull).all()
    gone = skull & box(skull.shape, (0, 12), (10, 30), (20, 40))
    found = mirror_implant(skull & ~gone, (3.0, 3.0, 3.0))
    # The opening that takes thin rims away also rounds the corners off.
    assert dice(found, gone) > 0.9
    assert not (found & ~gone).any()


def test_an_implant_is_voted_cut_at_its_points_and_kept_in_one_piece() -> None:
    skull = box((40, 40, 40), (5, 35), (5, 35), (18, 23))
    hole = box((40, 40, 40), (12, 22), (12, 22), (18, 23))
    defective = skull & ~hole
    stray = box((40, 40, 40), (36, 39), (36, 39), (36, 39))
    a, b, c = skull | stray, skull & ~hole, skull
    points = np.argwhere(hole).astype(np.float32)
    how = Shaping.for_spacing((3.0, 3.0, 3.0))
    implant = cut_out(vote([a, b, c]), defective, points, how)
    # The opening rounds the box's edges off; nothing lies outside.
    assert dice(implant, hole) > 0.85
    assert not (implant & ~hole).any()
    assert not cut_out(vote([b]), defective, points, how).any()
    # Two of two have to be more than nothing: at least half, rounded up, is one.
    assert (vote([a, b]) == (a | b)).all()


def test_a_defect_on_both_sides_keeps_both_pieces() -> None:
    skull = box((60, 20, 20), (2, 58), (2, 18), (8, 12))
    holes = box((60, 20, 20), (5, 15), (5, 15), (8, 12)) | box(
        (60, 20, 20), (40, 52), (5, 15), (8, 12)
    )
    points = np.argwhere(holes).astype(np.float32)
    assert clusters(points) == 2
    assert clusters(points[points[:, 0] < 30]) == 1
    implant = cut_out(skull, skull & ~holes, points, Shaping.for_spacing((3.0, 3.0, 3.0)))
    assert not (implant & ~holes).any()
    assert all(dice(implant[part], holes[part]) > 0.85 for part in np.s_[:30, 30:])
