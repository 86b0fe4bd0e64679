"""A program forked from a warm server is like one that an interpreter was started for."""

import gc
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support import CEILING_S, REPOSITORY
from tests.warm import COMMANDS, WarmServer
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


HELPER = f"""
import os, signal, sys
sys.path.insert(0, {str(REPOSITORY)!r})
from runners.host import helpers
os.open("/dev/null", os.O_RDONLY)
os.set_inheritable(os.open("/dev/zero", os.O_RDONLY), True)
signal.signal(signal.SIGHUP, signal.SIG_IGN)
signal.signal(signal.SIGTERM, print)
print("not yet written", end="")
os.environ["FRESNEL_RUN_ID"] = "none"
print(helpers.run(*sys.argv[1:]))
"""
SEEN = """pwd; cd /proc/$PPID; for of in cmdline environ; do tr '\\0' '\\n' <$of; done
grep -E '^Sig(Ign|Cgt|Blk)|^Name' status; ls -l fd | sed 's/.*[0-9] //; s/pipe.*/pipe/'; exit 7"""


@pytest.mark.parametrize(
    "words", [["run-once", "marker", "1", SEEN], ["replan", ".", "x"], ["notify"]]
)
def test_a_helper_of_a_command_is_what_exec_would_have_made(
    tmp_path: Path, words: list[str]
) -> None:
    """Its words, environment, descriptors, signals and end, of one that is isolated or not."""
    (tmp_path / "starts.py").write_text(HELPER)
    told = []
    for run in (subprocess.run, COMMANDS.run):
        (tmp_path / "marker").unlink(missing_ok=True)
        done = run(
            [sys.executable, "starts.py", *words],
            cwd=tmp_path,
            env=dict(os.environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=CEILING_S,
        )
        told.append((done.returncode, done.stdout, done.stderr.splitlines()[-1:]))
    cold, warm = told
    assert warm == cold


THREADED = f"""
import subprocess, sys
from concurrent.futures import ThreadPoolExecutor
sys.path.insert(0, {str(REPOSITORY)!r})
from runners.host import helpers
for argv in (helpers.command("replan", ".", "x"), helpers.this_program("status", "x", "--json")):
    with ThreadPoolExecutor() as pool:
        done = pool.submit(subprocess.run, argv, capture_output=True, text=True).result()
        print(done.returncode, done.stdout, done.stderr)
"""


def test_what_a_thread_of_a_command_starts_ends_as_if_there_had_been_none() -> None:
    cold, warm = (
        run(
            [sys.executable, "-c", THREADED],
            env=dict(os.environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=CEILING_S,
        )
        for run in (subprocess.run, COMMANDS.run)
    )
    assert (warm.stdout, warm.stderr) == (cold.stdout, cold.stderr)


def test_a_helper_of_a_command_is_none_that_an_interpreter_was_started_for() -> None:
    """And one that is isolated finds nothing that is installed."""
    look = "grep -c msgspec /proc/$PPID/maps; true"
    for run, is_warm in ((subprocess.run, False), (COMMANDS.run, True)):
        done = run(
            [sys.executable, "-c", HELPER, "run-once", os.devnull, "1", look],
            capture_output=True,
            text=True,
            timeout=CEILING_S,
        )
        assert ("(0, '0" not in done.stdout) == is_warm, done
    isolated = "from tests import warm_helpers; warm_helpers._see_modules(True); import msgspec"
    done = COMMANDS.run([sys.executable, "-c", isolated], cwd=REPOSITORY, capture_output=True)
    assert b"ModuleNotFoundError" in done.stderr
