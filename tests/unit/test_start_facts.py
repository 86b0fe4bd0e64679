"""What a command line runs by Python, and what of it cannot start, read without running it."""

from pathlib import Path

import pytest

from runners.lifecycle.launch.program_options import options_of
from runners.model.plan import AssignedGpu
from runners.model.python_command import PythonCommand, python_command
from runners.model.spec import RunSpec
from runners.verify.check_table import judge
from runners.verify.facts import InterpreterFacts, LaunchFacts, StartFacts
from runners.verify.program_facts import start_facts
from tests.support import make_plan


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("python train.py --lr 1", PythonCommand("train.py", "", ("--lr", "1"), 1)),
        ("python -Ximporttime -Xfrozen_modules=off b.py", PythonCommand("b.py", "", (), 1)),
        ("python -Werror::DeprecationWarning -m b", PythonCommand("", "b", (), 1)),
        ("/usr/bin/python3.11 -u -W ignore a/b.py x", PythonCommand("a/b.py", "", ("x",), 1)),
        ("python -m pkg.train --lr 1", PythonCommand("", "pkg.train", ("--lr", "1"), 1)),
        ("./train.py --lr 1", PythonCommand("./train.py", "", ("--lr", "1"), 1)),
        (
            "torchrun --standalone --nproc_per_node=4 t.py -b 2",
            PythonCommand("t.py", "", ("-b", "2"), 4, "torchrun"),
        ),
        (
            "python -m torch.distributed.run --nproc-per-node 2 --nnodes 1 -m pkg.t a",
            PythonCommand("", "pkg.t", ("a",), 2, "torchrun"),
        ),
        ("torchrun --nproc_per_node gpu t.py", PythonCommand("t.py", "", (), None, "torchrun")),
        (
            "accelerate launch --multi_gpu --num_processes 3 t.py --x",
            PythonCommand("t.py", "", ("--x",), 3, "accelerate"),
        ),
        ("accelerate launch t.py", PythonCommand("t.py", "", (), None, "accelerate")),
        ("accelerate config", None),
        ("python -c print(1)", None),
        ("python -", None),
        ("python -uc print(1)", None),
        ("torchrun --no-python sh x.sh", None),
        ("sh -c python", None),
        ("pythonic train.py", None),
        ("", None),
    ],
)
def test_what_a_command_line_runs(words: str, found: PythonCommand | None) -> None:
    assert python_command(words.split()) == found


PARSER = """
import argparse
def main():
    parser = argparse.ArgumentParser(description="x")
    parser.add_argument("data")
    parser.add_argument("-b", "--batch-size", type=int, default=1)
    group = parser.add_argument_group("g")
    group.add_argument("--amp", action=argparse.BooleanOptionalAction)
    args = parser.parse_args()
    print(vars(args))
main()
"""


@pytest.mark.parametrize(
    ("given", "unknown"),
    [
        ("d --batch-size 3 --amp", []),
        ("d --batch 3 --no-amp -b8 -h --help", []),
        ("d --batch-size=3 -3 -- --whatever", []),
        ("d --batch_size 3", ["--batch_size"]),
        ("d --lr=3 -x", ["--lr", "-x"]),
    ],
)
def test_options_that_a_script_does_not_know(
    tmp_path: Path, given: str, unknown: list[str]
) -> None:
    script = tmp_path / "train.py"
    script.write_text(PARSER)
    options = options_of(script)
    assert options is not None and list(options.unknown(given.split())) == unknown


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("parser.parse_args()", "parser.parse_known_args()[0]"),
        ("parser.parse_args()", "parser.parse_args(words())"),
        ("parser.parse_args()", "extended(parser).parse_args()"),
        ("parser.parse_args()", "parser.parse_args(); import sys; sys.argv.pop()"),
        ('description="x"', "parents=[common]"),
        ('description="x"', "**settings"),
        ('"--batch-size"', 'f"--{name}"'),
        ("argparse.BooleanOptionalAction", "Store"),
        ("argparse.ArgumentParser", "jsonargparse.ArgumentParser"),
        ('parser.add_argument("data")', "parser.add_subparsers()"),
        ('parser.add_argument("data")', 'parser.add_argument("data", nargs=argparse.REMAINDER)'),
        ("main()\n", "main()\nother = argparse.ArgumentParser()\n"),
        ("import argparse", "import argparse as argparse; ("),
    ],
)
def test_where_a_script_may_know_more_nothing_is_said(tmp_path: Path, old: str, new: str) -> None:
    script = tmp_path / "train.py"
    script.write_text(PARSER.replace(old, new))
    assert script.read_text() != PARSER and options_of(script) is None


def test_what_is_found_of_a_script_and_its_options(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(PARSER)
    found = start_facts(["python3", "train.py", "d", "--batch_size", "4"], tmp_path)
    assert found is not None and found.exists
    assert found.unknown == (("--batch_size", "--batch-size"),)
    gone = start_facts(["python3", "gone.py"], tmp_path)
    assert gone is not None and not gone.exists
    assert start_facts(["sh", "-c", "python3 gone.py"], tmp_path) is None


def verdicts(start: StartFacts, gpus: int, interpreter: InterpreterFacts | None = None) -> set[str]:
    given = tuple(AssignedGpu(i, f"GPU-{i}", "H100", i) for i in range(gpus))
    facts = LaunchFacts(
        RunSpec("demo", "demo", "command"),
        make_plan(gpus=given),
        start=start,
        interpreter=interpreter,
    )
    return {
        found.check.name for found in judge(facts, ["program"]) if found.check.verdict == "FAIL"
    }


@pytest.mark.parametrize(
    ("start", "gpus", "failed"),
    [
        (StartFacts("/x.py", exists=False), 1, {"script"}),
        (StartFacts("/x.py", unknown=(("--a", ""),)), 1, {"options"}),
        (StartFacts("/x.py", launcher="torchrun", processes=4), 2, {"processes"}),
        (StartFacts("/x.py", launcher="torchrun", processes=2), 2, set()),
        (StartFacts("/x.py", launcher="torchrun", processes=4), 0, set()),
        (StartFacts("/x.py", launcher="accelerate", processes=None), 1, set()),
        (StartFacts("/x.py", processes=1), 1, set()),
    ],
)
def test_what_cannot_start_fails(start: StartFacts, gpus: int, failed: set[str]) -> None:
    assert verdicts(start, gpus) == failed


def test_a_module_that_is_not_found_fails() -> None:
    missing = InterpreterFacts("/py", "3.11", module="No module named pkg.train")
    assert verdicts(StartFacts(module="pkg.train"), 0, missing) == {"module"}
    assert not verdicts(StartFacts(module="pkg.train"), 0, InterpreterFacts("/py", "3.11"))
