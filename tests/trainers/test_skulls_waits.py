"""How often a step makes the host wait for the device: once, for loss and gradient's norm."""

from pathlib import Path
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("skimage")
pytest.importorskip("nrrd")

from tests.trainers import pcdiff_world as world  # noqa: E402
from tests.trainers.waits import Waits  # noqa: E402
from trainers.common.stopping import StopRequest  # noqa: E402
from trainers.implants import train_unet  # noqa: E402
from trainers.pcdiff import neighbours_torch  # noqa: E402
from trainers.pcdiff import train as pcdiff  # noqa: E402
from trainers.pcdiff.options import make_parser  # noqa: E402
from trainers.pcdiff.run import prepare  # noqa: E402
from trainers.voxelization import train as voxelization  # noqa: E402

pytestmark = pytest.mark.trainers


def silent(optimiser: torch.optim.Optimizer) -> None:
    """Adam on a CPU reads its own counters, which lie on the CPU beside a GPU too."""
    optimiser.step = lambda *_, **__: None  # type: ignore[method-assign]


@pytest.fixture(scope="module")
def listed(tmp_path_factory) -> Path:
    return world.skulls(tmp_path_factory.mktemp("skulls"))


@pytest.mark.parametrize("search", ["numba", "torch"])
def test_a_step_of_pcdiff_waits_for_its_searches_and_once_more(
    search: str, listed, tmp_path, monkeypatch
) -> None:
    if search == "numba":
        pytest.importorskip("numba")
    words = [
        *world.SMALL,
        "--neighbours",
        search,
        "--path",
        str(listed),
        "--bs",
        "4",
        "--accumulate",
        "2",
        *world.RARE,
    ]
    settings = make_parser("", "").read([*words, "--output_dir", str(tmp_path)])
    run = prepare(settings, StopRequest())
    silent(run.optimiser)
    run.model.train()
    batch = next(pcdiff.load_batches(run))
    # A table that is sent once.
    run.diffusion.kept_at(torch.zeros(1, dtype=torch.int64))
    waits = Waits(monkeypatch)
    # What torch finds in a ball is as long as it is; Triton fills a table.
    found = waits.aside(neighbours_torch.ball_query)
    monkeypatch.setattr(neighbours_torch, "ball_query", found)
    with waits:
        loss, norm = pcdiff.train_step(run, batch, 1e-4)
    # The searches of two batches wait once each, for all of their levels.
    once = "cpu" if search == "numba" else "tolist"
    assert waits.found == [once, once, "tolist"], waits.found
    assert loss > 0 and norm > 0


SMALL = """
data: {pointcloud_n: 200, num_offset: 2}
model:
  grid_res: 16
  c_dim: 8
  encoder_kwargs: {hidden_dim: 8, grid_resolution: 4, unet3d_kwargs: {num_levels: 2, f_maps: 8}}
  decoder_kwargs: {hidden_size: 8}
train: {batch_size: 2, n_workers: 0}
"""


def test_a_step_of_the_voxelization_network_waits_once(listed, tmp_path, monkeypatch) -> None:
    (tmp_path / "small.yaml").write_text(SMALL)
    words = [str(tmp_path / "small.yaml"), "--made_up", "3", "--made_up_size", "32"]
    words += ["--device", "cpu", "--no-tensorboard", "--output_dir", str(tmp_path)]
    run = voxelization.prepare(voxelization.make_parser().read(words), StopRequest())
    silent(run.optimiser)
    group = [voxelization.collate_pairs([run.training[0], run.training[1]]) for _ in range(2)]
    meter = SimpleNamespace(count=lambda _: None)
    # What is built once, such as the solver's frequencies, is not of every step.
    voxelization.take_step(run, group, meter)
    with Waits(monkeypatch) as waits:
        loss, norm = voxelization.take_step(run, group, meter)
    assert waits.found == ["tolist"], waits.found
    assert loss > 0 and norm > 0


def test_a_step_of_the_u_net_waits_once(listed, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(train_unet, "make_network", lambda _: torch.nn.Conv3d(1, 1, 3, padding=1))
    words = ["--path", str(listed), "--grid_res", "8", "--device", "cpu", "--no-tensorboard"]
    parser = train_unet.make_parser("")
    run = train_unet.prepare(parser.read([*words, "--output_dir", str(tmp_path)]), StopRequest())
    silent(run.optimiser)
    group = list(run.loader.batches([[(0, 0), (0, 1)]]))
    with Waits(monkeypatch) as waits:
        train_unet.take_step(run, group)
    assert waits.found == ["tolist"], waits.found


def test_the_mode_sees_what_waits(monkeypatch) -> None:
    """Else the tests above could not fail."""
    with Waits(monkeypatch) as waits:
        number = torch.ones(3).sum()
        assert waits.found == []
        float(number)
        (number > 0).nonzero()
        number.view(1).tolist()
        waits.aside(float)(number)
    assert waits.found == ["_local_scalar_dense", "nonzero", "tolist"]
