"""What a plan says of commands that would return before their work is done."""

from pathlib import Path

import pytest

from runners.lifecycle.launch.scripts import script_notes
from runners.model.python_command import STDBUF

SCRIPTS = {
    "left.sh": "#!/bin/bash\nset -e\nnohup python a.py > log 2>&1 &\n\n# watched by hand\n",
    "loop.sh": "for seed in 0 1 2; do\n  python a.py --seed $seed &\ndone\n",
    "told.sh": "python a.py & echo started $!\ndisown\nexit 0\n",
    "waits.sh": "python a.py &\npython b.py &\nwait\n",
    "waits_for.sh": "python a.py & pid=$!\ntail --pid=$pid -f log\n",
    "helper.sh": "nvidia-smi dmon > gpus.txt &\npython a.py --steps 10\n",
    "plain.sh": "cd a && python a.py >& log 2>&1 || exit 1\n",
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
    ],
)
def test_a_program_in_the_background_is_told(command: list[str], where: str, folder: Path) -> None:
    (note,) = script_notes([*STDBUF, *command], folder)
    assert note.startswith(f"{where} leaves a program in the background")


@pytest.mark.parametrize(
    "command",
    [
        ["sbatch", "train.sbatch"],
        ["tmux", "new-session", "-d", "python a.py"],
        ["screen", "-dm", "python", "a.py"],
        ["systemd-run", "--user", "python", "a.py"],
    ],
)
def test_what_hands_its_program_on_is_told(command: list[str], folder: Path) -> None:
    (note,) = script_notes([*STDBUF, *command], folder)
    assert note.startswith(f"`{command[0]}` hands its program on")


@pytest.mark.parametrize(
    "command",
    [
        ["bash", "waits.sh"],
        ["bash", "waits_for.sh"],
        ["bash", "helper.sh"],
        ["sh", "plain.sh"],
        ["sh", "not_there.sh"],
        ["python", "a.py"],
        ["bash", "-c", "python a.py & wait"],
        ["bash", "-c", "python a.py && echo done"],
        ["sbatch", "--wait", "train.sbatch"],
        ["systemd-run", "--user", "--scope", "python", "a.py"],
        [],
    ],
)
def test_nothing_is_said_of_a_command_that_waits(command: list[str], folder: Path) -> None:
    assert not script_notes([*STDBUF, *command], folder)
