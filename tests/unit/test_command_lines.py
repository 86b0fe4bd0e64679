"""A command line as it is typed or pasted: lines that go on, and places for values left empty."""

import pytest

from runners.model.placeholders import open_places
from runners.presets.command_line import split_command
from tests.command_text import unfilled
from tests.terminal import headless


def test_lines_that_go_on_are_one_command() -> None:
    pasted = "python train.py \\\n    --lr 1e-3 \\\r\n    --name 'a \\\nb'\n"
    assert split_command(pasted) == ["python", "train.py", "--lr", "1e-3", "--name", "a \\\nb"]
    script = "cd x\npython train.py"
    assert split_command(script) == ["sh", "-c", script], "lines of a script stay lines"


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


def test_a_place_without_a_value_is_told_before_the_launch() -> None:
    command = ("--", "echo", "{lr}")
    assert unfilled("lr") in headless("plan", "--gpus", "0", *command).stdout
    filled = headless("plan", "--gpus", "0", "--set", "lr=1", *command).stdout
    assert unfilled("lr") not in filled
