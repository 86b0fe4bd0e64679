"""Validation: the loss at fixed noise, and sampled volumes beside the baselines."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from trainers.cascade.diffusion import seeded_noise
from trainers.cascade.losses import StageLoss, physics_error, stage_loss
from trainers.cascade.metrics import NAMES, interval, paired_lead, volume_metrics
from trainers.cascade.patients import Patient
from trainers.cascade.pictures import write_comparison
from trainers.cascade.preparing import Baselines, each_watched, patient_seed
from trainers.cascade.run import CascadeRun
from trainers.common.ranks import gather_from_ranks

TOLD_APART = 6
"""Patients from which on a lead in all of them is no chance: of five, one in sixteen has one."""
FIXED_TIMES = 4
"""Timesteps, spread evenly, at which the loss of each held-out patient is taken."""


@torch.no_grad()
def validation_loss(run: CascadeRun, baselines: Baselines) -> dict[str, float]:
    """Return val_loss, val_diffusion and val_physics over all validation patients.

    Every rank calls this. The noise is each patient's own and the same every time, and the stage
    before is what it samples, not the truth. Raises StoppedError, as all here that go through
    patients do, where a stop was asked for meanwhile.
    """
    stage, device = run.cascade.stages[-1], run.ranks.device
    stage.eval()
    sums = []

    def judge_own(patient: Patient) -> None:
        assert run.data is not None
        item = run.data.load(patient)
        seed = patient_seed(run, patient)
        times = torch.arange(FIXED_TIMES, device=device) * 2 + 1
        t = times * run.cascade.diffusion.timesteps // (2 * FIXED_TIMES)
        x0 = item["volume"][None].to(device).expand(FIXED_TIMES, -1, -1, -1, -1)
        noise = torch.stack(
            [seeded_noise(x0.shape[1:], device, *seed, 99, turn) for turn in range(FIXED_TIMES)]
        )
        losses = losses_at(run, item, x0, noise, t, before_of(run, baselines, patient, FIXED_TIMES))
        sums.append([float(part.mean()) if part is not None else 0.0 for part in parts_of(losses)])

    each_watched(run, run.splits.val, judge_own)
    stage.train()
    rows = [row for rows in gather_from_ranks(sums) for row in rows]
    means = [sum(column) / len(rows) for column in zip(*rows, strict=True)]
    return dict(zip(("val_loss", "val_diffusion", "val_physics"), means, strict=True))


def parts_of(losses: StageLoss) -> tuple[Tensor, Tensor, Tensor | None]:
    """Return total, diffusion and physics."""
    return losses.total, losses.diffusion, losses.physics


def losses_at(
    run: CascadeRun,
    item: dict[str, Tensor],
    x0: Tensor,
    noise: Tensor,
    t: Tensor,
    before: tuple[Tensor, Tensor] | None,
) -> StageLoss:
    """Return the losses of one patient's volume at several timesteps."""
    assert run.precision is not None
    stage, device, count = run.cascade.stages[-1], run.ranks.device, len(t)
    repeated = {
        # Laid out as a batch is: another layout would have a compiled stage compiled once more.
        k: item[k][None].to(device).repeat(count, *[1] * item[k].ndim)
        for k in ("xrays", "integrals", "spacing")
    }
    z0 = stage.standardise(x0)
    x_t = run.cascade.diffusion.add_noise(z0, noise, t)
    with run.precision.autocast():
        output = stage(x_t, t, repeated["xrays"], *(before or ()))
    weight = run.stage.physics_weight
    config = run.config
    given = (repeated["integrals"], config.views, repeated["spacing"], config.geometry)
    physics = given if weight else None
    diffusion = run.cascade.diffusion
    return stage_loss(diffusion, output, z0, noise, t, physics, weight, stage.volume_of)


def before_of(
    run: CascadeRun, baselines: Baselines, patient: Patient, count: int
) -> tuple[Tensor, Tensor] | None:
    """Return count samples of the stage before for a patient, and that stage's measured error."""
    number, device = run.position.stage, run.ranks.device
    if number == 1:
        return None
    volume = baselines.before[patient.name][None].to(device).expand(count, -1, -1, -1, -1)
    return volume, run.cascade.level(number - 1, count, device)


def judge(
    run: CascadeRun,
    baselines: Baselines,
    patients: Sequence[Patient],
    title: str = "",
    zeros: bool = False,
) -> dict[str, dict[str, Any]]:
    """Return each patient's metrics by what made the volume.

    That is the model, mean_volume, back_projection or upsampled. With zeros, `zeros` is the model
    given nothing of the stage before. Every rank calls this and gets all.
    """
    found = {}

    def judge_own(patient: Patient) -> None:
        found[patient.name] = judge_patient(run, baselines, patient, zeros)

    each_watched(run, patients, judge_own, title)
    return {name: judged for part in gather_from_ranks(found) for name, judged in part.items()}


def judge_patient(
    run: CascadeRun, baselines: Baselines, patient: Patient, zeros: bool
) -> dict[str, Any]:
    """Return a patient's metrics by what made the volume, and the model's error and physics."""
    assert run.data is not None
    item = run.data.load(patient)
    before = before_of(run, baselines, patient, 1)
    volume = sampled(run, item, patient, before[0] if before else None)
    truth = item["volume"].to(run.ranks.device)

    def metrics(answer: Tensor) -> dict[str, float]:
        return volume_metrics(answer.to(truth.device), truth)

    found: dict[str, Any] = {"model": metrics(volume)}
    known = baselines.judged.setdefault(patient.name, {})
    if not known:
        # They change no more while the stage is trained.
        answers = baselines.volumes(item, run.config, patient.name)
        known |= {name: metrics(baseline) for name, baseline in answers.items()}
    found |= known
    if zeros and before:
        found["zeros"] = metrics(sampled(run, item, patient, torch.zeros_like(before[0])))
    found["rmse"] = float((volume.clamp(-1, 1) - item["volume"]).square().mean().sqrt())
    physics = physics_error(
        volume[None], item["integrals"][None], run.config.views, item["spacing"][None],
        run.config.geometry,
    )  # fmt: skip
    found["physics"] = float(physics)
    return found


def sampled(
    run: CascadeRun, item: dict[str, Tensor], patient: Patient, before: Tensor | None
) -> Tensor:
    """Return the current stage's volume (1, D, D, D) on the CPU: the mean of validation_samples."""
    assert run.precision is not None
    training, number = run.config.training, run.position.stage
    with run.precision.autocast():
        mean, _ = run.cascade.mean_sample(
            number, item["xrays"][None].to(run.ranks.device), before, [patient_seed(run, patient)],
            training["sampling_steps"], training["validation_samples"],
        )  # fmt: skip
    return mean[0].float().cpu()


def means(judged: dict[str, dict[str, Any]]) -> dict[str, float]:
    """Return means over patients by metric.

    These are psnr, ssim, mae_hu, rmse, physics_sampled, and NAME_psnr of each baseline.
    """
    rows = list(judged.values())
    if not rows:
        return {}
    values = {}
    for name in NAMES:
        values[name], _, _ = interval([row["model"][name] for row in rows])
    for name in ("mean_volume", "back_projection", "upsampled", "zeros"):
        if name in rows[0]:
            values[f"{name}_psnr"] = interval([row[name]["psnr"] for row in rows])[0]
    values["rmse"] = math.sqrt(sum(row["rmse"] ** 2 for row in rows) / len(rows))
    values["physics_sampled"] = interval([row["physics"] for row in rows])[0]
    return values


def picture(
    run: CascadeRun, baselines: Baselines, patient: Patient, path_name: str, title: str
) -> None:
    """Write, on rank 0, a held-out patient's CT, the stage's volume and the baselines.

    Every rank calls this. Raises StoppedError on all where a stop was asked for meanwhile.
    """
    device = run.ranks.device
    run.stop.shared(device, lambda: _picture(run, baselines, patient, path_name, title))


def _picture(
    run: CascadeRun, baselines: Baselines, patient: Patient, path_name: str, title: str
) -> None:
    if not run.ranks.leads or run.data is None:
        return
    item = run.data.load(patient)
    before = before_of(run, baselines, patient, 1)
    volumes = {
        "CT": item["volume"],
        run.stage.name: sampled(run, item, patient, before[0] if before else None),
    }
    volumes |= {
        name.replace("_", " "): v
        for name, v in baselines.volumes(item, run.config, patient.name).items()
    }
    path = run.settings.checkpoint_dir / "images" / path_name
    write_comparison(path, volumes, title)
    run.reporter.image(path, title, run.position.step)


def table(judged: dict[str, dict[str, Any]], title: str) -> list[str]:
    """Return a table's lines: each maker's means with intervals, and the model's lead over it."""
    rows = list(judged.values())
    if not rows:
        return [f"{title}: no patients"]
    count = f"{len(rows)} patients" if len(rows) > 1 else "1 patient, so no interval"
    lines = [f"{title}: {count}, HU window [-1024, 1024], mean [95 % interval of it]"]
    makers = [name for name in rows[0] if isinstance(rows[0][name], dict)]
    for maker in makers:
        cells = []
        for name, unit in zip(NAMES, (" dB", "", " HU"), strict=True):
            mean, low, high = interval([row[maker][name] for row in rows])
            digits = 4 if name == "ssim" else 2
            label = {"psnr": "PSNR", "ssim": "SSIM", "mae_hu": "MAE"}[name]
            cells.append(f"{label} {mean:.{digits}f}{bounds(low, high, f'.{digits}f')}{unit}")
        lines.append(f"  {maker.replace('_', ' '):<16} {'  '.join(cells)}")
    for maker in makers[1:]:
        ours, theirs = ([row[who]["psnr"] for row in rows] for who in ("model", maker))
        lead, low, high = paired_lead(ours, theirs)
        verdict = "not told apart from"
        if len(rows) >= TOLD_APART and (low > 0 or high < 0):
            verdict = "above" if low > 0 else "below"
        name = maker.replace("_", " ")
        lines.append(
            f"  {verdict} {name}: {lead:+.2f} dB{bounds(low, high, '+.2f')}, patient by patient"
        )
    return lines


def bounds(low: float, high: float, form: str) -> str:
    """Return an interval in brackets, or nothing where there is none."""
    return "" if math.isnan(low) else f" [{low:{form}}, {high:{form}}]"
