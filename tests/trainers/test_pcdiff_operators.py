"""The point operators against loops over points, on ordinary and on degenerate clouds."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("numba")

from tests.support import REPOSITORY
from tests.trainers import pcdiff_reference as slow
from trainers.pcdiff import geometry, neighbours_numba, neighbours_torch
from trainers.pcdiff.geometry import Ball, Steady, place_in_grid, survey
from trainers.pcdiff.operators import (
    average_into_voxels,
    group_norm_rows,
    largest_of_groups,
    read_from_voxels,
)

pytestmark = pytest.mark.trainers
CLOUDS = ("shell", "duplicates", "one point", "line", "lattice", "outlier", "two points")


def cloud(kind: str) -> Any:
    """A small point cloud (N, 3), float32."""
    draw = np.random.default_rng(7)
    points = draw.normal(size=(600, 3))
    if kind == "shell":
        points /= np.linalg.norm(points, axis=1, keepdims=True)
    elif kind == "duplicates":
        points[200:] = points[draw.integers(0, 20, 400)]
    elif kind == "one point":
        points[:] = 0.5
    elif kind == "line":
        points[:, 1:] = 0
    elif kind == "lattice":
        points = draw.integers(-2, 3, (600, 3)) * 0.5
    elif kind == "outlier":
        points[5] = 1e4
    else:
        points = points[:2]
    return np.ascontiguousarray(points, dtype=np.float32)


def as_lists(found: Any, numbers: Any) -> list[list[int]]:
    """The members of each group."""
    cuts = np.cumsum(np.asarray(numbers))[:-1]
    return [part.tolist() for part in np.split(np.asarray(found), cuts)]


@pytest.mark.parametrize("kind", CLOUDS)
def test_searches_are_those_of_the_kernels(kind: str) -> None:
    points = cloud(kind)
    count = min(len(points), 90)
    tensor = torch.from_numpy(points)[None]
    expected = slow.farthest_points(points, count)
    for size in (5, 48):
        boxes = neighbours_numba.boxes(points, size)
        assert neighbours_numba.farthest_points(points, count, *boxes).tolist() == expected
    assert neighbours_torch.farthest_points(tensor, count)[0].tolist() == expected
    centres = points[expected]
    for radius, slots in ((0.3, 16), (1.5, 8)):
        padded = slow.ball_query(points, centres, radius, slots)
        distinct = [row[: len(set(row))] for row in padded]
        assert as_lists(*neighbours_numba.ball_query(points, centres, radius, slots)) == distinct
        found = neighbours_torch.ball_query(tensor, torch.from_numpy(centres)[None], radius, slots)
        assert as_lists(*found) == distinct
    nearest = slow.three_nearest(points, centres)
    assert neighbours_numba.three_nearest(points, centres)[0].tolist() == nearest
    found = neighbours_torch.three_nearest(tensor, torch.from_numpy(centres)[None])
    assert found[0][0].tolist() == nearest


def test_a_centre_without_neighbours_takes_point_zero() -> None:
    points, centres = cloud("shell"), np.full((1, 3), 50, np.float32)
    assert neighbours_numba.ball_query(points, centres, 0.1, 4)[0].tolist() == [0]
    tensors = [torch.from_numpy(array)[None] for array in (points, centres)]
    assert neighbours_torch.ball_query(*tensors, 0.1, 4)[0].tolist() == [0]


@pytest.mark.parametrize("search", ["numba", "torch"])
@pytest.mark.parametrize("kind", CLOUDS)
def test_voxels_and_interpolation(kind: str, search: str) -> None:
    points = cloud(kind)
    features = np.random.default_rng(1).normal(size=(len(points), 5)).astype(np.float32)
    rows, batch = torch.from_numpy(features), torch.from_numpy(points)[None]
    for side in (4, 9):
        voxels = place_in_grid(batch, side)
        grid = average_into_voxels(rows, voxels)
        expected = slow.average_into_voxels(points, features, side)
        np.testing.assert_allclose(grid.view(side, side, side, 5), expected, atol=1e-4)
        read = read_from_voxels(grid, voxels)
        np.testing.assert_allclose(read, slow.read_from_voxels(points, expected), atol=2e-3)
    count = min(len(points), 40)
    level, *_ = survey(batch, [Ball(count, 0.3, 8)], search)
    centres = points[slow.farthest_points(points, count)]
    shares = slow.interpolation_shares(points, centres)
    np.testing.assert_allclose(level.shares, shares, atol=2e-4)


def test_a_batch_is_its_samples_one_by_one() -> None:
    points = torch.from_numpy(np.stack([cloud("shell"), cloud("lattice"), cloud("duplicates")]))
    ball = Ball(50, 0.4, 12)
    for search in ("numba", "torch"):
        together = survey(points, [ball], search)[0]
        for sample in range(3):
            alone = survey(points[sample : sample + 1], [ball], search)[0]
            begin, end = together.groups.spans[sample]
            members = together.groups.members[begin:end] - 600 * sample
            assert torch.equal(members, alone.groups.members)
            assert torch.equal(together.groups.weights[begin:end], alone.groups.weights)
            values = torch.randn(end - begin, 7)
            assert torch.equal(
                largest_of_groups(values, together.groups, sample),
                largest_of_groups(values, alone.groups, 0),
            )


def test_what_is_kept_of_the_skull_changes_nothing() -> None:
    clouds = torch.from_numpy(np.stack([cloud("shell"), cloud("lattice")]))
    steady, ball = Steady(500), Ball(60, 0.4, 12)
    for _ in range(3):
        clouds = clouds.clone()
        clouds[:, 500:] = torch.randn(2, 100, 3)
        kept, fresh = (survey(clouds, [ball], "numba", how) for how in (steady, None))
        assert torch.equal(kept[1].points, fresh[1].points)
        assert torch.equal(kept[0].groups.members, fresh[0].groups.members)


def test_weighted_norm_is_the_norm_of_repeated_rows() -> None:
    torch.manual_seed(0)
    rows = torch.randn(30, 16).requires_grad_()
    weights = torch.randint(1, 9, (30,)).float()
    scale, shift = torch.rand(16, requires_grad=True), torch.rand(16, requires_grad=True)
    repeated = rows.repeat_interleave(weights.long(), 0)
    expected = torch.nn.functional.group_norm(repeated.T[None], 8, scale, shift)[0].T
    first = weights.long().cumsum(0) - weights.long()
    mine = group_norm_rows(rows, weights, 8, scale, shift)
    torch.testing.assert_close(mine, expected[first], atol=1e-5, rtol=1e-5)
    seeds = torch.randn(30, 16)
    of_mine = torch.autograd.grad((mine * seeds).sum(), [rows, scale, shift])
    of_theirs = torch.autograd.grad((expected[first] * seeds).sum(), [rows, scale, shift])
    for one, other in zip(of_mine, of_theirs, strict=True):
        torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-4)


def test_bad_coordinates_and_searches_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    points = torch.from_numpy(cloud("shell"))[None].clone()
    with pytest.raises(ValueError, match="none of auto, numba, torch"):
        survey(points, [Ball(4, 0.1, 4)], "cuda")
    points[0, 3, 1] = torch.nan
    with pytest.raises(ArithmeticError, match="not finite"):
        survey(points, [Ball(4, 0.1, 4)])
    monkeypatch.setattr(geometry, "neighbours_numba", None)
    with pytest.raises(ValueError, match="numba is not installed"):
        survey(torch.zeros(1, 4, 3), [Ball(4, 0.1, 4)], "numba")


def test_neighbours_in_a_table_are_those_of_a_list(monkeypatch: pytest.MonkeyPatch) -> None:
    """As Triton's kernel gives them, what is beyond a centre's own meaning nothing."""
    chance = torch.Generator().manual_seed(0)
    points = torch.randn(3, 400, 3, generator=chance)
    balls = [Ball(100, 0.5, 16), Ball(30, 1.0, 8), Ball(8, 2.0, 8)]
    listed = survey(points, balls, "torch")
    plain = neighbours_torch.ball_query

    def table(*asked) -> tuple[torch.Tensor, torch.Tensor]:
        members, numbers = plain(*asked)
        rows = torch.full((len(numbers), asked[-1]), 10**9)
        rows[torch.arange(asked[-1]) < numbers[:, None]] = members
        return rows, numbers

    monkeypatch.setattr(neighbours_torch, "ball_query", table)
    for one, other in zip(listed, survey(points, balls, "torch"), strict=True):
        assert torch.equal(one.points, other.points)
        if one.groups is not None:
            assert one.groups.spans == other.groups.spans
            for name in ("members", "starts", "weights", "owners", "offsets"):
                assert torch.equal(getattr(one.groups, name), getattr(other.groups, name)), name


TRITON = """
import sys, torch
sys.path.insert(0, sys.argv[1])
from trainers.pcdiff import neighbours_torch, neighbours_triton
neighbours_triton.BLOCK = neighbours_triton.BALL_BLOCK = 256
chance = torch.Generator().manual_seed(0)
def in_ball(*asked):
    table, numbers = neighbours_triton.ball_query(*asked)
    return table[torch.arange(asked[-1]) < numbers[:, None]], numbers
cloud = torch.randn(2, 700, 3, generator=chance)
cloud[1, 100:600] = cloud[1, 3]  # many equals, over blocks
cloud[1, 650:] = cloud[1, :50]
for points in (cloud, cloud[:, :5], cloud[:1, :1]):
    count = min(40, points.shape[1])
    found = neighbours_triton.farthest_points(points, count)
    assert torch.equal(found, neighbours_torch.farthest_points(points, count)), points.shape
    centres = points[:, : min(30, points.shape[1])]
    for radius, most in ((0.4, 8), (3.0, 5), (1e-4, 4)):
        theirs = neighbours_torch.ball_query(points, centres, radius, most)
        for mine, other in zip(in_ball(points, centres, radius, most), theirs):
            assert torch.equal(mine, other), (points.shape, radius)
    far = torch.full_like(centres, 50.0)
    for mine, other in zip(
        in_ball(points, far, 0.1, 4),
        neighbours_torch.ball_query(points, far, 0.1, 4),
    ):
        assert torch.equal(mine, other), "nobody is near"
    for known in (centres, points[:, :2]):
        theirs = neighbours_torch.three_nearest(points, known)
        for mine, other in zip(neighbours_triton.three_nearest(points, known), theirs):
            assert torch.equal(mine, other), (points.shape, known.shape)
print("equal")
"""


@pytest.mark.skipif(find_spec("triton") is None, reason="no triton")
def test_the_triton_kernel_takes_the_same_points() -> None:
    """Run by Triton's interpreter, which is chosen before Triton is imported."""
    done = subprocess.run(
        [sys.executable, "-c", TRITON, str(REPOSITORY)],
        env=os.environ | {"TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert (done.returncode, done.stdout) == (0, "equal\n"), done.stderr


def test_the_fastest_search_is_measured_and_what_cannot_be_had_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    balls, device = [Ball(16, 0.5, 8)], torch.device("cpu")
    found, words = geometry.fastest_search(device, (1, 64), balls)
    assert found in geometry.searches_of(device)
    assert all(name in words for name in geometry.searches_of(device))
    with pytest.raises(ValueError, match="needs a GPU"):
        geometry.search_on(device, "triton")
    # One that fails, as Triton's does without a C compiler, is named with the reason.
    monkeypatch.setitem(sys.modules, "trainers.pcdiff.neighbours_triton", None)
    monkeypatch.setattr(geometry, "searches_of", lambda _: ["torch", "triton"])
    found, words = geometry.fastest_search(device, (1, 64), balls)
    assert (
        found == "torch"
        and "triton fails: import of trainers.pcdiff.neighbours_triton halted" in words
    )
    monkeypatch.undo()
    assert geometry.searches_of(torch.device("cuda"))[0] == "torch"
