"""Files that others read and write: .ply and .bin, and checkpoints of other writers."""

import errno
import pathlib
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from tests.warm import TORCH  # noqa: E402
from trainers.common.errors import ExportError, SettingsError  # noqa: E402
from trainers.gaussian import (  # noqa: E402
    export,
    export_decoder,
    foreign,
    infer,
    train,
)
from trainers.gaussian.decoder import DecoderSettings, make_decoder  # noqa: E402
from trainers.gaussian.export import export_onnx, missing_packages  # noqa: E402
from trainers.gaussian.gaussian_files import (  # noqa: E402
    PLY_NAMES,
    SH_DC,
    write_bin,
    write_ply,
)
from trainers.gaussian.geometry import GRID, rotation_from_6d  # noqa: E402
from trainers.gaussian.networks import depth_image  # noqa: E402
from trainers.gaussian.projection import Gaussians  # noqa: E402
from trainers.gaussian.trained import load_trained  # noqa: E402

pytestmark = pytest.mark.trainers
HERE = Path(__file__).resolve().parents[2] / "trainers" / "gaussian"


def some(count: int = 5) -> Gaussians:
    chance = torch.Generator().manual_seed(0)
    numbers = torch.rand(1, count, 16, generator=chance)
    return Gaussians(
        numbers[..., :3] - torch.tensor([0, 0, 3.0]),
        numbers[..., 3:6],
        rotation_from_6d(numbers[..., 6:12] - 0.5),
        numbers[..., 12:15],
        0.1 + 0.8 * numbers[..., 15],
    )


def test_a_ply_is_right_side_up_in_viewers(tmp_path: Path) -> None:
    gaussians = some()
    assert write_ply(tmp_path / "a.ply", gaussians) == 5
    content = (tmp_path / "a.ply").read_bytes()
    header, _, body = content.partition(b"end_header\n")
    lines = header.decode().splitlines()
    assert lines[:3] == ["ply", "format binary_little_endian 1.0", "element vertex 5"]
    assert tuple(line.split()[-1] for line in lines[3:]) == PLY_NAMES
    table = np.frombuffer(body, dtype="<f4").reshape(5, len(PLY_NAMES))
    known = dict(zip(PLY_NAMES, table.T, strict=True))
    x, y, z = gaussians.positions[0].T.numpy()
    assert np.allclose([known["x"], known["y"], known["z"]], [x, -y, -z])
    assert np.allclose(0.5 + SH_DC * known["f_dc_1"], gaussians.colours[0, :, 1], atol=1e-6)
    assert np.allclose(1 / (1 + np.exp(-known["opacity"])), gaussians.opacities[0], atol=1e-6)
    assert np.allclose(np.exp(known["scale_2"]), gaussians.scales[0, :, 2], atol=1e-6)
    w, i, j, k = (known[f"rot_{n}"] for n in range(4))
    first_axis = np.stack((1 - 2 * (j * j + k * k), 2 * (i * j + w * k), 2 * (i * k - w * j)))
    assert np.allclose(
        first_axis.T, gaussians.rotations[0, :, :, 0] * torch.tensor([1, -1, -1]), atol=1e-5
    )


def test_a_bin_is_fourteen_floats_a_gaussian(tmp_path: Path) -> None:
    gaussians = some()
    assert write_bin(tmp_path / "a.bin", gaussians) == 5
    assert (tmp_path / "a.bin").stat().st_size == 5 * 56
    table = torch.from_numpy(np.fromfile(tmp_path / "a.bin", dtype="<f4")).view(5, 14)
    assert torch.allclose(table[:, :3], gaussians.positions[0])
    assert torch.allclose(table[:, 3:6], gaussians.scales[0])
    assert torch.allclose(table[:, 6:10].norm(dim=1), torch.ones(5))
    assert torch.allclose(table[:, 10:13], gaussians.colours[0])
    assert torch.allclose(table[:, 13], gaussians.opacities[0])


def upstream_file(path: Path, settings: DecoderSettings, **more) -> dict[str, torch.Tensor]:
    """A checkpoint with the keys upstream writes, its configuration holding a path."""
    torch.manual_seed(1)
    decoder = make_decoder(settings)
    optimiser = torch.optim.AdamW(decoder.parameters(), lr=1e-4, weight_decay=1e-5)
    sum(part.sum() for part in decoder(torch.randn(1, 384, GRID, GRID))).backward()
    optimiser.step()
    weights = decoder.state_dict() | more
    content = {
        "epoch": 10,
        "model_state_dict": weights,
        "optimizer_state_dict": optimiser.state_dict(),
        "losses": {"total": 0.9},
        "config": {"data_dir": pathlib.PosixPath("images")},
    }
    torch.save(content, path)
    return weights


@pytest.mark.parametrize("experiment", [2, 4, 5])
def test_upstreams_checkpoints_load_and_draw_in_their_own_geometry(
    experiment: int, tmp_path: Path
) -> None:
    path = tmp_path / f"decoder_exp{experiment}_epoch10.pt"
    settings = DecoderSettings(experiment=experiment, gaussians_per_patch=4)
    weights = upstream_file(path, settings)
    trained = load_trained(path)
    assert all(
        torch.equal(part, weights[name]) for name, part in trained.decoder.state_dict().items()
    )
    assert trained.decoder.settings.geometry == "upstream"
    with torch.no_grad():
        bare = trained.decoder(torch.zeros(1, 384, GRID, GRID))
    if experiment == 2:
        rows = bare.positions[0, :, 1].view(GRID, GRID, 4).mean((1, 2))
        assert rows[0] < rows[-1], "row 0 of the features is at the bottom there"


def test_taking_over_the_hidden_layers_leaves_our_last_one(tmp_path: Path) -> None:
    path = tmp_path / "decoder_exp2_lastcheckpoint.pt"
    weights = upstream_file(path, DecoderSettings())
    content = foreign.as_foreign(foreign.read_any(path), path)
    decoder = make_decoder(DecoderSettings())
    own = decoder.mlp.net[-1].weight.clone()
    told = foreign.load_weights(decoder, content, path)
    assert "begins anew" in told[0]
    assert torch.equal(decoder.mlp.net[0].weight, weights["mlp.net.0.weight"])
    assert torch.equal(decoder.mlp.net[-1].weight, own)


def test_what_cannot_be_loaded_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "zones.pt"
    upstream_file(path, DecoderSettings(), **{"fresnel_zones.zone_width": torch.zeros(())})
    with pytest.raises(SettingsError, match="fresnel_zones"):
        load_trained(path)
    upstream_file(path, DecoderSettings(gaussians_per_patch=8))
    content = foreign.as_foreign(foreign.read_any(path), path)
    with pytest.raises(SettingsError, match=r"mlp\.net\.12\.bias \(128,\) for \(64,\)"):
        foreign.load_weights(make_decoder(DecoderSettings()), content, path)
    torch.save({"anything": 1}, path)
    with pytest.raises(SettingsError, match="neither"):
        load_trained(path)
    other = {"model": {}, "ema": None, "settings": {}, "written_by": {"trainer": "pcdiff"}}
    torch.save(other, path)
    with pytest.raises(SettingsError, match="was written by pcdiff, and this is gaussian"):
        load_trained(path)


def test_files_of_our_first_version_go_on_loading(tmp_path: Path) -> None:
    decoder = make_decoder(DecoderSettings())
    old = {name.replace("mlp.net.", "mlp."): part for name, part in decoder.state_dict().items()}
    content = {
        "model": old,
        "optimiser": {},
        "progress": {"epoch": 3},
        "settings": {"features": "patch", "image_size": 64},
    }
    torch.save(content, tmp_path / "epoch_0003.pt")
    trained = load_trained(tmp_path / "epoch_0003.pt")
    assert (trained.feature_kind, trained.image_size) == ("patch", 64)
    assert torch.equal(trained.decoder.mlp.net[0].weight, decoder.mlp.net[0].weight)


@pytest.mark.skipif(bool(missing_packages()), reason="no onnx, onnxscript or onnxruntime")
@pytest.mark.parametrize(  # the default's export is checked by the preset's program
    "settings", [DecoderSettings(feature_dim=768, depth_fusion=True), DecoderSettings(experiment=4)]
)
def test_onnx_answers_what_torch_answers(settings: DecoderSettings, tmp_path: Path) -> None:
    apart = export_onnx(make_decoder(settings), tmp_path / "decoder.onnx")
    assert apart <= 1e-4
    assert sorted(path.name for path in tmp_path.iterdir()) == ["decoder.onnx"]


def test_a_training_s_end_exports_what_it_judged(tmp_path: Path, monkeypatch, capfd) -> None:
    """By a stand-in for the export, which the test above and the guide's path run."""
    exported: list[dict[str, torch.Tensor]] = []

    def stand_in(decoder: torch.nn.Module, path: Path) -> float:
        exported.append({name: part.clone() for name, part in decoder.state_dict().items()})
        path.write_bytes(b"onnx")
        return 1e-7

    monkeypatch.setattr(export, "export_onnx", stand_in)
    monkeypatch.setattr(export, "missing_packages", list)
    words = ["--max_images", "4", "--image_size", "16", "--gaussians_per_patch", "1"]
    words += ["--epochs", "1", "--ema", "0.5", "--device", "cpu", "--no-tensorboard"]
    assert train.main([*words, "--output_dir", str(tmp_path)]) == 0
    written = tmp_path / "gaussian_decoder_exp2.onnx"
    assert written.read_bytes() == b"onnx"
    assert f"ONNX export successful: {written} (onnxruntime differs by 1.0e-07)" in (
        capfd.readouterr().out
    )
    judged = load_trained(written.with_suffix(".safetensors")).decoder.state_dict()
    assert all(torch.equal(judged[name], part) for name, part in exported[0].items())
    assert train.main([*words, "--output_dir", str(tmp_path / "no"), "--no-export_onnx"]) == 0
    assert len(exported) == 1


def test_an_export_that_cannot_be_written_or_disagrees_says_so_in_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    trained = SimpleNamespace(decoder=None, settings={}, figures={})
    monkeypatch.setattr(export_decoder, "load_trained", lambda _: trained)
    words = ["--checkpoint", "x", "--output", str(tmp_path / "x.onnx"), "--device", "cpu"]
    for problem, said in (
        (OSError(errno.EROFS, "Read-only file system", "x.onnx"), "Read-only file system"),
        (ExportError("onnxruntime and torch differ by 1"), "differ by 1"),
    ):

        def failing(*_: object, problem: Exception = problem) -> None:
            raise problem

        monkeypatch.setattr(export_decoder, "export_onnx", failing)
        assert export_decoder.main(words) == 1
        told = capsys.readouterr().err.splitlines()
        assert len(told) == 1 and told[0].startswith("error: ") and said in told[0], told


@pytest.mark.parametrize(
    "program",
    [
        "train_gaussian_decoder",
        "preprocess_training_data",
        "infer",
        "evaluate",
        "export_decoder",
        "export_dinov2_model",
    ],
)
def test_every_program_explains_itself_with_examples(program: str) -> None:
    done = TORCH.run(
        [sys.executable, str(HERE / f"{program}.py"), "--help"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert "examples:" in done.stdout


def test_a_photograph_is_not_replaced_by_what_is_made_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """cat.png, where results go into the working folder, as they do unless another is named."""
    monkeypatch.chdir(tmp_path)
    photograph, features = tmp_path / "cat.png", tmp_path / "cat.bin"
    for path in (photograph, features):
        path.write_bytes(b"mine")
    (tmp_path / "link").symlink_to(tmp_path)
    words = ["--checkpoint", "none.pt", "--image", "cat.png", "--device", "cpu"]
    for more in ([], ["--output_dir", "link"], ["--features", "cat.bin", "--image", "cat.jpg"]):
        Path("cat.jpg").write_bytes(b"mine")
        assert infer.main([*words, *more]) == 2
        assert "is read here, and a result would replace it" in capsys.readouterr().err
    assert photograph.read_bytes() == features.read_bytes() == b"mine"


def test_a_decoder_that_has_diverged_draws_nothing(tmp_path: Path) -> None:
    """Else a black picture, and files of NaN, as if all were well."""
    decoder = make_decoder(DecoderSettings(geometry="upstream"))
    for value in (1.0, torch.inf, torch.nan):
        decoder.state_dict()["mlp.net.0.bias"][3] = value
        torch.save({"model_state_dict": decoder.state_dict()}, tmp_path / "best.pt")
        if value == 1:
            assert load_trained(tmp_path / "best.pt").decoder
            continue
        with pytest.raises(SettingsError, match=r"mlp\.net\.0\.bias are not finite"):
            load_trained(tmp_path / "best.pt")
    for value in (np.nan, np.inf):
        answer = np.zeros((1, 8, 8), np.float32)
        answer[0, 3, 3] = value
        with pytest.raises(SettingsError, match="a network answers numbers that are not finite"):
            depth_image(lambda _, answer=answer: answer, answer, 8, "a network")


def test_an_onnxscript_of_another_time_than_torch_s_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(*_: object, **__: object) -> None:
        raise ModuleNotFoundError("No module named 'onnxscript._framework_apis.torch_2_11'")

    monkeypatch.setattr(torch.onnx, "export", missing)
    monkeypatch.setattr(export, "missing_packages", list)
    monkeypatch.setitem(sys.modules, "onnxruntime", SimpleNamespace())
    with pytest.raises(ExportError, match=r"torch_2_11'; .* pip install -U onnxscript"):
        export_onnx(make_decoder(DecoderSettings(gaussians_per_patch=1)), tmp_path / "a.onnx")
