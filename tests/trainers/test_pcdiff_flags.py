"""Every flag of the guides acts or is refused with a reason; bad data is one line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

pytest.importorskip("numba")

from tests.trainers import pcdiff_world as world
from trainers.pcdiff.data import EpochBatches, Recipe, SkullPoints, normalised, rotated
from trainers.pcdiff.options import make_parser
from trainers.skulls.listing import read_listing

pytestmark = pytest.mark.trainers

# The guides' commands, and what the newer generation's train_pcdiff.sh passes.
COMMANDS = (
    "--path train.csv --dataset SkullBreak --bs 8 --lr 2e-4 --niter 15000",
    "--path t.csv --dataset SkullBreak --bs 64 --lr 1.6e-3 --wandb-project p --wandb-name n",
    "--path t.csv --dataset SkullBreak --bs 56 --lr 0.00122 --workers 21 --niter 15000"
    " --model epoch_1999_remapped.pth",
    "--path t.csv --dataset SkullFix --bs 8 --lr 2e-4 --lr-base-batch 8 --lr-warmup-epochs 500"
    " --lr-warmup-start-factor 0.01 --checkpoint_freq 500 --keep_last_n 3 --diagIter 1000"
    " --vizIter 1000 --gating-enabled False --proxy-eval-enabled False --disable-compile --no-amp",
    "--path t.csv --dataset SkullBreak --schedule_type cosine --loss_type mse_minsnr"
    " --width_mult 1.5 --embed_dim 96 --ema_decay 0.9999 --grad_clip 1.0 --lr_scheduler cosine"
    " --augment True"
    " --amp --amp-dtype bfloat16 --matmul-precision high --attention True --manualSeed 7"
    " --ddp-static-graph --nondeterministic --disable-tf32 --no-fused-adam --prefetch-factor 2",
)
REFUSED = {
    "--gating-enabled True": "--niter is how long it trains",
    "--gating-max-epochs 700": "--niter is how long it trains",
    "--proxy-eval-num-ens 1": "use --vizIter",
    "--compile-backend inductor": "not compiled",
    "--gpu 7": "CUDA_VISIBLE_DEVICES",
    "--dist-backend nccl": "follows the device",
    "--matmul-precision low": "invalid choice",
    "--augment maybe": "neither True nor False",
    "--batch_size 8": "unknown argument --batch_size",
    "--lr-scaling square": "invalid choice",
}


@pytest.fixture(scope="module")
def listed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A training list of two made-up skulls in SkullFix's layout."""
    return world.skulls(tmp_path_factory.mktemp("skulls"), "SkullFix")


@pytest.mark.parametrize("command", COMMANDS)
def test_the_guides_commands_are_read(command: str) -> None:
    settings = make_parser("", "").read(command.split())
    assert settings.path is not None and settings.bs in (8, 56, 64)


@pytest.mark.parametrize("words", REFUSED)
def test_what_cannot_be_is_refused_with_a_reason(
    words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        make_parser("", "").read(["--path", "t.csv", *words.split()])
    error = capsys.readouterr().err
    assert ended.value.code == 2 and REFUSED[words] in error


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("--niter 1", "--path CSV is missing"),
        ("--path {listed} --made_up 4", "leave --path away"),
        ("--path {listed} --bs 3", "not one whole batch"),
        ("--path {listed} --bs 2 --accumulate 3", "cannot be dealt to 1 device(s) in 3 part(s)"),
        ("--path {listed} --loss_type kl", "never worked in the original either"),
        ("--path {listed} --bs 2 --width_mult 0.3", "take a multiple of 0.25"),
        ("--path {listed} --num_nn 256", "some must be left for the skull"),
        ("--path {listed} --bs 2 --model x.pth", "there is no file"),
        ("--path nowhere.csv", "nowhere.csv"),
    ],
)
def test_settings_that_do_not_fit_are_one_line(
    listed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], words: str, told: str
) -> None:
    words = words.format(listed=listed)
    assert world.train_here(*words.split(), "--output_dir", str(tmp_path), *world.RARE) == 2
    errors = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1 and told in errors[0]


@pytest.mark.parametrize(
    ("words", "told"), [("--bs 11", "10 samples"), ("--bs 7 --accumulate 2", "")]
)
def test_a_batch_that_cannot_be_is_refused_before_skulls_are_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: str, told: str
) -> None:
    where = ("--made_up", "3", "--output_dir", str(tmp_path), "--no-tensorboard")
    assert world.train_here(*words.split(), *where) == 2
    errors = capsys.readouterr().err
    assert errors.startswith(f"error: {' '.join(words.split()[:2])}") and told in errors
    assert not (tmp_path / "skulls").exists()


def spoil(root: Path, how: str) -> str:
    """Spoil one cloud of a set; what the error has to name."""
    cloud = root / "implant" / "000_surf.npy"
    if how == "missing":
        cloud.unlink()
    elif how == "not finite":
        np.save(cloud, np.full((9, 3), np.nan, np.float32))
    elif how == "shape":
        np.save(cloud, np.zeros((9, 4), np.float32))
    elif how == "leak":
        (root / "test.csv").write_text("complete_skull/000_surf.npy\n")
        return "skull 000 is in the training list and in the test list"
    else:
        (root / "train.csv").write_text("")
        return "the list is empty"
    return str(cloud)


@pytest.mark.parametrize("how", ["missing", "not finite", "shape", "leak", "empty"])
def test_bad_data_is_one_line_that_names_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], how: str
) -> None:
    path = world.skulls(tmp_path / "set", "SkullFix")
    told = spoil(path.parent, how)
    words = ("--path", str(path), "--output_dir", str(tmp_path), "--no-tensorboard")
    assert world.train_here(*words) == 2
    errors = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1 and told in errors[0]


def test_samples_are_skull_and_implant_in_one_box(listed: Path) -> None:
    recipe = Recipe(256, 64, 1000, False, 3)
    data = SkullPoints(read_listing(listed), recipe)
    sample = data[4, 1]
    assert sample["skull"].shape == (3, 192) and sample["implant"].shape == (3, 64)
    points = torch.cat([sample["skull"], sample["implant"]], dim=1)
    low, high = points.amin(1), points.amax(1)
    assert float((high - low).max()) == pytest.approx(6, abs=1e-4)
    assert float((high + low).abs().max()) < 1e-4
    cloud = np.load(read_listing(listed)[1].implant)
    voxels = sample["implant"].T.numpy() * sample["scale"].numpy() + sample["shift"].numpy()
    assert np.linalg.norm(cloud[None] - voxels[:5, None], axis=2).min(1).max() < 1e-3
    assert 0 <= sample["timestep"] < 1000
    again, later = data[4, 1], data[5, 1]
    assert torch.equal(sample["noise"], again["noise"])
    assert not torch.equal(sample["noise"], later["noise"])
    fixed = SkullPoints(read_listing(listed), recipe, fixed=True)
    assert torch.equal(fixed[4, 1]["skull"], fixed[9, 1]["skull"])


def test_augmentation_rotates_about_the_centre() -> None:
    points = np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32) + 100
    turned = rotated(points, np.deg2rad([10, -5, 3]))
    assert np.linalg.norm(turned - points, axis=1).max() > 0.1
    np.testing.assert_allclose(turned.mean(0), points.mean(0), atol=1e-3)
    np.testing.assert_allclose(
        np.linalg.norm(turned - turned.mean(0), axis=1),
        np.linalg.norm(points - points.mean(0), axis=1), atol=1e-3,
    )  # fmt: skip
    about_z = rotated(np.array([[1, 0, 0], [-1, 0, 0]], np.float32), np.deg2rad([0, 0, 90]))
    np.testing.assert_allclose(about_z[0], [0, 1, 0], atol=1e-6)
    flat, _, scale = normalised(np.ones((4, 3), np.float32))
    assert np.isfinite(flat).all() and scale > 0


def test_batches_are_dealt_whole_and_go_on_inside_an_epoch() -> None:
    def places(rank: int, world_size: int, used: int = 0) -> list[tuple[int, int]]:
        batches = EpochBatches(11, 4 // world_size, 5, rank, world_size, (0, 2), used)
        return [place for batch in batches for place in batch]

    alone = places(0, 1)
    assert len(alone) == 16 and len({place for place in alone if place[0] == 0}) == 8
    assert sorted(places(0, 2) + places(1, 2)) == sorted(alone)
    assert places(0, 1, used=4) == alone[4:]
