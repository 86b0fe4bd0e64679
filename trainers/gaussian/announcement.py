"""The lines and events a run begins and ends with."""

from __future__ import annotations

import math
from pathlib import Path

import torch

from trainers.gaussian.decoder import GRID
from trainers.gaussian.progress import Run


def announce(run: Run, resumed_from: Path | None) -> None:
    """Say what is about to happen."""
    settings, ranks, collection = run.settings, run.ranks, run.collection
    parameters = sum(parameter.numel() for parameter in run.decoder.parameters())
    if ranks.device.type == "cuda":
        device = f"{torch.cuda.get_device_name(ranks.device)}"
    else:
        device = f"CPU, {torch.get_num_threads()} threads"
    if ranks.world > 1:
        device = f"{ranks.world} x {device}"
    source = settings.data_dir or "crops of photographs shipped with scikit-image and scikit-learn"
    told = f"DINOv2 features, {settings.feature_dim} channels"
    if settings.features == "patch":
        told = "descriptors of the pixels around each patch, not DINOv2 features"
    distance = "from disparity files" if collection.has_depth else "no depth files: all patches lie on one plane"
    k = settings.gaussians_per_patch
    run.say(f"model        DirectPatchDecoder, {parameters:,} parameters, {GRID * GRID * k:,} Gaussians an image")
    run.say(f"device       {device}")
    run.say(f"images       {len(collection.training)} for training, {len(collection.held_out)} held out: {source}")
    run.say(f"input        {told}; {distance}")
    run.say(
        f"work         {settings.epochs} epochs of {run.steps_per_epoch} steps, {settings.image_size} px,"
        f" batch {settings.batch_size} x {ranks.world}, learning rate {settings.lr:g}"
    )
    run.say(f"output       {settings.output_dir.absolute()}")
    counts = {
        "device": device,
        "parameters": parameters,
        "training_images": len(collection.training),
        "held_out_images": len(collection.held_out),
    }
    resumed = {"resumed_from": resumed_from, "step": run.step} if resumed_from else {}
    run.events.emit("start", epochs=settings.epochs, steps=run.steps, settings=run.described() | counts, **resumed)


def summarise(run: Run, seconds: float) -> None:
    """Say how it ended, after so many seconds in all."""
    values = run.progress.values
    if run.saved is None:
        run.say("nothing left to train: all epochs were done before")
    shown = ("loss", "l1", "ssim", "depth", "held_out_psnr", "held_out_ssim", "mean_colour_psnr")
    final = {name: values[name] for name in shown if name in values}
    run.events.emit("summary", values=final)
    run.say(f"final        loss {final.get('loss', math.nan):.4f}")
    run.say(
        f"held out     PSNR {final['held_out_psnr']:.2f} dB, SSIM {final['held_out_ssim']:.4f};"
        f" the mean colour alone reaches {final['mean_colour_psnr']:.2f} dB"
    )
    if run.saved is not None:
        run.say(f"checkpoint   {run.saved} ({run.saved.stat().st_size / 1e6:.1f} MB)")
    run.say(f"time         {seconds:.1f} s, start included")
