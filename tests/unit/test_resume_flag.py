"""The flag by which a bare command goes on from a checkpoint: found, or not guessed."""

from pathlib import Path

import msgspec
import pytest

from runners.lifecycle.control.resume import as_told_before
from runners.lifecycle.launch.resumed_spec import resume_flag
from runners.model.spec import ResumeRule
from runners.presets.load import command_spec
from runners.state.layout import StateDirectory
from tests.support import make_plan

SOURCE = """
import argparse
p = argparse.ArgumentParser()
p.add_argument("--lr", type=float)
p.add_argument({})
"""


@pytest.mark.parametrize(
    ("added", "flag"),
    [
        ('"--resume"', "--resume"),
        ('"-r", "--resume-from-checkpoint", type=str, default=""', "--resume-from-checkpoint"),
        ('"--ckpt_path", type=Path', "--ckpt_path"),
        ('"--resume", nargs="?", const="last"', "--resume"),
        ('"--checkpoint", help="path to resume from"', "--checkpoint"),
        ('"--checkpoint", help="where checkpoints are written"', None),
        ('"--checkpoint"', None),
        ('"--resume", action="store_true"', None),
        ('"--resume", type=int', None),
        ('"--resume", nargs=2', None),
        ('"--resume", **more', None),
        ('"--epochs", type=int', None),
    ],
)
def test_the_source_of_a_script_is_asked(tmp_path: Path, added: str, flag: str | None) -> None:
    (tmp_path / "train.py").write_text(SOURCE.format(added))
    assert resume_flag(command_spec(["python", "train.py", "--lr", "1"]), tmp_path) == flag


@pytest.mark.parametrize(
    ("command", "flag"),
    [
        ("python gone.py --resume old.pt", "--resume"),
        ("./train --ckpt-path=old.pt", "--ckpt-path"),
        ("python gone.py --resume a --ckpt_path b", None),
        ("./train --lr 1", None),
        ("python gone.py --lr 1", None),
        ("python -m pkg --lr 1", None),
        ("python gone.py --resume a -- x", None),
    ],
)
def test_a_flag_that_the_command_has_is_used_again(
    tmp_path: Path, command: str, flag: str | None
) -> None:
    assert resume_flag(command_spec(command.split()), tmp_path) == flag


@pytest.mark.parametrize(
    ("first", "second", "is_one"),
    [
        ("bash a.sh --lr 1", "bash a.sh --lr 2", True),
        ("bash -x a.sh", "nice bash a.sh", True),
        ("bash a.sh", "bash b.sh", False),
        ("docker run first", "docker run second", False),
        ("sudo docker run first", "docker run first", False),
        ("./solver --n 1", "./solver --n 2", True),
        ("./solver", "./other", False),
    ],
)
def test_what_was_told_of_a_program_is_taken_for_that_program_alone(
    tmp_path: Path, first: str, second: str, is_one: bool
) -> None:
    state, rule = StateDirectory(tmp_path), ResumeRule("", ("--load", "${checkpoint}"))
    told = msgspec.structs.replace(command_spec(first.split()), resume=rule)
    run = state.run("20261120-101500-demo-7f3a")
    run.path.mkdir(parents=True)
    plan = msgspec.structs.replace(make_plan(working_directory=str(tmp_path)), spec=told)
    run.plan.write_bytes(msgspec.json.encode(plan))
    found = as_told_before(state, command_spec(second.split()), tmp_path)
    assert (found.resume == rule) is is_one
