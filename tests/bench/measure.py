"""What all groups share: numbers and tables, processes as /proc shows them, and a terminal whose
stream is timed.
"""

import fcntl
import math
import os
import platform
import pty
import re
import select
import signal
import statistics
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
REPOSITORY = Path(__file__).resolve().parents[2]
TICKS = os.sysconf("SC_CLK_TCK")
SIZE = (60, 140)
"""Rows and columns of every terminal here: those of the peers' figures."""
_ESCAPES = re.compile(
    rb"\x1b\[[0-9;:<=>?]*[ "
    rb"-/]*[@-~]|\x1b[\]P][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[()][A-Z0-9]|\x1b[=>78]"
)


# ── tables ────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Row:
    """One line of a table. `reached` is None where nothing was to be reached or nothing is known
    yet.
    """

    what: str
    here: str
    beside: str = ""
    compared: str = ""
    goal: str = ""
    reached: bool | None = None


@dataclass(frozen=True)
class Table:
    """A group's results: its rows, then `text` as it is (tables of another shape, remarks)."""

    title: str
    rows: Sequence[Row] = ()
    text: str = ""
    before: Mapping[str, str] = field(default_factory=dict)
    """What an earlier run said of some rows, by their names."""

    def markdown(self) -> str:
        """The table for the README."""
        lines = [f"## {self.title}", ""]
        if self.rows:
            lines += [
                "| what | here | beside it | compared | before | goal | reached |",
                "|---|---|---|---|---|---|---|",
            ]
            lines += [_line(row, self.before.get(row.what, "")) for row in self.rows]
            lines.append("")
        return "\n".join([*lines, *([self.text.strip(), ""] if self.text else [])])


def keep(table: Table, place: Path | None) -> None:
    """Write what is measured so far, where asked: a rented machine may go at any moment."""
    if place is not None:
        place.write_text(table.markdown(), encoding="utf-8")


def _line(row: Row, before: str) -> str:
    reached = "" if row.reached is None else "yes" if row.reached else "**no**"
    cells = (row.what, row.here, row.beside, row.compared, before, row.goal, reached)
    return f"| {' | '.join(cells)} |"


def spread(values: Sequence[float], unit: str = "", digits: int = 3) -> str:
    """Median and range: `231 ms (225–240)`."""
    parts = [
        _short(value, digits) for value in (statistics.median(values), min(values), max(values))
    ]
    middle = f"{parts[0]} {unit}".rstrip()
    return middle if len(values) == 1 else f"{middle} ({parts[1]}–{parts[2]})"


def _short(value: float, digits: int) -> str:
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    return f"{value:,.{decimals}f}"


def quantile(values: Sequence[float], share: float) -> float:
    """The value below which `share` of them lie."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def pairwise(ours: Sequence[float], theirs: Sequence[float]) -> list[float]:
    """The ratio of each pair measured one after the other."""
    return [mine / other for mine, other in zip(ours, theirs, strict=True)]


def write(text: str) -> None:
    """A word to whoever watches the bench."""
    print(text, file=sys.stderr, flush=True)


def timed(bench: T, *parts: Callable[[T], list[Row]]) -> list[Row]:
    """The rows of each part of a group, one after the other; says how long each took."""
    rows: list[Row] = []
    for part in parts:
        began = time.monotonic()
        rows += part(bench)
        write(f"  {part.__name__.strip('_').replace('_', ' ')}: {time.monotonic() - began:.0f} s")
    return rows


# ── the machine ───────────────────────────────────────────────────────────────────────────────────


def machine() -> str:
    """Processor, cores, memory, kernel and Python, in a line."""
    cpu = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (
        f"{cpu.group(1) if cpu else platform.machine()}, {len(os.sched_getaffinity(0))} "
        f"cores, {total:.0f} GiB, "
        f"kernel {platform.release()}, Python {platform.python_version()}, "
        f"{'an NVIDIA GPU' if has_gpu() else 'no GPU'}"
    )


def has_gpu() -> bool:
    """Whether an NVIDIA driver answers here."""
    return Path("/dev/nvidiactl").exists()


def revision() -> str:
    """The commit that is measured."""
    words = ["git", "-C", str(REPOSITORY), "describe", "--always", "--dirty=, with changes"]
    found = subprocess.run(words, capture_output=True, text=True, check=False)
    return found.stdout.strip() or "unknown"


# ── processes ─────────────────────────────────────────────────────────────────────────────────────


def memory_mib(pid: int, name: str = "VmRSS") -> float:
    """A line of /proc/PID/status in MiB."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition(f"{name}:")[2].split()[0]) / 1024


def cpu_s(pid: int) -> float:
    """Processor time of a process and its ended threads so far, in steps of a tick (10 ms)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def cpu_fine_s(pid: int) -> float:
    """Processor time of a process with one thread, in nanoseconds where the kernel counts them."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9
    except (OSError, IndexError):
        return cpu_s(pid)


def wall(words: Sequence[str], env: Mapping[str, str], cwd: Path, timeout: float = 300) -> float:
    """Seconds of a whole command, its output taken in; RuntimeError when it fails."""
    began = time.monotonic()
    ended = subprocess.run(
        words,
        env=env,
        cwd=cwd,
        capture_output=True,
        stdin=subprocess.DEVNULL,
        timeout=timeout,
        check=False,
    )
    took = time.monotonic() - began
    if ended.returncode:
        raise RuntimeError(
            f"exit code {ended.returncode}: {ended.stderr.decode(errors='replace')[-300:]}"
        )
    return took


# ── a terminal ────────────────────────────────────────────────────────────────────────────────────


def plain(stream: bytes) -> bytes:
    """A terminal's stream without its control sequences."""
    return _ESCAPES.sub(b"", stream)


@dataclass
class Screen:
    """A program in a terminal. What counts is what reaches the terminal, and when; nothing is
    drawn.
    """

    words: Sequence[str]
    env: Mapping[str, str]
    cwd: Path
    pid: int = 0
    descriptor: int = -1
    began: float = 0.0
    written: int = 0
    ended: bool = field(default=False, init=False)
    size: tuple[int, int] = SIZE

    def __enter__(self) -> "Screen":
        """Start it; the clock starts before the fork."""
        self.began = time.monotonic()
        self.pid, self.descriptor = pty.fork()
        if self.pid == 0:
            try:
                fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", *self.size, 0, 0))
                os.chdir(self.cwd)
                os.execve(self.words[0], list(self.words), dict(self.env))
            finally:
                os._exit(127)
        return self

    def __exit__(self, *_: object) -> None:
        """Take its terminal away; kill it when it stays. Nothing happens the second time."""
        pid, self.pid = self.pid, 0
        if pid == 0:
            return
        for number, patience in ((signal.SIGHUP, 3.0), (signal.SIGKILL, 5.0)):
            with suppress(ProcessLookupError):
                os.kill(pid, number)
            until = time.monotonic() + patience
            while time.monotonic() < until:
                if os.waitpid(pid, os.WNOHANG) != (0, 0):
                    os.close(self.descriptor)
                    with suppress(ProcessLookupError):
                        os.killpg(pid, signal.SIGKILL)  # leet's other half outlives its first
                    return
                if self.ended:
                    time.sleep(0.01)
                else:
                    self.read(0.02)

    def read(self, patience_s: float) -> bytes:
        """What has come, waited for at most so long."""
        if self.ended or not select.select([self.descriptor], [], [], patience_s)[0]:
            return b""
        try:
            block = os.read(self.descriptor, 1 << 16)
        except OSError:
            block = b""
        self.ended = not block
        self.written += len(block)
        return block

    def until(self, *texts: str, ceiling_s: float = 30.0) -> list[float]:
        """The moments (monotonic) at which each text had come, from now on; TimeoutError when one
        does not.
        """
        wanted = [text.encode() for text in texts]
        moments: dict[bytes, float] = {}
        seen, deadline = b"", time.monotonic() + ceiling_s
        while len(moments) < len(set(wanted)):
            block = self.read(0.05)
            now = time.monotonic()
            if block:
                seen += block
                shown = plain(seen)
                moments |= {text: now for text in wanted if text not in moments and text in shown}
            elif now > deadline or self.ended:
                missing = [text for text in texts if text.encode() not in moments]
                raise TimeoutError(f"{missing} never came; the end was {plain(seen)[-200:]!r}")
        return [moments[text] for text in wanted]

    def find(
        self, pattern: bytes, accepts: Callable[[bytes], bool], ceiling_s: float = 30.0
    ) -> tuple[float, bytes]:
        """When a pattern first matched what came from now on with a first group that is accepted;
        and that group.
        """
        seen, deadline = b"", time.monotonic() + ceiling_s
        while True:
            seen += self.read(0.05)
            now = time.monotonic()
            for found in re.finditer(pattern, plain(seen)):
                if accepts(found.group(1)):
                    return now, found.group(1)
            if time.monotonic() > deadline or self.ended:
                raise TimeoutError(f"{pattern!r} never came; the end was {plain(seen)[-200:]!r}")

    def quiet(self, silence_s: float = 0.1, ceiling_s: float = 5.0) -> None:
        """Read on until nothing has come for a while."""
        deadline = time.monotonic() + ceiling_s
        while self.read(silence_s) and time.monotonic() < deadline:
            pass

    def press(self, keys: str) -> float:
        """Send keys; the moment just before."""
        now = time.monotonic()
        os.write(self.descriptor, keys.encode())
        return now


def pump(
    screens: Sequence[Screen], seconds: float, each: Callable[[], bool] = lambda: True
) -> None:
    """Read all these terminals for so long, or until `each` is false; it is called at least every
    0.1 s.
    """
    until = time.monotonic() + seconds
    by_descriptor = {screen.descriptor: screen for screen in screens}
    while (left := until - time.monotonic()) > 0 and each():
        for descriptor in select.select(list(by_descriptor), [], [], min(left, 0.1))[0]:
            screen = by_descriptor[descriptor]
            screen.read(0)
            if screen.ended:
                raise RuntimeError(f"{Path(screen.words[0]).name} has ended")
