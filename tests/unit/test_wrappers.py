"""What a command starts in the end, behind `nice`, `uv run`, `mpirun`."""

import shlex
import sys
from pathlib import Path

import pytest

from runners.lifecycle.launch.device_notes import device_notes
from runners.lifecycle.launch.interpreter import interpreter_of
from runners.lifecycle.launch.resumed_spec import resume_flag
from runners.lifecycle.launch.scripts import absent_script, script_notes
from runners.model.python_command import python_command
from runners.model.vendors import traits_of_vendor
from runners.model.wrappers import started_in_the_end
from runners.presets.load import command_spec

PYTHON = Path(sys.executable)
BEFORE = (
    "nice -n 10",
    "env -u HOME A=1",
    "numactl --cpunodebind=0 -m 0",
    "timeout -k 5 3h",
    "taskset -c 0-7",
    "nohup setsid",
    "stdbuf -oL -eL nice",
    "nsys profile -t cuda -o trace",
    "uv run --with rich",
    "conda run -n base",
    "mpirun -np 4",
)
SCRIPT = """
import argparse, os
os.environ["CUDA_VISIBLE_DEVICES"] = "3"
argparse.ArgumentParser().add_argument("--resume")
"""


@pytest.mark.parametrize("before", BEFORE)
def test_what_is_known_of_a_program_is_known_behind_another(before: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    argv = shlex.split(f"{before} python train.py")
    traits = traits_of_vendor("nvidia")
    assert device_notes(argv, tmp_path, traits) == device_notes(argv[-2:], tmp_path, traits) != ()
    assert resume_flag(command_spec(argv), tmp_path) == "--resume"
    assert absent_script([*argv[:-1], "no.py"], tmp_path) == tmp_path / "no.py"


@pytest.mark.parametrize("before", BEFORE)
def test_another_program_s_python_is_not_taken_for_the_one_in_path(before: str) -> None:
    found = interpreter_of([*before.split(), str(PYTHON), "train.py"])
    chosen_elsewhere = before.startswith(("uv", "conda", "mpirun"))
    assert found == (None if chosen_elsewhere else PYTHON)


def test_how_many_processes_it_starts() -> None:
    def processes(words: str) -> int | None:
        found = python_command(words.split())
        assert found is not None
        return found.processes

    assert processes("nice torchrun --nproc-per-node 2 train.py") == 2
    assert processes("uv run python train.py") == 1
    assert processes("mpirun -np 4 python train.py") is None
    assert processes("deepspeed --num_gpus 4 train.py") is None


def test_a_shell_s_script_is_read_behind_another_program(tmp_path: Path) -> None:
    (tmp_path / "run.sh").write_text("python train.py &\n")
    assert script_notes(["nice", "bash", "run.sh"], tmp_path)
    assert script_notes(["nice", "bash", "run.sh"], tmp_path) == script_notes(
        ["bash", "run.sh"], tmp_path
    )


@pytest.mark.parametrize(
    "words", ["", "nice", "taskset -p 12", "uv pip install torch", "env A=1", "conda env list"]
)
def test_a_command_that_starts_nothing_is_itself(words: str) -> None:
    assert started_in_the_end(words.split()).argv == words.split()
