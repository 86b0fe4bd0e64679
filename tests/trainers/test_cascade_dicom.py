"""Patients as scanners write them: a CT of DICOM slices reads as the same CT in NIfTI."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

np = pytest.importorskip("numpy")
torch = pytest.importorskip("torch")
nibabel = pytest.importorskip("nibabel")
pydicom = pytest.importorskip("pydicom")

from PIL import Image  # noqa: E402

from trainers.cascade.dicom import fingerprint  # noqa: E402
from trainers.cascade.patients import (  # noqa: E402
    Calibration,
    find_patients,
    open_ct,
    read_ct,
    read_xray,
)
from trainers.cascade.projector import VIEWS  # noqa: E402
from trainers.common.errors import SettingsError  # noqa: E402

pytestmark = pytest.mark.trainers
SPACING, COUNT = (1.5, 2.0, 3.0), 6
"""In mm from column to column, row to row and slice to slice."""
HU = np.random.default_rng(0).integers(-1000, 1000, (5, 4, COUNT)).astype(np.int16)
"""(x to the left, y to the back, z up), as a scanner counts."""


def dataset(pixels: Any, **more: Any) -> Any:
    made = pydicom.Dataset()
    made.file_meta = pydicom.dataset.FileMetaDataset()
    made.file_meta.TransferSyntaxUID = pydicom.uid.ExplicitVRLittleEndian
    made.file_meta.MediaStorageSOPClassUID = made.SOPClassUID = pydicom.uid.CTImageStorage
    made.file_meta.MediaStorageSOPInstanceUID = made.SOPInstanceUID = pydicom.uid.generate_uid()
    made.Rows, made.Columns = pixels.shape
    made.SamplesPerPixel, made.PhotometricInterpretation = 1, "MONOCHROME2"
    made.BitsAllocated = made.BitsStored = 16
    made.HighBit, made.PixelRepresentation = 15, 0
    made.PixelData = pixels.astype("<u2").tobytes()
    for name, value in more.items():
        setattr(made, name, value)
    return made


def write_slices(folder: Path, series: str = "1.2.3", **more: Any) -> list[Path]:
    """A CT lying on its back, head first; file names say nothing about the order."""
    folder.mkdir(parents=True, exist_ok=True)
    names = [folder / f"{series}_{k:03d}.dcm" for k in range(COUNT)]
    random.Random(1).shuffle(names)
    for k, path in enumerate(names):
        # Rows run to the back, columns to the left; HU = 2 * stored - 1024.
        made = dataset((HU[:, :, k].T.astype(np.int32) + 1024) // 2, SeriesInstanceUID=series,
                       ImageOrientationPatient=[1, 0, 0, 0, 1, 0],
                       ImagePositionPatient=[-3.0, -4.0, 10.0 + SPACING[2] * k],
                       PixelSpacing=[SPACING[1], SPACING[0]], RescaleSlope=2,
                       RescaleIntercept=-1024)  # fmt: skip
        for name, value in more.items():
            setattr(made, name, value(k) if callable(value) else value)
        made.save_as(path, enforce_file_format=True)
    return names


@pytest.mark.parametrize("ending", [".IMA", "", ".1.2.840.7"])
def test_slices_are_found_by_the_names_that_scanners_give(tmp_path: Path, ending: str) -> None:
    for path in write_slices(tmp_path / "ct", "7"):
        path.rename(path.with_suffix(ending))
    (tmp_path / "ct" / "notes.txt").write_text("none of them")
    assert read_ct(tmp_path / "ct", None)[0].shape == (4, COUNT, 5)


def test_slices_are_the_same_ct_as_in_nifti(tmp_path: Path) -> None:
    write_slices(tmp_path / "series")
    affine = np.diag([-SPACING[0], -SPACING[1], SPACING[2], 1.0])
    affine[:3, 3] = [3.0, 4.0, 10.0]
    nibabel.save(nibabel.Nifti1Image((HU // 2) * 2, affine), tmp_path / "ct.nii.gz")
    found, extent = read_ct(tmp_path / "series", None)
    wanted, sides = read_ct(tmp_path / "ct.nii.gz", None)
    assert found.shape == (4, COUNT, 5) and np.array_equal(found, wanted)
    np.testing.assert_allclose(extent, sides, rtol=1e-6)
    np.testing.assert_allclose(extent, [8.0, 18.0, 7.5], rtol=1e-6)
    images = open_ct(tmp_path / "series"), open_ct(tmp_path / "ct.nii.gz")
    np.testing.assert_allclose(images[0].affine, images[1].affine, atol=1e-5)


def test_sagittal_slices_from_the_right_lie_as_their_header_says(tmp_path: Path) -> None:
    """Columns to the back, rows to the feet, so that slices follow each other to the left."""
    write_slices(
        tmp_path / "s",
        ImageOrientationPatient=[0, 1, 0, 0, 0, -1],
        ImagePositionPatient=lambda k: [5.0 - SPACING[2] * k, 0.0, 0.0],
    )
    volume, extent = read_ct(tmp_path / "s", None)
    stored = (HU // 2) * 2  # (columns, rows, slices), the last towards the right
    assert np.array_equal(volume, stored.transpose(0, 1, 2)[:, :, ::-1])
    np.testing.assert_allclose(extent, [7.5, 8.0, 18.0], rtol=1e-6)


def test_a_patient_s_folder_may_hold_slices_and_dicom_x_rays(tmp_path: Path) -> None:
    for inside in ("P1", "p1_ct", "dicom"):
        place = tmp_path / inside / "P1"
        write_slices(place / inside)
        for stem in ("P1_pa", "P1_lat"):
            dataset(np.full((4, 4), 7)).save_as(place / f"{stem}.dcm", enforce_file_format=True)
        patients, problems = find_patients(tmp_path / inside, VIEWS)
        assert not problems and patients[0].ct == place / inside
        assert patients[0].xrays["lateral"].name == "P1_lat.dcm"


def test_the_cache_knows_when_a_slice_changes(tmp_path: Path) -> None:
    path = write_slices(tmp_path / "s")[0]
    before = fingerprint(tmp_path / "s")
    assert fingerprint(tmp_path / "s") == before
    path.write_bytes(path.read_bytes() + b"\0")
    after = fingerprint(tmp_path / "s")
    path.unlink()
    assert len({before, after, fingerprint(tmp_path / "s")}) == 3


@pytest.mark.parametrize(("bits", "inverted"), [(12, False), (16, True)])
def test_an_x_ray_in_dicom_is_the_same_in_png(bits: int, inverted: bool, tmp_path: Path) -> None:
    shares = np.random.default_rng(0).random((8, 8))
    stored = np.rint((1 - shares if inverted else shares) * (2**bits - 1))
    made = dataset(stored, BitsStored=bits, HighBit=bits - 1,
                   PhotometricInterpretation="MONOCHROME1" if inverted else "MONOCHROME2")  # fmt: skip
    made.save_as(tmp_path / "x.dcm", enforce_file_format=True)
    Image.fromarray(np.rint(shares * 65535).astype(np.uint16)).save(tmp_path / "x.png")
    calibration = Calibration("line_integral", 8.0)
    seen, integrals = read_xray(tmp_path / "x.dcm", 8, False, calibration)
    wanted, exact = read_xray(tmp_path / "x.png", 8, False, calibration)
    torch.testing.assert_close(seen, wanted, atol=2 / 4095, rtol=0)
    torch.testing.assert_close(integrals, exact, atol=8 / 4095, rtol=0)


def gap(k: int) -> list[float]:
    return [-3.0, -4.0, 3.0 * (k + (k > 3))]


def tilted(k: int) -> list[float]:
    return [-3.0, -4.0 + 0.5 * k, 3.0 * k]


@pytest.mark.parametrize(
    ("changed", "wrong"),
    [
        ({"ImagePositionPatient": gap}, "6 mm after slice 4 of 6: one is missing or there twice"),
        ({"ImagePositionPatient": tilted}, "axes lie up to 9.5 degrees off the patient's"),
        ({"ImagePositionPatient": lambda k: [k % 2, 0, 3 * k]}, "do not lie on one line"),
        ({"ImagePositionPatient": lambda k: [0, 0, 0]}, "there twice"),
        ({"SeriesInstanceUID": lambda k: f"1.{k % 2}"}, "slices of 2 series: leave one"),
        ({"PixelSpacing": lambda k: [1.0, 1.0 + k % 2]}, "slices of 2 pixel spacings"),
        ({"PixelData": b"\0\0"}, "cannot be read as a CT of DICOM"),
    ],
    ids=["gap", "tilt", "bent", "one place", "two series", "spacings", "short"],
)  # fmt: skip
def test_what_would_be_read_wrongly_is_refused(changed: dict, wrong: str, tmp_path: Path) -> None:
    write_slices(tmp_path / "s", **changed)
    with pytest.raises(SettingsError, match=wrong) as raised:
        read_ct(tmp_path / "s", None)
    assert str(tmp_path / "s") in str(raised.value)


def test_a_folder_without_a_ct_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "s").mkdir()
    with pytest.raises(SettingsError, match="holds 0 DICOM slices"):
        read_ct(tmp_path / "s", None)
    (tmp_path / "s" / "a.dcm").write_text("no DICOM at all")
    with pytest.raises(SettingsError, match=r"a\.dcm cannot be read as DICOM"):
        read_ct(tmp_path / "s", None)
    path = write_slices(tmp_path / "t")[0]
    made = pydicom.dcmread(path)
    del made.PixelSpacing
    made.save_as(path)
    with pytest.raises(SettingsError, match="cannot be read as a CT of DICOM"):
        read_ct(tmp_path / "t", None)
