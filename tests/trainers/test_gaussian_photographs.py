"""Which images are learnt from and judged by, and what is read about them."""

import re
from collections.abc import Callable
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("skimage")
pytest.importorskip("sklearn")

from PIL import Image  # noqa: E402

from trainers.common.loading import make_loader  # noqa: E402
from trainers.common.reading import PictureError, read_picture  # noqa: E402
from trainers.common.settings_parser import SettingsError  # noqa: E402
from trainers.gaussian import features, held, photographs  # noqa: E402
from trainers.gaussian.photographs import PhotographSet, collect  # noqa: E402

pytestmark = pytest.mark.trainers


def make_folder(folder: Path, count: int, depths: int = 0) -> Path:
    """A folder of images, red at the top and blue at the bottom, with DINOv2 features and some
    depths.
    """
    (folder / "features").mkdir(parents=True)
    chance = np.random.default_rng(0)
    for number in range(count):
        pixels = np.zeros((40, 60, 3), dtype=np.uint8)
        pixels[:20, :, 0], pixels[20:, :, 2] = 200 + number, 255
        Image.fromarray(pixels).save(folder / f"photo_{number}.png")
        chance.standard_normal((37, 37, 384)).astype("<f4").tofile(
            folder / "features" / f"photo_{number}_dinov2.bin"
        )
    for number in range(depths):
        np.linspace(0, 1, 64 * 64).astype("<f4").tofile(
            folder / "features" / f"photo_{number}_depth.bin"
        )
    return folder


def put(path: Path, value: float) -> None:
    """Replace one number of a file of float32."""
    values = np.fromfile(path, dtype="<f4")
    values[len(values) // 2] = value
    values.tofile(path)


def ramp_of_16_bits(path: Path) -> None:
    Image.fromarray(np.linspace(0, 65535, 64 * 64).reshape(64, 64).astype(np.uint16)).save(path)


def hidden_red(path: Path) -> None:
    pixels = np.zeros((64, 64, 4), np.uint8)
    pixels[..., 0], pixels[32:, :, 3] = 255, 255
    Image.fromarray(pixels).save(path)


def lying_on_its_side(path: Path) -> None:
    """Bright on top once it is turned as its EXIF data says: it was taken a quarter to the left."""
    pixels = np.zeros((64, 64, 3), np.uint8)
    pixels[:, :32] = 255
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.fromarray(pixels).save(path, exif=exif)


def ramp_of_floats(path: Path) -> None:
    Image.fromarray(np.linspace(0, 1, 64 * 64, dtype=np.float32).reshape(64, 64)).save(path, "TIFF")


@pytest.mark.parametrize(
    ("write", "top", "bottom"),
    [
        (ramp_of_16_bits, (0.25, 0.25, 0.25), (0.75, 0.75, 0.75)),
        (ramp_of_floats, (0.25, 0.25, 0.25), (0.75, 0.75, 0.75)),
        (hidden_red, (0, 0, 0), (1, 0, 0)),
        (lying_on_its_side, (1, 1, 1), (0, 0, 0)),
    ],
)
def test_a_photograph_is_read_as_viewers_show_it(
    tmp_path: Path, write: Callable[[Path], None], top: tuple, bottom: tuple
) -> None:
    folder = make_folder(tmp_path / "data", 2)
    for number in range(2):
        write(folder / f"photo_{number}.png")
    found = collect(folder, "patch", None, None, 0.5)
    image = PhotographSet(found.training, found, 64)[0]["image"]
    for rows, expected in ((image[:, :32], top), (image[:, 32:], bottom)):
        assert torch.allclose(rows.mean((1, 2)), torch.tensor(expected).float(), atol=0.03)


def test_a_picture_too_large_for_pillow_is_one_line(tmp_path: Path) -> None:
    Image.new("1", (20_000, 10_000)).save(tmp_path / "huge.png")
    with pytest.raises(PictureError, match=r"huge\.png cannot be read as an image \(Image size"):
        read_picture(tmp_path / "huge.png")


def test_grey_of_12_bits_in_16_is_refused_and_lab_has_a_grey(tmp_path: Path) -> None:
    dark = np.linspace(0, 4095, 64 * 64).reshape(64, 64).astype(np.uint16)
    Image.fromarray(dark).save(tmp_path / "dark.png")
    for colour in (True, False):
        with pytest.raises(PictureError, match=r"dark\.png is nowhere brighter than 4095 of 65535"):
            read_picture(tmp_path / "dark.png", colour)
    calibrated = np.asarray(read_picture(tmp_path / "dark.png", colour=False, stated=True))
    assert calibrated.max() == pytest.approx(4095 / 65535)
    Image.new("LAB", (8, 8), (128, 128, 128)).save(tmp_path / "lab.tif")
    coloured = np.asarray(read_picture(tmp_path / "lab.tif").convert("L"), np.float32) / 255
    np.testing.assert_array_equal(read_picture(tmp_path / "lab.tif", colour=False), coloured)


def test_what_is_left_out_of_a_folder_is_named_and_all_that_is_damaged_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = make_folder(tmp_path / "data", 2)
    for name in (".DS_Store", "._photo_0.png", "notes.txt"):
        (folder / name).write_bytes(b"\0\5\x16\7")
    for name in ("IMG_1.HEIC", "move.gif"):
        (folder / name).write_bytes(b"")
    Image.new("RGB", (50, 40)).save(folder / "scan.tif")
    found = collect(folder, "patch", None, None, 0.5)
    assert {part.name for part in (*found.training, *found.held_out)} == {
        "photo_0", "photo_1", "scan"
    }  # fmt: skip
    told = capsys.readouterr().out.splitlines()
    assert len(told) == 1 and "IMG_1.HEIC, move.gif: of a kind that is not read" in told[0]
    for name in ("empty.png", "half.png", "none.jpg"):
        (folder / name).write_bytes((folder / "photo_0.png").read_bytes()[:90] * (name[0] == "h"))
    with pytest.raises(SettingsError) as refused:
        collect(folder, "patch", None, None, 0.5)
    for name in ("empty.png", "half.png", "none.jpg"):
        assert str(refused.value).count(f"{name} cannot be read as an image") == 1
    (folder / "photo_0.x.jpg").write_bytes((folder / "photo_1.png").read_bytes())
    (folder / "photo_0.webp").write_bytes(b"")
    with pytest.raises(SettingsError, match=r"photo_0\.png and photo_0\.webp would share"):
        collect(folder, "patch", None, None, 0.5)


def test_no_photograph_is_on_both_sides_of_the_split_and_no_crop_overlaps_another() -> None:
    found = collect(None, "auto", 384, 50, 0.2)
    assert (len(found.training), len(found.held_out)) == (40, 10)
    assert not {crop.path for crop in found.training} & {crop.path for crop in found.held_out}
    sides = {
        crop.path.stem: side for side in ("training", "held_out") for crop in getattr(found, side)
    }
    assert sides["motorcycle_left"] == sides["motorcycle_right"]
    for one, other in combinations((*found.training, *found.held_out), 2):
        if one.path == other.path:
            assert one.box and other.box
            apart = (
                one.box[2] <= other.box[0]
                or other.box[2] <= one.box[0]
                or one.box[3] <= other.box[1]
                or other.box[3] <= one.box[1]
            )
            assert apart, (one.name, other.name)


def test_without_the_packages_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(photographs.importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(SettingsError, match=r"train.*extra.*--data_dir"):
        collect(None, "auto", 384, None, 0.2)


def test_a_feature_file_is_rows_columns_channels_with_the_top_row_first(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "data", 2)
    row, column, channel = np.meshgrid(np.arange(37), np.arange(37), np.arange(384), indexing="ij")
    for path in (folder / "features").iterdir():
        (row * 1e6 + column * 1e3 + channel).astype("<f4").tofile(path)
    found = collect(folder, "auto", 384, None, 0.5)
    item = PhotographSet(found.training, found, 32)[0]
    assert item["features"].shape == (384, 37, 37)
    assert item["features"][300, 2, 5] == 2_005_300
    assert item["image"].shape == (3, 32, 32)
    assert item["image"][0, 0].min() > 0.7 > item["image"][0, -1].max()


def test_the_descriptor_of_pixels_follows_the_image(tmp_path: Path) -> None:
    image = torch.zeros(3, 148, 148)
    image[:, : 148 // 2] = 1
    described = features.describe_patches(image)
    assert described.shape == (384, 37, 37)
    assert torch.equal(described, features.describe_patches(image))
    assert described[:64, 2, 10].min() > 0 > described[:64, 30, 10].max()


@pytest.mark.parametrize(
    ("spoil", "expected"),
    [
        (
            lambda f: (f / "features/photo_1_dinov2.bin").unlink(),
            r"1 of 4 feature files.*photo_1_dinov2\.bin",
        ),
        (
            lambda f: (f / "features/photo_2_dinov2.bin").write_bytes(b"x" * 4_205_568),
            r"photo_2_dinov2\.bin has 4,205,568 bytes, expected 2,102,784.*--feature_dim 768",
        ),
        (
            lambda f: (f / "features/photo_3_depth.bin").unlink(),
            r"1 of 4 depth files.*photo_3_depth\.bin",
        ),
        (
            lambda f: (f / "features/photo_0_depth.bin").write_bytes(b"x" * 12),
            r"photo_0_depth\.bin has 12 bytes",
        ),
        (
            lambda f: put(f / "features/photo_2_dinov2.bin", float("nan")),
            r"photo_2_dinov2\.bin holds numbers that are not finite \(1 of 525,696\)",
        ),
        (
            lambda f: put(f / "features/photo_1_depth.bin", float("inf")),
            r"photo_1_depth\.bin holds numbers that are not finite",
        ),
        (lambda f: (f / "photo_0.png").write_bytes(b"no image"), r"photo_0\.png cannot be read"),
        (
            lambda f: (f / "photo_0.png").write_bytes((f / "photo_1.png").read_bytes()[:90]),
            r"photo_0\.png cannot be read",
        ),
        (
            lambda f: (
                Image.fromarray(np.full((8, 8), 1e6, np.float32)).save(f / "extra.tiff")
                or (f / "extra.tiff").rename(f / "photo_0.png")
            ),
            r"photo_0\.png has grey values",
        ),
        (
            lambda f: (f / "photo_0.JPG").write_bytes((f / "photo_1.png").read_bytes()),
            r"photo_0\.JPG and photo_0\.png",
        ),
    ],
)
def test_a_wrong_folder_is_refused_by_the_name_of_the_file(
    tmp_path: Path,
    spoil: Callable[[Path], None],
    expected: str,
    capfd: pytest.CaptureFixture[str],
    keep_signals: None,
) -> None:
    from trainers.gaussian import train

    folder = make_folder(tmp_path / "data", 4, depths=4)
    spoil(folder)
    assert train.main(["--data_dir", str(folder), "--output_dir", str(tmp_path / "output")]) == 2
    errors = capfd.readouterr().err
    assert errors.count("\n") == 1
    assert re.search(expected, errors)
    assert not (tmp_path / "output").exists()


def test_features_of_zeros_are_refused_by_name(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "data", 2)
    np.zeros((37, 37, 384), dtype="<f4").tofile(folder / "features" / "photo_0_dinov2.bin")
    with pytest.raises(ValueError, match=r"photo_0_dinov2\.bin holds nothing but zeros"):
        features.read_features(folder / "features" / "photo_0_dinov2.bin", 384)


def test_a_folder_with_depth_trains_on_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keep_signals: None, read_events
) -> None:
    from trainers.gaussian import train

    monkeypatch.setenv("FRESNEL_RUN_DIR", str(tmp_path / "run"))
    folder = make_folder(tmp_path / "data", 4, depths=4)
    assert (
        train.main(
            [
                "--data_dir",
                str(folder),
                "--image_size",
                "32",
                "--epochs",
                "1",
                "--device",
                "cpu",
                "--no-export_onnx",
            ]
        )
        == 0
    )
    values = read_events(tmp_path / "run", "summary")[0]["values"]
    assert 0 < values["depth"] < 3
    assert sum(values[name] for name in ("share_l1", "share_ssim", "share_depth")) == pytest.approx(
        1, abs=1e-3
    )


def test_the_sidecar_says_what_is_near(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "data", 4, depths=4)
    nearer_below = PhotographSet(
        collect(folder, "auto", None, None, 0.5).training,
        collect(folder, "auto", None, None, 0.5),
        32,
    )[0]["disparity"]
    (folder / "features" / features.POLARITY_NAME).write_text('{"polarity": "distance"}')
    found = collect(folder, "auto", None, None, 0.5)
    assert found.polarity == "distance"
    turned = PhotographSet(found.training, found, 32)[0]["disparity"]
    assert torch.allclose(turned, 1 - nearer_below, atol=1e-5)
    assert nearer_below[0, -1].mean() > 0.9 > 0.1 > nearer_below[0, 0].mean()
    (folder / "features" / features.POLARITY_NAME).write_text('{"polarity": "up"}')
    with pytest.raises(SettingsError, match="neither disparity nor distance"):
        collect(folder, "auto", None, None, 0.5)


def test_the_feature_size_is_read_from_the_files(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "data", 3)
    assert collect(folder, "auto", None, None, 0.5).feature_dim == 384
    for number in range(3):
        (folder / "features" / f"photo_{number}_dinov2_base.bin").write_bytes(b"\1" * 4_205_568)
    assert collect(folder, "auto", None, None, 0.5).feature_dim == 768


def test_density_files_weigh_pixels_between_a_half_and_one_and_a_half(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "data", 3)
    with pytest.raises(SettingsError, match=r"3 of 3 files are missing.*_vlm_density\.npy"):
        collect(folder, "auto", None, None, 0.5, density=True)
    for number in range(3):
        grid = np.zeros((8, 8))
        grid[0] = 1
        np.save(folder / "features" / f"photo_{number}_vlm_density.npy", grid)
    found = collect(folder, "auto", None, None, 0.5, density=True)
    weights = PhotographSet(found.training, found, 32)[0]["weights"]
    assert weights.shape == (1, 32, 32)
    assert weights[0, 0].mean() == pytest.approx(1.5)
    assert weights[0, -1].mean() == pytest.approx(0.5)


def test_what_is_kept_in_memory_is_what_is_read(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "data", 4, depths=4)
    found = collect(folder, "auto", None, None, 0.5)
    kept, read = (
        PhotographSet(found.training, found, 32, 1 << 30),
        PhotographSet(found.training, found, 32),
    )
    small = PhotographSet(found.training, found, 32, 3_000_000)
    for size in (32, 48, 32):
        for index in (0, 1, 0):
            for one in (kept, read, small):
                one.resize(size)
            expected = read[index]
            for one in (kept[index], small[index]):
                assert one.keys() == expected.keys()
                assert all(
                    torch.equal(one[name], part)
                    for name, part in expected.items()
                    if name != "name"
                )


@pytest.mark.parametrize("workers", [0, 2])
def test_two_epochs_read_every_file_once(
    workers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keep_signals, processes_begun
) -> None:
    """Whichever worker reads it first; what is judged by is kept in turn."""
    from trainers.gaussian import train

    folder, told = make_folder(tmp_path / "data", 7), tmp_path / "told"
    read = photographs.read_picture

    def counted(path: Path) -> Image.Image:
        with told.open("a") as file:
            file.write(f"{path.name}\n")
        return read(path)

    monkeypatch.setattr(photographs, "read_picture", counted)
    monkeypatch.delenv("FRESNEL_RUN_DIR", raising=False)
    words = ["--data_dir", str(folder), "--image_size", "16", "--batch_size", "2", "--epochs", "2"]
    words += ["--gaussians_per_patch", "1", "--no-export_onnx", "--no-tensorboard", "--device"]
    words += ["cpu", "--threads", "1", "--output_dir", str(tmp_path / "run"), "--lpips_weight"]
    words += ["0", "--workers", str(workers), "--held_out", "0.3", "--checkpoint_every", "9"]
    assert train.main(words) == 0
    # Where there are workers, one is read to know how much of /dev/shm they fill.
    names = sorted(told.read_text().split())
    assert len(processes_begun) == 2 * workers and len(names) == 7 + (workers > 0), names
    assert set(names) == {f"photo_{number}.png" for number in range(7)}


def test_photographs_held_on_a_device_are_the_batches_of_a_loader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a GPU, whose room a CPU is given here."""
    found = collect(make_folder(tmp_path / "data", 5, depths=5), "dinov2", None, None, 0.2)
    chosen, batches, cpu = (
        PhotographSet(found.training, found, 32),
        [[2, 0], [3]],
        torch.device("cpu"),
    )
    assert not held.HeldPhotographs().read(chosen, cpu, 0, False), "a CPU keeps them otherwise"
    monkeypatch.setattr(held, "room_on", lambda device: 2**30)
    kept = held.HeldPhotographs()
    for size in (32, 48):
        chosen.resize(size)
        assert kept.read(chosen, cpu, 0, False)
        for one, other in zip(
            kept.batches(batches), make_loader(chosen, batches, cpu), strict=True
        ):
            assert one.keys() == other.keys() and one["name"] == other["name"]
            tensors = ("image", "features", "disparity")
            assert all(torch.equal(one[name], other[name]) for name in tensors)
    monkeypatch.setattr(held, "room_on", lambda device: 1000)
    chosen.resize(32)
    assert not kept.read(chosen, cpu, 0, False)
