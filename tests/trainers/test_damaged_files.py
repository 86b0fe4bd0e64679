"""Files with wrong bytes in them are read, or refused by name: no reader lets another error out."""

import random
import re
from collections.abc import Callable
from pathlib import Path

import nibabel
import numpy as np
import pytest
import torch

from tests.trainers.test_cascade_dicom import write_slices
from trainers.cascade.patients import CALIBRATION, read_calibration, read_ct
from trainers.common.checkpoint import load_checkpoint, save_checkpoint
from trainers.common.errors import SettingsError
from trainers.gaussian.features import (
    POLARITY_NAME,
    read_density,
    read_disparity,
    read_polarity,
)
from trainers.gaussian.networks import agreed_polarity
from trainers.implants.evaluate import read_cases
from trainers.skulls.listing import load_cloud
from trainers.skulls.resampling import read_placement

VOLUME = np.random.default_rng(0).normal(-200, 300, (6, 6, 6)).astype(np.float32)


def written_nifti(folder: Path) -> Path:
    nibabel.save(nibabel.Nifti1Image(VOLUME, np.eye(4)), folder / "a.nii")
    return folder / "a.nii"


def written_cloud(folder: Path) -> Path:
    np.save(folder / "cloud.npy", VOLUME.reshape(-1, 3))
    return folder / "cloud.npy"


def written_checkpoint(folder: Path) -> Path:
    model = torch.nn.Linear(3, 4)
    optimiser = torch.optim.Adam(model.parameters())
    model(torch.ones(2, 3)).sum().backward()
    optimiser.step()
    content = {"model": model.state_dict(), "optimiser": optimiser.state_dict()}
    save_checkpoint(folder / "a.pt", content)
    return folder / "a.pt"


@pytest.mark.parametrize(
    ("write", "read", "where"),
    [
        (written_nifti, lambda path: read_ct(path, None), (0, 352)),
        (written_cloud, load_cloud, (0, 128)),
        (lambda folder: write_slices(folder)[0], lambda path: read_ct(path.parent, None), (128, 400)),
        (written_checkpoint, load_checkpoint, (0, 900)),
    ],
    ids=["nifti", "cloud", "dicom", "checkpoint"],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore")  # of what reads them: hundreds
def test_wrong_bytes_are_read_or_refused_by_name(
    write: Callable[[Path], Path],
    read: Callable[[Path], object],
    where: tuple[int, int],
    tmp_path: Path,
) -> None:
    path, chance, refused = write(tmp_path), random.Random(4), 0
    whole = path.read_bytes()
    read(path)
    for _ in range(150):
        damaged = bytearray(whole)
        for _ in range(chance.choice((1, 1, 2, 4))):
            damaged[chance.randrange(*where)] = chance.randrange(256)
        path.write_bytes(damaged)
        try:
            read(path)
        except SettingsError as problem:
            assert str(tmp_path) in str(problem)
            refused += 1
    assert refused


@pytest.mark.parametrize(
    ("read", "arrays"),
    [
        (read_disparity, (np.zeros(7, "f4"), np.zeros(0, "f4"), np.full(4, np.nan, "f4"))),
        (
            lambda path: read_density(path, 16),
            (np.array([["a"]]), np.zeros((0, 0)), np.zeros((2, 3)), np.full((1, 1), np.nan), None),
        ),
    ],
    ids=["depth", "density"],
)
def test_numbers_beside_a_photograph_that_are_no_square_are_refused_by_name(
    read: Callable[[Path], object], arrays: tuple[np.ndarray | None, ...], tmp_path: Path
) -> None:
    for array in arrays:
        path = tmp_path / "beside"
        with path.open("wb") as file:
            if read is read_disparity:
                array.tofile(file)
            elif array is None:
                np.savez(file, a=np.zeros(1))
            else:
                np.save(file, array)
        with pytest.raises(SettingsError, match=re.escape(str(path))):
            read(path)


@pytest.mark.parametrize(
    ("read", "name"),
    [
        (lambda path: read_calibration(path.parent, "auto", None), CALIBRATION),
        (lambda path: read_polarity(path.parent), POLARITY_NAME),
        (lambda path: agreed_polarity(None, path.parent), "config.json"),
        (lambda path: read_cases(path.parent), "benchmark_cases.csv"),
        (read_placement, "skull_placement.json"),
    ],
)
@pytest.mark.parametrize(
    "text",
    [
        "", "{", "[1]", "3", "null", "dice\n0.5\n",
        '{"polarity": 3, "model_type": [], "crop": 5, "field_of_view_mm": ["a", 1, 2]}',
        '{"crop": [[1]], "field_of_view_mm": [0, 1, 2], "polarity": []}',
        '{"xray_calibration": "line_integral", "xray_maximum": -1, "crop": {}, "polarity": null}',
    ],
)  # fmt: skip
def test_what_no_program_wrote_is_refused_by_name(
    read: Callable[[Path], object], name: str, text: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_text(text)
    if name == "config.json" and text.startswith('{"'):
        read(path)  # one of another network, of which nothing is known
        return
    with pytest.raises(SettingsError, match=re.escape(str(path))):
        read(path)
