"""Figures of implants: known answers, scipy's distances, spacing, empty masks."""

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("skimage")
pytest.importorskip("nrrd")

from scipy import ndimage
from scipy.spatial import cKDTree

from trainers.skulls.bits import dilated, opened
from trainers.skulls.metrics import boundary_dice, dice, hd95, score, summarise
from trainers.skulls.mirror import mirror_implant, mirror_plane, reflect
from trainers.skulls.shaping import Shaping, clusters, cut_out, largest, vote

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


def odd_masks() -> Iterator[np.ndarray]:
    """Masks of odd sides, sparse to full, in the memory order of NumPy and of NRRD."""
    chance = np.random.default_rng(3)
    for shape in ((5, 4, 64), (1, 7, 3), (130, 3, 5), (9, 12, 65), (17, 1, 129)):
        for share in (0.0, 0.02, 0.9, 0.99, 1.0):
            mask = chance.random(shape) < share
            yield mask
            yield np.asfortranarray(mask)


@pytest.mark.parametrize("rounds", [1, 3])
def test_masks_are_opened_and_dilated_as_scipy_does(rounds: int) -> None:
    for mask in odd_masks():
        wanted = ndimage.binary_opening(mask, iterations=rounds)
        assert (opened(mask, rounds) == wanted).all(), mask.shape
        wanted = ndimage.binary_dilation(mask, iterations=rounds)
        assert (dilated(mask, rounds) == wanted).all(), mask.shape
    with pytest.raises(ValueError, match="at least one"):
        opened(np.ones((2, 2, 2), bool), 0)


def test_the_mirror_s_plane_has_the_greatest_overlap_of_all() -> None:
    for mask in odd_masks():
        for axis, size in enumerate(mask.shape):
            overlaps = [int((reflect(mask, s, axis) & mask).sum()) for s in range(2 * size - 1)]
            assert mirror_plane(mask, axis) == int(np.argmax(overlaps)), (mask.shape, axis)
            indices = [i for i in range(size) if 0 <= size - i < size]
            turned, lines = (np.moveaxis(m, axis, 0) for m in (reflect(mask, size, axis), mask))
            assert all((turned[i] == lines[size - i]).all() for i in indices)
            assert turned.sum() == sum(int(lines[size - i].sum()) for i in indices)


def test_the_largest_pieces_and_the_dice_are_those_of_the_whole_volume() -> None:
    chance = np.random.default_rng(4)
    for mask in odd_masks():
        labels, found = ndimage.label(mask)
        sizes = np.bincount(labels.ravel())
        sizes[0] = 0
        for count in (1, 2):
            wanted = np.isin(labels, np.argsort(sizes)[-count:]) if found > count else mask
            assert (largest(mask, count) == wanted).all()
        other = chance.random(mask.shape) < 0.3
        total = int(mask.sum()) + int(other.sum())
        assert dice(mask, other) == (2 * int((mask & other).sum()) / total if total else 1.0)


@pytest.mark.parametrize("crop", ["radius", "bbox", "none"])
@pytest.mark.parametrize("spacing", [0.5, 3.0])
def test_an_implant_does_not_depend_on_the_memory_s_order_or_room_around(crop, spacing) -> None:
    skull = box((40, 40, 40), (5, 35), (5, 35), (18, 23))
    hole = box((40, 40, 40), (12, 22), (12, 22), (18, 23))
    points = np.argwhere(hole)[::7].astype(np.float32)
    how = replace(Shaping.for_spacing((spacing,) * 3), crop=crop)
    defective = skull & ~hole
    one = cut_out(vote([skull], how.dilation), defective, points, how)
    lying = [np.asfortranarray(mask) for mask in (skull, defective)]
    assert (cut_out(vote(lying[:1], how.dilation), lying[1], points, how) == one).all()
    # Points beyond the volume: the crop ends at its faces.
    beyond = cut_out(skull, defective, points + np.float32(30), how)
    assert one.any() and not (beyond & defective).any()


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


def test_hundreds_of_members_vote_as_few_do() -> None:
    mask = np.zeros((4, 4, 4), bool)
    mask[1:3, 1:3, 1:3] = True
    for count in (1, 2, 255, 256, 300):
        assert (vote([mask] * count) == mask).all(), count
        assert (vote([mask] * (count // 2) + [~mask] * (count - count // 2))[0]).all(), count
