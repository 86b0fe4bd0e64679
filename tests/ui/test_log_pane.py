"""The log pane, driven by keys and by the file it shows."""

import os
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pexpect
import pyte
import pytest
from rich.style import Style
from textual import on
from textual.app import App, ComposeResult
from textual.geometry import Region
from textual.pilot import Pilot
from textual.strip import Strip
from textual.widget import Widget

from tests.ui.log_texts import line_here, shown
from tests.ui.waiting import CEILING, append, until
from tui.panel.widgets.log import watch as log_watch
from tui.panel.widgets.log.area import SearchBar
from tui.panel.widgets.log.messages import LogNotice
from tui.panel.widgets.log.pane import LogPane


class LogApp(App[None]):
    """One log pane, and what it announces."""

    def __init__(self, path: Path | None) -> None:
        super().__init__()
        self.path = path
        self.heard: list[str] = []

    def compose(self) -> ComposeResult:
        yield LogPane()

    def on_mount(self) -> None:
        self.pane.show(self.path, "A gaussian · output.log")
        self.pane.focus()

    @property
    def pane(self) -> LogPane:
        return self.query_one(LogPane)

    @property
    def found(self) -> tuple[int, int, bool]:
        search = self.pane.reader.document.search
        if search is None:
            return 0, 0, True
        return search.matches.count, search.current, search.matches.complete

    @on(LogNotice)
    def noticed(self, message: LogNotice) -> None:
        self.heard.append(message.text)

    def screen_rows(self) -> list[str]:
        """What is really on the screen, inside the border."""
        strips = self.screen._compositor.render_strips()
        return [strip.text[1:-2].rstrip() for strip in strips[1:-1]]


@asynccontextmanager
async def opened(
    path: Path | None, size: tuple[int, int] = (80, 24)
) -> AsyncIterator[tuple[LogApp, Pilot[None]]]:
    app = LogApp(path)
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        yield app, pilot


def cells(strips: list[Strip]) -> list[list[tuple[str, Style | None]]]:
    """Every cell of some rows, with its style."""
    return [
        [(letter, segment.style) for segment in strip for letter in segment.text]
        for strip in strips
    ]


async def test_rows_with_a_kept_border_are_those_that_textual_would_paint(tmp_path: Path) -> None:
    path = tmp_path / "colours.log"
    path.write_bytes(
        b"".join(
            b"\x1b[3%dmstep %d\x1b[0m loss \x1b[1;38;2;9;%d;9m0.5\x1b[0m %s\n"
            % (at % 8, at, at, "日本é".encode() * (at % 50))
            for at in range(200)
        )
    )
    async with opened(path, (60, 16)) as (app, pilot):
        pane = app.pane

        async def compared() -> list[list[tuple[str, Style | None]]]:
            await pilot.pause()
            whole = Region(0, 0, *pane.region.size)
            ours = cells(pane.render_lines(whole))
            pane._styles_cache.clear()
            assert ours == cells(Widget.render_lines(pane, whole))
            part = Region(3, 2, 20, 5)
            pane._styles_cache.clear()
            assert cells(pane.render_lines(part)) == cells(Widget.render_lines(pane, part))
            return ours

        focused = await compared()
        app.screen.set_focus(None)
        assert await compared() != focused  # the border is another one
        pane.focus()
        for key in ("k", "l", "v", "j", "escape", "W", "g"):
            await pilot.press(key)
            await compared()
        app.theme = "textual-light"
        await compared()
        await pilot.resize_terminal(47, 12)
        await compared()


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "output.log"
    path.write_bytes(b"".join(b"line %d\n" % at for at in range(1000)))
    return path


async def test_it_shows_the_end_and_follows_it(log: Path) -> None:
    async with opened(log) as (app, pilot):
        assert app.screen_rows() == [f"line {at}" for at in range(978, 1000)]
        await until(pilot, lambda: app.pane.border_subtitle == "following · 1,000 lines")
        append(log, b"one more\n")
        await until(pilot, lambda: app.screen_rows()[-1] == "one more")
        await until(pilot, lambda: app.pane.border_subtitle == "following · 1,001 lines")
        append(log, b"an unfinished")
        await until(pilot, lambda: app.screen_rows()[-1] == "an unfinished")
        append(log, b" line\n")
        await until(pilot, lambda: app.screen_rows()[-1] == "an unfinished line")


async def test_scrolled_up_nothing_jumps_until_the_end_is_asked_for(log: Path) -> None:
    async with opened(log) as (app, pilot):
        await pilot.press("up", "pageup")
        there = [f"line {at}" for at in range(956, 978)]
        assert app.screen_rows() == there
        assert not app.pane.reader.following
        append(log, b"more\n" * 1234)
        await until(pilot, lambda: "1,234 new lines" in str(app.pane.border_subtitle))
        assert app.screen_rows() == there
        assert str(app.pane.border_subtitle).startswith(
            "paused · 1,234 new lines · G follows · line 957 of 2,234"
        )
        await pilot.press("G")
        assert app.screen_rows()[-1] == "more"
        assert app.pane.reader.following
        append(log, b"the last\n")
        await until(pilot, lambda: app.screen_rows()[-1] == "the last")


async def test_keys_move_as_they_say(log: Path) -> None:
    async with opened(log) as (app, pilot):
        top = lambda: app.screen_rows()[0]  # noqa: E731
        await pilot.press("g")
        assert top() == "line 0"
        await pilot.press("j", "down", "down", "k")
        assert top() == "line 2"
        await pilot.press("pagedown")
        assert top() == "line 23"
        await pilot.press("pageup", "pageup", "up")
        assert top() == "line 0"
        app.pane.go_line(500)
        await pilot.pause()
        assert top() == "line 499"
        app.pane.go_percent(50)
        await pilot.pause()
        assert abs(int(top().split()[1]) - 500) < 20
        app.pane.go_percent(100)
        await pilot.pause()
        assert app.screen_rows()[-1] == "line 999"
        assert not app.pane.reader.following
        await pilot.press("down", "pagedown")
        assert app.screen_rows()[-1] == "line 999"
        await pilot.press("end")
        assert app.pane.reader.following


async def test_a_short_log_does_not_leave_following_for_want_of_lines(tmp_path: Path) -> None:
    path = tmp_path / "output.log"
    path.write_bytes(b"only\n")
    async with opened(path) as (app, pilot):
        await pilot.press("up", "pageup")
        assert app.pane.reader.following
        await until(pilot, lambda: app.pane.border_subtitle == "following · 1 line")


async def test_a_log_that_does_not_exist_yet(tmp_path: Path) -> None:
    path = tmp_path / "run" / "output.log"
    async with opened(path) as (app, pilot):
        await until(pilot, lambda: app.pane.border_subtitle == "following · nothing written")
        path.parent.mkdir()
        path.write_bytes(b"here it is\n")
        await until(pilot, lambda: app.screen_rows()[0] == "here it is")
        app.pane.show(None)
        await pilot.pause()
        assert app.screen_rows()[0] == ""
        await until(pilot, lambda: app.pane.border_subtitle == "no log")


async def test_a_file_cut_short_or_replaced_while_shown(log: Path) -> None:
    async with opened(log) as (app, pilot):
        log.write_bytes(b"from the start again\n")
        await until(pilot, lambda: app.screen_rows()[:2] == ["from the start again", ""])
        other = log.with_name("other")
        other.write_bytes(b"".join(b"other %d\n" % at for at in range(50)))
        other.replace(log)
        await until(pilot, lambda: app.screen_rows()[-1] == "other 49")
        await pilot.press("up")
        log.write_bytes(b"tiny\n")
        await until(pilot, lambda: app.screen_rows()[:2] == ["tiny", ""])
        append(log, b"more\n")
        await until(pilot, lambda: app.screen_rows()[:2] == ["tiny", "more"])


async def test_wrapping_shows_all_of_a_line_and_keeps_its_place(tmp_path: Path) -> None:
    path = tmp_path / "output.log"
    path.write_bytes(b"".join(b"%03d" % at + b"-" * 197 + b"\n" for at in range(100)))
    async with opened(path) as (app, pilot):
        assert [len(row) for row in app.screen_rows()] == [77] * 22
        await pilot.press("up", "W")
        assert app.pane.reader.view.wrap
        assert app.screen_rows()[0].startswith("077")
        assert [len(row) for row in app.screen_rows()[:4]] == [77, 77, 46, 77]
        await pilot.press("down")
        assert not app.screen_rows()[0].startswith("077")
        append(path, b"new\n" * 30)
        await until(pilot, lambda: "30 new lines" in str(app.pane.border_subtitle))
        assert app.screen_rows()[2].startswith("078")
        await pilot.press("G")
        assert app.screen_rows()[-1] == "new"


async def test_wide_characters_wrap_by_cells(tmp_path: Path) -> None:
    path = tmp_path / "output.log"
    path.write_bytes("日本語".encode() * 30 + b"\n")
    async with opened(path) as (app, pilot):
        await pilot.press("W")
        assert app.screen_rows()[:3] == [
            "日本語" * 12 + "日本",
            "語" + "日本語" * 12 + "日",
            "本語" + "日本語" * 4,
        ]


async def test_scrolling_sideways(tmp_path: Path) -> None:
    path = tmp_path / "output.log"
    path.write_bytes(
        "".join(str(at % 10) for at in range(200)).encode()
        + b"\nshort\n"
        + "é".encode() * 150
        + b"\n"
    )
    async with opened(path) as (app, pilot):
        await pilot.press("l")
        rows = app.screen_rows()
        assert rows[0].startswith("8901")
        assert rows[1] == ""
        await pilot.press("right", "right", "right", "right", "right")
        assert app.screen_rows()[0].endswith("6789")
        assert app.screen_rows()[2] == "é" * 27
        await pilot.press("left", "h", "h", "h", "h")
        assert app.screen_rows()[0].startswith("0123")


async def test_matches_are_counted_shown_and_gone_through(log: Path) -> None:
    async with opened(log) as (app, pilot):
        app.pane.search("line 77")
        await until(pilot, lambda: app.found == (11, 11, True))
        await until(pilot, lambda: "line 779" in app.screen_rows())
        await pilot.press("N")
        await until(pilot, lambda: app.found == (11, 10, True))
        await pilot.press("n", "n")
        await until(pilot, lambda: app.found == (11, 1, True))
        await until(pilot, lambda: "line 77" in app.screen_rows())
        assert not app.pane.reader.following
        append(log, b"line 77 again\n")
        await until(pilot, lambda: app.found == (12, 1, True))
        app.pane.search(r"^line \d00$", regex=True)
        await until(pilot, lambda: app.found in [(9, at, True) for at in range(1, 10)])
        app.pane.search("(", regex=True)
        await until(pilot, lambda: "not a regular expression" in "".join(app.heard))
        app.pane.search("no such thing")
        await until(pilot, lambda: app.heard[-1:] == ["no match"])
        app.pane.search("")
        await until(pilot, lambda: app.found == (0, 0, True))


async def test_matches_are_marked(log: Path) -> None:
    async with opened(log) as (app, pilot):
        app.pane.search("995")
        await until(pilot, lambda: app.pane.reader.found_at is not None)
        await pilot.pause()
        row = shown(app.pane).index("line 995")
        marked = [
            segment
            for segment in app.pane.render_line(row)
            if segment.style and segment.style.reverse
        ]
        assert [segment.text for segment in marked] == ["995"]
        assert marked[0].style is not None
        assert marked[0].style.underline


async def test_errors_are_found(tmp_path: Path) -> None:
    path = tmp_path / "output.log"
    lines = [f"error: 0.{at}" for at in range(500)]
    lines[100] = "Traceback (most recent call last):"
    lines[300] = "torch.OutOfMemoryError: CUDA out of memory."
    path.write_text("\n".join(lines) + "\n")
    async with opened(path) as (app, pilot):
        await pilot.press("e")
        await until(pilot, lambda: lines[300] in app.screen_rows())
        await pilot.press("E")
        await until(pilot, lambda: lines[100] in app.screen_rows())
        await pilot.press("e")
        await until(pilot, lambda: lines[300] in app.screen_rows())


async def test_hostile_lines_do_not_reach_the_terminal(tmp_path: Path) -> None:
    path = tmp_path / "output.log"
    path.write_bytes(
        b"\x1b]52;c;cm0gLXJmIH4=\x07copy\n\x1b]0;title\x07title\n\x1b[?1049h\x1b[2Jscreen\n"
        b"\x1b]8;;http://example.org\x1b\\link\x1b]8;;\x1b\\\nnul\x00\n\xff\xfe\n"
        b"\x1b[31mred[bold]\x1b]\n" + "bidi\u202e\n".encode() + b"a\r  50%\r 100%\n"
    )
    async with opened(path) as (app, _):
        assert app.screen_rows()[:9] == [
            "copy", "title", "screen", "link", "nul␀", "��", "red[bold]", "bidi‹U+202E›", " 100%",
        ]  # fmt: skip
        assert "\x1b" not in "".join(app.screen_rows())


async def test_a_line_of_100_mb(tmp_path: Path) -> None:
    path = tmp_path / "output.log"
    with path.open("wb") as out:
        out.write(b"head\n")
        out.truncate(100 << 20)
    async with opened(path) as (app, pilot):
        assert app.screen_rows()[-1].startswith("␀×")
        await pilot.press("pageup", "W", "g")
        assert app.screen_rows()[0] == "head"
        await until(pilot, lambda: "line 1 of 100 lines" in str(app.pane.border_subtitle))


@pytest.mark.parametrize("chunk", [1, 50, 5000])
async def test_a_log_that_comes_fast_ends_as_it_is(tmp_path: Path, chunk: int) -> None:
    path = tmp_path / "output.log"
    path.touch()
    async with opened(path) as (app, pilot):
        for at in range(100):
            append(path, b"".join(b"%d/%d\n" % (at, line) for line in range(chunk)))
            await pilot.pause(0.001)
        await until(pilot, lambda: app.screen_rows()[-1] == f"99/{chunk - 1}")
        await until(pilot, lambda: app.pane.border_subtitle == f"following · {100 * chunk:,} lines")


def test_in_a_real_terminal(tmp_path: Path) -> None:
    path = tmp_path / "output.log"
    hostile = (
        b"\x1b]52;c;cm0gLXJmIH4=\x07\x1b]2;owned\x07\x1b[?1049l\x1b[31mred\x1b[0m\x1b[2J"
        b"\x1bP+q436f\x1b\\ "
        b"end\n"
    )
    path.write_bytes(b"first\n" * 50 + hostile)
    program = (
        "import sys; from pathlib import Path; from textual.app import App; from "
        "tui.panel.widgets.log.pane import LogPane\n"
        "class Only(App):\n    def compose(self):\n        pane = LogPane(); "
        "pane.show(Path(sys.argv[1])); yield pane\n"
        "Only().run()"
    )
    root = str(Path(__file__).resolve().parents[2])
    child = pexpect.spawn(
        sys.executable,
        ["-c", program, str(path)],
        env=os.environ | {"TERM": "xterm-256color", "PYTHONPATH": root},
        dimensions=(24, 80),
    )
    screen = pyte.Screen(80, 24)
    stream = pyte.ByteStream(screen)
    sent = bytearray()

    def shows(text: str) -> None:
        ceiling = time.monotonic() + CEILING
        while text not in "\n".join(screen.display):
            assert time.monotonic() < ceiling, screen.display
            try:
                data = child.read_nonblocking(1 << 16, timeout=0.1)
            except pexpect.TIMEOUT:
                continue
            sent.extend(data)
            stream.feed(data)

    shows("red end")
    for hidden in (b"]52;", b"owned", b"+q436f"):
        assert hidden not in sent
    append(path, b"".join(b"step %d\n" % at for at in range(100_000)))
    shows("step 99999")
    assert [row[1:].split(" ", 2)[:2] for row in screen.display[1:-1]] == [
        ["step", str(at)] for at in range(99_978, 100_000)
    ]
    child.send("g")
    shows("first")
    child.send("\x11")
    child.expect(pexpect.EOF, timeout=CEILING)
    child.close()
    assert child.exitstatus == 0


async def test_resizing_and_another_log(log: Path, tmp_path: Path) -> None:
    async with opened(log) as (app, pilot):
        await pilot.resize_terminal(40, 10)
        await until(pilot, lambda: app.screen_rows() == [f"line {at}" for at in range(992, 1000)])
        other = tmp_path / "other.log"
        other.write_bytes(b"another\n")
        app.pane.show(other, "B [x]")
        await until(pilot, lambda: app.screen_rows()[0] == "another")
        append(log, b"of the first\n")
        append(other, b"of the second\n")
        await until(pilot, lambda: app.screen_rows()[:3] == ["another", "of the second", ""])
        assert (
            len([worker for worker in app.workers if worker.group == "watch" and worker.is_running])
            == 1
        )


async def test_nothing_is_painted_when_nothing_changed(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(log) as (app, pilot):
        drawn: list[int] = []
        render_line = LogPane.render_line
        monkeypatch.setattr(
            LogPane, "render_line", lambda pane, y: drawn.append(y) or render_line(pane, y)
        )
        for _ in range(5):
            assert not app.pane.poll()
            await pilot.pause()
        assert drawn == []


async def test_a_hidden_pane_catches_up_when_it_is_shown(log: Path) -> None:
    async with opened(log) as (app, pilot):
        app.pane.display = False
        await pilot.pause()
        append(log, b"while away\n")
        await until(
            pilot,
            lambda: not app.pane.poll() and app.pane.reader.document.size > 8890,
        )
        assert shown(app.pane)[-1] == "line 999"
        app.pane.display = True
        await until(pilot, lambda: app.screen_rows()[-1] == "while away")
        assert line_here(app.pane) == "line 990"


@pytest.mark.parametrize("deaf", ["glances", "notices"])
async def test_either_notices_or_glances_are_enough(
    log: Path, monkeypatch: pytest.MonkeyPatch, deaf: str
) -> None:
    if deaf == "glances":
        monkeypatch.setattr(log_watch, "GLANCE", 3600)
    else:
        monkeypatch.setattr(log_watch, "open_notice", lambda: None)
    async with opened(log) as (app, pilot):
        for at in range(3):
            append(log, b"more %d\n" % at)
            await until(pilot, lambda at=at: app.screen_rows()[-1] == f"more {at}")


async def test_watching_ends_with_the_pane(log: Path) -> None:
    async with opened(log) as (app, pilot):
        (watching,) = [worker for worker in app.workers if worker.group == "watch"]
        await app.pane.remove()
        await until(pilot, lambda: watching.is_finished)
        append(log, b"more\n")
        await pilot.pause()


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("loss", ("loss", False)), ("/a|b/", ("a|b", True)), ("/", ("/", False)), ("", ("", False))],
)
async def test_the_search_bar_tells_a_regex_from_text(text: str, wanted: tuple[str, bool]) -> None:
    async with LogApp(None).run_test():
        assert SearchBar(value=text).wanted == wanted
