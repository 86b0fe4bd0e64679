"""How each launcher is spelled."""

import shutil

import pytest

from runners.lifecycle.launch.command_line import unbuffer, wrapped
from runners.model.launchers import LAUNCHERS, PROCESS_LAUNCHERS, CommandParts, traits_of
from runners.model.spec import Launcher, RunSpec
from runners.model.wrappers import unwrapped
from runners.presets.reading.typed import decode_keys


def argv(
    launcher: Launcher,
    processes: int = 1,
    on_gpu: bool = False,
    program: tuple[str, ...] = ("train.py",),
) -> str:
    parts = CommandParts("python3", program, ["--lr", "1"], ["--extra"], processes, 29555, on_gpu)
    return " ".join(traits_of(launcher).spell(parts))


@pytest.mark.parametrize(
    ("launcher", "processes", "on_gpu", "words"),
    [
        ("python", 1, True, "python3 train.py --lr 1"),
        (
            "torchrun",
            2,
            True,
            "python3 -m torch.distributed.run --nproc-per-node=2 --master-addr=127.0.0.1 "
            "--master-port=29555 --extra "
            "train.py --lr 1",
        ),
        (
            "accelerate",
            1,
            False,
            "python3 -m accelerate.commands.launch --num_processes=1 --num_machines=1 "
            "--main_process_port=29555 --cpu "
            "--extra train.py --lr 1",
        ),
        (
            "accelerate",
            4,
            True,
            "python3 -m accelerate.commands.launch --num_processes=4 --num_machines=1 "
            "--main_process_port=29555 "
            "--multi_gpu --extra train.py --lr 1",
        ),
        (
            "accelerate",
            1,
            True,
            "python3 -m accelerate.commands.launch --num_processes=1 --num_machines=1 "
            "--main_process_port=29555 "
            "--extra train.py --lr 1",
        ),
    ],
)
def test_a_launcher_s_argv(launcher: Launcher, processes: int, on_gpu: bool, words: str) -> None:
    assert argv(launcher, processes, on_gpu) == words


def test_a_command_is_taken_as_it_stands() -> None:
    assert argv("command", program=("make", "train")) == "make train --lr 1"


def test_a_module_is_run_as_one() -> None:
    assert argv("python", program=("-m", "pkg.train")) == "python3 -m pkg.train --lr 1"


@pytest.mark.parametrize("program", ["/usr/bin/python3", "python", "/usr/bin/stdbuf"])
def test_what_unbuffers_itself_is_left_alone(program: str) -> None:
    assert unbuffer([program, "x"]) == [program, "x"]


def test_other_programs_stand_behind_stdbuf(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _name: "/usr/bin/stdbuf")
    assert unbuffer(["/bin/ls", "-l"]) == ["stdbuf", "-oL", "-eL", "/bin/ls", "-l"]
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    assert unbuffer(["/bin/ls", "-l"]) == ["/bin/ls", "-l"]


@pytest.mark.parametrize("terminal", [False, True])
def test_what_was_put_before_a_program_is_taken_off_again(terminal: bool) -> None:
    assert unwrapped(wrapped(["/bin/ls", "-l"], terminal, runs_python=False)) == ["/bin/ls", "-l"]


def test_a_launcher_that_is_none_is_never_spelled_as_another() -> None:
    with pytest.raises(AssertionError, match="no-such-launcher"):
        traits_of("no-such-launcher")  # type: ignore[arg-type]


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_every_launcher_is_whole(launcher: Launcher) -> None:
    traits = traits_of(launcher)
    spelled = argv(launcher, 2, True, program=("train.py",))
    assert spelled.endswith("train.py --lr 1")
    assert ("--extra" in spelled) == traits.starts_processes == (launcher in PROCESS_LAUNCHERS)
    assert not traits.starts_processes or "29555" in spelled
    keys = decode_keys({"launcher": launcher}, RunSpec, ())
    assert keys == {"launcher": launcher}, "a preset can name it"
