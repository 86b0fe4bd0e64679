"""Patients on disk: names, orientation, calibration, damage, splits, cache; metrics."""

import json
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
nibabel = pytest.importorskip("nibabel")

from PIL import Image  # noqa: E402

from trainers.cascade.alignment import misaligned, other_turns  # noqa: E402
from trainers.cascade.cascade import Cascade  # noqa: E402
from trainers.cascade.config import read_config  # noqa: E402
from trainers.cascade.dataset import (  # noqa: E402
    PatientData,
    PatientSet,
    augmented,
    split_patients,
)
from trainers.cascade.geometry import line_integrals  # noqa: E402
from trainers.cascade.judging import table  # noqa: E402
from trainers.cascade.make_patients import main as make_main  # noqa: E402
from trainers.cascade.make_patients import make_patients  # noqa: E402
from trainers.cascade.metrics import (  # noqa: E402
    VolumeStatistics,
    interval,
    paired_lead,
    ssim,
    volume_metrics,
)
from trainers.cascade.patients import (  # noqa: E402
    Calibration,
    find_patients,
    read_calibration,
    read_ct,
    read_xray,
    to_body_axes,
    to_canonical_axes,
)
from trainers.cascade.projector import (  # noqa: E402
    VIEWS,
    unit_from_hu,
)
from trainers.cascade.sample import place_in_space  # noqa: E402
from trainers.common.settings_parser import SettingsError  # noqa: E402

pytestmark = pytest.mark.trainers


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Four made-up patients."""
    path = tmp_path_factory.mktemp("patients") / "data"
    assert make_patients(path, 4, 16, 32, seed=1, shown=False) == 4
    return path


@pytest.fixture
def config(tmp_path, folder):
    """A configuration of two stages on those patients."""
    path = tmp_path / "config.json"
    content = {
        "xray_config": {"img_size": 32},
        "stage_configs": [{"volume_size": [8] * 3, "voxel_dim": 16}],
        "data": {"dataset_path": str(folder), "augmentation": True},
    }
    path.write_text(json.dumps(content))
    return read_config(path)


def test_what_is_made_up_is_said_before_it_is_made(tmp_path, capfd, monkeypatch) -> None:
    from trainers.cascade import make_patients as program

    said = []
    monkeypatch.setattr(program, "write_patient", lambda *_: said.append(capfd.readouterr().out))
    assert make_main([str(tmp_path / "new"), "--count", "3"]) == 0
    assert said == [f"making up    3 patients in {tmp_path / 'new'}\n", "", ""]
    assert "made-up patients  3/3" in capfd.readouterr().err


def loaded(config, folder: Path, cache: Path, size: int = 8) -> PatientData:
    return PatientData(config, read_calibration(folder, "auto", None), cache, size)


def test_made_up_x_rays_are_those_of_the_made_up_ct(folder, config, tmp_path) -> None:
    patients, problems = find_patients(folder, VIEWS)
    assert len(patients) == 4 and not problems
    item = loaded(config, folder, tmp_path, 16).load(patients[0])
    from_ct = line_integrals(item["volume"][None], VIEWS, item["spacing"][None])[0]
    assert (item["integrals"] - from_ct).abs().mean() < 0.01 * from_ct.mean()
    assert item["spacing"].tolist() == [20.0] * 3
    assert misaligned(item, config, True) == (pytest.approx(1, abs=0.01), "")


def test_made_up_patients_are_made_once_and_another_kind_is_refused(folder, capsys) -> None:
    assert make_patients(folder, 4, 16, 32, seed=1, shown=False) == 0
    assert make_main([str(folder), "--count", "5", "--volume_size", "32"]) == 2
    assert "holds other patients already" in capsys.readouterr().err


@pytest.mark.parametrize("codes", ["RAS", "LPS", "SAR", "IPL"])
def test_a_ct_in_any_orientation_is_the_same_patient(codes: str, folder, tmp_path) -> None:
    path = next(folder.glob("*/*.nii.gz"))
    image = nibabel.load(path)
    start = nibabel.io_orientation(image.affine)
    turn = nibabel.orientations.ornt_transform(start, nibabel.orientations.axcodes2ornt(codes))
    nibabel.save(image.as_reoriented(turn), tmp_path / "turned.nii.gz")
    expected, extent = read_ct(path, None)
    found, other = read_ct(tmp_path / "turned.nii.gz", None)
    assert np.array_equal(found, expected) and np.allclose(extent, other)


@pytest.mark.parametrize("way", ["turned", "sheared"])
def test_a_ct_that_lies_obliquely_is_refused_with_what_to_do(way, folder, tmp_path) -> None:
    image, path = nibabel.load(next(folder.glob("*/*.nii.gz"))), tmp_path / "oblique.nii.gz"
    for degrees, refused in ((0.8, False), (12.0, True)):
        c, s = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
        slant = [[c, -s, 0], [s, c, 0], [0, 0, 1]]
        if way == "sheared":
            slant = [[1, s / c, 0], [0, 1, 0], [0, 0, 1]]
        affine = image.affine.copy()
        affine[:3, :3] = slant @ affine[:3, :3]
        nibabel.save(nibabel.Nifti1Image(image.dataobj, affine), path)
        if refused:
            with pytest.raises(SettingsError, match=r"oblique.*12\.0 degrees off .*make_drrs\.py"):
                read_ct(path, None)
        else:
            assert np.array_equal(
                read_ct(path, None)[0], read_ct(Path(image.get_filename()), None)[0]
            )


def test_a_ct_whose_header_does_not_say_how_it_lies_is_refused(folder, tmp_path) -> None:
    image, path = nibabel.load(next(folder.glob("*/*.nii.gz"))), tmp_path / "bare.nii.gz"
    nibabel.save(nibabel.Nifti1Image(image.dataobj, None), path)
    for read in (lambda: read_ct(path, None), lambda: place_in_space(8, path, None)):
        with pytest.raises(SettingsError, match=r"bare.*does not say how the patient lies"):
            read()


def test_body_axes_are_back_down_and_left() -> None:
    canonical = np.zeros((3, 4, 5))
    canonical[2, 3, 4] = 1  # rightmost, foremost, topmost
    body = to_body_axes(canonical)
    assert body.shape == (4, 5, 3) and body[0, 0, 0] == 1
    assert np.array_equal(to_canonical_axes(body), canonical)


def test_voxels_of_different_widths_keep_their_millimetres(tmp_path) -> None:
    data = np.random.default_rng(0).uniform(-1000, 500, (10, 20, 40)).astype(np.float32)
    nibabel.save(nibabel.Nifti1Image(data, np.diag([2.0, 3.0, 0.5, 1.0])), tmp_path / "a.nii.gz")
    volume, extent = read_ct(tmp_path / "a.nii.gz", None)
    assert volume.shape == (20, 40, 10) and extent.tolist() == [60.0, 20.0, 20.0]


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (np.full((4, 4, 4), np.nan, np.float32), "not finite (64 of 64)"),
        (np.random.default_rng(0).random((4, 4, 4)), "that is not Hounsfield units"),
        (np.arange(0, 3200, 50.0).reshape(4, 4, 4), "that is not Hounsfield units, of which air"),
        (np.zeros((4, 4)), "is no volume: its shape is"),
    ],
)
def test_a_ct_that_cannot_be_names_its_file(array, expected: str, tmp_path) -> None:
    path = tmp_path / "bad.npy"
    np.save(path, array)
    with pytest.raises(SettingsError, match=r"bad\.npy") as caught:
        read_ct(path, None)
    assert expected in str(caught.value)


def test_a_cut_off_file_names_itself(folder, tmp_path) -> None:
    whole = next(folder.glob("*/*.nii.gz")).read_bytes()
    (tmp_path / "cut.nii.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(SettingsError, match=r"cut\.nii\.gz cannot be read as a CT volume"):
        read_ct(tmp_path / "cut.nii.gz", None)
    (tmp_path / "cut.png").write_bytes(b"\x89PNG")
    with pytest.raises(SettingsError, match=r"cut\.png cannot be read as an image"):
        read_xray(tmp_path / "cut.png", 8, False, Calibration("none"))


def test_a_compressed_ct_with_one_wrong_bit_is_refused(folder, tmp_path) -> None:
    path = next(folder.glob("*/*.nii.gz"))
    whole, good = path.read_bytes(), read_ct(path, None)[0]
    chance = np.random.default_rng(0)
    for place, bit in zip(
        chance.integers(len(whole) // 3, len(whole), 40), chance.integers(8, size=40), strict=True
    ):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << bit
        (tmp_path / "bit.nii.gz").write_bytes(damaged)
        try:
            read = read_ct(tmp_path / "bit.nii.gz", None)[0]
        except SettingsError as problem:
            assert "bit.nii.gz" in str(problem)
        else:
            assert np.array_equal(read, good)  # a bit that fills up the last byte
    (tmp_path / "bit.nii.gz").write_bytes(whole[:-4])
    with pytest.raises(SettingsError, match=r"bit\.nii\.gz cannot be read as a CT volume"):
        read_ct(tmp_path / "bit.nii.gz", None)


@pytest.mark.parametrize("kind", ["c8", [("R", "u1"), ("G", "u1"), ("B", "u1")]])
def test_a_ct_of_other_than_real_numbers_is_refused(kind, tmp_path) -> None:
    array = np.zeros((4, 4, 4), np.dtype(kind))
    nibabel.save(nibabel.Nifti1Image(array, np.eye(4)), tmp_path / "a.nii")
    with pytest.raises(SettingsError, match=r"^[^ ]*a\.nii holds numbers of type .*write it anew"):
        read_ct(tmp_path / "a.nii", None)


def test_what_lies_beside_a_ct_or_an_x_ray_unread_is_known(tmp_path) -> None:
    for name in ("a_pa_drr.png", "a_frontal.png", "a_lat.png", "a.nii", "a.nii.gz", "ct/1.dcm"):
        (tmp_path / "A" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "A" / name).touch()
    (patient,), _ = find_patients(tmp_path, VIEWS)
    assert [patient.ct.name, *(path.name for path in patient.xrays.values())] == [
        "a.nii.gz", "a_pa_drr.png", "a_lat.png",
    ]  # fmt: skip
    assert [path.name for path in patient.unread] == ["a_frontal.png", "a.nii", "ct"]


def test_what_a_folder_lacks_is_named(tmp_path) -> None:
    for name, files in {
        "A": ("a_PA_drr.PNG", "a_lateral.jpg", "a.nii"),
        "B": ("b_pa.png",),
        ".hidden": (),
    }.items():
        (tmp_path / name).mkdir()
        for file in files:
            (tmp_path / name / file).touch()
    patients, problems = find_patients(tmp_path, VIEWS)
    assert [patient.name for patient in patients] == ["A"]
    assert problems == ["B: no lateral X-ray, no CT volume"]
    with pytest.raises(SettingsError, match=r"there is no folder .*make_patients\.py"):
        find_patients(tmp_path / "nowhere", VIEWS)
    with pytest.raises(SettingsError, match="no whole patient"):
        find_patients(tmp_path / "A", VIEWS)


def test_pixels_mean_what_the_calibration_says(tmp_path) -> None:
    ramp = np.linspace(0, 65535, 64).reshape(8, 8).astype(np.uint16)
    Image.fromarray(ramp).save(tmp_path / "x.png")
    seen, integrals = read_xray(tmp_path / "x.png", 8, False, Calibration("line_integral", 5.0))
    assert integrals[-1, -1].item() == pytest.approx(5.0) and seen[-1, -1].item() == pytest.approx(
        1
    )
    _, integrals = read_xray(tmp_path / "x.png", 8, False, Calibration("transmission"))
    assert integrals[-1, -1].item() == pytest.approx(0, abs=1e-5)
    middle = ramp[4, 0] / 65535
    assert integrals[4, 0].item() == pytest.approx(-np.log(middle), rel=1e-4), "Beer and Lambert"
    seen, integrals = read_xray(tmp_path / "x.png", 8, True, Calibration("none"))
    assert integrals is None and seen[0, -1].item() == pytest.approx(1), "upside down"
    with pytest.raises(SettingsError, match="what line integral is a white pixel"):
        read_calibration(tmp_path, "line_integral", None)


def test_an_x_ray_upside_down_is_noticed_with_its_remedy(folder, config, tmp_path) -> None:
    item = dict(loaded(config, folder, tmp_path, 16).load(find_patients(folder, VIEWS)[0][0]))
    plain, volume = item["xrays"], item["volume"]
    item["volume"] = volume.clone()
    item["volume"][:, :, :5] = 1
    right = line_integrals(item["volume"][None], VIEWS, item["spacing"][None])[0]
    item["xrays"] = right.flip(1)
    assert misaligned(item, config, True)[1] == "data.flip_drrs_vertical"
    item["volume"][..., :6] = 1
    right = line_integrals(item["volume"][None], VIEWS, item["spacing"][None])[0]
    item["xrays"] = torch.stack((right[0].flip(-1), right[1]))
    assert misaligned(item, config, True)[1] == "a left-right flip"
    item["volume"], item["xrays"] = volume, -plain
    assert misaligned(item, config, True)[0] < 0 < misaligned(item, config, False)[0]


@pytest.mark.parametrize("spoilt", ["not at all", "as a negative photograph, with noise"])
def test_a_ct_turned_against_its_x_rays_is_noticed_however_it_is_turned(
    spoilt, folder, config, tmp_path
) -> None:
    item = dict(loaded(config, folder, tmp_path, 16).load(find_patients(folder, VIEWS)[0][0]))
    item["volume"] = item["volume"].clone()
    item["volume"][:, 2:7, 3:6, 9:13] = 1  # a pacemaker: chests alone may be symmetric
    item["xrays"] = line_integrals(item["volume"][None], VIEWS, item["spacing"][None])[0]
    plain = spoilt == "not at all"
    if not plain:
        noise = torch.randn(item["xrays"].shape, generator=torch.Generator().manual_seed(0))
        item["xrays"] = -(item["xrays"] ** 0.7) + 0.05 * noise
    assert misaligned(item, config, plain)[1] == ""
    turned = list(other_turns(item["volume"][0]))
    missed = {
        name
        for name, volume in turned
        if not misaligned({**item, "volume": volume[None]}, config, plain)[1]
    }
    assert len(turned) == 47 and not missed


def test_augmentation_keeps_x_rays_and_ct_together(folder, config, tmp_path) -> None:
    patient = find_patients(folder, VIEWS)[0][0]
    item = loaded(config, folder, tmp_path, 16).load(patient)
    mirrored, gains = 0, set()
    for place in range(12):
        changed = augmented(item, config, np.random.default_rng(place))
        from_ct = line_integrals(changed["volume"][None], VIEWS, changed["spacing"][None])[0]
        assert (changed["integrals"] - from_ct).abs().mean() < 0.01 * from_ct.mean()
        gain = (changed["xrays"][0].mean() + 1) / (item["xrays"][0].mean() + 1)
        assert 0.95 <= gain <= 1.05
        gains.add(round(gain.item(), 5))
        mirrored += not torch.equal(changed["volume"], item["volume"])
    assert 2 < mirrored < 10 and len(gains) == 12


def test_the_same_epoch_augments_alike_and_the_next_otherwise(folder, config, tmp_path) -> None:
    data, patients = loaded(config, folder, tmp_path), find_patients(folder, VIEWS)[0]
    first, again, later = (PatientSet(data, patients, 3)[epoch, 1]["xrays"] for epoch in (0, 0, 1))
    assert torch.equal(first, again) and not torch.equal(first, later)
    item = PatientSet(data, patients)[1]
    assert torch.equal(item["xrays"], data.load(patients[1])["xrays"])
    # Half as many bytes on the way from a worker, and not a bit lost.
    assert item["hu"].dtype == torch.int16 and "volume" not in item
    assert torch.equal(unit_from_hu(item["hu"].float()), data.load(patients[1])["volume"])


def test_the_cache_is_used_until_the_ct_changes_and_mended_when_broken(
    folder, config, tmp_path
) -> None:
    source = find_patients(folder, VIEWS)[0][0]
    copy = tmp_path / "data" / source.name
    copy.mkdir(parents=True)
    for path in (source.ct, *source.xrays.values()):
        (copy / path.name).write_bytes(path.read_bytes())
    patient, cache = find_patients(tmp_path / "data", VIEWS)[0][0], tmp_path / "cache"
    calibration = Calibration("none")
    first = PatientData(config, calibration, cache, 8).load(patient)["volume"]
    (kept,) = cache.glob("*.npz")
    for broken in (b"broken", kept.read_bytes()[:500]):
        kept.write_bytes(broken)
        again = PatientData(config, calibration, cache, 8).load(patient)["volume"]
        assert torch.equal(again, first) and kept.stat().st_size > 500
    image = nibabel.load(patient.ct)
    nibabel.save(nibabel.Nifti1Image(np.asarray(image.dataobj) + 100, image.affine), patient.ct)
    changed = PatientData(config, calibration, cache, 8).load(patient)["volume"]
    assert (changed - first).mean() > 0.05


def test_splits_are_by_patient_and_never_change() -> None:
    names = list(range(50))
    splits = split_patients(names, (0.8, 0.1, 0.1))  # type: ignore[arg-type]
    assert (len(splits.train), len(splits.val), len(splits.test)) == (40, 5, 5)
    assert sorted([*splits.train, *splits.val, *splits.test]) == names
    assert split_patients(names, (0.8, 0.1, 0.1)) == splits  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match="too few"):
        split_patients(names[:1], (0.8, 0.1, 0.1))  # type: ignore[arg-type]


def test_metrics_are_in_the_stated_window() -> None:
    truth = torch.zeros(1, 16, 16, 16)
    found = volume_metrics(truth + 0.1, truth)
    assert found["psnr"] == pytest.approx(20 * np.log10(2 / 0.1), abs=1e-3)
    assert found["mae_hu"] == pytest.approx(102.4, abs=1e-2)
    assert volume_metrics(truth, truth) == {
        "psnr": 100.0,
        "ssim": pytest.approx(1.0),
        "mae_hu": 0.0,
    }
    assert volume_metrics(truth + 5, truth + 1)["psnr"] == 100.0, (
        "outside the window nothing counts"
    )


def test_ssim_is_that_of_torchmetrics() -> None:
    theirs = pytest.importorskip(
        "torchmetrics.functional.image"
    ).structural_similarity_index_measure
    generator = torch.Generator().manual_seed(0)
    first = torch.randn(1, 16, 18, 20, generator=generator) * 300
    second = first + torch.randn(first.shape, generator=generator) * 150
    expected = theirs(first[None], second[None], data_range=2048.0).item()
    assert ssim(first, second) == pytest.approx(expected, abs=1e-5)


def test_intervals_cover_and_paired_leads_see_what_means_do_not() -> None:
    generator = np.random.default_rng(0)
    base = generator.normal(25, 3, 40)
    mean, low, high = interval(base.tolist())
    assert low < mean < high and high - low == pytest.approx(
        2 * 1.96 * base.std() / 40**0.5, rel=0.15
    )
    lead = paired_lead((base + 0.5 + generator.normal(0, 0.2, 40)).tolist(), base.tolist())
    assert lead[1] > 0.3 and lead[2] < 0.7


@pytest.mark.parametrize(
    ("count", "verdict"), [(1, "not told apart from"), (5, "not"), (6, "above")]
)
def test_a_few_patients_tell_nothing_apart(count: int, verdict: str) -> None:
    def figures(psnr: float) -> dict[str, float]:
        return {"psnr": psnr, "ssim": 0.9, "mae_hu": 30.0}

    judged = {
        str(place): {"model": figures(30.0 + place), "mean_volume": figures(20.0 + place)}
        for place in range(count)
    }
    head, model, _, lead = table(judged, "test")
    assert ("1 patient, so no interval" in head) == ("[" not in model) == (count == 1)
    assert lead.startswith(f"  {verdict}") and "+10.00 dB" in lead and "nan" not in lead


def test_baselines_are_the_mean_and_the_best_line() -> None:
    generator = torch.Generator().manual_seed(0)
    spreads = torch.rand(5, 1, 4, 4, 4, generator=generator)
    volumes = 0.7 * spreads - 0.2
    whole, parts = VolumeStatistics(4), [VolumeStatistics(4), VolumeStatistics(4)]
    for place, (volume, spread) in enumerate(zip(volumes, spreads, strict=True)):
        whole.add(volume, spread)
        parts[place % 2].add(volume, spread)
    assert whole.line() == pytest.approx((0.7, -0.2), abs=1e-5)
    torch.testing.assert_close(whole.mean_volume(), volumes.mean(0))
    together = VolumeStatistics(4)
    together.unpack(parts[0].packed() + parts[1].packed())
    torch.testing.assert_close(together.mean_volume(), whole.mean_volume())


def test_a_sampled_volume_lies_where_its_ct_lies(tmp_path) -> None:
    affine = np.array([[2.0, 0, 0, -30], [0, 3, 0, 7], [0, 0, 4, -90], [0, 0, 0, 1]])
    nibabel.save(
        nibabel.Nifti1Image(np.zeros((32, 16, 8), np.float32), affine), tmp_path / "ct.nii.gz"
    )
    found = place_in_space(16, tmp_path / "ct.nii.gz", None)
    assert np.allclose(np.diag(found)[:3] * 16, [64, 48, 32]), "the same field of view"
    corner = affine @ [-0.5, -0.5, -0.5, 1]
    assert np.allclose(found @ [-0.5, -0.5, -0.5, 1], corner), "the same outer corner"
    centred = place_in_space(10, None, (100.0, 200.0, 300.0))
    assert np.allclose(np.diag(centred)[:3], [30, 10, 20])
    assert np.allclose(centred @ [4.5, 4.5, 4.5, 1], [0, 0, 0, 1])
    with pytest.raises(SettingsError, match="--field_of_view D H W in mm, or --like"):
        place_in_space(10, None, None)


def test_a_ct_is_as_large_as_its_place_in_the_patient_says(folder, tmp_path) -> None:
    """Not as pixdim says, which whoever writes an sform need not keep."""
    image = nibabel.load(next(folder.glob("*/*.nii.gz")))
    image.header["pixdim"][1:4] = 1
    image.header["qform_code"] = 0
    nibabel.save(image, tmp_path / "a.nii.gz")
    assert nibabel.load(tmp_path / "a.nii.gz").header.get_zooms() == (1, 1, 1)
    assert read_ct(tmp_path / "a.nii.gz", None)[1].tolist() == [320.0] * 3


def test_x_rays_that_lie_beside_their_cts_are_not_called_projections(tmp_path, capsys) -> None:
    """Made into the folder that they are made from, none is made, and all would be calibrated."""
    from trainers.cascade.make_drrs import main as make_drrs_main

    folder = tmp_path / "lidc"
    (folder / "p1").mkdir(parents=True)
    nibabel.save(
        nibabel.Nifti1Image(np.full((4, 4, 4), -1000, np.int16), np.eye(4)),
        folder / "p1" / "p1.nii.gz",
    )
    assert make_drrs_main([str(folder), str(folder)]) == 2
    assert make_main([str(folder), "--count", "3"]) == 2
    assert capsys.readouterr().err.count("holds other patients already") == 2
    assert [path.name for path in folder.iterdir()] == ["p1"]


def test_alike_draws_deviate_by_nothing_and_others_as_numpy_says(config) -> None:
    cascade = Cascade.of(config)
    chance = torch.Generator().manual_seed(0)
    draws = -1 + 1e-4 * torch.randn(8, 1, 1, 4, 4, 4, generator=chance)
    for given in (draws[:1].expand(8, -1, -1, -1, -1, -1), draws):
        left = iter(given)
        cascade.sample_stage = lambda *_, left=left: next(left)
        mean, deviation = cascade.mean_sample(1, torch.zeros(1), None, [(0,)], 1, 8)
        assert torch.allclose(mean, given.mean(0), atol=1e-7)
        wanted = given.double().numpy().std(0)
        np.testing.assert_allclose(deviation.numpy(), wanted, rtol=2e-3, atol=1e-9)
