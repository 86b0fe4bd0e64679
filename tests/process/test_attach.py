"""A run with a terminal of its own: asked, answered, left, taken over; a shell beside a run."""

import json
import os
import re
import shlex
import shutil
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from runners.lifecycle.supervisor import pty
from runners.state.layout import RunDirectory
from tests.command_text import ANOTHER_TYPES, ENDED_WITH, GOES_ON, NEEDS_A_TERMINAL, NO_TERMINAL
from tests.process.conftest import COMMAND, CommandLine
from tests.sshd import running_sshd
from tests.support import REPOSITORY, eventually
from tests.terminal import Terminal
from tests.ui.tmux import Tmux

QUESTION = "Continue? [y/N]"
ASKING = (
    "import os, signal, sys\n"
    "signal.signal(signal.SIGWINCH, lambda *_: print('now', os.get_terminal_size(), flush=True))\n"
    "for i in range(9):\n"
    f"    answer = input('{QUESTION} ')\n"
    "    print('answered', repr(answer), flush=True)\n"
    "    if answer == 'stop': sys.exit(3)\n"
)
DETACH = "\x1d"
ENDED_WITH_3 = f"{ENDED_WITH} 3"
LEFT = rf"detached from \d{{8}}-\S+, {GOES_ON}"
"""Words of `attach`."""


def answered(answer: str) -> str:
    """What the program writes when it was answered."""
    return f"answered {answer!r}"


def sized(*sizes: tuple[int, int]) -> str:
    """What the program writes when its terminal has one of these sizes: columns, lines."""
    return "|".join(f"columns={columns}, lines={lines}" for columns, lines in sizes)


# What stands before a program, and is told to stop when it has just begun it.
STOPPED_AT_ONCE = """
import os, pty, signal, sys
from runners.lifecycle.supervisor.pty import run_in_terminal
fork = pty.fork
def begin():
    begun = fork()
    if begun[0]:
        os.kill(os.getpid(), signal.SIGTERM)
    return begun
pty.fork = begin
sys.exit(run_in_terminal(["sleep", "600"]))
"""


def test_a_program_with_a_terminal_hears_a_signal_that_comes_when_it_begins() -> None:
    code = [sys.executable, "-c", STOPPED_AT_ONCE]
    done = subprocess.run(code, cwd=REPOSITORY, stdout=subprocess.DEVNULL, check=False)
    assert done.returncode == 128 + signal.SIGTERM, "the program's end, not its own"


@pytest.fixture
def attach(cli: CommandLine) -> Iterator[Callable[..., Terminal]]:
    """Terminals attached to a run, closed with the test."""
    opened: list[Terminal] = []

    def open_one(run: RunDirectory, *flags: str, columns: int = 80, rows: int = 24) -> Terminal:
        terminal = Terminal([*COMMAND, "attach", run.id, *flags], columns, rows)
        opened.append(terminal)
        return terminal

    yield open_one
    for terminal in opened:
        terminal.close()


def asking(cli: CommandLine) -> RunDirectory:
    """A run that asks on its terminal, once it does."""
    run = cli.launch("--gpus", "0", "--tty", "--", sys.executable, "-c", ASKING)
    eventually(lambda: QUESTION in run.output.read_text(), what="a question")
    return run


def test_a_question_stands_in_the_row_is_answered_and_the_output_is_kept(
    cli: CommandLine, attach: Callable[..., Terminal]
) -> None:
    run = asking(cli)
    eventually(lambda: cli.status(run)["waits_for_input"] == QUESTION, what="a run that asks")
    assert QUESTION in cli.run("list").stdout
    terminal = attach(run)
    terminal.wait_for(re.escape(QUESTION))  # what was there before is shown to a newcomer
    terminal.press("y", "e", "s", "Enter")
    terminal.wait_for(answered("yes"))
    terminal.press("s", "t", "o", "p", "Enter")
    terminal.wait_for(ENDED_WITH_3)
    assert terminal.wait_end() == 1
    kept = run.output.read_text()
    assert f"{answered('yes')}\n" in kept and "\r\n" not in kept.replace("\r\r\n", "")


def test_left_by_a_key_or_by_a_dead_client_the_run_goes_on(
    cli: CommandLine, attach: Callable[..., Terminal]
) -> None:
    run = asking(cli)
    first = attach(run)
    first.wait_for(re.escape(QUESTION))
    first.press(DETACH)
    first.wait_for(LEFT)
    assert first.wait_end() == 0
    second = attach(run)
    second.wait_for(re.escape(QUESTION))
    second.child.kill()
    second.child.wait()
    third = attach(run)
    third.wait_for(re.escape(QUESTION))
    third.press("n", "Enter")
    third.wait_for(answered("n"))
    assert cli.status(run)["state"] == "running"


def test_several_look_and_one_types_until_another_takes_over(
    cli: CommandLine, attach: Callable[..., Terminal]
) -> None:
    run = asking(cli)
    types = attach(run)
    types.wait_for(re.escape(QUESTION))
    looks = attach(run)
    looks.wait_for(ANOTHER_TYPES)
    looks.press("x", "Enter")
    types.press("a", "Enter")
    looks.wait_for(answered("a"))
    taker = attach(run, "--take")
    types.wait_for(ANOTHER_TYPES)
    taker.press("b", "Enter")
    looks.wait_for(answered("b"))
    assert "'x'" not in run.output.read_text()


def test_the_program_sees_the_size_of_the_terminal_that_types(
    cli: CommandLine, attach: Callable[..., Terminal]
) -> None:
    run = asking(cli)
    terminal = attach(run, columns=100, rows=30)
    terminal.wait_for(sized((100, 30)))
    terminal.resize(50, 132)
    eventually(lambda: sized((132, 50)) in run.output.read_text(), what="the new size")


def test_over_a_connection_that_is_cut_nothing_ends_and_one_types_again(
    cli: CommandLine, tmp_path: Path
) -> None:
    run = asking(cli)
    with running_sshd(tmp_path / "ssh") as sshd:
        first = Terminal(sshd.command(*COMMAND, "attach", run.id), 80, 24)
        first.wait_for(sized((80, 24)))
        first.press("y", "Enter")
        first.wait_for(answered("y"))
        first.child.kill()
        first.close()
        second = Terminal(sshd.command(*COMMAND, "attach", run.id), 100, 30)
        second.wait_for(sized((100, 30)))
        second.press("n", "Enter")
        second.wait_for(answered("n"))
        assert cli.status(run)["state"] == "running"
        second.press("s", "t", "o", "p", "Enter")
        second.wait_for(ENDED_WITH_3)
        second.close()


@pytest.mark.skipif(shutil.which("tmux") is None, reason="needs tmux")
def test_inside_tmux_it_is_resized_left_and_found_again(cli: CommandLine, tmp_path: Path) -> None:
    run = asking(cli)
    tmux = Tmux(tmp_path, ["sh", "-i"], 80, 24)
    try:
        tmux.press(shlex.join([*COMMAND, "attach", run.id]), "Enter")
        tmux.wait_for(sized((80, 23), (80, 24)))
        tmux.resize(60, 15)
        tmux.wait_for(sized((60, 15), (60, 14)))
        tmux.press("maybe", "Enter")
        tmux.wait_for(answered("maybe"))
        tmux.press("C-]")
        tmux.wait_for(LEFT)
        tmux.press(shlex.join([*COMMAND, "attach", run.id]), "Enter")
        tmux.press("stop", "Enter")
        tmux.wait_for(ENDED_WITH_3)
    finally:
        tmux.call("kill-server")


def test_what_cannot_be_attached_to_says_why(
    cli: CommandLine, attach: Callable[..., Terminal]
) -> None:
    asked = asking(cli)
    refused = cli.run("attach", asked.id, exits=2).stderr
    assert NEEDS_A_TERMINAL in refused and f"fresnel-tui logs -f {asked.id}" in refused
    plain = cli.command("sleep", "60")
    terminal = attach(plain)
    terminal.wait_for(NO_TERMINAL)
    terminal.wait_for("--tty")
    assert terminal.wait_end() == 2


def test_a_shell_has_the_run_s_environment_and_folder_but_is_no_part_of_it(
    cli: CommandLine,
) -> None:
    run = cli.command("sleep", "60", options=["--set", "environment.GREETING=hello"])
    show = (
        f"{sys.executable} -c 'import json, os; print(json.dumps([os.getcwd(), dict(os.environ)]))'"
    )
    folder, environment = json.loads(cli.run("shell", run.id, "--do", show).stdout)
    assert folder == str(cli.folder) and environment["GREETING"] == "hello"
    assert environment["FRESNEL_SHELL_OF"] == run.id
    assert "FRESNEL_RUN_ID" not in environment and environment["FRESNEL_GPU_COUNT"] == "0"


PATIENT = (
    "import sys; from runners.lifecycle.supervisor import pty; pty._LAST_WORDS_S = 300.0; "
    "sys.exit(pty.run_in_terminal(sys.argv[1:]))"
)


class Attached:
    """A client of a program's own terminal, in a folder where nobody else has anything."""

    def __init__(self, folder: Path, script: str) -> None:
        words = [sys.executable, "-c", PATIENT, sys.executable, "-S", "-c", script]
        self.output = folder / "output"
        with self.output.open("wb") as output:
            self.keeper = subprocess.Popen(
                words,
                cwd=REPOSITORY,
                env={**os.environ, "FRESNEL_RUN_DIR": str(folder)},
                stdin=subprocess.DEVNULL,
                stdout=output,
            )
        eventually((folder / pty.SOCKET).exists, what="its socket")
        self.link = socket.socket(socket.AF_UNIX)
        self.link.connect(str(folder / pty.SOCKET))
        self.send(b"A", json.dumps({"rows": 24, "columns": 80}).encode())

    def send(self, kind: bytes, payload: bytes) -> None:
        """One message."""
        self.link.sendall(struct.pack(">cI", kind, len(payload)) + payload)

    def messages(self) -> list[tuple[bytes, bytes]]:
        """All messages until the other end has closed."""
        data, found = b"", []
        while block := self.link.recv(1 << 16):
            data += block
        while data:
            kind, length = struct.unpack_from(">cI", data)
            found.append((kind, data[5 : 5 + length]))
            data = data[5 + length :]
        return found


@pytest.fixture
def attached(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Attached]]:
    """Clients of programs with a terminal, ended with the test."""
    opened: list[Attached] = []

    def open_one(script: str) -> Attached:
        opened.append(Attached(tmp_path_factory.mktemp("t"), script))
        return opened[-1]

    yield open_one
    for client in opened:
        client.link.close()
        client.keeper.kill()
        client.keeper.wait()


def test_what_is_pasted_into_a_program_that_reads_nothing_does_not_hold_it_up(
    attached: Callable[[str], Attached],
) -> None:
    script = "import time\nwhile True: print('goes on', flush=True); time.sleep(0.01)"
    client = attached(script)
    client.send(b"I", (b"x" * 79 + b"\n") * 4000)
    size = client.output.stat().st_size
    eventually(lambda: client.output.stat().st_size > size + 10_000, what="more output")


def test_who_reads_slowly_still_hears_all_of_it_and_the_end(
    attached: Callable[[str], Attached],
) -> None:
    script = "import sys; sys.stdin.readline(); print('x' * 700_000); sys.exit(3)"
    client = attached(script)
    client.send(b"I", b"\n")
    eventually(lambda: client.output.stat().st_size > 700_000, what="all of it written")
    *messages, (kind, code) = client.messages()
    assert (kind, code) == (b"E", b"3")
    assert sum(payload.count(b"x") for _, payload in messages) == 700_000
