"""The lines a run begins, goes on and ends with."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

from trainers.common.preview import write_preview
from trainers.gaussian.hfts import phase_of, work_saved
from trainers.gaussian.options import savings
from trainers.gaussian.photographs import PhotographSet
from trainers.gaussian.run import GaussianRun
from trainers.gaussian.tiles import MEMORY


def announce(run: GaussianRun, resumed_from: Path | None, batch: str) -> None:
    """Print what was found and what is about to happen."""
    settings, collection, write = run.settings, run.collection, run.reporter.write
    parameters = sum(parameter.numel() for parameter in run.decoder.parameters())
    depth = (
        f"depth files ({collection.polarity})"
        if collection.has_depth
        else "no depth files: one plane"
    )
    description = f"DINOv2 features of {settings.feature_dim} channels"
    if settings.features == "patch":
        description = "descriptors of the pixels around each patch, not DINOv2 features"
    found = {
        "training images": len(collection.training),
        "held out": len(collection.held_out),
        "source": settings.data_dir or "crops shipped with scikit-image and scikit-learn",
        "input": f"{description}; {depth}",
        "parameters": f"{parameters:,}",
        "gaussians": f"{run.decoder.gaussians:,}",
    }
    run.reporter.start(
        found=found,
        batch=batch,
        rate=run.rate[1],
        epochs=settings.epochs,
        steps=run.steps,
        step=run.position.step,
        resumed_from=resumed_from,
    )
    write(
        f"model        {type(run.decoder).__name__}, {parameters:,} parameters,"
        f" {run.decoder.gaussians:,} Gaussians an image, geometry {settings.geometry}"
    )
    write(
        f"drawn        {settings.image_size} px, blur {settings.blur:g} px²; {run.precision.name}"
    )
    asked = savings(settings)
    phases: list[str] = []
    for epoch in range(settings.epochs):
        phase = phase_of(epoch, settings.epochs, settings.image_size, run.decoder.slots, asked)
        if not phases or not phases[-1].endswith(phase.describe()):
            phases.append(f"from epoch {epoch + 1}: {phase.describe()}")
    for line in phases if len(phases) > 1 else ():
        write(f"phase        {line}")
    if len(phases) > 1:
        saved = work_saved(settings.image_size, run.decoder.slots, asked, settings.epochs)
        write(
            f"phase        {saved.patches:.1f} x fewer patches decoded and {saved.pixels:.1f} x"
            " fewer pixels drawn than in as many full epochs"
        )


def show_inputs(run: GaussianRun, photographs: PhotographSet) -> None:
    """Write the first batch's inputs beside its targets to inputs.png."""
    items = [photographs[index] for index in range(min(6, len(photographs)))]
    rows = {"photograph": [item["image"] for item in items]}
    rows["features (norm)"] = [item["features"].norm(dim=0) for item in items]
    if run.collection.has_depth:
        rows["disparity"] = [item["disparity"][0] for item in items]
    path = run.settings.output_dir.absolute() / "images" / "inputs.png"
    write_preview(
        path, rows, "what the decoder is told and should draw", [item["name"] for item in items]
    )
    run.reporter.image(path, "inputs and targets of the first images")


def epoch_lines(run: GaussianRun, number: int, seconds: float) -> None:
    """Print how an epoch ended, first in upstream's words as far as they are true here."""
    values = run.values
    run.reporter.write(
        f"Epoch {number} complete | Time: {seconds:.1f}s | Loss: {values.get('loss', math.nan):.4f}"
        f" | RGB: {values.get('l1', math.nan):.4f}"
    )
    left_out = MEMORY.take_left_out()
    if left_out:
        run.reporter.warn(
            f"epoch {number}: tiles filled up faster than expected: {left_out:,} pairs of a tile"
            " and a Gaussian behind others were not drawn in its steps; the next ones have room"
        )
    if "held_out_psnr" not in values:
        return
    run.reporter.write(
        f"held out     PSNR {values['held_out_psnr']:.2f} dB, SSIM {values['held_out_ssim']:.4f}"
        f" (mean colour {values['mean_colour_psnr']:.2f} dB, {values['mean_colour_ssim']:.4f})"
    )
    if "unseen_psnr" in values:
        run.reporter.write(unseen_line(values))


def unseen_line(values: Mapping[str, float]) -> str:
    """Return how well the unseen views are drawn, beside the shown ones left as they are."""
    parts = []
    for kind in ("unseen", "unchanged"):
        lpips = values.get(f"{kind}_lpips")
        parts.append(
            f"PSNR {values[f'{kind}_psnr']:.2f} dB, SSIM {values[f'{kind}_ssim']:.4f}"
            + ("" if lpips is None else f", LPIPS {lpips:.4f}")
        )
    return f"unseen view  {parts[0]} (the shown view unchanged: {parts[1]})"


def summarise(run: GaussianRun, seconds: float) -> None:
    """Print how the run ended, after so many seconds, and whether it beats the mean colour."""
    values, write = run.values, run.reporter.write
    final = {name: value for name, value in values.items() if math.isfinite(value)}
    write(f"final        loss {final.get('loss', math.nan):.4f}")
    shares = [
        f"{name[6:]} {100 * value:.0f} %"
        for name, value in final.items()
        if name.startswith("share_")
    ]
    if shares:
        write(f"shares       {', '.join(shares)} of the loss")
    if "held_out_psnr" in final:
        write(
            f"held out     PSNR {final['held_out_psnr']:.2f} dB, SSIM {final['held_out_ssim']:.4f};"
            f" the mean colour alone reaches {final['mean_colour_psnr']:.2f} dB,"
            f" {final['mean_colour_ssim']:.4f}"
        )
        if "unseen_psnr" in final:
            write(unseen_line(final))
            if final["unseen_psnr"] <= final["unchanged_psnr"]:
                run.reporter.warn(
                    "the unseen view is no better drawn than by the shown one as it is"
                )
        if final["held_out_psnr"] <= final["mean_colour_psnr"]:
            run.reporter.warn(
                "the model is no better than each image's mean colour: it has learnt nothing yet"
            )
    if run.saved is not None:
        write(f"checkpoint   {run.saved} ({run.saved.stat().st_size / 1e6:.1f} MB)")
    write(f"time         {seconds:.1f} s, start included")
    run.reporter.finish(final)
