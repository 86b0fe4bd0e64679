"""Checkpoints looked into, remapped, stripped and averaged by the command, safely. Needs torch.

The command runs in this process and the interpreter it asks is forked from a warm one; one test
starts both as a person does.
"""

import contextlib
import io
import json
import os
import subprocess
import sys
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from runners.verify import checkpoint_tool  # noqa: E402
from tests.support import REPOSITORY  # noqa: E402
from tests.warm import TORCH  # noqa: E402
from tui.cli import run_command  # noqa: E402

pytestmark = pytest.mark.trainers

SAVE_TAGGED = """\
import sys, torch
torch.serialization.register_package(1, lambda s: sys.argv[3], lambda s, l: None)
torch.save(torch.load(sys.argv[1], weights_only=True), sys.argv[2])
"""


@pytest.fixture(autouse=True)
def warm_tool(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tool's process is a fork of one that has torch."""

    def warm(argv: list[str], seconds: float, **more: Any) -> Any:
        return TORCH.run(argv, timeout=seconds, **more)

    monkeypatch.setattr(checkpoint_tool, "run_in_time", warm)


def run(*words: object, exits: int = 0) -> Any:
    """`fresnel-tui checkpoint …` with --json; its answer, or its words when it fails."""
    out, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        code = run_command(["checkpoint", *map(str, words), "--json"])
    assert code == exits, errors.getvalue()
    return errors.getvalue() if exits else json.loads(out.getvalue())


def save_tagged(content: object, path: Path, device: str) -> None:
    """Save as if every tensor lay on `device`: in a process of its own, for the tag stays."""
    plain = path.with_suffix(".plain")
    torch.save(content, plain)
    program = path.with_suffix(".py")
    program.write_text(SAVE_TAGGED)
    TORCH.run([sys.executable, str(program), str(plain), str(path), device], check=True)
    program.unlink()
    plain.unlink()


@pytest.fixture
def diffusion(tmp_path: Path) -> Path:
    """As point-cloud diffusion saves: wrapped inside `model.`, with an optimizer, on GPU 7."""
    state = OrderedDict(
        {"model.module.sa.0.weight": torch.ones(4, 3), "model.module.sa.0.bias": torch.zeros(4)}
    )
    optimizer = {"state": {0: {"step": torch.tensor(5.0)}}, "param_groups": [{"lr": 0.1}]}
    path = tmp_path / "epoch_1999.pth"
    save_tagged({"epoch": 1999, "model_state": state, "optimizer_state": optimizer}, path, "cuda:7")
    return path


def test_command_and_tool_are_programs_of_their_own(diffusion: Path) -> None:
    command = [sys.executable, "-m", "fresnel_tui", "checkpoint", "inspect", "--json"]
    command.append(str(diffusion))
    environment = os.environ | {"PYTHONPATH": str(REPOSITORY), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    assert json.loads(done.stdout) == run("inspect", diffusion) and not done.stderr


def test_inspect_tells_keys_step_devices_wrappers(diffusion: Path) -> None:
    (found,) = run("inspect", diffusion)
    assert found["step"] == {"epoch": 1999}
    assert found["devices"] == {"cuda:7": 68}
    assert found["wrappers"] == ["module"]
    assert found["parameters"] == 16
    assert {"key": "model_state.model.module.sa.0.weight", "shape": [4, 3], "dtype": "float32"} in (
        found["keys"]
    )
    assert "model_state" in found["written_by"]


@pytest.mark.parametrize("device", ["cpu", "cuda:0"])
def test_remap_writes_a_copy_for_another_device(diffusion: Path, device: str) -> None:
    before = diffusion.read_bytes()
    (found,) = run("remap", diffusion, "--device", device)
    written = Path(found["written"])
    assert written.name == "epoch_1999_remapped.pth" and diffusion.read_bytes() == before
    (seen,) = run("inspect", written)
    assert list(seen["devices"]) == [device]
    content = torch.load(written, map_location="cpu", weights_only=True)
    assert torch.equal(content["model_state"]["model.module.sa.0.weight"], torch.ones(4, 3))
    assert "there already" in run("remap", diffusion, "--device", device, exits=2)


def test_strip_leaves_the_names_the_model_has(diffusion: Path) -> None:
    (found,) = run("strip", diffusion)
    content = torch.load(found["written"], map_location="cpu", weights_only=True)
    assert list(content["model_state"]) == ["model.sa.0.weight", "model.sa.0.bias"]
    assert content["optimizer_state"]["param_groups"] == [{"lr": 0.1}]
    (seen,) = run("inspect", found["written"])
    assert seen["wrappers"] == [] and seen["devices"] == {"cuda:7": 68}


def test_strip_of_compiled_and_wrapped_bare_state(tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    torch.save(
        {"module._orig_mod.a.weight": torch.ones(2), "module._orig_mod.b": torch.ones(1)}, path
    )
    (found,) = run("strip", path)
    assert list(torch.load(found["written"], weights_only=True)) == ["a.weight", "b"]
    assert "nothing to strip" in run("strip", found["written"], exits=2)


def test_average_of_models_leaves_the_optimizer_out(tmp_path: Path) -> None:
    for i, value in enumerate((1.0, 2.0, 6.0)):
        state = {"w": torch.full((2,), value), "seen": torch.tensor(i)}
        torch.save(
            {"model": state, "optimiser": {"m": torch.ones(2)}, "epoch": i}, tmp_path / f"{i}.pt"
        )
    (found,) = run(
        "average", *(tmp_path / f"{i}.pt" for i in range(3)), "--output", tmp_path / "mean.pt"
    )
    content = torch.load(tmp_path / "mean.pt", weights_only=True)
    assert content["model"]["w"].tolist() == [3.0, 3.0] and int(content["model"]["seen"]) == 2
    assert content["epoch"] == 2 and "optimiser" not in content
    assert found["left_out"] == ["optimiser"]
    torch.save({"model": {"w": torch.ones(3)}}, tmp_path / "other.pt")
    assert "other keys or shapes" in run(
        "average", tmp_path / "0.pt", tmp_path / "other.pt", exits=2
    )


class Payload:
    """Runs code when it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (os.mkdir, (os.environ["MARK"],))


def test_code_in_a_file_is_never_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MARK", str(tmp_path / "was_run"))
    path = tmp_path / "evil.pt"
    torch.save({"w": torch.ones(1), "x": Payload()}, path)
    assert "Python objects" in run("inspect", path, exits=2)
    assert not (tmp_path / "was_run").exists()


def test_damaged_missing_and_odd_files_are_one_clear_error(tmp_path: Path, diffusion: Path) -> None:
    half = tmp_path / "half.pth"
    half.write_bytes(diffusion.read_bytes()[:300])
    empty = tmp_path / "empty.pt"
    empty.touch()
    for path in (half, empty):
        assert "damaged" in run("inspect", path, exits=2)
    assert "no such file" in run("inspect", tmp_path / "none.pt", exits=2)
    assert "no interpreter" in run("inspect", half, "--python", "/no/python", exits=2)
    assert "cuda:0" in run("remap", diffusion, "--device", "gpu", exits=2)


def test_safetensors_are_told_without_torch(tmp_path: Path) -> None:
    header = json.dumps({"a.w": {"dtype": "F32", "shape": [2, 1], "data_offsets": [0, 8]}}).encode()
    path = tmp_path / "model.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(8))
    (found,) = run("inspect", path)
    assert (found["format"], found["parameters"]) == ("safetensors", 2)
    path.write_bytes(path.read_bytes()[:-4])
    assert "damaged" in run("inspect", path, exits=2)
