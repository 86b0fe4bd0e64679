"""The 3-D U-Net baseline: a known answer, resuming to the bit, its place beside PCDiff."""

import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("nrrd")

from torch.utils.data import default_collate  # noqa: E402

from tests.trainers.pcdiff_world import signals_kept  # noqa: E402
from tests.trainers.saved_state import differing_files  # noqa: E402
from trainers.common.errors import SettingsError  # noqa: E402
from trainers.common.schedules import rate_at  # noqa: E402
from trainers.implants import train_unet, unet, volume_pairs  # noqa: E402
from trainers.implants.unet import UNetSizes, coarse, fine, load_unet, overlap_loss  # noqa: E402
from trainers.skulls.listing import SkullDataError, SkullSample  # noqa: E402
from trainers.skulls.made_up import make_up  # noqa: E402

pytestmark = pytest.mark.trainers
SMALL = (
    *("--grid_res", "8", "--channels", "4", "--levels", "2", "--units", "0", "--threads", "1"),
    *("--device", "cpu", "--no-tensorboard", "--batch_size", "5", "--val_samples", "2"),
)


@pytest.fixture(scope="module")
def listed(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("skulls")
    make_up(folder, 3, 24, points=500, held_out=1)
    return folder / "train.csv"


@pytest.fixture(autouse=True)
def one_layer(monkeypatch) -> None:
    """MONAI takes seconds to import: but for one test a convolution stands for its network."""

    def network(sizes: UNetSizes) -> torch.nn.Module:
        sizes.check()
        return torch.nn.Conv3d(1, 1, 3, padding=1)

    monkeypatch.setattr(unet, "make_network", network)
    monkeypatch.setattr(train_unet, "make_network", network)


def train(*words: object) -> int:
    with signals_kept():
        return train_unet.main([*SMALL, *map(str, words)])


def test_a_volume_goes_to_the_grid_and_back() -> None:
    mask = np.zeros((16, 16, 16), bool)
    mask[4:12, 2:8, 6:10] = True
    seen = coarse(mask, 8)
    assert seen.shape == (1, 8, 8, 8) and float(seen.sum()) == mask.sum() / 8
    bone = np.zeros_like(mask)
    bone[4:6] = True
    back = fine(20 * seen[None] - 10, bone)
    assert not (back & bone).any()
    assert (back ^ (mask & ~bone)).mean() < 0.01
    with pytest.raises(SkullDataError, match="a cube whose side is a multiple of"):
        coarse(mask[:12], 8)
    with pytest.raises(SettingsError, match="take a multiple of 16, at least 32"):
        UNetSizes(24).check()


@pytest.mark.parametrize("factor", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("order", ["C", "F"])
def test_the_share_of_bone_is_the_mean_to_the_bit_and_travels_as_counts(
    factor: int, order: str, monkeypatch
) -> None:
    """In a byte each while they fit; mirrored or not, one sample or a batch of them."""
    mask = np.random.default_rng(factor).random((4 * factor,) * 3) < 0.4
    parts = mask.reshape(4, factor, 4, factor, 4, factor)
    true = torch.from_numpy(parts.mean(axis=(1, 3, 5), dtype=np.float32))[None]
    mask = np.asarray(mask, order=order)
    assert coarse(mask, 4).equal(true)
    monkeypatch.setattr(volume_pairs, "read_volume", lambda _: SimpleNamespace(mask=mask))
    cloud = Path("x_surf.npy")
    data = volume_pairs.Volumes([SkullSample("x", None, cloud, cloud, cloud)], 4, 0)
    assert volume_pairs.shares(data.pair(0), "implant").equal(true)
    assert data.pair(0)["defective"].dtype == (torch.uint8 if factor < 7 else torch.int16)
    batch = default_collate([data[epoch, 0] for epoch in range(8)])
    shares = volume_pairs.shares(batch, "defective")
    turned = [not share.equal(true) for share in shares]
    assert any(turned) and not all(turned)
    assert all(
        share.equal(true.flip(1) if t else true) for share, t in zip(shares, turned, strict=True)
    )


def test_the_loss_is_least_at_the_truth() -> None:
    target = (torch.arange(64.0) % 3 == 0).float().view(1, 1, 4, 4, 4)
    right, wrong = (overlap_loss(sign * (40 * target - 20), target) for sign in (1, -1))
    assert float(right) < 1e-3 and float(wrong) > 10
    noise = torch.randn(1, 1, 4, 4, 4, dtype=torch.double).requires_grad_()
    assert torch.isfinite(torch.autograd.grad(overlap_loss(noise, target), noise)[0]).all()


def test_a_volume_that_is_missing_is_named_before_the_first_step(listed, tmp_path, capsys) -> None:
    data = shutil.copytree(listed.parent, tmp_path / "data")
    volume = data / "implant" / "random_2" / "001.nrrd"
    volume.unlink()
    assert train("--path", data / "train.csv", "--output_dir", tmp_path / "out") == 2
    told = capsys.readouterr()
    assert f"error: {volume} is missing" in told.err and "epoch" not in told.out


def test_workers_that_shared_memory_cannot_hold_are_refused_before_a_file(
    listed, tmp_path, capsys, little_shared_memory
) -> None:
    little_shared_memory(2_000)
    assert train("--path", listed, "--workers", "3", "--output_dir", tmp_path / "out") == 2
    assert "GiB of /dev/shm, 3 worker(s)" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_it_resumes_to_the_bit_and_exports_what_it_judged(
    listed, tmp_path, capsys, processes_begun
) -> None:
    """By a worker that lives to the end."""
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    words = ("--path", listed, "--validate_every", 1)
    assert train(*words, "--epochs", 2, "--output_dir", whole) == 0
    assert "mirror" in capsys.readouterr().out
    (parts / "run").mkdir(parents=True)
    stop = parts / "run" / "stop.json"
    stop.write_text("{}")
    with pytest.MonkeyPatch.context() as here:
        here.setenv("FRESNEL_RUN_DIR", str(parts / "run"))
        assert train(*words, "--epochs", 2, "--output_dir", parts) == 0
    stop.unlink()
    saved = [path.name for path in (parts / "checkpoints").glob("epoch_*")]
    assert saved == ["epoch_0001_step_000001.pt"]
    more = ("--resume", "auto", "--workers", 1)
    assert train(*words, "--epochs", 2, "--output_dir", parts, *more) == 0
    assert len(processes_begun) == 1
    for name in ("last.pt", "best.pt"):
        assert differing_files(*(run / "checkpoints" / name for run in (whole, parts))) == []
    capsys.readouterr()
    assert train(*words, "--output_dir", parts, *more, "--channels", 8) == 2
    assert "is of another network: channels is 4 there and 8 here" in capsys.readouterr().err
    card = (whole / "checkpoints" / "unet.md").read_text()
    assert "val/dice_mirror" in card and "10 samples of 2 skulls" in card
    assert str(tmp_path) not in card, "a card names no path of this machine"
    exported = load_unet(whole / "checkpoints" / "unet.safetensors", torch.device("cpu"))
    saved = load_unet(whole / "checkpoints" / "last.pt", torch.device("cpu"))
    assert exported.sizes == saved.sizes == UNetSizes(8, 4, 2, 0)
    for one, other in zip(exported.network.parameters(), saved.network.parameters(), strict=True):
        assert torch.equal(one, other)


def test_another_batch_goes_on_as_far_in_the_schedule_and_a_step_left_out_is_no_loss(
    listed, tmp_path, monkeypatch, first_gradient_spoiled, read_events, capsys
) -> None:
    monkeypatch.setenv("FRESNEL_RUN_DIR", str(tmp_path))
    words = ("--path", listed, "--validate_every", 9, "--schedule", "cosine")
    one, two = tmp_path / "one", tmp_path / "two"
    assert train(*words, "--epochs", 1, "--output_dir", one) == 0
    first = one / "checkpoints" / "epoch_0001.pt"
    losses = [event["values"]["loss"] for event in read_events(tmp_path, "epoch")]
    steps = read_events(tmp_path, "metrics")
    assert losses == [steps[-1]["values"]["loss"]], "of the step that was taken"
    assert "step 1: the gradient is not finite; the step is left out" in capsys.readouterr().err
    (tmp_path / "events.jsonl").unlink()
    more = ("--epochs", 2, "--batch_size", 10, "--resume", first)
    assert train(*words, *more, "--output_dir", two) == 0
    (step,) = read_events(tmp_path, "metrics")
    assert step["step"] == 2
    assert step["values"]["learning_rate"] == pytest.approx(rate_at(1, 2, 1e-3))
    told = capsys.readouterr().err
    assert "2 steps were taken; by this batch and these data they are 1: counted anew" in told


def test_files_of_others_are_refused(tmp_path) -> None:
    torch.save({"model": {}}, tmp_path / "other.pt")
    with pytest.raises(SettingsError, match="was not written by"):
        load_unet(tmp_path / "other.pt", torch.device("cpu"))


def test_monais_network_has_the_shapes_and_its_absence_is_one_line(monkeypatch) -> None:
    monkeypatch.undo()
    monkeypatch.setitem(__import__("sys").modules, "monai.networks.nets", None)
    with pytest.raises(SettingsError, match=r"pip install 'fresnel-tui\[unet\]'"):
        unet.make_network(UNetSizes(8, 4, 2, 1))
    monkeypatch.undo()
    pytest.importorskip("monai")
    network = unet.make_network(UNetSizes(8, 4, 2, 1))
    assert network(torch.zeros(2, 1, 8, 8, 8)).shape == (2, 1, 8, 8, 8)
