"""What every program is given so that its end can be explained, and who may say otherwise."""

import sys
from pathlib import Path
from typing import Any

import pytest

from runners.lifecycle.launch import interpreter
from runners.lifecycle.launch.interpreter import interpreter_in
from runners.lifecycle.launch.placeholder_values import launch_inputs
from runners.lifecycle.launch.run_environment import watched_environment
from runners.model.spec import RunSpec

RUN = Path("/runs/this")
TORCHRUN = ("python3", "-m", "torch.distributed.run", "--nproc-per-node=4", "train.py")


def given(
    argv: tuple[str, ...] = TORCHRUN,
    environment: dict[str, str] | None = None,
    processes: int = 4,
    **spec: Any,
) -> dict[str, str]:
    launcher = spec.pop("launcher", "torchrun")
    asked = RunSpec("demo", "demo", launcher, processes=processes, **spec)
    inputs, before = launch_inputs(asked, "demo", RUN), environment or {}
    return watched_environment(inputs, argv, before, interpreter_in(argv, before, Path("/")))


def test_ranks_above_0_get_a_log_of_their_own_and_their_lines_a_rank() -> None:
    found = given()
    assert found["PET_LOG_DIR"] == "/runs/this/ranks"
    assert found["PET_TEE"] == "1:3,2:3,3:3"
    assert found["TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE"] == "[rank${rank}]:"
    assert found["TORCHELASTIC_ERROR_FILE"] == "/runs/this/error.json"


@pytest.mark.parametrize(
    ("changes", "tees", "folder"),
    [
        ({"processes": 1}, False, True),
        ({"processes": 12}, False, True),  # its list takes one digit for a rank
        ({"terminal": True}, False, True),
        ({"output_limit": 1 << 20}, False, True),
        ({"launcher_arguments": ("--redirects", "3")}, False, True),
        ({"launcher_arguments": ("-t", "3")}, False, True),
        ({"launcher_arguments": ("-t3",)}, False, True),
        ({"launcher_arguments": ("--log_dir=/logs",)}, False, False),
        ({"launcher": "accelerate"}, False, False),
        ({"argv": ("python3", "train.py"), "launcher": "python"}, False, False),
        (
            {"argv": ("/bin/torchrun", "--nproc_per_node", "2", "t.py"), "launcher": "command"},
            True,
            True,
        ),
        (
            {"argv": ("torchrun", "--nproc_per_node=gpu", "t.py"), "launcher": "command"},
            False,
            True,
        ),
    ],
)
def test_only_torchrun_is_told_and_what_a_preset_says_of_logs_stands(
    changes: dict[str, Any], tees: bool, folder: bool
) -> None:
    found = given(**changes)
    assert ("PET_TEE" in found, "PET_LOG_DIR" in found) == (tees, folder)


@pytest.mark.parametrize(
    ("version", "buffer", "file"),
    [
        ("2.13.0+cpu", "TORCH_FR_BUFFER_SIZE", "TORCH_FR_DUMP_TEMP_FILE"),
        ("2.4.1", "TORCH_NCCL_TRACE_BUFFER_SIZE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE"),
    ],
)
def test_the_recorder_is_told_by_the_names_that_this_torch_knows(
    monkeypatch: pytest.MonkeyPatch, version: str, buffer: str, file: str
) -> None:
    monkeypatch.setattr(interpreter, "package_version", lambda *_: version)
    found = given((sys.executable, "train.py"), launcher="python")
    assert found[file] == "/runs/this/flight_rank_" and int(found[buffer]) > 0
    assert found["TORCH_NCCL_DUMP_ON_TIMEOUT"] == "1"
    assert sum(name.startswith(("TORCH_FR_", "TORCH_NCCL_")) for name in found) == 3
    monkeypatch.setattr(interpreter, "package_version", lambda *_: None)
    assert not any("NCCL" in name or "_FR_" in name for name in given()), "it may warn of them"
    own = given(environment={"TORCH_NCCL_TRACE_BUFFER_SIZE": "0"})
    assert not any("BUFFER" in name for name in own)


def test_what_somebody_set_is_kept_but_not_what_an_outer_run_was_given() -> None:
    assert "PET_TEE" not in given(environment={"PET_TEE": "3"})
    outer = {
        "FRESNEL_RUN_DIR": "/runs/outer",
        "PET_LOG_DIR": "/runs/outer/ranks",
        "PET_TEE": "1:3",
        "TORCHELASTIC_ERROR_FILE": "/runs/outer/error.json",
    }
    found = given(environment=outer)
    assert found["PET_TEE"] == "1:3,2:3,3:3"
    assert found["TORCHELASTIC_ERROR_FILE"] == "/runs/this/error.json"
