"""The stacks of one process, each by what is permitted: py-spy, a handler of its own, the kernel.

py-spy (Ben Frederickson, MIT licence) reads Python's frames from outside and needs the right to
trace the process: root, the same user where kernel.yama.ptrace_scope is 0, or CAP_SYS_PTRACE.
"""

import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from runners.host.files import names_in, open_binary, read_text, size_of
from runners.host.procfs import catches
from runners.host.signals import signal_process
from runners.state.decoding import any_json, decode
from runners.state.rank_processes import wait_channel

STACK_SIGNAL = signal.SIGUSR2
"""Our own trainers answer it with their stacks (`trainers.common.stacks`)."""
_SETTLED_S = 0.15
_ANSWERED_S = 1.5
_MOST_THREADS = 200


class Frame(msgspec.Struct, frozen=True):
    """One frame of a Python stack."""

    function: str
    file: str
    line: int

    @property
    def is_library(self) -> bool:
        """True for code that nobody wrote for this training: packages and the standard library."""
        library = ("/site-packages/", "/dist-packages/", "/lib/python", "<frozen", "torch/")
        return any(part in self.file for part in library) or self.file.startswith("<")

    @property
    def text(self) -> str:
        """`train.py:43 in main`."""
        return f"{Path(self.file).name}:{self.line} in {self.function}"


class PythonThread(msgspec.Struct, frozen=True):
    """One thread of a Python program, its innermost frame first."""

    name: str
    frames: tuple[Frame, ...]
    active: bool = False


class PythonStacks(msgspec.Struct, frozen=True):
    """What one way of asking gave: threads, or text; `problem` says why there is neither."""

    threads: tuple[PythonThread, ...] = ()
    text: str = ""
    problem: str = ""


def find_py_spy() -> str | None:
    """Where py-spy is: beside our own interpreter, or on PATH."""
    beside = Path(sys.executable).with_name("py-spy")
    return str(beside) if os.access(beside, os.X_OK) else shutil.which("py-spy")


def ask_py_spy(pid: int, within_s: float) -> PythonStacks:
    """The threads of Python process `pid` as py-spy reads them, without stopping it if that does.

    At most `within_s` seconds.
    """
    program = find_py_spy()
    if program is None:
        return PythonStacks(problem="py-spy is not installed (pip install 'fresnel-tui[stacks]')")
    problem = ""
    deadline = time.monotonic() + within_s
    for more in (("--nonblocking",), ()):
        left = deadline - time.monotonic()
        if left <= 0.1:
            break
        argv = [program, "dump", "--json", "--full-filenames", *more, "--pid", str(pid)]
        try:
            done = subprocess.run(argv, capture_output=True, timeout=left, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            return PythonStacks(problem=f"py-spy: {_first_line(str(error))}")
        if done.returncode == 0:
            return PythonStacks(threads=parse_py_spy(done.stdout))
        problem = _reason(done.stderr.decode("utf-8", "replace"))
        if "permi" in problem.lower():
            break
    return PythonStacks(problem=problem or "py-spy took too long")


def parse_py_spy(content: bytes) -> tuple[PythonThread, ...]:
    """Threads in the JSON of `py-spy dump`; none when it is something else."""
    dump: Any = decode(content, any_json)
    try:
        return tuple(_thread(thread) for thread in dump)
    except (KeyError, TypeError, ValueError, AttributeError):
        return ()


def _thread(thread: Any) -> PythonThread:
    frames = [Frame(str(f["name"]), str(f["filename"]), int(f["line"])) for f in thread["frames"]]
    name = str(thread.get("thread_name") or thread.get("thread_id"))
    return PythonThread(name, tuple(frames), bool(thread.get("active")))


def ask_trainer(run: Path, pid: int, ticks: int) -> PythonStacks:
    """The stacks that a trainer of ours writes by itself, which needs no right to trace it."""
    path = run / "stacks" / f"answer.{pid}.txt"  # written when it gets STACK_SIGNAL
    try:
        before = path.stat().st_size
    except OSError:
        return PythonStacks(problem="it has no handler that writes its stacks")
    if not catches(pid, STACK_SIGNAL) or not signal_process(pid, ticks, STACK_SIGNAL):
        return PythonStacks(problem="its handler for stacks is gone")
    grown = _wait_for_growth(path, before)
    return PythonStacks(text=grown, problem="" if grown else "its handler did not answer")


def abort_with_stacks(output: Path, pid: int, ticks: int) -> PythonStacks:
    """The stacks that Python's faulthandler writes as the process dies by SIGABRT.

    Only where PYTHONFAULTHANDLER is set, for a process that is killed next: it dies of this.
    """
    if not catches(pid, signal.SIGABRT):
        return PythonStacks(problem="it has no handler for SIGABRT")
    with suppress(OSError, ValueError):
        hard = resource.prlimit(pid, resource.RLIMIT_CORE)[1]
        resource.prlimit(pid, resource.RLIMIT_CORE, (0, hard))  # no core of a hundred gigabytes
    before = size_of(output)
    if not signal_process(pid, ticks, signal.SIGABRT):
        return PythonStacks(problem="it has ended")
    return PythonStacks(text=_wait_for_growth(output, before), problem="")


def kernel_lines(pid: int) -> list[str]:
    """One line for each thread: its name, state, wait channel, and kernel stack where permitted."""
    folder = f"/proc/{pid}/task"
    threads = sorted(filter(str.isdecimal, names_in(folder)), key=int)[:_MOST_THREADS]
    found = []
    for thread in threads:
        place = f"{folder}/{thread}"
        fields = read_text(f"{place}/stat").rpartition(")")[2].split()
        name, channel = read_text(f"{place}/comm").strip(), wait_channel(place)
        letter = fields[0] if fields else "?"
        found.append(f"{thread:>8} {name:<16} {letter} {channel}".rstrip())
        found += [f"           {line}" for line in read_text(f"{place}/stack").splitlines()[:12]]
    return found


def _wait_for_growth(path: Path, before: int) -> str:
    """What is appended to the file, once that has settled; empty when nothing comes in time."""
    deadline = time.monotonic() + _ANSWERED_S
    size, settled = before, 0.0
    while time.monotonic() < deadline:
        time.sleep(0.02)
        try:
            now = path.stat().st_size
        except OSError:
            break
        if now == size > before:
            settled += 0.02
            if settled >= _SETTLED_S:
                break
        elif now != size:
            size, settled = now, 0.0
    with suppress(OSError), open_binary(path) as file:
        file.seek(before)
        return file.read(1 << 20).decode("utf-8", "replace")
    return ""


def _reason(text: str) -> str:
    lines = [line.removeprefix("Error: ").strip() for line in text.splitlines() if line.strip()]
    first = lines[0] if lines else "py-spy failed"
    denied = any("Permission denied" in line or "Operation not permitted" in line for line in lines)
    if denied:
        scope = read_text("/proc/sys/kernel/yama/ptrace_scope").strip()
        why = f" (kernel.yama.ptrace_scope is {scope})" if scope not in ("", "0") else ""
        return f"py-spy is not permitted to look into it{why}; root is"
    return f"py-spy: {first}"


def _first_line(text: str) -> str:
    return text.splitlines()[0][:200] if text else "failed"
