"""Going on from a checkpoint: ours to the bit, a published epoch_N.pth as far as it says."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from trainers.common.checkpoint import load_checkpoint
from trainers.common.errors import SettingsError
from trainers.common.resuming import AUTO, AUTO_OR_NEW, find_checkpoint, restore_and_warn
from trainers.common.weights import SUFFIX, read_weights
from trainers.pcdiff.diffusion import NOISE_SETTINGS, noise_settings
from trainers.pcdiff.naming import load_optimiser, load_weights, read_published

if TYPE_CHECKING:
    from trainers.pcdiff.run import PcdiffRun

IDENTITY = (
    "path", "made_up", "made_up_seed", "made_up_size", "dataset", "num_points", "num_nn",
    "embed_dim", "width_mult", "vox_res_mult", "up_convolutions", "attention", *NOISE_SETTINGS,
    "manualSeed",
)  # fmt: skip
DECIDED = ("points", "implant_points", "voxels", *NOISE_SETTINGS)
"""What exported weights were trained with and their shapes do not show."""
FREE = ("model", "niter", "checkpoint_dir", "checkpoint_freq", "keep_last_n", "saveIter", "vizIter",
        "diagIter", "val_freq", "print_freq", "prefetch_factor", "experiment_tag")  # fmt: skip


def go_on(run: PcdiffRun) -> Path | None:
    """Bring a run to where `--resume` or `--model` points; return the file, None to begin anew.

    With both, `--model` is what a run begins with that has no checkpoint of its own yet.
    """
    start, asked = run.settings.model, run.settings.resume
    if asked and asked not in (AUTO, AUTO_OR_NEW) and "model_state" in load_checkpoint(Path(asked)):
        start, asked = Path(asked), None  # a published one: begun with, as `--model` says it
    if start is not None and asked == AUTO:
        asked = AUTO_OR_NEW
    found = find_checkpoint(asked, run.folder, run.ranks, IDENTITY)
    if found is None and start is not None:
        if Path(start).suffix == SUFFIX:
            _with_weights(run, Path(start))
            return None
        if "model_state" in load_checkpoint(start):
            _from_published(run, start)
            return Path(start)
        found = find_checkpoint(str(start), run.folder, run.ranks, IDENTITY)
    if found is None:
        return None
    content, path, warnings = found
    load_weights(run.network, content["model"], path)
    run.optimiser.load_state_dict(content["optimiser"])
    run.precision.load_state_dict(content["precision"])
    if run.ema is not None and content["ema"] is not None:
        run.ema.load_state_dict(content["ema"])
    elif run.ema is not None:
        run.ema.restart(run.network)
        warnings.append(
            "the checkpoint has no averaged weights: the average begins with its weights"
        )
    for name, value in content["position"].items():
        setattr(run.position, name, value)
    position, batch = run.position, run.settings.bs
    position.step, _ = run.reporter.recount(
        position.step, position.epoch, position.used, batch, run.steps_per_epoch
    )
    restore_and_warn(run, content, warnings, FREE)
    run.reporter.write(f"Resuming from checkpoint {path} at epoch {run.position.epoch}")
    return path


def _with_weights(run: PcdiffRun, path: Path) -> None:
    """Begin a run, its first epoch to come, with exported weights; raises SettingsError."""
    weights, about = read_weights(path, "--model")
    known = about or {}
    trained = {**known.get("sizes", {}), **known.get("diffusion", {})}
    mine = {**run.network.sizes.as_dict(), **noise_settings(run.settings)}
    for name in DECIDED:
        if name in trained and trained[name] != mine[name]:
            raise SettingsError(
                f"--model {path}: its {name} is {trained[name]}, and this run's {mine[name]}"
            )
    load_weights(run.network, weights, path)
    if run.ema is not None:
        run.ema.restart(run.network)
    run.reporter.write(
        f"Beginning with the weights of {path} (epoch {known.get('epoch', '?')} there)"
    )


def _from_published(run: PcdiffRun, path: Path) -> None:
    content = read_published(path)
    load_weights(run.network, content["model_state"], path)
    if "optimizer_state" in content:
        load_optimiser(run.optimiser, content["optimizer_state"], path)
    else:
        run.reporter.warn(f"resume: {path} holds no optimizer_state: Adam begins anew")
    if run.ema is not None:
        run.ema.restart(run.network)
    position = run.position
    position.epoch = int(content.get("epoch", -1)) + 1
    position.step = position.epoch * run.steps_per_epoch
    run.reporter.warn(
        "resume: a published checkpoint says nothing of random generators, order of samples and"
        f" batch; epochs are counted on from {position.epoch}, the rate is this run's"
    )
    run.reporter.write(f"Resuming from checkpoint {path} at epoch {position.epoch}")
