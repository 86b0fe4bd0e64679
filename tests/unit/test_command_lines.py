"""A command line as it is typed or pasted: lines that go on, and places for values left empty."""

import subprocess
from pathlib import Path

import pytest

from runners.model.placeholders import open_places
from runners.presets.command_line import split_command
from runners.presets.load import command_spec
from tests.command_text import unfilled
from tests.terminal import headless
from tui.panel.widgets.launch.drafts import RunDraft
from tui.views.runs.launch_choices import own_command


def test_lines_that_go_on_are_one_command() -> None:
    pasted = "python train.py \\\n    --lr 1e-3 \\\r\n    --name 'a \\\nb'\n"
    assert split_command(pasted) == ["python", "train.py", "--lr", "1e-3", "--name", "a \\\nb"]
    script = "cd x\npython train.py"
    assert split_command(script) == ["bash", "-c", script], "lines of a script stay lines"


@pytest.mark.parametrize(
    ("typed", "names"),
    [
        ("python t.py --lr {lr} --out=runs/{lr}-{seed}", ["lr", "seed"]),
        ("cd x && python t.py --lr {lr}", ["lr"]),
        ("python t.py --out ${HOME}/x", []),
        ("python -c \"print(f'{lr}')\"", []),
        ("""curl -d '{"lr": 1}' host""", []),
        ("find . -exec ls {} +", []),
        ("awk '{print $1}' log", []),
    ],
)
def test_places_for_values_that_are_left_empty_are_found(typed: str, names: list[str]) -> None:
    assert open_places(split_command(typed)) == names


@pytest.mark.parametrize(
    ("typed", "name"),
    [
        ("python train.py --lr 1", "train"),
        ("/usr/bin/python3 -u a/b/fit.py", "fit"),
        ("bash run.sh", "run"),
        ("sleep 5", "sleep"),
        ("python -X faulthandler -u jobs/train.py", "train"),
        ("python3.12 -m pkg.sub.train --lr 1", "train"),
        ("python -c 'print(1)' --lr {lr}", "python"),
        ("torchrun --nproc_per_node 4 train.py --lr 1", "train"),
        ("python -m torch.distributed.run --standalone -m pkg.fit", "fit"),
        ("accelerate launch --num_processes 4 train.py", "train"),
        ("bash -e run.sh fast", "run"),
        ("bash -lc 'cd x && python fit.py'", "fit"),
        ("bash -euo pipefail run.sh fast", "run"),
        ("bash --rcfile mine -ic 'python fit.py'", "fit"),
        ("cd x && python fit.py --lr 1 | tee log", "fit"),
        ("cd x && make", "bash"),
        ("./bin/solver --n 4", "solver"),
        ("nice -n 10 ./bin/solver --n 4", "solver"),
        ("env -u X A=1 numactl -N 0 --membind 0 python train.py", "train"),
        ("taskset -c 0-7 bash run.sh", "run"),
        ("timeout -k 9 3h nohup python -m pkg.fit", "fit"),
        ("uv run --with rich train.py --lr 1", "train"),
        ("nsys profile -t cuda -o trace python3 train.py", "train"),
        ("mpirun -np 4 -x PATH python train.py", "train"),
        ("env A=1", "env"),
        ("uv pip list", "uv"),
        ("python sk-1234567890abcdefghijklmn", "python"),
    ],
)
def test_a_command_is_called_by_what_it_runs_on_the_command_line_and_in_the_form(
    typed: str, name: str
) -> None:
    assert command_spec(split_command(typed)).name == name
    draft = RunDraft.of(own_command().entry.specs[0], is_new=True)
    draft.command = typed
    assert draft.spec().name == name


def test_a_place_without_a_value_is_told_before_the_launch() -> None:
    command = ("--", "echo", "{lr}")
    assert unfilled("lr") in headless("plan", "--gpus", "0", *command).stdout
    filled = headless("plan", "--gpus", "0", "--set", "lr=1", *command).stdout
    assert unfilled("lr") not in filled


@pytest.mark.parametrize("shell", ["bash", "sh", "zsh"])
def test_a_command_that_nobody_edited_keeps_its_shell(shell: str) -> None:
    spec = command_spec([shell, "-c", "cd x && make"])
    draft = RunDraft.of(spec)
    assert not draft.command_changed and draft.spec().command == spec.command
    assert split_command(draft.command) == [shell, "-c", "cd x && make"]


def test_a_typed_line_may_activate_an_environment(tmp_path: Path) -> None:
    (tmp_path / "activate").write_text("NAME=mine\n")
    line = split_command(f"source {tmp_path}/activate && [[ $NAME == m* ]] && echo $NAME")
    assert subprocess.check_output(line) == b"mine\n"
