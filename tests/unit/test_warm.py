"""A program forked from a warm server is like one that an interpreter was started for."""

import gc
import os
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support import CEILING_S
from tests.warm import WarmServer
from tests.workers import HOW_MUCH

SERVER = WarmServer("json")
TELLS = """
import atexit, os, sys
atexit.register(lambda: print("last words"))
print(sys.argv, sys.path[:2], os.getcwd(), os.environ["WORD"], os.environ.get("HOME"))
print(os.umask(0), os.isatty(0), __name__, sys.stdin.read(), file=sys.stderr)
os.write(1, b"early ")
sys.exit({})
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    return tmp_path / "tells.py"


@pytest.mark.parametrize("ending", ["0", "3", "'in words'", "1 / 0"])
def test_it_does_what_an_interpreter_does(script: Path, ending: str) -> None:
    script.write_text(TELLS.format(ending))
    place = {"PYTHONPATH": "/nowhere", "PATH": os.environ["PATH"], "WORD": "wörd"}
    for argv in ([str(script), "a b"], ["-m", "tells", "--flag"]):
        cold, warm = (
            run(
                [sys.executable, *argv],
                cwd=script.parent,
                env={**SERVER.inherited, **place},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=CEILING_S,
            )
            for run in (subprocess.run, SERVER.run)
        )
        assert (warm.returncode, warm.stdout) == (cold.returncode, cold.stdout)
        assert warm.stderr.splitlines()[0] == cold.stderr.splitlines()[0]
        assert warm.stderr.splitlines()[-1] == cold.stderr.splitlines()[-1]


def test_signals_reach_it_and_it_is_waited_for(script: Path) -> None:
    script.write_text("print('up', flush=True)\nimport time\ntime.sleep(600)\n")
    for number, code in ((signal.SIGKILL, -signal.SIGKILL), (signal.SIGINT, -signal.SIGINT)):
        with SERVER.start([sys.executable, str(script)], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL) as child:  # fmt: skip
            assert child.stdout is not None and child.stdout.readline() == b"up\n"
            assert child.poll() is None
            with pytest.raises(subprocess.TimeoutExpired):
                child.wait(0.01)
            child.send_signal(number)
            assert child.wait(CEILING_S) == code
            assert child.stdout.read() == b""


def test_how_it_ended_is_not_lost_where_the_kernel_first_says_nobody_is_there(
    script: Path,
) -> None:
    """A message that comes and a socket that is closed in the middle of a look: seen 3 times in
    27,000 ends, and a program that exited with 0 was one that was killed.
    """

    class Raced:
        """A socket whose first look finds nobody there."""

        def __init__(self, told: socket.socket) -> None:
            self.told, self.raced = told, False

        def recv(self, size: int, flags: int = 0) -> bytes:
            select.select([self.told], [], [], CEILING_S)
            self.raced, first = True, not self.raced
            return b"" if first else self.told.recv(size, flags)

        def __getattr__(self, name: str) -> Any:
            return getattr(self.told, name)

    script.write_text("raise SystemExit(3)\n")
    child: Any = SERVER.start([sys.executable, str(script)])
    child.told = Raced(child.told)
    assert child.wait(CEILING_S) == 3


def test_whoever_asks_and_is_killed_before_it_has_read_takes_no_server_along() -> None:
    """What lies unread when a socket is closed makes an error of the other side's next call."""
    number = [sys.executable, "-c", "import os; print(os.getpid() if os.read(0, 1) else 0)"]
    SERVER.run([sys.executable, "-c", "pass"])  # it runs
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as control:
        control.connect(SERVER._address())
        assert select.select([control], [], [], CEILING_S)[0]
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as giver:
        assert giver.stdin is not None and giver.stdout is not None
        with SERVER.start(number, stdin=giver.stdout, stdout=subprocess.PIPE) as child:
            asked = {"argv": number, "environment": dict(os.environ), "folder": "/", "umask": 0}
            asked |= {"session": False, "terminal": False, "ignored": [], "forks": False}
            told = SERVER.ask(asked, [os.open(os.devnull, os.O_RDWR)] * 3)
            assert select.select([told], [], [], CEILING_S)[0]
            told.close()
            giver.stdin.write(b"xx")
            giver.stdin.close()
            assert child.wait(CEILING_S) == 0


def test_a_signal_that_comes_before_it_is_itself_is_not_lost() -> None:
    """The server ignores Ctrl+C; a fork that has not come to be a program yet does not."""
    # Asleep for good, an interpreter may miss what comes just before: it looks between two calls.
    sleeps = [sys.executable, "-c", "import time\nwhile True: time.sleep(0.01)"]
    for _ in range(20):
        child = SERVER.start(sleeps, stderr=subprocess.DEVNULL)
        child.send_signal(signal.SIGINT)
        assert child.wait(CEILING_S) == -signal.SIGINT


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_one_that_was_forgotten_while_it_ran_hinders_no_other(script: Path) -> None:
    """Garbage in a circle: its socket may be closed before it is put where `subprocess` looks."""
    script.write_text("import time\ntime.sleep(600)\n")
    child: Any = SERVER.start([sys.executable, str(script)])
    pid, child.itself = child.pid, [child]
    child.itself.append(child.itself)
    del child
    gc.collect()
    try:
        subprocess.run(["true"], check=True, timeout=CEILING_S)
    finally:
        os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT, signal.SIGTERM])
def test_it_ignores_what_whoever_starts_it_ignores(script: Path, number: signal.Signals) -> None:
    """And not what was ignored where the server was started: under nohup, a hang-up."""
    script.write_text(f"import signal; print(repr(signal.getsignal({int(number)})))\n")
    before, told = signal.getsignal(number), []
    server = WarmServer("json", ASKED=number.name)
    try:
        for handler in (signal.SIG_IGN, signal.SIG_DFL, signal.SIG_IGN):
            signal.signal(number, handler)
            told.append(server.run([sys.executable, str(script)], stdout=subprocess.PIPE).stdout)
    finally:
        signal.signal(number, before)
    ignored = b"Handlers.SIG_IGN"
    assert [ignored in line for line in told] == [True, False, True]


def test_what_only_a_start_can_do_is_started(script: Path) -> None:
    script.write_text("import sys; print(sys.flags.isolated, sys.flags.no_site)\n")
    argv = [sys.executable, "-I", "-S", str(script)]
    assert SERVER.run(argv, stdout=subprocess.PIPE).stdout == b"1 1\n"
    script.write_text("import sys; print(sys.stdout.encoding)\n")
    told = SERVER.run(
        [sys.executable, str(script)],
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        stdout=subprocess.PIPE,
    )
    assert told.stdout == b"ascii\n"


def test_what_make_says_of_how_much_reaches_the_workers(tmp_path: Path) -> None:
    test = tmp_path / "test_much.py"
    said = dict.fromkeys(HOW_MUCH, "7")
    test.write_text(
        f"import os\nMUCH = {{name: os.environ.get(name) for name in {HOW_MUCH}}}\n"
        f"def test_it(): assert MUCH == {said}"
    )
    options = ["-q", "-n1", "-pno:cacheprovider", "-ptests.conftest", f"--rootdir={tmp_path}"]
    # Else it removes at its end, for minutes perhaps, what runs of the tests before it have left.
    options.append(f"--basetemp={tmp_path / 'own'}")
    outside = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, str(test)],
        env=outside | said,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("ending", ["0", "3", "os.kill(os.getpid(), 9)", "os.kill(0, 15)"])
def test_whoever_can_only_start_a_file_has_a_program_forked_all_the_same(
    script: Path, ending: str
) -> None:
    """Its words, folder, streams and end are the program's, also where that is told to end."""
    script.write_text(TELLS.format(ending))
    SERVER.run([sys.executable, "-c", "pass"])  # it runs
    environment = {**os.environ, "WORD": "wörd", "PYTHONPATH": str(script.parent)}
    cold, warm = (
        subprocess.run(
            [sys.executable, *words, "a b"],
            cwd=script.parent,
            env=environment,
            input=b"given",
            capture_output=True,
            start_new_session=True,
            timeout=CEILING_S,
        )
        for words in (["-m", "tells"], SERVER.client("tells").split())
    )
    assert (warm.returncode, warm.stdout) == (cold.returncode, cold.stdout)
    assert warm.stderr == cold.stderr
    assert b"given" in warm.stderr
