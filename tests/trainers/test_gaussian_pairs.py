"""Posed pictures: RealEstate10K's and COLMAP's files, the decoder's camera, the unseen view."""

import json
import struct
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from PIL import Image  # noqa: E402

from trainers.common.errors import SettingsError  # noqa: E402
from trainers.gaussian import evaluate, prepare_scenes, train  # noqa: E402
from trainers.gaussian.pairs import (  # noqa: E402
    known_window,
    motion,
    moved_by,
    partners,
    read_cameras,
)
from trainers.gaussian.photographs import collect  # noqa: E402
from trainers.gaussian.prepare_scenes import framed  # noqa: E402
from trainers.gaussian.projection import Camera, Gaussians, project  # noqa: E402
from trainers.gaussian.scenes import quaternion_matrix, read_scenes  # noqa: E402

pytestmark = [pytest.mark.trainers, pytest.mark.timeout(300)]
WIDTH, HEIGHT, FOCAL, FAR, VIEWS, STEP = 96, 72, 60.0, 2.0, 4, 0.12
NAMES = [f"{1000 * number:06d}" for number in range(VIEWS)]


def painted(across: np.ndarray, down: np.ndarray, scene: int) -> np.ndarray:
    """The colours of a wall at points (H,W) of it, as (H,W,3) in [0,1]."""
    waves = [
        np.sin(across * (3 + scene + k) + k) * np.cos(down * (4 + k) - scene) for k in range(3)
    ]
    return 0.5 + 0.45 * np.stack(waves, axis=-1)


def seen(shift: float, scene: int, size: tuple[int, int], focal: float) -> np.ndarray:
    """What a camera that stands `shift` to the right sees of the wall, FAR away."""
    width, height = size
    columns, rows = np.meshgrid(np.arange(width) + 0.5, np.arange(height) + 0.5)
    across, down = ((columns - width / 2) / focal * FAR + shift, (rows - height / 2) / focal * FAR)
    return painted(across, down, scene)


def write_picture(path: Path, number: int, scene: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = seen(number * STEP, scene, (WIDTH, HEIGHT), FOCAL)
    Image.fromarray((pixels * 255).round().astype(np.uint8)).save(path)


def make_clips(folder: Path, scenes: int = 1) -> Path:
    """Clips as RealEstate10K has them."""
    for scene in range(scenes):
        lines = ["https://example.org/film"]
        for number, name in enumerate(NAMES):
            write_picture(folder / f"clip{scene}" / f"{name}.png", number, scene)
            lens = f"{FOCAL / WIDTH} {FOCAL / HEIGHT} 0.5 0.5 0 0"
            lines.append(f"{name} {lens} 1 0 0 {-number * STEP} 0 1 0 0 0 0 1 0")
        (folder / f"clip{scene}.txt").write_text("\n".join(lines) + "\n")
    return folder


def make_colmap(folder: Path, binary: bool) -> Path:
    """The same views as a COLMAP folder, called clip0, with two points whose median is FAR away."""
    model = folder / "clip0" / "sparse" / "0"
    model.mkdir(parents=True)
    for number, name in enumerate(NAMES):
        write_picture(folder / "clip0" / "images" / f"{name}.png", number, 0)
    points = [(0.0, 0.0, FAR), (0.1, 0.2, FAR)]
    if binary:
        camera = struct.pack("<QiiQQ4d", 1, 7, 1, WIDTH, HEIGHT, FOCAL, FOCAL, 48, 36)
        (model / "cameras.bin").write_bytes(camera)
        images = struct.pack("<Q", VIEWS)
        for number, name in enumerate(NAMES):
            images += struct.pack("<i7di", number + 1, 1, 0, 0, 0, -number * STEP, 0, 0, 7)
            images += f"{name}.png".encode() + b"\0" + struct.pack("<Q2dq", 1, 3.0, 4.0, 1)
        (model / "images.bin").write_bytes(images)
        cloud = struct.pack("<Q", 2)
        for number, point in enumerate(points):
            cloud += struct.pack("<Q3d3Bd", number, *point, 1, 2, 3, 0.5)
            cloud += struct.pack("<Q4i", 2, 1, 0, 2, 0)
        (model / "points3D.bin").write_bytes(cloud)
        return folder
    (model / "cameras.txt").write_text(f"# all\n7 PINHOLE {WIDTH} {HEIGHT} {FOCAL} {FOCAL} 48 36\n")
    rows = [
        f"{n + 1} 2 0 0 0 {-n * STEP} 0 0 7 {name}.png\n3 4 1 5 6 -1\n"
        for n, name in enumerate(NAMES)
    ]
    (model / "images.txt").write_text("# two lines each\n" + "".join(rows))
    cloud = [f"{n} {x} {y} {z} 1 2 3 0.5 1 0 2 0\n" for n, (x, y, z) in enumerate(points)]
    (model / "points3D.txt").write_text("".join(cloud))
    return folder


def test_clips_and_both_kinds_of_colmap_folders_are_the_same_views(tmp_path: Path) -> None:
    clips = read_scenes(make_clips(tmp_path / "clips"))
    assert [view.place for view in clips] == [0, 1, 2, 3]
    for binary in (False, True):
        views = read_scenes(make_colmap(tmp_path / f"colmap{binary}", binary))
        for one, other in zip(clips, views, strict=True):
            assert (one.scene, one.place, one.picture.name) == (
                other.scene,
                other.place,
                other.picture.name,
            )
            assert one.lens == pytest.approx(other.lens)
            assert np.allclose(one.rotation, other.rotation)
            # The points lie FAR away: COLMAP's unit becomes the decoder's, whose middle is 3.
            assert np.allclose(one.translation * 3 / FAR, other.translation)


def test_what_colmap_writes_of_pinholes_is_read_where_it_lies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """image_undistorter's folder holds images/ and sparse/, which looks like a COLMAP folder too."""
    scene = make_colmap(tmp_path, binary=True) / "clip0"
    for path in (scene / "sparse" / "0").iterdir():
        path.rename(scene / "sparse" / path.name)
    # Exported as text too, but for the pictures: what is whole is read.
    (scene / "sparse" / "cameras.txt").write_text("# nothing\n")
    monkeypatch.chdir(scene)
    for folder in (scene, tmp_path, Path()):
        assert [view.scene for view in read_scenes(folder)] == ["clip0"] * VIEWS


def test_colmaps_pictures_are_taken_as_they_are_stored(tmp_path: Path) -> None:
    """COLMAP looks at no EXIF data: a picture that viewers turn would not fit its camera."""
    plain, turned = (make_colmap(tmp_path / name, binary=False) for name in ("plain", "turned"))
    exif = Image.Exif()
    exif[0x0112] = 6
    pictures = sorted((turned / "clip0" / "images").iterdir())
    for path in pictures:
        with Image.open(path) as file:
            file.load()
        file.save(path, exif=exif)
    cut = [[framed(view, 64) for view in read_scenes(folder)] for folder in (plain, turned)]
    for (one, known), (other, also) in zip(*cut, strict=True):
        assert np.array_equal(one, other) and known == also
    file.crop((0, 0, WIDTH // 2, HEIGHT)).save(pictures[-1])
    with pytest.raises(SettingsError, match=rf"is {WIDTH // 2} x {HEIGHT} pixels, and its camera"):
        read_scenes(turned)


def test_a_quaternion_turns_as_colmap_says() -> None:
    quarter = quaternion_matrix((np.sqrt(0.5), 0, np.sqrt(0.5), 0))
    assert np.allclose(quarter @ [0, 0, 1], [1, 0, 0])
    assert np.allclose(quaternion_matrix((2, 4, -6, 8)), quaternion_matrix((1, 2, -3, 4)))


@pytest.fixture(scope="module")
def prepared(tmp_path_factory) -> Path:
    """Three made-up scenes as a folder to train on."""
    folder = tmp_path_factory.mktemp("pairs")
    words = ["--scenes", str(make_clips(folder / "clips", 3)), "--output_dir", str(folder / "made")]
    assert prepare_scenes.main([*words, "--side", "128"]) == 0
    return folder / "made"


def test_several_processes_cut_the_same_pictures(prepared: Path, tmp_path: Path) -> None:
    words = ["--scenes", str(prepared.parent / "clips"), "--output_dir", str(tmp_path)]
    assert prepare_scenes.main([*words, "--side", "128", "--workers", "2"]) == 0
    made = sorted(path.name for path in prepared.iterdir() if path.is_file())
    assert sorted(path.name for path in tmp_path.iterdir()) == made
    assert all((tmp_path / name).read_bytes() == (prepared / name).read_bytes() for name in made)


def test_pictures_are_cut_to_the_decoders_camera(prepared: Path) -> None:
    with Image.open(prepared / "clip0-00002.png") as picture:
        found = np.asarray(picture, dtype=np.float32) / 255
    wanted = seen(2 * STEP, 0, (128, 128), 0.8 * 128)
    # 75 pixels of the original are wanted, and 72 are there.
    edge = known_window(read_cameras(prepared).values(), 128)[0]
    assert edge == 3
    inside = (slice(edge, -edge),) * 2
    assert np.abs(found - wanted)[inside].max() < 0.02


def test_what_is_moved_is_seen_where_the_other_camera_sees_it(prepared: Path) -> None:
    cameras = read_cameras(prepared)
    chance = np.random.default_rng(0)
    turn = quaternion_matrix(tuple(chance.standard_normal(4) + np.array([9, 0, 0, 0])))
    turned = cameras["clip0-00003"]
    turned = turned._replace(camera=np.hstack((turn, [[0.1], [0.2], [-0.3]])))
    world = np.array([0.3, -0.2, 2.5])
    first = cameras["clip0-00001"]
    place = np.diag([1, -1, -1]) @ (first.camera[:, :3] @ world + first.camera[:, 3])
    one = Gaussians(
        torch.tensor(place, dtype=torch.float32).view(1, 1, 3),
        torch.full((1, 1, 3), 0.1),
        torch.eye(3).view(1, 1, 3, 3),
        torch.ones(1, 1, 3),
        torch.ones(1, 1),
    )
    moved = moved_by(one, motion(first, turned)[None])
    x, y, z = turn @ world + turned.camera[:, 3]
    wanted = [(0.5 + 0.8 * x / z) * 100, (0.5 + 0.8 * y / z) * 100]
    assert project(moved, Camera(100)).centres[0, 0].tolist() == pytest.approx(wanted, abs=1e-3)
    assert torch.allclose(moved.rotations[0, 0] @ moved.rotations[0, 0].T, torch.eye(3), atol=1e-5)


def test_scenes_stay_together_and_a_partner_is_of_the_same_scene(prepared: Path) -> None:
    found = collect(prepared, "patch", None, None, 0.3, shown=False, pair_gap=2)
    sides = [
        {photograph.name[:5] for photograph in part} for part in (found.training, found.held_out)
    ]
    assert [len(side) for side in sides] == [2, 1] and not sides[0] & sides[1]
    assert found.unseen["clip0-00000"].stem == "clip0-00002"
    assert found.unseen["clip0-00003"].stem == "clip0-00001", "backwards at the end"
    with pytest.raises(SettingsError, match="--pair_gap 7: clip0 has no view 7 places from"):
        partners(read_cameras(prepared), ["clip0-00000"], 7)


def test_the_unseen_view_is_learnt_and_judged(
    prepared: Path, tmp_path: Path, capfd, keep_signals
) -> None:
    """A wall as far away as Gaussians begin: its other views are right once its colours are."""
    # fmt: off
    words = ["--data_dir", str(prepared), "--features", "patch", "--pair_gap", "2"]
    size = ["--epochs", "6", "--batch_size", "4", "--image_size", "48", "--gaussians_per_patch",
            "1", "--threads", "1", "--device", "cpu", "--no-export_onnx", "--no-tensorboard",
            "--validate_every", "6", "--checkpoint_every", "6", "--held_out", "0.3"]
    # fmt: on
    assert train.main([*words, *size, "--output_dir", str(tmp_path)]) == 0
    told = capfd.readouterr().out
    assert "unseen view  PSNR" in told and "no better" not in told
    values = json.loads((tmp_path / "history.json").read_text())["epochs"][-1]["values"]
    assert values["unseen_psnr"] > values["unchanged_psnr"] + 3
    assert values["unseen_l1"] > 0
    judge = ["--checkpoint", str(tmp_path / "gaussian_decoder_exp2.safetensors"), *words[:2]]
    judge += ["--pair_gap", "2", "--held_out", "0.3", "--output_dir", str(tmp_path / "judged")]
    assert evaluate.main(judge) == 0
    means = json.loads((tmp_path / "judged" / "figures.json").read_text())["means"]
    assert means["unseen_psnr"] == pytest.approx(values["unseen_psnr"], abs=1e-3)
    assert f"unseen view  PSNR {means['unseen_psnr']:.2f} dB" in capfd.readouterr().out


def distorted(folder: Path) -> None:
    path = make_clips(folder) / "clip0.txt"
    path.write_text(path.read_text().replace("0.5 0.5 0 0", "0.5 0.5 0.1 0"))


def cut_short(folder: Path) -> None:
    path = make_colmap(folder, True) / "clip0" / "sparse" / "0" / "images.bin"
    path.write_bytes(path.read_bytes()[:100])


def fisheye(folder: Path) -> None:
    path = make_colmap(folder, False) / "clip0" / "sparse" / "0" / "cameras.txt"
    path.write_text(f"7 FOV {WIDTH} {HEIGHT} 60 60 48 36 0.2\n")


def no_picture(folder: Path) -> None:
    (make_colmap(folder, False) / "clip0" / "images" / f"{NAMES[1]}.png").unlink()


def few_numbers(folder: Path) -> None:
    path = make_clips(folder) / "clip0.txt"
    path.write_text("film\n0 1 2 3\n" + path.read_text())


def no_text(folder: Path) -> None:
    (make_clips(folder) / "clip0.txt").write_bytes(b"film\n\xff\n")


def turned_by_nothing(folder: Path) -> None:
    path = make_colmap(folder, False) / "clip0" / "sparse" / "0" / "images.txt"
    path.write_text(path.read_text().replace(" 2 0 0 0 ", " 0 0 0 0 "))


def skewed(folder: Path) -> None:
    path = make_clips(folder) / "clip0.txt"
    path.write_text(path.read_text().replace("0 1 0 0 0 0 1 0", "0 1 0 0 0 0 1.1 0"))


def without_pixels(folder: Path) -> None:
    path = make_colmap(folder, False) / "clip0" / "sparse" / "0" / "cameras.txt"
    path.write_text("7 PINHOLE 0 0 60 60 48 36\n")


def without_focus(folder: Path) -> None:
    path = make_colmap(folder, False) / "clip0" / "sparse" / "0" / "cameras.txt"
    path.write_text(f"7 PINHOLE {WIDTH} {HEIGHT} 60 nan 48 36\n")


@pytest.mark.parametrize(
    ("spoil", "expected"),
    [
        (no_text, "clip0.txt cannot be read as a clip's cameras"),
        (turned_by_nothing, f"{NAMES[0]}.png: its camera"),
        (skewed, f"{NAMES[0]}.png: its camera"),
        (without_pixels, "camera 7: it has 0 x 0 pixels"),
        (without_focus, f"{NAMES[0]}.png: its camera"),
        (distorted, "clip0.txt, line 2: the lens is distorted"),
        (cut_short, "damaged COLMAP files"),
        (fisheye, "camera 7: FOV is none of SIMPLE_PINHOLE"),
        (no_picture, "there is no picture"),
        (few_numbers, "clip0.txt, line 2: not 19 numbers of a camera"),
        (lambda folder: folder.mkdir(), "holds neither COLMAP's cameras"),
    ],
)
def test_what_cannot_be_used_is_refused_by_name(
    spoil, expected: str, tmp_path: Path, capfd
) -> None:
    spoil(tmp_path / "scenes")
    words = ["--scenes", str(tmp_path / "scenes"), "--output_dir", str(tmp_path / "made")]
    assert prepare_scenes.main(words) == 2
    assert expected in capfd.readouterr().err
