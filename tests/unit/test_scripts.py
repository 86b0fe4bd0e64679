"""What a plan says of commands that would return before their work is done."""

from pathlib import Path

import pytest

from runners.lifecycle.launch.command_notes import command_notes
from runners.model.wrappers import STDBUF

SCRIPTS = {
    "left.sh": "#!/bin/bash\nset -e\nnohup python a.py &\n\n# watched by hand\n",
    "loop.sh": "for seed in 0 1 2; do\n  python a.py --seed $seed &\ndone\n",
    "told.sh": "python a.py & echo started $!\ndisown\nexit 0\n",
    "waits.sh": "python a.py &\npython b.py &\nwait\n",
    "waits_for.sh": "python a.py & pid=$!\ntail --pid=$pid -f log\n",
    "helper.sh": "nvidia-smi dmon > gpus.txt &\npython a.py --steps 10\n",
    "plain.sh": "cd a && python a.py >& log 2>&1 || exit 1\n",
    "tee.sh": "set -e\npython a.py 2>&1 | tee log\n# the end\n",
    "pipefail.sh": "set -eo pipefail\npython a.py 2>&1 | tee log\n",
    "to_file.sh": "cd a\nCUDA_LAUNCH_BLOCKING=1 python -u a.py --lr 1 >>train.log 2>&1\n",
    "errors.sh": "python a.py 2> errors.txt\npython -c 'print(1 > 2)'\npython b.py 2>&1 1>&2\n",
    "a.py": "mask = a & b\n",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in SCRIPTS.items():
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    "command, where",
    [
        (["bash", "left.sh"], "left.sh"),
        (["./loop.sh"], "loop.sh"),
        (["sh", "told.sh"], "told.sh"),
        (["bash", "-c", "python a.py &"], "the command"),
        (["bash", "-lc", "python a.py & sleep 5; echo started"], "the command"),
        (["bash", "-l", "-c", "python a.py &"], "the command"),
        (["bash", "-euo", "pipefail", "-c", "python a.py &"], "the command"),
        (["bash", "-x", "left.sh"], "left.sh"),
    ],
)
def test_a_program_in_the_background_is_told(command: list[str], where: str, folder: Path) -> None:
    (note,) = command_notes([*STDBUF, *command], folder, None)
    assert note.startswith(f"{where} leaves a program in the background")


@pytest.mark.parametrize(
    "command, file",
    [
        (["bash", "to_file.sh"], "train.log"),
        (["sh", "-c", "torchrun --nproc_per_node 2 a.py &> all.txt"], "all.txt"),
    ],
)
def test_output_that_goes_elsewhere_is_told(command: list[str], file: str, folder: Path) -> None:
    (note,) = command_notes([*STDBUF, *command], folder, None)
    assert f"output to {file}:" in note


@pytest.mark.parametrize(
    "command, where",
    [
        (["bash", "tee.sh"], "tee.sh"),
        (["sh", "-c", "python a.py 2>&1 | tee -a log.txt"], "the command"),
        (["bash", "-c", "cd a; python a.py |& tee log.txt"], "the command"),
    ],
)
def test_whose_exit_code_it_will_be_is_told(command: list[str], where: str, folder: Path) -> None:
    (note,) = command_notes([*STDBUF, *command], folder, None)
    assert note.startswith(f"{where} ends in `tee`")


@pytest.mark.parametrize(
    "command",
    [
        ["bash", "waits.sh"],
        ["bash", "waits_for.sh"],
        ["bash", "helper.sh"],
        ["bash", "pipefail.sh"],
        ["bash", "errors.sh"],
        ["bash", "-c", "python a.py | tee log; exit ${PIPESTATUS[0]}"],
        ["sh", "plain.sh"],
        ["sh", "not_there.sh"],
        ["python", "a.py"],
        ["bash", "-c", "python a.py & wait"],
        ["bash", "-c", "python a.py && echo done"],
        [],
    ],
)
def test_nothing_is_said_of_a_command_that_waits(command: list[str], folder: Path) -> None:
    assert not command_notes([*STDBUF, *command], folder, None)
