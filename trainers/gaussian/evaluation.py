"""How good a decoder is on unseen photographs, beside each image's mean colour."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from trainers.common.loading import EpochLoader, to_device
from trainers.common.precision import in_groups
from trainers.common.ranks import sum_over_ranks
from trainers.common.stepping import judged_weights
from trainers.gaussian import losses
from trainers.gaussian.contact_sheet import write_contact_sheet
from trainers.gaussian.decoder import GaussianDecoder
from trainers.gaussian.pairs import UNSEEN, judge_unseen, known_window, moved_by
from trainers.gaussian.perceptual import Lpips
from trainers.gaussian.photographs import Collection, PhotographSet
from trainers.gaussian.projection import Camera, Gaussians
from trainers.gaussian.render import Drawer, render
from trainers.gaussian.views import cut

if TYPE_CHECKING:
    from trainers.gaussian.run import GaussianRun

MOST_SHOWN = 8


@torch.no_grad()
def decode(decoder: GaussianDecoder, batch: dict[str, Any], slots: int | None = None) -> Gaussians:
    """Return the Gaussians of a batch, to be seen from the front."""
    asked = {"slots": slots} if decoder.settings.experiment == 2 else {}
    if decoder.settings.pose_encoding:
        asked["pose"] = torch.zeros(len(batch["features"]), 2, device=batch["features"].device)
    gaussians = decoder(batch["features"], batch.get("disparity"), **asked)
    return Gaussians(*(part.float() for part in gaussians))


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


def names_of(collection: Collection) -> tuple[str, ...]:
    """Return the names of all figures: NAMES, and UNSEEN where pictures have unseen views."""
    return NAMES + UNSEEN if collection.unseen else NAMES


def seen_by_all(collection: Collection, camera: Camera) -> Camera:
    """Return the camera, with the window that all posed pictures know where there are any."""
    if not collection.unseen:
        return camera
    return camera._replace(window=known_window(collection.cameras.values(), camera.size))


class Judged(NamedTuple):
    """Figures (B,) by name, and the last view that was judged: photographs beside renders.

    That is the unseen view where there is one.
    """

    figures: dict[str, Tensor]
    photographs: Tensor
    renders: Tensor


@torch.no_grad()
def judge_batch(
    decoder: GaussianDecoder,
    batch: dict[str, Any],
    camera: Camera,
    draw: Drawer,
    slots: int | None = None,
    lpips: Lpips | None = None,
) -> Judged:
    """Draw a batch, from its unseen cameras too where it has any, and compare."""
    gaussians, image = decode(decoder, batch, slots), cut(batch["image"], camera.window)
    drawn = render(gaussians, camera, draw).image.clamp(0, 1)
    figures = dict(zip(NAMES, judge(drawn, image), strict=True))
    if lpips is not None:
        figures["held_out_lpips"] = lpips(drawn, image)
    if "unseen" not in batch:
        return Judged(figures, image, drawn)
    unseen = cut(batch["unseen"], camera.window)
    drawn = render(moved_by(gaussians, batch["motion"]), camera, draw).image.clamp(0, 1)
    figures |= zip(UNSEEN, judge_unseen(drawn, unseen, image), strict=True)
    if lpips is not None:
        figures |= {"unseen_lpips": lpips(drawn, unseen), "unchanged_lpips": lpips(image, unseen)}
    return Judged(figures, unseen, drawn)


def evaluate(
    run: GaussianRun,
    held_out: EpochLoader[PhotographSet],
    slots: int,
    sheet: tuple[Path, str] | None,
) -> dict[str, float]:
    """Return the means of all figures over held-out images; draw some where a sheet is named.

    Raises StoppedError on every rank where a stop was asked for meanwhile.
    """
    settings, ranks, decoder = run.settings, run.ranks, run.decoder
    mine = list(range(len(held_out.dataset)))[ranks.rank :: ranks.world]
    batches = list(in_groups(mine, settings.batch_size))
    names = names_of(run.collection)
    sums: dict[str, Tensor | float] = dict.fromkeys(names, 0.0)
    shown: list[tuple[Tensor, Tensor, str, float]] = []
    camera = seen_by_all(run.collection, Camera(settings.image_size, settings.blur))

    def judge_own() -> None:
        nonlocal shown
        for loaded in run.stop.watched(held_out.batches(batches)):
            batch = to_device(loaded, ranks.device)
            found = judge_batch(decoder, batch, camera, run.draw, slots)
            for name, values in found.figures.items():
                # Read once at the end: every reading waits for the device.
                sums[name] += values.sum().double()
            if sheet and ranks.leads and len(shown) < MOST_SHOWN:
                shown += shown_of(found, batch["name"])

    decoder.eval()
    with judged_weights(run):
        run.stop.shared(ranks.device, judge_own)
    decoder.train()
    own = [*map(float, sums.values()), float(len(mine))]
    *totals, count = sum_over_ranks(own, ranks.device)
    if sheet and ranks.leads:
        photographs, renders, titles, marks = zip(*shown[:MOST_SHOWN], strict=True)
        write_contact_sheet(
            sheet[0], torch.stack(photographs), torch.stack(renders), titles, marks, sheet[1]
        )
    return {name: total / count for name, total in zip(names, totals, strict=True)}


def shown_of(found: Judged, names: list[str]) -> list[tuple[Tensor, Tensor, str, float]]:
    """Return a batch's photographs, renders, names and PSNR, as a contact sheet shows them."""
    marks = found.figures[UNSEEN[0] if UNSEEN[0] in found.figures else NAMES[0]].tolist()
    return list(zip(found.photographs.cpu(), found.renders.cpu(), names, marks, strict=True))
