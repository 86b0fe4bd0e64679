"""Cone beams: closed forms in TIGRE's and DiffDRR's own coordinates, adjoint, lifting, data."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

np = pytest.importorskip("numpy")
torch = pytest.importorskip("torch")
pytest.importorskip("diffusers")
nibabel = pytest.importorskip("nibabel")

from nibabel.processing import resample_from_to  # noqa: E402

from trainers.cascade.alignment import misaligned  # noqa: E402
from trainers.cascade.config import read_config  # noqa: E402
from trainers.cascade.conventions import read_geometry  # noqa: E402
from trainers.cascade.dataset import (  # noqa: E402
    PatientData,
    PatientSet,
    split_patients,
)
from trainers.cascade.geometry import PARALLEL, ConeBeam, line_integrals  # noqa: E402
from trainers.cascade.losses import physics_error  # noqa: E402
from trainers.cascade.make_drrs import cube_of  # noqa: E402
from trainers.cascade.make_drrs import main as make_drrs_main  # noqa: E402
from trainers.cascade.make_patients import main as make_main  # noqa: E402
from trainers.cascade.make_patients import make_patients  # noqa: E402
from trainers.cascade.model import CascadeStage, StageSizes  # noqa: E402
from trainers.cascade.options import described, make_parser  # noqa: E402
from trainers.cascade.patients import check_geometry, find_patients, read_calibration  # noqa: E402
from trainers.cascade.phantoms import cone_pixelise, made_up_patient, voxelise  # noqa: E402
from trainers.cascade.projector import MU_WATER, VIEWS  # noqa: E402
from trainers.cascade.restore import config_of  # noqa: E402
from trainers.common.errors import SettingsError  # noqa: E402

pytestmark = pytest.mark.trainers
FOLDER = Path(__file__).resolve().parents[2] / "trainers" / "cascade"
FOV = [300.0, 340.0, 320.0]
TIGRE = {"convention": "tigre", "DSO": 1000, "DSD": 1536, "nDetector": [20, 24],
         "dDetector": [30.0, 25.0], "offDetector": [12.0, -20.0], "angles": [90, 0],
         "field_of_view_mm": FOV}  # fmt: skip
DIFFDRR = {"convention": "diffdrr", "sdd": 1020, "distance": 700, "height": 20, "width": 24,
           "delx": 24.0, "dely": 28.0, "field_of_view_mm": FOV}  # fmt: skip
MIDDLE, SHARPNESS = (12.0, -25.0, 18.0), (40.0, 55.0, 48.0)
"""A bell exp(-|(p - MIDDLE) / SHARPNESS|^2) in mm along D, H, W: smooth, and off the middle."""


def bell(size: int) -> Any:
    axes = [(np.arange(size) + 0.5) / size * side - side / 2 for side in FOV]
    parts = [((axis - m) / s) ** 2 for axis, m, s in zip(axes, MIDDLE, SHARPNESS, strict=True)]
    return torch.from_numpy(np.exp(-(parts[0][:, None, None] + parts[1][:, None] + parts[2])))


def bell_along(source: Any, points: Any) -> Any:
    """Its exact integral along the lines from source (3,) through points (..., 3)."""
    way = points - source
    way = way / np.linalg.norm(way, axis=-1, keepdims=True)
    start, along = (source - np.array(MIDDLE)) / SHARPNESS, way / SHARPNESS
    a, b = (along**2).sum(-1), along @ start
    return np.sqrt(np.pi / a) * np.exp(-((start**2).sum() - b**2 / a))


def tigre_raw(angle: float, rows: int, columns: int) -> Any:
    """The bell in TIGRE's own frame, (x left, y back, z up), pixel by pixel as its kernels say."""
    turn = math.radians(angle)
    c, s = round(math.cos(turn)), round(math.sin(turn))
    (high, wide), (up, along) = TIGRE["dDetector"], TIGRE["offDetector"]
    v, u = np.meshgrid(np.arange(rows), np.arange(columns), indexing="ij")
    y, z = wide * (u - columns / 2 + 0.5) + along, high * (v - rows / 2 + 0.5) + up
    behind = np.full_like(y, TIGRE["DSO"] - TIGRE["DSD"])
    to_ours = lambda x, y, z: np.stack((s * x + c * y, -z, c * x - s * y), axis=-1)  # noqa: E731
    return bell_along(to_ours(np.float64(TIGRE["DSO"]), 0.0, 0.0), to_ours(behind, y, z))


def check_convergence(beam: Any, view: str) -> None:
    """The projector comes near the closed form as the square of the voxels' size."""
    errors = []
    for size in (32, 64):
        source, points = beam.rays(view, size)
        exact = bell_along(source.numpy(), points.numpy())
        found = beam.project(bell(size), view).numpy()
        errors.append(np.abs(found - exact).mean() / exact.mean())
    assert errors[0] / errors[1] > 3.5 and errors[1] < 1e-2, errors


@pytest.mark.parametrize("angles", [(90, 0), (270, 180), (90, 180), (-90, 360)])
def test_tigre_s_geometry_is_its_kernels(angles: tuple[int, int]) -> None:
    beam = read_geometry(TIGRE | {"angles": list(angles)})
    for view, angle in zip(VIEWS, angles, strict=True):
        raw = tigre_raw(angle, 24, 24)
        # As its docstring says: row 0 at the feet, column 0 on the far side at 90 and 180 degrees.
        shown = raw[::-1, ::-1] if angle % 360 in (90, 180) else raw[::-1]
        given = read_geometry(TIGRE | {"angles": list(angles), "nDetector": [24, 24]})
        source, points = given.rays(view, 24)
        np.testing.assert_allclose(bell_along(source.numpy(), points.numpy()), shown, atol=1e-9)
        check_convergence(beam, view)


@pytest.mark.parametrize(("orientation", "lateral"), [("AP", "left"), ("PA", "right")])
def test_diffdrr_s_geometry_is_its_detector(orientation: str, lateral: str) -> None:
    """In its frame, x to the right, y to the front, z up, the source is at the translation."""
    beam = read_geometry(DIFFDRR | {"orientation": orientation, "lateral": lateral})
    near, far = float(DIFFDRR["distance"]), float(DIFFDRR["distance"]) - DIFFDRR["sdd"]
    size = 20
    down = 28.0 * 20 / size * (np.arange(size)[:, None] - (size - 1) / 2) + np.zeros((size, size))
    over = 24.0 * 24 / size * (np.arange(size)[None] - (size - 1) / 2) + np.zeros((size, size))
    front = 1 if orientation == "AP" else -1
    side = 1 if lateral == "left" else -1
    frames = {
        # In our d (back), h (down), w (left).
        "frontal": ((-front * near, 0, 0), (np.full_like(down, -front * far), down, over)),
        "lateral": ((0, 0, side * near), (over, down, np.full_like(down, side * far))),
    }
    for view, (source, points) in frames.items():
        exact = bell_along(np.array(source), np.stack(points, axis=-1))
        mine = beam.rays(view, size)
        np.testing.assert_allclose(bell_along(mine[0].numpy(), mine[1].numpy()), exact, atol=1e-9)
        check_convergence(beam, view)


PLAIN = ConeBeam(600.0, 1000.0, (600.0, 560.0), ((15.0, -9.0), (-7.0, 4.0)),
                 (300.0, 340.0, 320.0), ("back", "right"))  # fmt: skip


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_gradient_of_the_projection_is_its_adjoint(view: str, dtype: Any) -> None:
    generator = torch.Generator().manual_seed(0)
    volume = torch.randn(2, 5, 6, 7, generator=generator, dtype=dtype, requires_grad=True)
    image = PLAIN.project(volume, view)
    other = torch.randn(image.shape, generator=generator, dtype=dtype)
    (spread,) = torch.autograd.grad(image, volume, other)
    left, right = (image * other).sum().item(), (volume * spread).sum().item()
    assert abs(left - right) <= 1e-5 * abs(left)
    # Linear, and each column of the matrix is the projection of one voxel.
    with torch.no_grad():
        ones = torch.eye(5 * 6 * 7, dtype=dtype).view(-1, 5, 6, 7)
        matrix = PLAIN.project(ones, view).flatten(1)
        by_hand = (matrix @ other.flatten(1).T).T.view_as(spread)
    torch.testing.assert_close(by_hand, spread, atol=1e-3, rtol=1e-5)


@pytest.mark.parametrize("view", VIEWS)
def test_a_far_source_is_parallel_rays(view: str) -> None:
    far = ConeBeam(1e6, 1e6, (340.0, 320.0 if view == "frontal" else 300.0), ((0, 0), (0, 0)),
                   (300.0, 340.0, 320.0), ("front", "left"))  # fmt: skip
    volume, images = torch.rand(2, 8, 8, 8), torch.rand(2, 3, 8, 8)
    spacing = 300.0 / 8 if view == "frontal" else 320.0 / 8
    torch.testing.assert_close(far.project(volume, view), PARALLEL.project(volume, view, spacing),
                               atol=1e-3 * 300, rtol=0)  # fmt: skip
    torch.testing.assert_close(far.spread(images, view, 8), PARALLEL.spread(images, view, 8),
                               atol=2e-3, rtol=0)  # fmt: skip
    shares = torch.rand(2, 8, 8, 8)
    torch.testing.assert_close(far.spread_depths(shares, view),
                               PARALLEL.spread_depths(shares, view), atol=2e-3, rtol=0)  # fmt: skip


@pytest.mark.parametrize("view", VIEWS)
def test_a_voxel_gets_what_its_ray_shows(view: str) -> None:
    """An image that says where its pixels lie is read without error between them."""
    size = 12
    y, x = PLAIN.pixels(view, 64, 64, torch.zeros(()))
    images = torch.stack(torch.broadcast_tensors(y[:, None], x[None]))[None]
    found = PLAIN.spread(images, view, size)[0].numpy()
    axes = [(np.arange(size) + 0.5) / size * side - side / 2 for side in PLAIN.field_of_view]
    d, h, w = np.meshgrid(*axes, indexing="ij")
    if view == "frontal":  # from the back, d = 600, towards smaller d
        grown, across = 1000 / (600 - d), w
    else:  # from the right, w = -600, towards larger w
        grown, across = 1000 / (600 + w), d
    reached = (np.abs(h * grown) < 280) & (np.abs(across * grown) < 260)
    assert reached.mean() > 0.7
    np.testing.assert_allclose(found[0][reached], (h * grown)[reached], atol=0.05)
    np.testing.assert_allclose(found[1][reached], (across * grown)[reached], atol=0.05)
    # Shares have an image for each depth.
    depth = torch.arange(size).float()[None, :, None, None].expand(1, size, size, size)
    axis = -3 if view == "frontal" else -1
    shares = PLAIN.spread_depths(depth, view)[0, 0]
    assert torch.allclose(shares.movedim(axis, 0)[:, 3, 4], torch.arange(size).float(), atol=1e-4)


def test_a_stage_lifts_along_its_own_rays() -> None:
    sizes = StageSizes("stage1", 8, 2, 32, 1, 2, 8, True, VIEWS, True, 16, None)
    torch.manual_seed(0)
    plain = CascadeStage(sizes)
    coned = CascadeStage(replace(sizes, geometry=PLAIN))
    coned.load_state_dict(plain.state_dict())
    x_t, xrays = torch.zeros(1, 1, 8, 8, 8), torch.zeros(1, 2, 16, 16)
    xrays[0, 0, 2:4, 10:14] = 1
    seen = coned.voxel_inputs(x_t, xrays, None)[:, 1:2]
    assert torch.equal(seen, PLAIN.spread(torch.nn.functional.avg_pool2d(xrays[:, :1], 2),
                                          "frontal", 8))  # fmt: skip
    assert not torch.allclose(seen, plain.voxel_inputs(x_t, xrays, None)[:, 1:2])
    features = [torch.rand(1, 16, 4, 4) for _ in VIEWS]
    assert not torch.allclose(coned.lifting(features), plain.lifting(features), atol=1e-3)


def config_with(folder: Path, **xray: Any) -> Any:
    path = folder / "config.json"
    content = {
        "xray_config": {"img_size": 32, **xray},
        "stage_configs": [{"volume_size": [16] * 3, "voxel_dim": 16}],
        "data": {"dataset_path": str(folder / "data"), "augmentation": True},
    }
    path.write_text(json.dumps(content))
    return read_config(path)


MADE_UP = DIFFDRR | {"distance": 850, "height": 40, "width": 40, "delx": 11.0, "dely": 11.0,
                     "field_of_view_mm": [320, 320, 320]}  # fmt: skip


def test_made_up_x_rays_of_a_cone_beam_are_those_of_the_ct(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    stated = tmp_path / "cone.json"
    stated.write_text(json.dumps(MADE_UP))
    flags = ["--count", "4", "--volume_size", "32", "--img_size", "64", "--seed", "1"]
    assert make_main([str(folder), *flags, "--geometry", str(stated), "--workers", "2"]) == 0
    config = config_with(tmp_path, geometry=MADE_UP)
    calibration = read_calibration(folder, "auto", None)
    check_geometry(config.stated_geometry, calibration, folder)
    data = PatientData(config, calibration, tmp_path / "cache", 32)
    patients = find_patients(folder, VIEWS)[0]
    item = data.load(patients[0])
    volume, widths = item["volume"][None], item["spacing"][None]
    from_ct = line_integrals(volume, VIEWS, widths, config.geometry)[0]
    assert (item["integrals"] - from_ct).abs().mean() < 0.02 * from_ct.mean()
    assert misaligned(item, config, True) == (pytest.approx(1, abs=0.01), "")
    given = item["integrals"][None], VIEWS, widths
    right, wrong = (float(physics_error(volume, *given, beam))
                    for beam in (config.geometry, PARALLEL))  # fmt: skip
    assert right < 0.02 and wrong > 10 * right
    for epoch in range(8):
        changed = PatientSet(data, patients, 3)[epoch, 0]["hu"]
        assert torch.equal(changed, PatientSet(data, patients)[0]["hu"]), "none is mirrored"
    assert any("no patient is mirrored" in note for note in config.notes)
    with pytest.raises(SettingsError, match="copy that into the configuration"):
        check_geometry(None, calibration, folder)
    other = config_with(tmp_path, geometry=MADE_UP | {"field_of_view_mm": [320, 320, 400]})
    with pytest.raises(SettingsError, match="320 x 320 x 320 mm along D, H, W"):
        PatientData(other, calibration, tmp_path / "cache", 16).load(patients[0])
    with pytest.raises(SettingsError, match="field_of_view_mm must say it"):
        make_patients(tmp_path / "no", 1, 8, 16, 0, False, other.stated_geometry)


def test_a_cone_s_x_ray_of_the_phantom_converges_to_the_closed_form() -> None:
    beam, body = read_geometry(MADE_UP), made_up_patient([5], 320.0)
    errors = []
    for size in (16, 32, 64):
        volume = torch.from_numpy(voxelise(body, size, 320.0))
        found = beam.project(volume, "lateral").numpy()
        errors.append(np.abs(found - cone_pixelise(body, beam, "lateral", size)).mean())
    assert errors[0] / errors[1] > 1.8 and errors[1] / errors[2] > 1.8


def test_a_checkpoint_s_settings_give_the_geometry_back(tmp_path: Path) -> None:
    config = config_with(tmp_path, geometry=TIGRE)
    kept = described(make_parser().read(["--config", "c.json"]), config)
    again = config_of(json.loads(json.dumps(kept, default=str)))
    assert again.geometry == config.geometry == again.stages[0].sizes.geometry
    assert "geometry" not in described(make_parser().read([]), config_with(tmp_path))["xray"]


@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        ({"convention": "astra"}, "must be one of tigre, diffdrr, plain"),
        (TIGRE | {"DS0": 1}, "unknown key xray_config.geometry.DS0; the nearest is DSO"),
        (TIGRE | {"DSO": "far"}, "DSO must be a number"),
        (TIGRE | {"nDetector": [1]}, "nDetector must be a list of 2 numbers"),
        (TIGRE | {"angles": [45, 0]}, "angles must be 90 or 270, then 0 or 180"),
        (TIGRE | {"angles": [90.4, 0]}, "angles must be 90 or 270, then 0 or 180"),
        (TIGRE | {"DSO": 100}, "the source would lie in the volume"),
        (TIGRE | {"DSD": 500}, "is nearer than DSO"),
        (DIFFDRR | {"x0": 3.0}, "x0 is refused"),
        (DIFFDRR | {"orientation": "LAO"}, "orientation must be AP or PA"),
        (DIFFDRR | {"delx": 0}, "must be above 0"),
        ({k: v for k, v in DIFFDRR.items() if k != "field_of_view_mm"}, "field_of_view_mm must"),
        ({"convention": "plain", "field_of_view_mm": FOV, "sources": ["left", "front"]},
         "sources must be"),
        ({"convention": "plain", "field_of_view_mm": FOV, "sources": 5}, "sources must be"),
    ],
)  # fmt: skip
def test_a_geometry_that_cannot_be_is_named(given: dict, wrong: str) -> None:
    with pytest.raises(SettingsError, match=wrong):
        read_geometry(given)


def test_plain_lengths_are_taken_as_they_are() -> None:
    given = {"convention": "plain", "source_to_isocentre_mm": 600, "source_to_detector_mm": 1000,
             "detector_mm": [600, 560], "offset_mm": [[15, -9], [-7, 4]],
             "field_of_view_mm": [300, 340, 320], "sources": ["back", "right"]}  # fmt: skip
    assert read_geometry(given) == PLAIN


def test_x_rays_are_made_from_ct_s_alone(tmp_path: Path) -> None:
    """The DRRs of a CT that is cut and padded to the geometry's cube are those of the phantom."""
    make_patients(tmp_path / "made", 3, 64, 16, seed=1, shown=False)
    for image in (tmp_path / "made").glob("*/*.png"):
        image.unlink()
    config = config_with(tmp_path, geometry=MADE_UP)
    # The first one is stored with axes that are not the patient's.
    first = sorted((tmp_path / "made").glob("*/*.nii.gz"))[0]
    image, slant = nibabel.load(first), np.eye(4)
    slant[:2, :2] = [[math.cos(0.3), -math.sin(0.3)], [math.sin(0.3), math.cos(0.3)]]
    affine = slant @ image.affine
    nibabel.save(resample_from_to(image, ((64, 64, 64), affine), 1, cval=-1000), first)
    flags = ["--config", str(tmp_path / "config.json"), "--spacing", "5", "--workers", "2"]
    command = [str(tmp_path / "made"), str(tmp_path / "data"), *flags]
    assert make_drrs_main(command) == 0 and make_drrs_main(command) == 0
    calibration = read_calibration(tmp_path / "data", "auto", None)
    check_geometry(config.stated_geometry, calibration, tmp_path)
    patients, problems = find_patients(tmp_path / "data", VIEWS)
    assert len(patients) == 3 and not problems
    item = PatientData(config, calibration, tmp_path / "cache", 32).load(patients[0])
    exact = np.stack([cone_pixelise(made_up_patient([1, 0], 320.0), config.geometry, view, 32)
                      for view in VIEWS]) * MU_WATER / 1000  # fmt: skip
    assert np.abs(item["integrals"].numpy() - exact).mean() < 0.02 * exact.mean()
    assert misaligned(item, config, True) == (pytest.approx(1, abs=0.01), "")
    other = tmp_path / "other.json"
    other.write_text((tmp_path / "config.json").read_text().replace("1020", "1200"))
    assert make_drrs_main([*command[:2], "--config", str(other)]) == 2


def test_x_rays_by_parallel_rays_are_made_of_plain_arrays_too(tmp_path: Path) -> None:
    volume = np.full((8, 8, 8), -1000, np.float32)
    volume[2:6, 2:6, 2:6] = 100
    (tmp_path / "cts" / "a").mkdir(parents=True)
    np.save(tmp_path / "cts" / "a" / "a.npy", volume)
    command = [str(tmp_path / "cts"), str(tmp_path / "data"), "--config", "quick_2stage.json"]
    assert make_drrs_main(command) == 0
    assert find_patients(tmp_path / "data", VIEWS)[0][0].name == "a"


@pytest.mark.parametrize("side", [90.0, 150.0])
def test_a_ct_is_cut_or_padded_around_its_middle(side: float) -> None:
    volume = torch.zeros(10, 12, 14)
    volume[4:6, 5:7, 6:8] = 500.0
    cube = cube_of(volume, np.array([100.0, 120.0, 140.0]), (side, side, side), 10.0)
    count = round(side / 10)
    assert cube.shape == (count,) * 3
    middles = [(np.arange(count) - (count - 1) / 2) for _ in range(3)]
    weights = (cube.numpy() == 500.0).astype(float)
    found = [(weights.sum(tuple({0, 1, 2} - {axis})) * middles[axis]).sum() / weights.sum()
             for axis in range(3)]  # fmt: skip
    assert weights.sum() == 8 and np.abs(found).max() <= 0.5
    assert (cube[0, 0, 0] == -1000.0) == (side > 140)


def test_the_lidc_protocol_splits_its_patients_as_published() -> None:
    config = read_config(FOLDER / "config" / "lidc.json")
    shares = tuple(config.data[f"{name}_split"] for name in ("train", "val", "test"))
    splits = split_patients(list(range(1018)), shares)  # type: ignore[arg-type]
    assert [len(part) for part in (splits.train, splits.val, splits.test)] == [868, 50, 100]
    beam = config.geometry
    assert isinstance(beam, ConeBeam) and beam.sources == ("back", "left")
    # The detector sees the whole cube, as large as its nearest face is thrown.
    assert beam.detector[0] > 320 * 1536 / (1000 - 160)
    assert [stage.sizes.size for stage in config.stages] == [64, 128]
