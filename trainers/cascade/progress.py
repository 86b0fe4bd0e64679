"""What a run says: its first words, a step's losses, an epoch's figures in the facts' words."""

from __future__ import annotations

from pathlib import Path

from trainers.cascade.config import StageSettings
from trainers.cascade.dataset import item_bytes
from trainers.cascade.run import CascadeRun
from trainers.common.loading import check_shared_memory
from trainers.common.meters import ThroughputMeter
from trainers.common.schedules import batch_sentence


def loading_of(run: CascadeRun, stage: StageSettings) -> str:
    """Return what a stage's loading processes ask of /dev/shm; raise SettingsError for too much."""
    item, workers = item_bytes(run.config, stage.sizes.size), int(run.config.data["num_workers"])
    return check_shared_memory(item, stage.batch_size, workers, run.ranks.here)


def announce(run: CascadeRun, patients: int, resumed_from: Path | None) -> None:
    """Print what is about to happen."""
    config, world = run.config, run.ranks.world
    training = config.training
    for stage in config.stages[run.position.stage - 1 :]:
        loading_of(run, stage)  # before the first begins, though the last asks for most
    xrays = {"none": "uncalibrated; physics compares with the CT's own projections"}
    found = {
        "patients": f"{patients} in {config.data['dataset_path']}",
        "training": len(run.splits.train),
        "validation": len(run.splits.val),
        "test": len(run.splits.test),
        "X-rays": xrays.get(run.calibration.kind, f"calibrated as {run.calibration.kind}"),
    }
    everybody = (*run.splits.train, *run.splits.val, *run.splits.test)
    if several := [patient for patient in everybody if patient.unread]:
        first = several[0]
        run.reporter.warn(
            f"{len(several)} patients have more than one file for a CT or an X-ray, such as"
            f" {first.name}: {', '.join(path.name for path in first.unread)} is not read"
        )
    sentence = batch_sentence(run.stage.batch_size, world, training["accumulation_steps"])
    steps = sum(stage.epochs * run.steps_per_epoch(stage.number) for stage in config.stages)
    run.reporter.start(
        found=found,
        batch=f"{config.name}, {sentence}; mixed precision {training['mixed_precision']}",
        rate=f"learning rate {training['learning_rate']:g}, whatever the batch: in each stage"
        f" {training['warmup_steps']} steps of warm-up, then half a cosine",
        epochs=sum(stage.epochs for stage in config.stages),
        steps=steps,
        step=run.position.step,
        resumed_from=resumed_from,
    )


def report_step(
    run: CascadeRun,
    found: dict[str, float],
    rate: float,
    meter: ThroughputMeter,
    always: bool,
    aloud: bool,
) -> None:
    """Report a step's losses, and print them where it is time."""
    position, count = run.position, found["count"]
    loss, diffusion, physics = (found[name] / count for name in ("total", "diffusion", "physics"))
    values = {
        "loss": loss,
        "diffusion": diffusion,
        "learning_rate": rate,
        "gradient_norm": found["norm"],
    }
    if run.stage.physics_weight:
        values |= {
            "physics": physics,
            "physics_share": run.stage.physics_weight * physics / max(loss, 1e-12),
        }
    values |= meter.values()
    epoch = position.epochs_before + position.epoch + 1
    run.reporter.step(epoch, position.step, without_copies(run, values), always)
    if aloud:
        steps = run.steps_per_epoch(position.stage)
        done = position.step_in_stage - position.epoch * steps
        run.reporter.write(
            f"Epoch {position.epoch + 1}/{run.epochs} [Train]:"
            f" {100 * done // steps:3d}%| | {done}/{steps}"
            f" [{clock(meter.seconds)}<{clock(meter.seconds * (steps - done) / max(1, done))},"
            f" {meter.seconds / max(1, done):.2f}s/it,"
            f" loss={loss:.4f}, diff={diffusion:.4f}, phys={physics:.4f}]"
        )


def without_copies(run: CascadeRun, values: dict[str, float]) -> dict[str, float]:
    """Leave out the loss's parts where the stage has one alone, which is the loss once more."""
    if run.stage.physics_weight:
        return values
    parts = ("diffusion", "physics", "val_diffusion", "val_physics")
    return {name: value for name, value in values.items() if name not in parts}


def clock(seconds: float) -> str:
    """Return minutes and seconds."""
    return f"{int(seconds) // 60:02d}:{int(seconds) % 60:02d}"


def report_epoch(
    run: CascadeRun, trained: dict[str, float], values: dict[str, float], seconds: float
) -> None:
    """Print an epoch's losses and metrics in the facts' words, with the baselines beside them."""
    write, position = run.reporter.write, run.position
    write(f"Epoch {position.epoch}/{run.epochs} (time: {seconds:.2f}s):")
    parts = zip(("Total", "Diff", "Phys"), trained.values(), strict=True)
    write("  Train - " + ", ".join(f"{name}: {value:.6f}" for name, value in parts))
    if "val_loss" not in values:
        return
    parts = zip(
        ("Total", "Diff", "Phys"), ("val_loss", "val_diffusion", "val_physics"), strict=True
    )
    write("  Val   - " + ", ".join(f"{name}: {values[key]:.6f}" for name, key in parts))
    write(
        f"  Metrics - PSNR: {values['psnr']:.2f} dB, SSIM: {values['ssim']:.4f},"
        f" MAE: {values['mae_hu']:.1f} HU"
    )
    names = {"mean_volume_psnr": "mean volume", "back_projection_psnr": "back-projection",
             "upsampled_psnr": "stage before, enlarged"}  # fmt: skip
    beside = {shown: values[key] for key, shown in names.items() if key in values}
    write("  beside  - " + ", ".join(f"{shown} {value:.2f} dB" for shown, value in beside.items()))
    below = [shown for shown, value in beside.items() if values["psnr"] <= value]
    if below:
        write(f"  this model is not above {', '.join(below)} yet")
    if run.stage.physics_weight:
        write(
            f"  X-rays  - line integrals of sampled volumes {100 * values['physics_sampled']:.1f} %"
            " wrong (the guide wants < 10 %)"
        )
