"""The network's tensors, its encoder against plain loops, configurations, and published files."""

from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("nrrd")
pytest.importorskip("yaml")

from trainers.common.errors import SettingsError  # noqa: E402
from trainers.voxelization.config import architecture, read_config  # noqa: E402
from trainers.voxelization.dpsr import DPSR  # noqa: E402
from trainers.voxelization.model import (  # noqa: E402
    Architecture,
    Voxelizer,
    bounded,
    load_weights,
    local_coordinates,
)
from trainers.voxelization.orientation import Orientation, turn_normals  # noqa: E402
from trainers.voxelization.state import load_published  # noqa: E402
from trainers.voxelization.validation import psr_loss  # noqa: E402

pytestmark = pytest.mark.trainers

CONFIGS = Path(__file__).resolve().parents[2] / "trainers" / "voxelization" / "configs"
TINY = Architecture(
    c_dim=8, hidden_dim=8, grid_resolution=8, num_levels=2, f_maps=8, hidden_size=8, num_offset=3
)


def published_names() -> dict[str, tuple[int, ...]]:
    """Names and shapes of the published state dict, written out from the facts."""
    shapes: dict[str, tuple[int, ...]] = {}

    def linear(name: str, a: int, b: int, bias: bool = True) -> None:
        shapes[f"{name}.weight"] = (b, a)
        if bias:
            shapes[f"{name}.bias"] = (b,)

    linear("encoder.fc_pos", 3, 64)
    for i in range(5):
        linear(f"encoder.blocks.{i}.fc_0", 64, 32)
        linear(f"encoder.blocks.{i}.fc_1", 32, 32)
        linear(f"encoder.blocks.{i}.shortcut", 64, 32, bias=False)
    linear("encoder.fc_c", 32, 32)
    levels = {
        "encoders.0": (32, 32, 32), "encoders.1": (32, 32, 64), "encoders.2": (64, 64, 128),
        "decoders.0": (192, 64, 64), "decoders.1": (96, 32, 32),
    }  # fmt: skip
    for level, (a, b, c) in levels.items():
        for number, (first, second) in enumerate(((a, b), (b, c)), 1):
            name = f"encoder.unet3d.{level}.basic_module.SingleConv{number}"
            shapes[f"{name}.groupnorm.weight"] = shapes[f"{name}.groupnorm.bias"] = (first,)
            shapes[f"{name}.conv.weight"] = (second, first, 3, 3, 3)
    shapes["encoder.unet3d.final_conv.weight"] = (32, 32, 1, 1, 1)
    shapes["encoder.unet3d.final_conv.bias"] = (32,)
    for decoder, out in (("decoder_normal", 3), ("decoder_offset", 21)):
        linear(f"{decoder}.fc_p", 3, 32)
        linear(f"{decoder}.fc_out", 32, out)
        for i in range(5):
            linear(f"{decoder}.fc_c.{i}", 32, 32)
            linear(f"{decoder}.blocks.{i}.fc_0", 32, 32)
            linear(f"{decoder}.blocks.{i}.fc_1", 32, 32)
    return shapes


def test_names_shapes_and_counts_are_the_published_ones() -> None:
    network = Voxelizer()
    state = {name: tuple(tensor.shape) for name, tensor in network.state_dict().items()}
    assert state == published_names()
    assert len(state) == 129
    assert sum(tensor.numel() for tensor in network.parameters()) == 1_085_272


def test_weights_load_strictly_whatever_wrapped_them() -> None:
    network, other = Voxelizer(TINY), Voxelizer(TINY)
    with torch.no_grad():
        for tensor in network.parameters():
            tensor.add_(1)
    state = network.state_dict()
    load_weights(other, {f"module._orig_mod.{name}": t for name, t in state.items()}, "file")
    assert all(torch.equal(other.state_dict()[name], state[name]) for name in state)
    missing = {name: t for name, t in state.items() if name != "encoder.fc_c.bias"}
    with pytest.raises(SettingsError, match=r"encoder.fc_c.bias is missing \(1 such\)"):
        load_weights(other, missing, "file")
    with pytest.raises(SettingsError, match="unknown to this network"):
        load_weights(other, {**state, "extra": torch.zeros(1)}, "file")
    with pytest.raises(SettingsError, match="sizes differ"):
        load_weights(other, {**state, "encoder.fc_c.bias": torch.zeros(3)}, "file")


def test_the_encoder_pools_and_averages_by_cell_with_axes_z_y_x() -> None:
    torch.manual_seed(0)
    encoder = Voxelizer(TINY).encoder
    points = torch.rand(1, 40, 3)
    points[0, :6] = points[0, 0] + 1e-4
    grids = []
    encoder.unet3d.forward = lambda grid: grids.append(grid) or grid
    encoder(points)
    cells = [tuple(int(value * 8) for value in point) for point in points[0]]
    local = (points[0] * 8) % 1
    features = encoder.blocks[0](encoder.fc_pos(local))
    for block in list(encoder.blocks)[1:]:
        pooled = torch.stack([
            torch.stack([features[j] for j in range(40) if cells[j] == cells[i]]).amax(0)
            for i in range(40)
        ])  # fmt: skip
        features = block(torch.cat([features, pooled], 1))
    features = encoder.fc_c(features)
    expected = torch.zeros(8, 8, 8, 8)
    for x, y, z in set(cells):
        members = [features[j] for j in range(40) if cells[j] == (x, y, z)]
        expected[:, z, y, x] = torch.stack(members).mean(0)
    torch.testing.assert_close(grids[0][0], expected, atol=1e-5, rtol=1e-5)


def test_points_move_by_their_offsets_and_stay_in_the_cube() -> None:
    torch.manual_seed(0)
    network = Voxelizer(TINY).eval()
    points = torch.rand(2, 50, 3)
    points[0, 0] = 1.0
    moved, normals = network(points)
    assert moved.shape == normals.shape == (2, 150, 3)
    assert moved.max() <= 0.99
    inner = points[1].repeat_interleave(3, 0)
    assert 0 < (moved[1] - inner.clamp(0, 0.99)).abs().max() < 0.01
    order = torch.randperm(50)
    again = network(points[:, order])[1].view(2, 50, 3, 3)
    torch.testing.assert_close(again, normals.view(2, 50, 3, 3)[:, order], atol=1e-5, rtol=1e-4)


def test_coordinates_are_clamped_for_cells_and_not_for_what_lies_inside() -> None:
    odd = torch.tensor([-0.01, 0.5, 1.0, 1.2])
    assert bounded(odd).tolist() == pytest.approx([0, 0.5, 1 - 1e-5, 1 - 1e-5])
    assert local_coordinates(odd, 32).tolist() == pytest.approx([0.68, 0, 0, 0.4], abs=1e-4)


def test_a_published_checkpoint_with_a_numpy_scalar_loads_without_running_code(tmp_path) -> None:
    path = tmp_path / "model.pt"
    state = Voxelizer(TINY).state_dict()
    content = {"epoch": 9, "it": 70, "loss_val_best": np.float64(0.43), "state_dict": state}
    torch.save(content, path)
    with pytest.raises(Exception, match=r"weights_only|Weights only"):
        torch.load(path, weights_only=True)
    loaded = load_published(path)
    assert float(loaded["loss_val_best"]) == 0.43
    assert torch.equal(loaded["state_dict"]["encoder.fc_c.bias"], state["encoder.fc_c.bias"])

    class Harm:
        def __reduce__(self):
            return (Path.touch, (tmp_path / "harm",))

    torch.save({"state_dict": state, "x": Harm()}, path)
    with pytest.raises(SettingsError, match="code in a file is not run: only tensors"):
        load_published(path)
    assert not (tmp_path / "harm").exists()
    torch.save({"written_by": {"trainer": "gaussian"}, "model": {}}, path)
    with pytest.raises(SettingsError, match="was written by gaussian: it is no checkpoint of this"):
        load_published(path)
    path.write_text('{"epochs": 3}')
    with pytest.raises(SettingsError) as other:
        load_published(path)
    assert str(other.value).endswith("as a checkpoint (PyTorch's torch.save did not write it)")
    with pytest.raises(SettingsError, match=r"^there is no file .*none"):
        load_published(tmp_path / "none.pt")


def test_configurations_hold_the_guides_and_the_papers_values(monkeypatch) -> None:
    guide = read_config(CONFIGS / "train_skullbreak.yaml")
    paper = read_config(CONFIGS / "train_skullbreak_paper.yaml")
    named = ("train.batch_size", "train.lr", "train.total_epochs", "train.n_workers")
    assert [guide[name] for name in named] == [4, 1e-3, 1300, 8]
    assert [paper[name] for name in named] == [2, 5e-4, 1300, 16]
    assert guide["model.grid_res"] == (512, 512, 512)
    assert architecture(guide) == Architecture()
    assert guide["data.train_path"] == "pcdiff/datasets/SkullBreak/voxelization/train.csv"
    monkeypatch.setenv("PCDIFF_SKULLBREAK_TRAIN_CSV", "/elsewhere/train.csv")
    assert read_config(CONFIGS / "gen_skullbreak.yaml")["data.train_path"] == "/elsewhere/train.csv"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("train: {w_raw: 0.1}", "train.w_raw: 0.1 is refused, only 0 works: a loss on meshes"),
        ("train: {batchsize: 2}", "unknown key; the nearest is train.batch_size"),
        ("train: {lr: quick}", "'quick' is not a number"),
        ("train: {batch_size: .inf}", "inf is no finite number"),
        ("train: {lr: .nan}", "nan is no finite number"),
        ("train: {batch_size: 1.5}", "1.5 is not a whole number"),
        ("train: {batch_size: 0}", "0 is below 1"),
        ("model: {grid_res: 1024}", "from 16 to 512"),
        ("model: {psr_tanh: 1}", "neither true nor false"),
        ("model: {encoder_kwargs: {grid_resolution: 30}}", "cannot be halved 2 times"),
        ("generation: {refinement: {strategy: occupancy_symmetry}}", "only 'legacy' works"),
        ("generation: {refinement: {threshold: 0.5}}", "is refused: the fork's refinement"),
        ("model: {encoder_kwargs: {unet3d_kwargs: {in_channels: 16}}}", "has to be model.c_dim"),
        ("data: {train_path: '${NOT_SET_ANYWHERE}'}", "NOT_SET_ANYWHERE is not set"),
        ("inherit_from: bad.yaml", "goes round in a circle"),
    ],
)
def test_a_key_that_cannot_act_is_refused_with_the_reason(tmp_path, text, words) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    with pytest.raises(SettingsError) as caught:
        read_config(path)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def sphere() -> tuple[torch.Tensor, torch.Tensor]:
    """Points (1, 600, 3) on a sphere, and its grid (1, 16, 16, 16)."""
    i = torch.arange(600) + 0.5
    polar, turn = torch.acos(1 - i / 300), torch.pi * (1 + 5**0.5) * i
    outward = [turn.cos() * polar.sin(), turn.sin() * polar.sin(), polar.cos()]
    axis = torch.arange(16) / 16 - 0.5
    far = torch.stack(torch.meshgrid(axis, axis, axis, indexing="ij")).norm(dim=0)
    return 0.5 + 0.3 * torch.stack(outward, -1)[None], (far - 0.3).sign()[None] / 2


def sphere_loss(points: torch.Tensor, normals: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return psr_loss(DPSR(16, 1.0)(points, normals), target, True, 1.0)


def drawn(seed: int) -> Voxelizer:
    torch.manual_seed(seed)
    return Voxelizer(TINY)


@pytest.mark.parametrize("seed", [0, 1, 9])
def test_weights_drawn_inside_out_are_turned_round_and_learn(seed) -> None:
    points, target = sphere()

    def after_some_steps(network: Voxelizer) -> float:
        optimiser = torch.optim.Adam(network.parameters(), lr=2e-3)
        for _ in range(60):
            loss = sphere_loss(*network(points), target)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        return loss.item()

    turned = drawn(seed)
    found = turn_normals(
        turned, sphere_loss, [{"inputs": points[0], "gt_psr": target[0]}], (16,) * 3
    )
    assert found.is_turned
    with torch.no_grad():
        assert sphere_loss(*turned(points), target).item() == pytest.approx(found.turned)
    assert after_some_steps(turned) < 0.05
    assert after_some_steps(drawn(seed)) > 0.3


def test_weights_that_point_the_right_way_stay_to_the_bit() -> None:
    network, same = drawn(6), drawn(6)
    points, target = sphere()
    found = turn_normals(
        network, sphere_loss, [{"inputs": points[0], "gt_psr": target[0]}], (16,) * 3
    )
    assert not found.is_turned
    assert found.drawn < found.turned
    assert all(map(torch.equal, network.state_dict().values(), same.state_dict().values()))
    assert not Orientation(float("nan"), float("nan")).is_turned
