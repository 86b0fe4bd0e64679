"""What a stage trains on: volumes at its size, X-rays, line integrals and voxel sizes."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from trainers.cascade.config import Config
from trainers.cascade.dicom import fingerprint
from trainers.cascade.geometry import Geometry, ParallelBeam, line_integrals
from trainers.cascade.patients import Calibration, Patient, fit, read_ct, read_xray
from trainers.cascade.projector import hu_from_unit, unit_from_hu
from trainers.common.files import DAMAGED, write_whole
from trainers.common.kept_items import KeptItems, size_of
from trainers.common.randomness import sample_generator
from trainers.common.settings_parser import SettingsError

SPLIT_SEED = 42
"""The facts' split: by patient, shuffled from this seed whatever --seed says, so that runs can be
compared.
"""
CACHE_VERSION = 2
GAIN = 0.05
"""Augmentation brightens or darkens what the model sees of an X-ray by up to so much of its range.
"""


@dataclass(frozen=True)
class Splits:
    """Patients for training, for choosing the best weights, and for the last word."""

    train: list[Patient]
    val: list[Patient]
    test: list[Patient]


def split_patients(patients: Sequence[Patient], shares: tuple[float, float, float]) -> Splits:
    """Return the patients dealt out by shares. Raises SettingsError where one to train or to judge
    by is missing.
    """
    order = np.random.default_rng(SPLIT_SEED).permutation(len(patients))
    dealt = [patients[place] for place in order]
    val = max(1, round(shares[1] * len(dealt)))
    test = round(shares[2] * len(dealt))
    train = len(dealt) - val - test
    if train < 1:
        raise SettingsError(
            f"{len(dealt)} patients are too few for splits of {', '.join(f'{s:g}' for s in shares)}"
        )
    return Splits(dealt[:train], dealt[train : train + val], dealt[train + val :])


@dataclass
class PatientData:
    """Loads patients at a stage's size, resampled once into a cache folder.

    The cache is .npz files; `patients` stay in memory too if asked, once for all loader workers.
    """

    config: Config
    calibration: Calibration
    cache: Path
    size: int
    patients: Sequence[Patient] = ()
    _kept: KeptItems | None = None

    def __post_init__(self) -> None:
        asked = self.patients if self.config.data["cache_in_memory"] else ()
        self._places = {patient.name: place for place, patient in enumerate(asked)}

    def load(self, patient: Patient) -> dict[str, Tensor]:
        """Return `volume`, `xrays`, `integrals` and `spacing` of a patient.

        `volume` (1, D, D, D) and `xrays` (V, S, S) are in [-1, 1], `integrals` is (V, D, D),
        `spacing` (3,) in mm. Line integrals are the X-rays' where those are calibrated, else those
        of the CT itself.
        """
        place = self._places.get(patient.name)
        kept = None if self._kept is None or place is None else self._kept.find(place)
        if kept is not None:
            return {**kept, "volume": unit_from_hu(kept["volume"].float())}
        hu, spacing = self.volume(patient)
        check_extent(patient, spacing * self.size, self.config.geometry)
        whole = torch.from_numpy(hu)[None]
        volume = unit_from_hu(whole.float())
        views, flip = self.config.views, bool(self.config.data["flip_drrs_vertical"])
        seen = [
            read_xray(patient.xrays[v], self.config.image_size, flip, self.calibration)
            for v in views
        ]
        measured = [integrals for _, integrals in seen if integrals is not None]
        if measured:
            integrals = fit(torch.stack(measured)[None], (self.size, self.size))[0]
        else:
            widths = torch.from_numpy(spacing)[None].float()
            integrals = line_integrals(volume[None], views, widths, self.config.geometry)[0]
        item = {
            "volume": volume,
            "xrays": torch.stack([image for image, _ in seen]),
            "integrals": integrals,
            "spacing": torch.from_numpy(spacing).float(),
        }
        if place is not None:
            self._keep(place, {**item, "volume": whole})
        return item

    def _keep(self, place: int, item: dict[str, Tensor]) -> None:
        """Keep a patient, its volume as the int16 that it is made of: half as much."""
        if self._kept is None:
            room = len(self._places) * size_of(item)
            try:
                self._kept = KeptItems(len(self._places), room, item)
            except OSError as problem:
                raise SettingsError(
                    f"data.cache_in_memory: {len(self._places)} patients at {self.size}^3 are"
                    f" {room / 2**30:.1f} GiB, which this machine does not have: set it to false"
                ) from problem
        self._kept.keep(place, item)

    @property
    def kept_bytes(self) -> int:
        """The memory that is set aside for what is kept."""
        return self._kept.bytes if self._kept else 0

    def volume(self, patient: Patient) -> tuple[np.ndarray, np.ndarray]:
        """Return HU (D, D, D) as int16 and voxel sizes in mm, by way of the cache."""
        key = f"{CACHE_VERSION} {fingerprint(patient.ct)} {self.calibration.field_of_view}"
        digest = hashlib.blake2b(key.encode(), digest_size=6).hexdigest()
        path = self.cache / f"{patient.name}_{self.size}_{digest}.npz"
        if path.is_file():
            try:
                with np.load(path) as kept:
                    return kept["hu"], kept["spacing"]
            except DAMAGED:
                path.unlink(missing_ok=True)
        full, extent = read_ct(patient.ct, self.calibration.field_of_view)
        resampled = fit(torch.from_numpy(full)[None, None], (self.size,) * 3)[0, 0]
        hu, spacing = resampled.round().short().numpy(), extent / self.size
        write_whole(path, lambda file: np.savez(file, hu=hu, spacing=spacing))
        return hu, spacing


def check_extent(patient: Patient, extent: np.ndarray, geometry: Geometry) -> None:
    """Raise SettingsError where a cone beam was said to cross a volume of another size in mm."""
    if isinstance(geometry, ParallelBeam) or np.allclose(extent, geometry.field_of_view, rtol=0.01):
        return
    found, stated = (
        " x ".join(f"{side:g}" for side in s) for s in (extent, geometry.field_of_view)
    )
    raise SettingsError(
        f"{patient.ct} is {found} mm along D, H, W, and geometry.field_of_view_mm says {stated}:"
        " crop or pad the volumes, as the X-rays were made, or correct it"
    )


class PatientSet(Dataset[dict[str, Any]]):
    """Some patients by index as they are, or by (epoch, index) augmented, which those decide.

    In place of `volume` an item has `hu`,
    (1, D, D, D) int16, of which unit_from_hu makes the same to the bit: half as much to send.
    """

    def __init__(self, data: PatientData, patients: Sequence[Patient], seed: int = 0) -> None:
        self.data, self.patients, self.seed = data, patients, seed

    def __len__(self) -> int:
        return len(self.patients)

    def __getitem__(self, place: int | tuple[int, int]) -> dict[str, Any]:
        epoch, index = place if isinstance(place, tuple) else (None, place)
        item = self.data.load(self.patients[index])
        if epoch is not None and self.data.config.data["augmentation"]:
            random = sample_generator(self.seed, epoch, index)
            item = augmented(item, self.data.config, random)
        volume = item["volume"]
        rest = {name: part for name, part in item.items() if name != "volume"}
        return {**rest, "hu": hu_from_unit(volume).round().short(), "index": index}


def item_bytes(config: Config, size: int) -> int:
    """Return the bytes of a PatientSet's item of size^3 voxels, none being read for it."""
    volume, views = 2 * size**3, len(config.views) * (config.image_size**2 + size**2)
    return volume + 4 * (views + 3)


def augmented(
    item: dict[str, Tensor], config: Config, random: np.random.Generator
) -> dict[str, Tensor]:
    """Return a patient mirrored left to right or not, X-rays too, and exposed a little differently.

    A mirrored patient has a mirrored frontal view and the same lateral one, which is so for
    parallel rays alone. Line integrals keep their exposure.
    """
    item = dict(item)
    if random.random() < 0.5 and config.geometry.mirrors:
        item["volume"] = item["volume"].flip(-1)
        for name in ("xrays", "integrals"):
            item[name] = mirrored(item[name], config.views)
    gain = 1 + GAIN * float(random.uniform(-1, 1))
    item["xrays"] = (item["xrays"] + 1) * gain - 1
    return item


def mirrored(images: Tensor, views: Sequence[str]) -> Tensor:
    """Return images (V, rows, columns) as the views of a patient mirrored left to right."""
    return torch.stack(
        [
            image.flip(-1) if view == "frontal" else image
            for image, view in zip(images, views, strict=True)
        ]
    )
