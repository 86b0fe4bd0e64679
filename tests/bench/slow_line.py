"""A panel on a slow line: bytes of a log that is followed, and how long a key's effect takes.

The line takes so many bytes per second and delays each way by 100 ms; before it stands what ssh
holds (its window and buffers), which the panel's own kernel does not tell it of. What counts is
what has arrived at the far end, where a terminal is kept by pyte and answers what it is asked.
"""

import contextlib
import os
import re
import statistics
import sys
import time
from collections import deque
from collections.abc import Callable

from drawn import QuickScreen, QuickStream, known_to_pyte
from measure import Row, Screen, Table, quantile, spread, write
from place import FRESNEL, Bench, Place

SIZES = ((80, 24), (120, 40), (200, 60))
ONE_WAY_S = 0.1
HELD = 256 * 1024
LINES = 100
LINE_BYTES = 60
CHATTY = f"""\
import time
began, sent = time.monotonic(), 0
while True:
    due = int((time.monotonic() - began) * {LINES}) - sent
    for _ in range(due):
        sent += 1
        text = f"epoch {{sent // 1000}} step {{sent}} loss {{1 / sent:.6f}} lr 1e-4 samples/s {{sent % 977}}"
        print(text.ljust({LINE_BYTES - 1}, ".")[:{LINE_BYTES - 1}], flush=True)
    time.sleep(0.01)
"""
_QUERY = re.compile(rb"\x1b\[6n|\x1b\[\?2026\$p")
_ANSWERS = {b"\x1b[6n": b"\x1b[1;1R", b"\x1b[?2026$p": b"\x1b[?2026;2$y"}


class Line:
    """A panel at this end, a terminal at the far one, and between them a line that is slow."""

    def __init__(self, panel: Screen, columns: int, rows: int, rate: float, answers: bool) -> None:
        self.panel, self.rate, self.answers = panel, rate, answers
        self.screen = QuickScreen(columns, rows)
        self.stream = QuickStream(self.screen)
        self.arrived = 0
        self._held = bytearray()
        self._out: deque[tuple[float, bytes]] = deque()
        self._back: deque[tuple[float, bytes]] = deque()
        self._rest = b""
        self._room, self._last = 0.0, time.monotonic()

    @property
    def text(self) -> str:
        """What is seen at the far end."""
        return "\n".join(self.screen.display)

    def step(self) -> None:
        """Carry what is due."""
        now = time.monotonic()
        self._room = min(max(256.0, self.rate * 0.02), self._room + (now - self._last) * self.rate)
        self._last = now
        if len(self._held) < HELD:
            self._held += self.panel.read(0.002)
        else:
            time.sleep(0.002)
        block = bytes(self._held[: int(self._room)])
        if block:
            del self._held[: len(block)]
            self._room -= len(block)
            self._out.append((now + ONE_WAY_S, block))
        while self._out and self._out[0][0] <= now:
            self._take(self._out.popleft()[1], now)
        while self._back and self._back[0][0] <= now:
            os.write(self.panel.descriptor, self._back.popleft()[1])

    def _take(self, block: bytes, now: float) -> None:
        self.arrived += len(block)
        block = self._rest + block
        # A sequence may end in the next block.
        cut = block.rfind(b"\x1b", -24)
        complete = cut < 0 or re.match(rb"\x1b(?:\[[0-9;<>=?$]*[@-~]|[^\[])", block[cut:])
        block, self._rest = (block, b"") if complete else (block[:cut], block[cut:])
        if self.answers:
            for query in _QUERY.findall(block):
                self._back.append((now + ONE_WAY_S, _ANSWERS[query]))
        self.stream.feed(known_to_pyte(block))

    def run(self, seconds: float) -> int:
        """Carry for so long; how many bytes arrived."""
        before, until = self.arrived, time.monotonic() + seconds
        while time.monotonic() < until:
            self.step()
        return self.arrived - before

    def press(self, key: bytes, seen: Callable[[str], bool], ceiling_s: float = 60) -> float:
        """Seconds from a key, pressed at the far end, to its effect there."""
        pressed = time.monotonic()
        self._back.append((pressed + ONE_WAY_S, key))
        while not seen(self.text):
            self.step()
            if time.monotonic() - pressed > ceiling_s:
                return ceiling_s
        return time.monotonic() - pressed


def measure(bench: Bench) -> Table:
    """The rows of the group."""
    place = bench.place("slow-line", "sim:8xMI300X", SSH_CONNECTION="10.0.0.1 1 10.0.0.2 22")
    (place.folder / "chatty.py").write_text(CHATTY)
    place.launch("chatty", sys.executable, "chatty.py")
    rows = []
    for columns, lines in SIZES:
        rows.append(_followed(bench, place, columns, lines))
        for rate in (8_000, 32_000):
            rows += _keys(bench, place, columns, lines, rate)
    rows += _keys(bench, place, 80, 24, 8_000, answers=False)
    own = LINES * LINE_BYTES
    return Table(
        "A slow line",
        rows,
        f"A run prints {LINES} lines of {LINE_BYTES} bytes a second, {own:,} B/s, and is followed "
        f"by the panel (with `SSH_CONNECTION` set). The line: {ONE_WAY_S * 1000:.0f} ms each way, "
        f"{HELD // 1024} KiB held before it, as ssh does. A key's time is from its press at the "
        "far end to its whole effect there.",
    )


@contextlib.contextmanager
def _opened(place: Place, columns: int, rows: int, rate: float, answers: bool = True):
    with Screen(FRESNEL, place.env, place.folder, size=(rows, columns)) as panel:
        line = Line(panel, columns, rows, rate, answers)
        deadline = time.monotonic() + 60
        while not re.search(r"step \d+ loss", line.text) and time.monotonic() < deadline:
            line.step()
        line.run(6)
        yield line


def _is_help_whole(text: str) -> bool:
    rows = text.split("\n")
    last = next((y for y, row in enumerate(rows) if "Esc closes" in row), 0)
    begin = rows[last].find("╰")
    first = next((y for y, row in enumerate(rows) if row[begin:].startswith("╭─ Keys")), last)
    # Its frame comes before its lines, at first a small one in the middle.
    lines = rows[first + 1 : last]
    return len(lines) > min(0.8 * len(rows) - 4, 24) and all(
        row[begin + 2 :].strip(" │▂▆") for row in lines
    )


def _followed(bench: Bench, place: Place, columns: int, rows: int) -> Row:
    own = LINES * LINE_BYTES
    with _opened(place, columns, rows, 10_000_000) as line:
        seconds = bench.count(5, 2)
        found = [line.run(seconds) / seconds for _ in range(bench.count(5, 1))]
    ratio = statistics.median(found) / own
    return Row(
        f"log followed at {columns}×{rows}, a fast line",
        spread(found, "B/s"),
        f"the log's own {own:,} B/s",
        f"{ratio:.2f} ×",
        "≤ 1.3 ×",
        ratio <= 1.3,
    )


def _keys(
    bench: Bench, place: Place, columns: int, rows: int, rate: int, answers: bool = True
) -> list[Row]:
    took: dict[str, list[float]] = {"?": [], "Esc": []}
    with _opened(place, columns, rows, rate, answers) as line:
        seconds = bench.count(10, 3)
        sent = line.run(seconds) / seconds
        for _ in range(bench.count(5, 1)):
            took["?"].append(line.press(b"?", _is_help_whole))
            line.run(1.5)
            took["Esc"].append(
                line.press(b"\x1b", lambda t: "Esc closes" not in t and "output.log" in t)
            )
            line.run(1.7)
    goal = 1.0 if rate < 32_000 else 0.5
    end = "" if answers else ", a terminal that answers nothing"
    found = []
    for key in ("?", "Esc"):
        worst = quantile(took[key], 1.0)
        found.append(
            Row(
                f"key `{key}` at {columns}×{rows}, {rate // 1000} kB/s{end}",
                spread(took[key], "s"),
                f"the log followed at {sent:,.0f} B/s",
                "",
                f"≤ {goal} s",
                worst <= goal,
            )
        )
    write("  " + " · ".join(f"{row.what}: {row.here}" for row in found))
    return found
