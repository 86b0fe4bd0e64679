"""Drawing implants: files, ensembles, published checkpoints, going on, one cloud without a list."""

from __future__ import annotations

import csv
import json
import os
import signal
from pathlib import Path

import numpy as np
import pytest
import torch

pytest.importorskip("numba")

from tests.trainers import pcdiff_world as world
from trainers.common.errors import SettingsError
from trainers.common.ranks import Ranks
from trainers.pcdiff import sample as drawing
from trainers.pcdiff.completing import PUBLISHED_NOISE, load_network, noise_predictor
from trainers.pcdiff.diffusion import PointDiffusion
from trainers.pcdiff.model import PVCNN, Sizes
from trainers.pcdiff.naming import bare_names, published_names
from trainers.pcdiff.sample import main

pytestmark = pytest.mark.trainers
SIZES = Sizes(points=256, implant_points=64, embedding=8, width=0.25, voxels=0.25)
CPU = torch.device("cpu")
NOISE = PointDiffusion.described(PUBLISHED_NOISE)


@pytest.fixture(scope="module")
def listed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A list of one made-up SkullBreak skull, five cases."""
    return world.skulls(tmp_path_factory.mktemp("skulls")).with_name("test.csv")


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint as the original writes them under DDP: no sizes, `module.` in the names."""
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("model") / "epoch_9.pth"
    state = published_names(PVCNN(SIZES).state_dict(), "module.")
    torch.save({"epoch": 9, "model_state": state}, path)
    return path


def sample_here(*words: str) -> int:
    """Run the sampler in this process; the exit code."""
    with world.signals_kept():
        return main(["--device", "cpu", "--threads", "1", *words])


def test_cases_are_written_as_the_original_does(
    listed: Path, published: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = (
        "--path", str(listed), "--model", str(published), "--eval_path", str(tmp_path),
        "--num_points", "256", "--num_nn", "64", "--vox_res_mult", "0.25", "--num_ens", "3",
        "--bs", "2", "--sampling_method", "ddim", "--sampling_steps", "2",
    )  # fmt: skip
    assert sample_here(*words) == 0
    folders = sorted(folder.name for folder in (tmp_path / "syn").iterdir())
    defects = ("bilateral", "frontoorbital", "parietotemporal", "random_1", "random_2")
    assert folders == sorted(f"{defect}002_surf" for defect in defects)
    case = tmp_path / "syn" / "bilateral002_surf"
    arrays = {name: np.load(case / f"{name}.npy") for name in ("input", "sample", "shift", "scale")}
    shapes = {name: array.shape for name, array in arrays.items()}
    assert shapes == {
        "input": (1, 192, 3), "sample": (3, 256, 3), "shift": (1, 1, 3), "scale": (1, 1, 1),
    }  # fmt: skip
    assert (arrays["sample"][:, :192] == arrays["input"]).all()
    assert arrays["input"].min() == -3 or arrays["input"].max() == 3
    voxels = arrays["input"] * arrays["scale"] + arrays["shift"]
    cloud = np.load(listed.parent / "defective_skull" / "bilateral" / "002_surf.npy")
    near = np.linalg.norm(cloud[None] - voxels[0, :5, None], axis=2).min(1)
    assert near.max() < 1e-3
    members = arrays["sample"][:, 192:]
    assert not np.array_equal(members[0], members[1])
    rows = list(csv.DictReader((tmp_path / "benchmark_cases.csv").open()))
    assert len(rows) == 5 and rows[0]["num_generated_implants"] == "3"
    summary = json.loads((tmp_path / "benchmark_summary.json").read_text())
    assert summary["case_count"] == 5 and summary["runtime_sec"]["min"] > 0
    # What is there stays; what is missing is drawn as it would have been.
    before = {name: (tmp_path / "syn" / name / "sample.npy").read_bytes() for name in folders}
    (case / "sample.npy").unlink()
    kept = (tmp_path / "syn" / "random_1002_surf" / "sample.npy").stat().st_mtime_ns
    assert sample_here(*words) == 0
    after = {name: (tmp_path / "syn" / name / "sample.npy").read_bytes() for name in folders}
    assert after == before
    # The files about all cases hold what every start has drawn, also by a version without records.
    again = list(csv.DictReader((tmp_path / "benchmark_cases.csv").open()))
    assert [row["case_name"] for row in again] == [row["case_name"] for row in rows]
    assert [row for row in again if row not in rows] == [again[0]], "the one drawn again"
    (tmp_path / "syn" / "random_1002_surf" / "record.json").unlink()
    assert sample_here(*words) == 0
    (older,) = (
        row
        for row in csv.DictReader((tmp_path / "benchmark_cases.csv").open())
        if row["case_name"].startswith("random_1")
    )
    assert (older["num_generated_implants"], older["runtime_sec"]) == ("3", "")
    summary = json.loads((tmp_path / "benchmark_summary.json").read_text())
    assert (summary["case_count"], summary["runtime_sec"]["count"]) == (5, 4)
    assert (tmp_path / "syn" / "random_1002_surf" / "sample.npy").stat().st_mtime_ns == kept
    # Of several processes, each draws its share of what is missing, and none waits for another.
    missing = [tmp_path / "syn" / f"{name}002_surf" / "sample.npy" for name in defects[1:4:2]]
    for path in missing:
        path.unlink()
    monkeypatch.setattr(drawing, "join_ranks", lambda _: Ranks(0, 2, torch.device("cpu")))
    assert sample_here(*words) == 0
    assert [path.is_file() for path in missing] == [True, False]


def test_what_is_stopped_while_it_draws_is_not_taken_for_drawn(
    listed: Path, published: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else `sample.py && generate.py` would go on with the cases so far."""
    words = ("--num_points", "256", "--num_nn", "64", "--vox_res_mult", "0.25", "--path")
    words += (str(listed), "--model", str(published), "--eval_path", str(tmp_path))
    words += ("--sampling_method", "ddim", "--sampling_steps", "2")
    write, at = drawing.write_case, [1]

    def stopping(*given: object) -> Path:
        at[0] -= 1
        if not at[0]:
            os.kill(os.getpid(), signal.SIGTERM)
        return write(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(drawing, "write_case", stopping)
    assert sample_here(*words) == 128 + signal.SIGTERM
    assert len(list(tmp_path.glob("syn/*/sample.npy"))) == 1
    at[0] = 4  # the last one: all is drawn
    assert sample_here(*words) == 0
    assert len(list(tmp_path.glob("syn/*/sample.npy"))) == 5


def test_cases_are_drawn_again_by_another_network_and_with_more_members(
    listed: Path, published: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Else figures are told of a network, or of so many members, that drew none of them."""
    content = torch.load(published, weights_only=True)
    model, case = tmp_path / "a.pth", tmp_path / "out" / "syn" / "random_1002_surf" / "sample.npy"
    torch.save(content, model)
    words = ("--num_points", "256", "--num_nn", "64", "--vox_res_mult", "0.25", "--path")
    words += (str(listed), "--model", str(model), "--eval_path", str(tmp_path / "out"))
    words += ("--sampling_method", "ddim", "--sampling_steps")

    def drawn(*more: str) -> list[bool]:
        """Whether the case was drawn, at once and asked once more."""
        found = []
        for _ in range(2):
            assert sample_here(*words, *more) == 0
            found.append("random_1002_surf  is there already" not in capsys.readouterr().out)
        return found

    assert drawn("1") == [True, False]
    assert drawn("2") == [True, False]
    assert drawn("2", "--num_ens", "2") == [True, False] and len(np.load(case)) == 2
    os.utime(model)  # the same file, copied
    assert drawn("2", "--num_ens", "1") == [False, False]
    name = next(iter(content["model_state"]))
    content["model_state"][name] += 1
    torch.save(content, model)
    assert drawn("2") == [True, False]
    # What a kill left of a case that was being drawn again is none that is drawn.
    (case.parent / "input.npy").unlink()
    case.write_bytes(case.read_bytes()[:99])
    assert drawn("2") == [True, False]
    assert sample_here(*words, "2", "--dataset", "SkullFix") == 2
    assert "is a list of SkullBreak" in capsys.readouterr().err


def test_what_is_no_network_or_has_diverged_is_one_line(
    listed: Path, published: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = torch.load(published, weights_only=True)
    words = ["--path", str(listed), "--eval_path", str(tmp_path), "--sampling_method", "ddim",
             "--sampling_steps", "2", "--num_points", "256", "--num_nn", "64", "--vox_res_mult",
             "0.25", "--model"]  # fmt: skip
    name = next(iter(content["model_state"]))
    content["model_state"][name].view(-1)[0] = torch.nan
    torch.save(content, tmp_path / "nan.pth")
    assert sample_here(*words, str(tmp_path / "nan.pth")) == 2
    assert "take an earlier checkpoint" in capsys.readouterr().err
    other = {"written_by": {"trainer": "unet"}, "sizes": {"grid": 8}, "model": {"a": torch.ones(1)}}
    torch.save(other, tmp_path / "unet.pt")
    assert sample_here(*words, str(tmp_path / "unet.pt")) == 2
    assert "was written by unet" in capsys.readouterr().err


def test_one_cloud_without_a_list(listed: Path, published: Path, tmp_path: Path) -> None:
    cloud = listed.parent / "defective_skull" / "random_2" / "002_surf.npy"
    words = ("--num_points", "256", "--num_nn", "64", "--vox_res_mult", "0.25")
    words += ("--sampling_method", "ddpm", "--sampling_steps", "3", "--path", str(cloud))
    model = ("--model", str(published), "--eval_path", str(tmp_path))
    assert sample_here(*words, *model) == 0
    assert np.load(tmp_path / "syn" / "002_surf" / "sample.npy").shape == (1, 256, 3)


def test_sizes_are_read_from_published_weights(tmp_path: Path) -> None:
    wide = Sizes(points=256, implant_points=64, embedding=12, width=0.5, attention=False,
                 up_convolutions=2)  # fmt: skip
    path = tmp_path / "epoch_1.pth"
    torch.save({"model_state": published_names(PVCNN(wide).state_dict())}, path)
    network, diffusion, _ = load_network(path, {"points": 256, "implant_points": 64}, "auto", CPU)
    assert (diffusion.steps, diffusion.says) == (1000, "eps")
    found = network.sizes
    assert (found.embedding, found.width, found.attention) == (12, 0.5, False)
    assert found.up_convolutions == 2
    with pytest.raises(SettingsError, match=r"its embedding is 12, and 64 is asked for"):
        load_network(path, {"embedding": 64}, "auto", CPU)


def test_the_noise_a_network_was_trained_with_is_that_it_draws_with(tmp_path: Path) -> None:
    noise = {"schedule_type": "cosine", "beta_start": 1e-4, "beta_end": 0.02, "time_num": 40}
    noise["model_mean_type"] = "v"
    content = {"model": PVCNN(SIZES).state_dict(), "sizes": SIZES.as_dict(), "diffusion": noise}
    path = tmp_path / "last.pt"
    torch.save(content, path)
    _, diffusion, _ = load_network(path, {"time_num": 40}, "auto", CPU)
    assert (diffusion.steps, diffusion.says) == (40, "v")
    assert diffusion.kept[-1] < 1e-4
    with pytest.raises(SettingsError, match=r"its schedule_type is cosine, and linear is asked"):
        load_network(path, {"schedule_type": "linear"}, "auto", CPU)


def test_shells_of_wrappers_are_taken_off_anywhere() -> None:
    names = ["sa_layers.0.0.voxel_layers.0.weight", "embedf.0.bias"]
    bare = {name: torch.zeros(1) for name in names}
    for shells in ("", "module.", "_orig_mod.", "module._orig_mod."):
        assert set(bare_names(published_names(bare, shells))) == set(names)
    assert set(bare_names({f"module.model.{name}": bare[name] for name in names})) == set(names)


def test_files_that_are_no_checkpoint_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str],
                                               listed: Path) -> None:  # fmt: skip
    torn, other, strange = (tmp_path / name for name in ("torn.pth", "other.pth", "strange.pth"))
    torn.write_bytes(b"PK\x03\x04 not a zip")
    torch.save({"state_dict": {}}, other)
    torch.save({"model_state": {"classifier.2.weight": torch.zeros(3, 32, 1)}}, strange)
    expected = {
        torn: f"error: {torn} cannot be read as a checkpoint",
        other: "neither model nor model_state",
        strange: "lacks 'embedf.0.weight'",
        tmp_path / "none.pth": "error: there is no file",
    }
    for path, words in expected.items():
        code = sample_here(
            "--path", str(listed), "--model", str(path), "--eval_path", str(tmp_path)
        )
        error = capsys.readouterr().err
        assert code == 2 and words in error and len(error.splitlines()) == 1, error


def test_the_predictor_sees_the_skull_and_keeps_its_answer() -> None:
    torch.manual_seed(0)
    network = PVCNN(SIZES).eval()
    skull, implants = torch.randn(3, 192), torch.randn(2, 3, 64)
    steps = torch.tensor([5, 5])
    with torch.no_grad():
        keeping, plain = (noise_predictor(network, NOISE, skull, keep) for keep in (True, False))
        keeping(torch.randn(2, 3, 64), steps)
        assert torch.equal(keeping(implants, steps), plain(implants, steps))
        other = noise_predictor(network, NOISE, skull * 0.5)(implants, steps)
    assert not torch.allclose(other, plain(implants, steps), atol=1e-3)
