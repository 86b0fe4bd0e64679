"""What a plan says of programs that start another one out of a run's reach or sight."""

from pathlib import Path

import pytest

from runners.lifecycle.launch.command_notes import command_notes


@pytest.mark.parametrize(
    "command, advice",
    [
        (["sbatch", "train.sbatch"], "launch --slurm"),
        (["/usr/bin/tmux", "new-session", "-d", "python a.py"], "the program itself"),
        (["screen", "-dm", "python", "a.py"], "the program itself"),
        (["systemd-run", "--user", "python", "a.py"], "the program itself"),
        (["ssh", "host", "python", "a.py"], "fresnel-tui up"),
        (["conda", "run", "-n", "env", "python", "a.py"], "--no-capture-output"),
        (["nice", "-n", "5", "conda", "run", "python", "a.py"], "--no-capture-output"),
        (["sudo", "-u", "me", "python", "a.py"], "--preserve-env"),
    ],
)
def test_what_starts_its_program_elsewhere_is_told(
    command: list[str], advice: str, tmp_path: Path
) -> None:
    (tmp_path / "a.py").touch()
    (note,) = command_notes(command, tmp_path, None)
    assert advice in note and note.count("`") % 2 == 0


@pytest.mark.parametrize(
    "command",
    [
        ["sbatch", "--wait", "train.sbatch"],
        ["systemd-run", "--user", "--scope", "python", "a.py"],
        ["ssh", "-t", "host", "python", "a.py"],
        ["conda", "run", "--no-capture-output", "-n", "env", "python", "a.py"],
        ["conda", "list"],
        ["sudo", "-E", "python", "a.py"],
        ["sudo", "--preserve-env=CUDA_VISIBLE_DEVICES", "python", "a.py"],
        ["python", "ssh", "tmux"],
        [],
    ],
)
def test_nothing_is_said_of_others(command: list[str], tmp_path: Path) -> None:
    for name in ("a.py", "ssh"):
        (tmp_path / name).touch()
    assert not command_notes(command, tmp_path, None)
