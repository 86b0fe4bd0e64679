"""Judging on held-out skulls, the mean-volume baseline, and pictures of slices."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from trainers.common.loading import to_device
from trainers.common.precision import in_groups
from trainers.common.preview import write_preview
from trainers.common.ranks import sum_over_ranks
from trainers.common.stopping import StoppedError, Watched
from trainers.skulls.surfaces import surface_mesh
from trainers.voxelization.data import VoxelPairs, target_of
from trainers.voxelization.mesh_files import write_cloud, write_mesh
from trainers.voxelization.state import VoxelRun

BASELINE_SKULLS = 16
"""Training grids that the mean volume is taken over, at most."""


def psr_loss(predicted: Tensor, target: Tensor, use_tanh: bool, weight: float) -> Tensor:
    """Return the mean squared difference of two grids (B, X, Y, Z), of their tanh if asked."""
    if use_tanh:
        predicted, target = torch.tanh(predicted), torch.tanh(target)
    return weight * functional.mse_loss(predicted, target)


def grid_scores(predicted: Tensor, target: Tensor, level: float) -> dict[str, Tensor]:
    """Return sums over a batch of mean |p − t|, mean (p − t)², and IoU of what lies inside.

    They stay on the device: reading one would wait for it.
    """
    difference = predicted - target
    inside, truth = predicted <= level, target < 0
    axes = (1, 2, 3)
    both = (inside & truth).sum(axes).double()
    either = (inside | truth).sum(axes).double().clamp_min(1)
    return {
        "psr_l1": difference.abs().mean(axes).double().sum(),
        "psr_l2": difference.square().mean(axes).double().sum(),
        "psr_iou": (both / either).sum(),
    }


@torch.no_grad()
def validate(run: VoxelRun) -> dict[str, float]:
    """Return means of grid_scores over the held-out pairs, and draw the first of them.

    Raises StoppedError on every rank where a stop was asked for meanwhile.
    """
    run.reporter.phase("validating")
    dataset, level = run.evaluation, run.values["data.zero_level"]
    mine = list(range(len(dataset)))[run.ranks.rank :: run.ranks.world]
    batches = list(in_groups(mine, run.settings.batch_size))
    sums: dict[str, Tensor | float] = dict.fromkeys(("psr_l1", "psr_l2", "psr_iou"), 0.0)
    shown: dict[str, list[Tensor]] = {"input": [], "predicted": [], "target": []}
    names: list[str] = []

    def judge_own() -> None:
        for loaded in run.stop.watched(run.judged_by.batches(batches)):
            batch = to_device(loaded, run.ranks.device)
            predicted = run.solver(*run.network(batch["inputs"]))
            targets = target_of(batch, dataset.grid)
            for name, value in grid_scores(predicted, targets, level).items():
                sums[name] += value
            for place in range(min(4 - len(names), len(predicted))):
                shown["input"].append(point_slice(batch["inputs"][place], dataset.grid))
                shown["predicted"].append(middle(predicted[place]).clamp(-0.6, 0.6))
                shown["target"].append(middle(targets[place]))
                names.append(batch["name"][place])

    run.network.eval()
    run.stop.shared(run.ranks.device, judge_own)
    run.network.train()
    totals = sum_over_ranks([*map(float, sums.values()), float(len(mine))], run.ranks.device)
    if run.ranks.leads and names:
        draw(run, shown, names, f"validation_it_{run.position.it:08d}")
    return {name: total / totals[-1] for name, total in zip(sums, totals, strict=False)}


def baseline_scores(run: VoxelRun) -> dict[str, float]:
    """Return the mean volume's scores; none where a stop was asked for meanwhile."""
    try:
        return mean_volume_scores(run.training, run.evaluation, run.stop.watched)
    except StoppedError:
        return {}


def mean_volume_scores(
    training: VoxelPairs, evaluation: VoxelPairs, watched: Watched = iter
) -> dict[str, float]:
    """Return the scores of the training grids' mean as an answer to every held-out pair.

    `watched` yields what it is given, one grid after the other, as StopRequest's does.
    """
    seen: dict[str, int] = {}
    for index, pair in enumerate(training.pairs):
        seen.setdefault(pair.subject, index)
    chosen = list(seen.values())[:BASELINE_SKULLS]
    mean = sum(training.target(index) for index in watched(chosen)) / len(chosen)
    assert isinstance(mean, Tensor)
    sums: dict[str, Tensor | float] = dict.fromkeys(("psr_l1", "psr_l2", "psr_iou"), 0.0)
    held: dict[str, list[int]] = {}
    for index, pair in enumerate(evaluation.pairs):
        held.setdefault(pair.subject, []).append(index)
    # Defects of one skull have one target, so it is read once and counted as often.
    for indices in watched(held.values()):
        target = evaluation.target(indices[0])
        for name, value in grid_scores(mean[None], target[None], 0.0).items():
            sums[name] += value * len(indices)
    return {name: float(total) / len(evaluation) for name, total in sums.items()}


def middle(grid: Tensor) -> Tensor:
    """Return the slice of a grid (X, Y, Z) in the middle of axis 0, with axis 2 upwards."""
    return grid[grid.shape[0] // 2].T.flip(0).float().cpu()


def point_slice(points: Tensor, grid: tuple[int, int, int]) -> Tensor:
    """Return how many points (N, 3) lie near the middle slice, per pixel of that slice, 0…1."""
    where = (points.detach().cpu() * max(grid)).long()
    near = where[(where[:, 0] - grid[0] // 2).abs() <= max(1, grid[0] // 64)]
    flat = near[:, 1].clamp(0, grid[1] - 1) * grid[2] + near[:, 2].clamp(0, grid[2] - 1)
    counts = torch.bincount(flat, minlength=grid[1] * grid[2]).view(grid[1], grid[2]).float()
    return counts.clamp_max(2).div(2).T.flip(0)


def draw(run: VoxelRun, rows: Mapping[str, list[Tensor]], names: list[str], stem: str) -> None:
    """Write rows of slices as a PNG of the run and report it."""
    path = run.settings.output_dir.absolute() / "pictures" / f"{stem}.png"
    title = f"slice through the middle, {run.position.it} steps done"
    write_preview(path, rows, title, names)
    run.reporter.image(path, title, run.position.it)


def preview_inputs(run: VoxelRun, batch: Mapping[str, Any]) -> None:
    """Write the first batch's points beside its targets, before the first step."""
    if not run.ranks.leads:
        return
    grid = run.training.grid
    rows = {
        "input": [point_slice(points, grid) for points in batch["inputs"][:4]],
        "target": [middle(target) for target in target_of(batch, grid)[:4]],
    }
    draw(run, rows, list(batch["name"][:4]), f"inputs_it_{run.position.it:08d}")


@torch.no_grad()
def visualise(run: VoxelRun, batch: Mapping[str, Any], points: Tensor, normals: Tensor) -> None:
    """Draw a training item as the network sees it now, with cloud and mesh files where asked."""
    if not run.ranks.leads:
        return
    field = run.solver(points[:1].detach(), normals[:1].detach())[0].float().cpu()
    rows = {
        "input": [point_slice(batch["inputs"][0], run.training.grid)],
        "predicted": [middle(field).clamp(-0.6, 0.6)],
        "target": [middle(target_of(batch, run.training.grid)[0])],
    }
    stem = f"training_it_{run.position.it:08d}"
    draw(run, rows, [batch["name"][0]], stem)
    folder: Path = run.settings.output_dir.absolute() / "vis"
    if run.values["train.exp_pcl"]:
        cloud = points[0].detach().float().cpu().numpy()
        write_cloud(folder / f"{stem}.ply", cloud, normals[0].detach().float().cpu().numpy())
    if run.values["train.exp_mesh"]:
        inside = (field <= run.values["data.zero_level"]).numpy()
        if inside.any():
            vertices, faces = surface_mesh(inside, 0.5)
            write_mesh(folder / f"{stem}.stl", vertices, faces)


def finite_scores(values: Mapping[str, float]) -> bool:
    """Return whether every score is a number."""
    return bool(np.isfinite(list(values.values())).all())
