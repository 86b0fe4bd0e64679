"""What a command starts in the end, behind `nice`, `uv run`, `mpirun`."""

import os
import shlex
import sys
from pathlib import Path

import pytest

from runners.lifecycle.launch.command_notes import command_notes
from runners.lifecycle.launch.interpreter import interpreter_of
from runners.lifecycle.launch.resumed_spec import resume_flag
from runners.model.python_command import python_command, python_script
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
    (note,) = command_notes(argv[-2:], tmp_path, traits)
    assert note in command_notes(argv, tmp_path, traits)
    assert resume_flag(command_spec(argv), tmp_path) == "--resume"
    assert python_script(argv, tmp_path) == tmp_path / "train.py"


@pytest.mark.parametrize("before", BEFORE)
def test_another_program_s_python_is_not_taken_for_the_one_in_path(before: str) -> None:
    found = interpreter_of([*before.split(), str(PYTHON), "train.py"], {}, Path("/"))
    chosen_elsewhere = before.startswith(("uv", "conda", "mpirun"))
    assert found == (None if chosen_elsewhere else PYTHON)


@pytest.mark.parametrize(
    "words, script",
    [
        ("mytool conf.py", ""),
        ("bash run.sh conf.py", ""),
        ("python -m package conf.py", ""),
        ("docker run image python train.py", ""),
        ("srun docker run image python train.py", ""),
        ("python -m cProfile -o out train.py --lr 1", "train.py"),
        ("coverage run train.py conf.py", "train.py"),
        ("kernprof -l train.py", "train.py"),
        ("./train.py conf.py", "train.py"),
        ("deepspeed --num_gpus 4 train.py", "train.py"),
    ],
)
def test_which_word_is_the_script_of_python(words: str, script: str, tmp_path: Path) -> None:
    expected = tmp_path / script if script else None
    assert python_script(words.split(), tmp_path) == expected


def test_a_profiler_s_own_python_runs_its_script(tmp_path: Path) -> None:
    tool = tmp_path / "coverage"
    tool.write_text(f"#!{PYTHON}\n")
    tool.chmod(0o755)
    assert interpreter_of([str(tool), "run", "train.py"], {}, tmp_path) == PYTHON


def test_a_python_is_looked_for_in_the_run_s_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("run", "elsewhere"):
        (tmp_path / name / "bin").mkdir(parents=True)
        (tmp_path / name / "bin/python").symlink_to(PYTHON)
    monkeypatch.chdir(tmp_path / "elsewhere")
    for words in ("nice bin/python train.py", "nice ./bin/python -m pkg"):
        found = interpreter_of(words.split(), os.environ, tmp_path / "run")
        assert found == tmp_path / "run/bin/python"


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
    notes = command_notes(["bash", "run.sh"], tmp_path, None)
    assert notes and command_notes(["nice", "bash", "run.sh"], tmp_path, None) == notes


@pytest.mark.parametrize(
    "words", ["", "nice", "taskset -p 12", "uv pip install torch", "env A=1", "conda env list"]
)
def test_a_command_that_starts_nothing_is_itself(words: str) -> None:
    assert started_in_the_end(words.split()).argv == words.split()
