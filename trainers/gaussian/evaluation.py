"""How good a decoder is on unseen photographs, beside each image's mean colour."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from trainers.common.loading import make_loader, to_device
from trainers.common.ranks import sum_over_ranks
from trainers.gaussian import losses
from trainers.gaussian.contact_sheet import write_contact_sheet
from trainers.gaussian.decoder import GaussianDecoder
from trainers.gaussian.photographs import PhotographSet
from trainers.gaussian.projection import Camera, Gaussians
from trainers.gaussian.render import Drawer, render

if TYPE_CHECKING:
    from trainers.gaussian.run import GaussianRun

MOST_SHOWN = 8


@torch.no_grad()
def draw_batch(
    decoder: GaussianDecoder,
    batch: dict[str, Any],
    camera: Camera,
    draw: Drawer,
    slots: int | None = None,
) -> Tensor:
    """Return what a decoder draws for a batch, (B,3,S,S) in [0,1], seen from the front."""
    asked = {"slots": slots} if decoder.settings.experiment == 2 else {}
    if decoder.settings.pose_encoding:
        asked["pose"] = torch.zeros(len(batch["features"]), 2, device=batch["features"].device)
    gaussians = decoder(batch["features"], batch.get("disparity"), **asked)
    drawn = render(Gaussians(*(part.float() for part in gaussians)), camera, draw)
    return drawn.image.clamp(0, 1)


def judge(drawn: Tensor, image: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return PSNR and SSIM (B,) of what was drawn, and of each image's mean colour."""
    plain = image.mean(dim=(2, 3), keepdim=True).expand_as(image)
    return (
        losses.psnr(drawn, image),
        losses.ssim(drawn, image),
        losses.psnr(plain, image),
        losses.ssim(plain, image),
    )


NAMES = ("held_out_psnr", "held_out_ssim", "mean_colour_psnr", "mean_colour_ssim")


def evaluate(
    run: GaussianRun, held_out: PhotographSet, slots: int, sheet: tuple[Path, str] | None
) -> dict[str, float]:
    """Return the means of NAMES over the held-out images; draw some where a sheet is named."""
    settings, ranks, decoder = run.settings, run.ranks, run.decoder
    mine = list(range(len(held_out)))[ranks.rank :: ranks.world]
    batches = [
        mine[start : start + settings.batch_size]
        for start in range(0, len(mine), settings.batch_size)
    ]
    sums = [0.0] * (len(NAMES) + 1)
    shown: list[tuple[Tensor, Tensor, str, float]] = []
    weights = (
        {name: part.clone() for name, part in decoder.state_dict().items()} if run.ema else None
    )
    if run.ema:
        decoder.load_state_dict(run.ema.weights())
    decoder.eval()
    for loaded in make_loader(held_out, batches, ranks.device, settings.workers, settings.seed):
        batch = to_device(loaded, ranks.device)
        camera = Camera(settings.image_size, settings.blur)
        drawn = draw_batch(decoder, batch, camera, run.draw, slots)
        found = judge(drawn, batch["image"])
        for place, values in enumerate(found):
            sums[place] += values.sum().item()
        sums[-1] += len(drawn)
        shown += zip(batch["image"], drawn, batch["name"], found[0].tolist(), strict=True)
    decoder.train()
    if weights is not None:
        decoder.load_state_dict(weights)
    *totals, count = sum_over_ranks(sums, ranks.device)
    if sheet and ranks.leads:
        photographs, renders, names, marks = zip(*shown[:MOST_SHOWN], strict=True)
        write_contact_sheet(
            sheet[0], torch.stack(photographs), torch.stack(renders), names, marks, sheet[1]
        )
    return {name: total / count for name, total in zip(NAMES, totals, strict=True)}
