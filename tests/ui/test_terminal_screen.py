"""What is sent so that the terminal shows what it is to, and how much of it a line is given."""

from __future__ import annotations

import random
import re

import pytest
from rich.color import ColorSystem
from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region, Size
from textual.strip import Strip

from tests.screens import QuickScreen, QuickStream
from tui.panel.terminal.line import Line
from tui.panel.terminal.terminal_screen import TerminalScreen
from tui.panel.terminal.textual_private import ChopsUpdate, LayoutUpdate

EVERYTHING = 1 << 20
STYLES = [
    Style(color="#e0def4", bgcolor="#191724"),
    Style(color="#eb6f92", bgcolor="#191724", bold=True),
    Style(color="red", underline=True),
    Style(bgcolor="blue", reverse=True),
    Style(),
]


class FarEnd:
    """A screen of the panel and the terminal at the other end of the line."""

    def __init__(self, columns: int = 40, rows: int = 10, erases: bool = True) -> None:
        self.size = Size(columns, rows)
        self.screen = TerminalScreen(ColorSystem.TRUECOLOR, erases)
        self.terminal = QuickScreen(columns, rows)
        self.stream = QuickStream(self.terminal)

    def want(self, rows: list[list[Segment]]) -> None:
        strips = [[Strip(row).adjust_cell_length(self.size.width)] for row in rows]
        self.screen.take(LayoutUpdate(strips, Region(0, 0, *self.size)), self.size)

    def send(self, limit: int = EVERYTHING, newest: bool = False) -> int:
        text = self.screen.write(limit, newest)
        self.stream.feed(text.encode())
        return len(text.encode())

    @property
    def shown(self) -> list[str]:
        return [line.rstrip() for line in self.terminal.display]

    def cell(self, x: int, y: int) -> tuple[str, str, str, bool, bool, bool]:
        char = self.terminal.buffer[y][x]
        seen = char.data.strip() != "" or char.underscore or char.reverse
        # Of a blank only the background is seen.
        return (
            char.data,
            char.fg if seen else "",
            char.bg,
            char.bold and seen,
            char.underscore,
            char.reverse,
        )


def rows_of(texts: list[str], style: Style = STYLES[0]) -> list[list[Segment]]:
    return [[Segment(text, style)] for text in texts]


def random_rows(chance: random.Random, size: Size) -> list[list[Segment]]:
    words = ["", " ", "word", "│", " " * 12, "日本", "é", "e\u0301", "👩\u200d🚀", "x" * 9, "▁▂▃"]
    return [
        [Segment(chance.choice(words), chance.choice(STYLES)) for _ in range(chance.randrange(8))]
        for _ in range(size.height)
    ]


@pytest.mark.parametrize("erases", [True, False])
def test_whatever_was_shown_the_terminal_shows_what_it_is_to(erases: bool) -> None:
    chance = random.Random(3)
    ends = [FarEnd(erases=erases) for _ in range(2)]
    frames = [random_rows(chance, ends[0].size) for _ in range(6)]
    for turn in range(80):
        rows = list(chance.choice(frames))
        by = chance.randrange(-3, 4)
        rows = rows[by:] + rows[:by]
        rows[chance.randrange(len(rows))] = random_rows(chance, ends[0].size)[0]
        # One terminal has seen everything before it, one nothing.
        ends[1] = FarEnd(erases=erases)
        for end in ends:
            end.want(rows)
            if chance.random() < 0.3:
                end.send(chance.randrange(200), newest=True)
            while end.send(chance.choice([50, EVERYTHING])):
                pass
            assert end.screen.is_shown
        assert ends[0].shown == ends[1].shown, turn
        if erases:
            continue  # pyte's blanks behind a wide character differ by how they came there
        for y in range(ends[0].size.height):
            if all(segment.text.isascii() for segment in rows[y]):
                for x in range(ends[0].size.width):
                    assert ends[0].cell(x, y) == ends[1].cell(x, y), (turn, x, y)


def test_a_part_of_a_row_is_what_textual_cuts_out_of_it() -> None:
    chance = random.Random(7)
    for row in (row for _ in range(20) for row in random_rows(chance, Size(40, 10))):
        strip = Strip(row).adjust_cell_length(40)
        for begin, until in [(chance.randrange(20), chance.randrange(20, 41)) for _ in range(6)]:
            parts = []
            for whole in (True, False):
                end = FarEnd(40, 1)
                end.want([[Segment("." * 40)]])
                cut = strip if whole else strip.crop(begin, until)
                start, stop = (0, 40) if whole else (begin, until)
                chops = [{start: cut}]
                end.screen.take(ChopsUpdate(chops, [(0, begin, until)], [[stop]]), end.size)
                parts.append(end.screen._wanted)
            assert parts[0] == parts[1]


def test_erasing_shows_what_writing_blanks_does() -> None:
    chance = random.Random(5)
    other = Style(color="#e0def4", bgcolor="#26233a")
    pieces = ["loss", " " * 12, "x" * 9, " " * 30, " "]
    for _ in range(60):
        ends = [FarEnd(80, 4, erases=erases) for erases in (True, False)]
        rows = [
            [Segment(chance.choice(pieces), chance.choice([*STYLES, other])) for _ in range(6)]
            for _ in range(4)
        ]
        for end in ends:
            end.want(rows)
            end.send()
        for y in range(4):
            cells = [[end.cell(x, y) for x in range(80)] for end in ends]
            assert cells[0] == cells[1]


def test_blanks_beside_words_are_erased_at_once() -> None:
    end = FarEnd(71, 1)
    end.want(rows_of([f"one{' ' * 20}two{' ' * 20}three{' ' * 20}"]))
    assert end.screen.write(EVERYTHING, newest=False).count("X") == 1


def test_the_last_column_is_written_from_row_to_row() -> None:
    end = FarEnd()
    end.want(rows_of([f"{'x' * 39}|"] * 4))
    end.send()
    end.want(rows_of(["x" * 39] * 4))
    end.send()
    assert end.shown[:4] == ["x" * 39] * 4


def test_only_what_changed_is_sent() -> None:
    end = FarEnd()
    end.want(rows_of(["running epoch 12", "another row"]))
    end.send()
    end.want(rows_of(["running epoch 13", "another row"]))
    text = end.screen.write(EVERYTHING, newest=False)
    assert re.fullmatch(r"\x1b\[1;16H\x1b\[[\d;]+m3\x1b\[m", text)
    end.want(rows_of(["running epoch 13", "another row"]))
    assert end.send() == 0


def test_words_are_written_so_that_they_are_read_and_frames_drawn_as_they_are() -> None:
    end, faint = FarEnd(), Style(color="#2a2a2a", bgcolor="#191724")
    end.want(rows_of(["│ loss ▆ — 0.1"], faint))
    end.send()
    at = {char: end.cell(x, 0)[1] for x, char in enumerate("│ loss ▆ — 0.1")}
    assert at["│"] == at["▆"] == "2a2a2a"
    assert at["l"] == at["0"] == at["—"] != "2a2a2a"
    end.screen.least_contrast = 7.0
    end.want(rows_of(["loss"], faint))
    end.send()
    assert int(end.cell(0, 0)[1], 16) > int(at["l"], 16)


def log_of(first: int, height: int, width: int = 60) -> list[str]:
    lines = [f"epoch 3 step {first + i} loss {1 / (first + i):.6f} lr 1e-4" for i in range(height)]
    return [f"│{line.ljust(width - 3)}█│" for line in lines]


def test_a_log_that_moved_on_by_a_line_is_sent_as_that_line() -> None:
    end = FarEnd(60, 30)
    end.want(rows_of(log_of(100, 30)))
    end.send()
    end.want(rows_of(log_of(101, 30)))
    # Its text of 40 characters, where it goes, its colours, the terminal's own scrolling.
    assert end.send() < 160
    assert end.shown == log_of(101, 30)
    end.want(rows_of(log_of(99, 30)))
    assert end.send() < 300
    assert end.shown == log_of(99, 30)


def test_frames_that_were_not_sent_do_not_pile_up() -> None:
    end = FarEnd(60, 20)
    for first in range(1, 200):
        end.want(rows_of(log_of(first, 20)))
    sent = 0
    while size := end.send(512):
        sent += size
    assert end.shown == log_of(199, 20)
    assert sent < 2 * 20 * 60


def test_a_frame_is_shown_whole_before_the_next_unless_a_key_came() -> None:
    end = FarEnd(60, 20)
    end.want(rows_of(log_of(1, 20)))
    end.send(300)
    end.want(rows_of(log_of(500, 20)))
    while not end.screen.is_between_frames:
        end.send(300)
    assert end.shown == log_of(1, 20)
    end.send(300)
    end.want(rows_of(["the help page"] * 20))
    before = end.send(300, newest=True)
    assert end.shown[0] == "the help page"
    while size := end.send(300):
        before += size
    assert end.shown == ["the help page"] * 20


def test_a_terminal_that_was_somebody_elses_is_painted_anew() -> None:
    end = FarEnd()
    end.want(rows_of(["one", "two"]))
    end.send()
    end.stream.feed(b"\x1b[2J\x1b[Hgarbage")
    end.screen.forget()
    end.send()
    assert end.shown[:3] == ["one", "two", ""]


def test_a_picture_that_was_drawn_over_cells_goes_when_they_are_painted() -> None:
    end = FarEnd()
    end.want(rows_of(["   "] * 10))
    end.send()
    end.stream.feed(b"\x1b[1;1Hpixels")
    end.screen.overdraw(Region(0, 0, 6, 1))
    assert end.screen.is_shown and end.send() == 0
    end.want(rows_of(["   "] * 10))
    end.send()
    assert end.shown[0] == ""


# ---- the line


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def carried(line: Line, clock: Clock, *phases: tuple[float, float]) -> list[float]:
    """Send whenever there is room, by these rates for so many seconds each over a line with a
    delay of 0.2 s; how long each piece waited beyond it.
    """
    line.sent(4, more=False)
    clock.now += 0.2
    line.answered(clock.now)
    until, free, waited = clock.now, clock.now, []
    under_way: list[tuple[float, float]] = []
    for rate, seconds in phases:
        until += seconds
        while clock.now < until:
            while room := line.room:
                size = min(room, line.piece)
                free = max(free, clock.now) + size / rate
                under_way.append((free + 0.2, clock.now))
                line.sent(size, more=True)
            clock.now, began = under_way.pop(0)
            waited.append(clock.now - began - 0.2)
            line.answered(clock.now)
    for clock.now, _ in under_way:
        line.answered(clock.now)
    return waited


@pytest.mark.parametrize("rate", [8_000, 32_000, 500_000])
def test_little_more_is_under_way_than_the_line_carries(rate: float) -> None:
    clock = Clock()
    line = Line(clock)
    line.sent(10_000, more=False)
    clock.now += 10_000 / rate + 0.2
    line.answered(clock.now)
    waited = carried(line, clock, (rate, 20))
    assert line.rate is not None and 0.7 * rate < line.rate < 1.3 * rate
    assert max(waited[-20:]) < 0.15
    assert line.is_slow == (rate < 200_000)


def test_a_line_that_becomes_slow_is_noticed() -> None:
    clock = Clock()
    line = Line(clock)
    waited = carried(line, clock, (100_000, 5), (8_000, 60))[-200:]
    assert line.rate is not None and 6_000 < line.rate < 10_000
    # Where the delay is measured anew, the line is empty before: then all that fits comes at once.
    assert sorted(waited)[180] < 0.15 and max(waited) < 0.35


def test_frames_that_leave_room_say_nothing_of_what_the_line_takes() -> None:
    clock = Clock()
    line = Line(clock)
    line.sent(20_000, more=False)
    clock.now += 20_000 / 32_000 + 0.2
    line.answered(clock.now)
    carried(line, clock, (32_000, 2))
    before = line.rate
    # A log that is followed: small frames in pieces, answered by a panel that has other work, too.
    for turn in range(200):
        clock.now += 0.3
        sizes, began, answers = [500, 600, 400], clock.now, []
        for size, left in zip(sizes, (2, 1, 0), strict=True):
            line.sent(size, more=left > 0)
            answers.append(began + 0.2 + sum(sizes[: 3 - left]) / 32_000 + 0.002 * (turn % 7))
        for clock.now in answers:
            line.answered(clock.now)
    assert before is not None and line.rate is not None
    assert 0.9 * before < line.rate < 1.3 * before


def test_a_key_s_effect_does_not_wait_until_the_delay_was_measured_anew() -> None:
    clock = Clock()
    line = Line(clock)
    line.sent(10_000, more=False)
    clock.now += 10_000 / 8_000 + 0.2
    line.answered(clock.now)
    carried(line, clock, (8_000, 2))
    clock.now += 30
    line.sent(line.room, more=True)
    assert not line.room, "what is under way alone tells the delay"
    line.typed()
    assert line.room > 1000
    clock.now += 1.5
    assert not line.room, "and is told after it"


def test_a_reader_that_takes_nothing_is_given_no_more() -> None:
    clock = Clock()
    line = Line(clock)
    carried(line, clock, (8_000, 2))
    given = 0
    for _ in range(600):
        while room := line.room:
            size = min(room, line.piece)
            line.sent(size, more=True)
            given += size
        clock.now += 0.1
    assert given < 20_000  # in a minute


def test_a_terminal_that_answers_nothing_gets_a_frame_when_the_last_was_taken() -> None:
    clock = Clock()
    line = Line(clock)
    line.given(1000)
    line.sent(1000, more=False)
    clock.now += 3
    assert not line.room
    line.taken(1000)
    assert line.room


def test_a_key_tells_that_the_line_is_there_though_answers_stopped() -> None:
    clock = Clock()
    line = Line(clock)
    carried(line, clock, (8_000, 5))
    line.sent(5_000, more=True)
    clock.now += 6
    room = line.room
    line.sent(room, more=True)
    assert not line.room
    line.typed()
    assert line.room
