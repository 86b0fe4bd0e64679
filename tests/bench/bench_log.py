"""The log pane's figures as Markdown: `python tests/bench/bench_log.py [--gigabytes 1] [--seconds
4]`.

Not collected by pytest. Needs Linux, `--gigabytes` of room in the temporary folder and two cores:
producer and reader of the terminal share the second.
"""

import argparse
import fcntl
import os
import pty
import re
import select
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

STAMP = re.compile(rb"T=(\d{12,})\.")
LINE = (
    "T={:d}. epoch 3 step 12345 loss 0.1234 lr 1e-4 samples/s 123.4 and so on, up to a "
    "hundred bytes"
)
LINE_BYTES = 100
COLOURED = (
    "\x1b[32m2026-11-20 12:00:00\x1b[0m | \x1b[1mINFO\x1b[0m | "
    "\x1b[36mtrain\x1b[0m:\x1b[36m71\x1b[0m - epoch 3 loss 0.12"
)
OFTEN = "loss"
"""A word of nearly every line."""
TICKS = os.sysconf("SC_CLK_TCK")

OPEN = """
import sys, time
from pathlib import Path
from runners.watch.logs.index import LogFile
from runners.watch.logs.render import read_line
def kib(name):
    return next(int(l.split()[1]) for l in open("/proc/self/status") if l.startswith(name))
before = kib("VmRSS"); t = time.perf_counter()
log = LogFile(Path(sys.argv[1])); [read_line(line.data) for line in log.tail(50)]
shown = time.perf_counter() - t; t = time.perf_counter()
while not log.index.step(8 << 20): pass
indexed = time.perf_counter() - t
t = time.perf_counter(); log.lines(log.line_count[0] // 2, 50); jump = time.perf_counter() - t
print(shown, indexed, kib("VmHWM") - before, log.line_count[0], jump)
"""
SEARCH = """
import sys, time
from pathlib import Path
from runners.watch.logs.index import LogFile
from runners.watch.logs.search import ErrorPattern, MatchCount, RegexPattern, TextPattern, find
log = LogFile(Path(sys.argv[1]))
for pattern in (TextPattern("needle"), RegexPattern("needle [0-9]+"), ErrorPattern()):
    t = time.perf_counter(); next(f for f in find(log.source, pattern, -1) if f.start is not None)
    first = time.perf_counter() - t; t = time.perf_counter()
    matches = MatchCount(log.source, pattern)
    while not matches.step(8 << 20): pass
    print(type(pattern).__name__, first, time.perf_counter() - t, matches.count)
"""


def run_app(path: str) -> None:
    """The panel's log pane and nothing else."""
    from textual.app import App, ComposeResult

    from tui.panel.widgets.log.pane import LogPane

    class Only(App[None]):
        BINDINGS: ClassVar = [("f2", "filter"), ("f3", "search")]

        def compose(self) -> ComposeResult:
            self.pane = LogPane()
            self.pane.show(Path(path))
            yield self.pane

        def action_filter(self) -> None:
            self.pane.filter(OFTEN)
            self.tell(lambda document: document.filter.lines.complete)

        def action_search(self) -> None:
            self.pane.filter("")
            self.pane.search(OFTEN)
            self.tell(lambda document: document.search.matches.complete)

        def tell(self, is_done: Callable[[Any], bool]) -> None:
            """Leave a file beside the log once it is done."""

            def look() -> None:
                if is_done(self.pane.reader.document):
                    timer.stop()
                    Path(path + ".done").touch()

            timer = self.set_interval(0.02, look)

    Only().run()


class Terminal:
    """The app in a terminal of 40 by 140, read all the time."""

    def __init__(self, path: Path) -> None:
        self.pid, self.descriptor = pty.fork()
        if self.pid == 0:
            os.environ.update(TERM="xterm-256color", COLORTERM="truecolor")
            os.execv(sys.executable, [sys.executable, __file__, "--app", str(path)])
        fcntl.ioctl(self.descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 140, 0, 0))

    def burst(self, ceiling: float) -> bytes:
        """What comes until the terminal is silent for 4 ms; it may be silent for `ceiling`
        seconds.
        """
        parts = []
        wait = ceiling
        while select.select([self.descriptor], [], [], wait)[0]:
            parts.append(os.read(self.descriptor, 1 << 16))
            wait = 0.004
        return b"".join(parts)

    def until(self, text: bytes, ceiling: float = 30) -> float:
        """Seconds until a text is in the stream."""
        began, seen = time.monotonic(), b""
        while text not in seen:
            if time.monotonic() - began > ceiling:
                raise TimeoutError(text)
            seen = seen[-4096:] + self.burst(0.05)
        return time.monotonic() - began

    def cpu(self) -> float:
        """Seconds of processor time so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def memory(self) -> float:
        """Resident MiB."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0]) / 1024

    def close(self) -> None:
        """End the app with its own key, and see that it ends."""
        os.write(self.descriptor, b"\x11")
        ceiling = time.monotonic() + 5
        while os.waitpid(self.pid, os.WNOHANG) == (0, 0):
            if time.monotonic() > ceiling:
                raise TimeoutError("the app does not end")
            try:
                self.burst(0.01)
            except OSError:
                pass
        os.close(self.descriptor)


def produce(path: str, rate: int, seconds: float) -> None:
    """Write stamped lines, a batch every 10 ms."""
    with Path(path).open("ab", buffering=0) as out:
        began = time.monotonic()
        sent = 0
        while (now := time.monotonic()) - began < seconds:
            due = int((now - began) * rate) - sent
            if due > 0:
                line = (
                    LINE.format(time.monotonic_ns()).ljust(LINE_BYTES - 1)[: LINE_BYTES - 1] + "\n"
                )
                out.write(line.encode() * due)
                sent += due
            time.sleep(max(0.0, 0.01 - (time.monotonic() - now)))


def measure_live(folder: Path, rate: int, seconds: float, keys: bool = False) -> str:
    """One row: how far behind the screen is, and what that costs."""
    path = folder / "live.log"
    path.write_bytes(b"ready to go\n")
    terminal = Terminal(path)
    terminal.until(b"ready to go")
    terminal.burst(0.5)
    writer = subprocess.Popen(
        [sys.executable, __file__, "--produce", str(path), str(rate), str(seconds)]
    )
    newest, oldest, answers = [], [], []
    frames = size = shown = 0
    began, cpu = time.monotonic(), terminal.cpu()
    pressed = 0.0
    while writer.poll() is None:
        data = terminal.burst(0.05)
        now = time.monotonic_ns()
        size += len(data)
        stamps = sorted({int(stamp) for stamp in STAMP.findall(data)})
        new = [stamp for stamp in stamps if stamp > shown]
        if new:
            frames += 1
            newest.append((now - new[-1]) / 1e6)
            oldest.append((now - new[0]) / 1e6)
            shown = new[-1]
        if keys and pressed and b"ready to go" in data:
            answers.append((time.monotonic() - pressed) * 1000)
            pressed = 0.0
            os.write(terminal.descriptor, b"G")
        elif keys and not pressed and new and frames % 5 == 0:
            pressed = time.monotonic()
            os.write(terminal.descriptor, b"g")
    spent, took = terminal.cpu() - cpu, time.monotonic() - began
    memory = terminal.memory()
    terminal.close()
    lines = path.stat().st_size // LINE_BYTES
    path.unlink()
    half = len(newest) // 2
    key = f"{quantile(answers, 0.95):.0f}" if answers else ""
    row = (
        f"{rate:,}",
        f"{lines:,}",
        f"{statistics.median(newest[half:]):.0f}",
        f"{statistics.median(oldest[half:]):.0f}",
        f"{quantile(oldest[half:], 0.95):.0f}",
        f"{100 * spent / took:.0f}",
        f"{frames / took:.0f}",
        f"{size / took / 1000:.0f}",
        f"{memory:.0f}",
        key,
    )
    return f"| {' | '.join(row)} |"


def quantile(values: list[float], share: float) -> float:
    """The value below which `share` of them lie."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def make_big(path: Path, gigabytes: float, line: str = LINE.format(10**15)) -> None:
    """Ten million lines per gigabyte; two of them hold a needle and an error."""
    block = (line.ljust(LINE_BYTES - 1)[: LINE_BYTES - 1] + "\n").encode() * 10_000
    with path.open("wb") as out:
        for _ in range(int(gigabytes * 500)):
            out.write(block)
        out.write(b"a needle 1\nRuntimeError: CUDA error\n")
        for _ in range(int(gigabytes * 500)):
            out.write(block)
        out.write(b"a needle 2\nthe last line of all\n")


def measure_big(folder: Path, gigabytes: float) -> None:
    """The tables of one big file."""
    path = folder / "big.log"
    make_big(path, gigabytes)
    subprocess.run(["cat", path], stdout=subprocess.DEVNULL, check=True)
    print(
        f"\n| {gigabytes:g} GB | end read s | index s | added MiB | lines | jump to the middle ms |"
    )
    print("|---" * 6 + "|")
    for _ in range(3):
        shown, indexed, memory, lines, jump = subprocess.run(
            [sys.executable, "-c", OPEN, path], capture_output=True, text=True, check=True
        ).stdout.split()
        print(
            f"| | {float(shown):.4f} | {float(indexed):.2f} | {int(memory) / 1024:.1f} | "
            f"{int(lines):,} "
            f"| {1000 * float(jump):.1f} |"
        )
    print(
        "\n| in the pane | start to end on screen s | memory MiB | CPU % idle for 5 s "
        "|\n|---|---|---|---|"
    )
    for which, last in ((folder / "small.log", "the last line"), (path, "the last line")):
        if not which.exists():
            which.write_text("the last line of all\n")
        terminal = Terminal(which)
        took = terminal.until(last.encode())
        ceiling = time.monotonic() + 3
        while time.monotonic() < ceiling:
            terminal.burst(0.1)
        cpu, ceiling = terminal.cpu(), time.monotonic() + 5
        while time.monotonic() < ceiling:
            terminal.burst(0.1)
        spent = terminal.cpu() - cpu
        print(f"| {which.name} | {took:.3f} | {terminal.memory():.0f} | {100 * spent / 5:.1f} |")
        terminal.close()
    measure_often(path)
    measure_search(path, "search")
    make_big(path, gigabytes, COLOURED)
    measure_search(path, "search, four colours a line")
    path.unlink()


def measure_often(path: Path) -> None:
    """The table of filtering by, and looking for, what nearly all lines hold, with keys pressed
    meanwhile.
    """
    print("\n| in the pane, nearly all lines match | whole s | key ms p50 | p95 | most | keys |")
    print("|---" * 6 + "|")
    done = Path(f"{path}.done")
    for words, key in (("filter", b"\x1bOQ"), ("search", b"\x1bOR")):
        terminal = Terminal(path)
        terminal.until(b"the last line")
        terminal.burst(1.0)
        began = time.monotonic()
        os.write(terminal.descriptor, key)
        answers = []
        while not done.exists() and time.monotonic() - began < 120:
            for pressed, told in ((b"g", b"paused"), (b"G", b"following")):
                os.write(terminal.descriptor, pressed)
                answers.append(1000 * terminal.until(told))
                terminal.burst(0.2)  # as fast as somebody who looks at the answer
        took = time.monotonic() - began
        done.unlink()
        terminal.close()
        row = (f"{quantile(answers, share):.0f}" for share in (0.5, 0.95, 1.0))
        print(f"| {words} | {took:.2f} | {' | '.join(row)} | {len(answers)} |", flush=True)


def measure_search(path: Path, title: str) -> None:
    """The table of searching a big file, beside grep."""
    subprocess.run(["cat", path], stdout=subprocess.DEVNULL, check=True)
    print(f"\n| {title} | first hit s | whole s | found |\n|---|---|---|---|")
    began = time.monotonic()
    subprocess.run(["grep", "-c", "needle", path], stdout=subprocess.DEVNULL, check=False)
    print(f"| grep -c | | {time.monotonic() - began:.2f} | 2 |")
    for row in subprocess.run(
        [sys.executable, "-c", SEARCH, path], capture_output=True, text=True, check=True
    ).stdout.splitlines():
        name, first, whole, count = row.split()
        print(f"| {name} | {float(first):.3f} | {float(whole):.2f} | {count} |")


def main() -> None:
    """Everything, in one run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--app", help=argparse.SUPPRESS)
    parser.add_argument("--produce", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--gigabytes", type=float, default=1.0)
    parser.add_argument("--seconds", type=float, default=4.0)
    chosen = parser.parse_args()
    if chosen.app:
        run_app(chosen.app)
        return
    if chosen.produce:
        path, rate, seconds = chosen.produce
        produce(path, int(rate), float(seconds))
        return
    os.environ["PYTHONPATH"] = str(Path(__file__).resolve().parents[2])
    with tempfile.TemporaryDirectory() as name:
        print(
            "| lines/s | written | newest ms p50 | oldest newly shown ms p50 | p95 | CPU % | "
            "frames/s "
            "| kB/s | MiB | key ms p95 |\n|" + "---|" * 10
        )
        for rate in (200, 1_000, 20_000, 1_000_000):
            print(measure_live(Path(name), rate, chosen.seconds), flush=True)
        print(measure_live(Path(name), 1_000_000, chosen.seconds, keys=True), flush=True)
        measure_big(Path(name), chosen.gigabytes)


if __name__ == "__main__":
    main()
