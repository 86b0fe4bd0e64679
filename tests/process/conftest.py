"""The command line as a person uses it, in processes of its own, and nothing left running when a
test ends.

Looking and waiting is done in the test's own process where the command itself is not what is
tested: it is quicker.
"""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import IO, Any

import pytest

from runners.gpus.sampler_lock import owner_of
from runners.host.locks import is_held
from runners.host.procfs import all_marks, command_of, read_processes
from runners.lifecycle.control import start
from runners.lifecycle.control.start import start_together
from runners.lifecycle.control.wait import wait_until_ended
from runners.lifecycle.supervisor.kept_environment import forget_all
from runners.presets.load import command_spec
from runners.state.layout import RunDirectory, StateDirectory
from runners.state.leases import live_run_ids
from runners.state.runs import list_run_ids, read_run
from tests.leftovers import kill
from tests.support import CEILING_S, REPOSITORY, eventually
from tests.warm import COMMANDS
from tui.views.runs.run_json import to_json
from tui.views.runs.run_view import view_run

# -P as the installed script has it: the directory it is started in is no place to import from.
SAFE_PATH = ("-P",) if sys.version_info >= (3, 11) else ()
COMMAND = (sys.executable, *SAFE_PATH, "-m", "fresnel_tui")
_ROUNDS = 20

# A Python child that says it is ready and ignores the signals named by its arguments, for ever.
STUBBORN = (
    "import signal, sys, time\n"
    "for name in sys.argv[1:]: signal.signal(getattr(signal, name), signal.SIG_IGN)\n"
    "print('ready', flush=True)\n"
    "while True: time.sleep(60)\n"
)


_EACH = """
import io, json, sys
from contextlib import redirect_stderr, redirect_stdout
from tui.cli import run_command
said = []
for words in json.loads(sys.argv[1]):
    told = io.StringIO()
    with redirect_stdout(told), redirect_stderr(told):
        run_command(words)
    said.append(told.getvalue())
print(json.dumps(said))
"""


class CommandLine:
    """`fresnel-tui …`, run in `folder` with the environment of the test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.begins: tuple[str, ...] = COMMAND
        self.state = StateDirectory()
        self.children: list[subprocess.Popen[bytes]] = []

    def run(
        self, *words: str, exits: int | None = 0, folder: Path | None = None, **environment: str
    ) -> "subprocess.CompletedProcess[str]":
        """Run one command to its end and check how it exits (None: as it likes)."""
        done = COMMANDS.run(
            [*self.begins, *words],
            cwd=folder or self.folder,
            env=self.environment(environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=2 * CEILING_S,
        )
        assert exits is None or done.returncode == exits, (words, done)
        assert "Traceback" not in done.stderr, done.stderr
        return done

    def run_each(self, commands: Sequence[Sequence[str]]) -> list[str]:
        """What many commands say, run one after another by one process."""
        done = COMMANDS.run(
            [sys.executable, "-c", _EACH, json.dumps(commands)],
            cwd=self.folder,
            env=self.environment({}),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=2 * CEILING_S,
        )
        assert done.returncode == 0, done.stderr
        said: list[str] = json.loads(done.stdout)
        assert not [text for text in said if "Traceback" in text]
        return said

    def begin(
        self, *words: str, stdout: IO[bytes] | int = subprocess.PIPE, **environment: str
    ) -> "subprocess.Popen[bytes]":
        """Start one command and let it run; ended with the test."""
        child = COMMANDS.start(
            [*self.begins, *words],
            cwd=self.folder,
            env=self.environment(environment),
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=subprocess.PIPE,
        )
        self.children.append(child)
        return child

    def environment(self, more: dict[str, str]) -> dict[str, str]:
        """The test's environment, in which our modules are found from anywhere."""
        return {**os.environ, "PYTHONPATH": str(REPOSITORY), **more}

    def json(self, *words: str, exits: int | None = 0) -> Any:
        """What a command prints with --json; nothing else may be on stdout."""
        at = words.index("--") if "--" in words else len(words)
        return json.loads(self.run(*words[:at], "--json", *words[at:], exits=exits).stdout)

    def launch(self, *words: str, **environment: str) -> RunDirectory:
        """Launch a run and return its directory."""
        return self.state.run(self.run("launch", *words, **environment).stdout.strip())

    def command(
        self, *argv: str, options: Sequence[str] = (), ready: str = "", **environment: str
    ) -> RunDirectory:
        """Launch a command on the CPU; return once it is recorded as started and its output has
        the text `ready`.
        """
        run = self.launch("--gpus", "0", *options, "--", *argv, **environment)
        eventually(
            lambda: record(run).get("started") or record(run).get("ended"),
            what="a run that is recorded",
        )
        if ready:
            eventually(
                lambda: ready in run.output.read_text(errors="replace"),
                what=f"{ready!r} in the output",
            )
        return run

    def status(self, run: RunDirectory) -> dict[str, Any]:
        """A run, once it has started, as `status RUN --json` shows it, asked in this process:
        nobody is adopted.

        A program may have said something before its supervisor has recorded that it runs.
        """

        def look() -> dict[str, Any] | None:
            found = to_json(view_run(read_run(self.state, run.id)))
            return None if found["state"] == "starting" and not found["reason"] else found

        return eventually(look, what="a run that is not starting any more")

    def ended(self, run: RunDirectory) -> dict[str, Any]:
        """The run once its ending is recorded, as `wait RUN --json` shows it, waited for in this
        process.
        """
        return to_json(view_run(wait_until_ended(self.state, run.id)))

    def left(self, run: RunDirectory) -> dict[str, Any]:
        """The run once it has ended and its supervisor has gone: it may be taken away then."""
        found = self.ended(run)
        eventually(lambda: not (is_held(run.supervisor_lock) or is_held(run.run_lock)))
        return found

    def kill_supervisor(self, run: RunDirectory) -> int:
        """SIGKILL to a run's supervisor; return its pid once its lock is free."""
        pid = eventually(lambda: supervisor_of(run), what="a supervisor that has recorded itself")
        os.kill(pid, signal.SIGKILL)
        eventually(lambda: not is_held(run.supervisor_lock), what="the supervisor's lock free")
        return pid


def supervisor_of(run: RunDirectory) -> int | None:
    """The pid of a run's supervisor, where it lives and has recorded itself."""
    # Between taking the lock and the first record, the record still names the one before.
    pid = record(run).get("supervisor_pid")
    try:
        return (
            pid if pid and b"supervisor.py" in Path(f"/proc/{pid}/cmdline").read_bytes() else None
        )
    except OSError:
        return None


def record(run: RunDirectory) -> dict[str, Any]:
    """state.json as it stands; empty while there is none."""
    try:
        found = json.loads(run.state.read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def events(run: RunDirectory, kind: str) -> list[dict[str, Any]]:
    """The supervisor's events of one type, in order."""
    try:
        lines = run.supervisor_events.read_text().splitlines()
    except OSError:
        return []
    return [event for line in lines if (event := json.loads(line))["type"] == kind]


def leader(run: RunDirectory) -> int:
    """The pid of a run's program, once it has noted it."""
    return eventually(lambda: int(run.leader.read_text()) if run.leader.exists() else 0)


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[CommandLine]:
    """The command line in a folder of the test's own; at the end nothing is left of its runs."""
    folder = tmp_path / "work"
    folder.mkdir()
    line = CommandLine(folder)
    yield line
    for child in line.children:
        if child.poll() is None:
            child.kill()
        child.communicate()
    end_everything(line.state)


def end_everything(state: StateDirectory) -> None:
    """Kill every live run of a state folder with what helps it, and end its sampler; fails when
    anything is left of a run that has ended.
    """
    live, runs = set(live_run_ids(state)), list_run_ids(state)
    marks = all_marks() if runs else {}
    left = {run_id: marks[run_id] for run_id in runs if run_id in marks and run_id not in live}
    if live or left:
        _kill_all(state, {*live, *left})
    owner = owner_of(state)
    if owner is not None and is_held(state.sampler_lock):
        os.kill(owner.pid, signal.SIGTERM)
    assert not left, f"processes left over: {left}"


def _kill_all(state: StateDirectory, runs: set[str]) -> None:
    """Kill what has the mark of a run or the state folder in its command line, and all below it;
    again until nothing has: helpers start each other anew.
    """
    for run_id in runs:
        forget_all(state.run(run_id))
    for _ in range(_ROUNDS):
        table, marks = read_processes(), all_marks()
        found = {pid for run_id in runs for pid in marks.get(run_id, ())}
        found |= {pid for pid in table if str(state.root) in " ".join(command_of(pid))}
        grown = set[int]()
        while found != grown:
            grown = set(found)
            found |= {pid for pid, entry in table.items() if entry.parent in grown}
        if not found:
            return
        for pid in found:
            kill(pid)


class Receiver(HTTPServer):
    """A webhook on the loopback that keeps what it is sent."""

    def __init__(self, answer: int = 200) -> None:
        self.got: list[dict[str, object]] = []
        self.answer = answer
        super().__init__(("127.0.0.1", 0), _Keeper)


class _Keeper(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        self.server.got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(self.server.answer)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    server = Receiver()
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def run_with(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> Callable[..., RunDirectory]:
    """Launch a shell's command whose supervisor is the given script, with a number."""

    def launch(script: str, number: int, shell: str, *sets: str) -> RunDirectory:
        def spawn(run: RunDirectory, environment: dict[str, str], locks: Sequence[int]) -> None:
            words = [str(number), str(run.home.root), run.id, *map(str, locks)]
            subprocess.run(
                [sys.executable, "-c", script, *words],
                env={**environment, **cli.environment({}), "FRESNEL_HELPER": "supervisor"},
                pass_fds=locks,
                check=True,
            )

        monkeypatch.chdir(cli.folder)
        monkeypatch.setattr(start, "spawn_supervisor", spawn)
        (run,) = start_together(cli.state, [command_spec(["sh", "-c", shell], ["gpus=0", *sets])])
        return cli.state.run(run.id)

    return launch
