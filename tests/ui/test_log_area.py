"""Filtering, choosing, copying and writing, by keys, in the place of the logs."""

import os
import re
import subprocess
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from textual.app import App, ComposeResult
from textual.binding import Binding
from textual.pilot import Pilot
from textual.screen import ModalScreen

from tests.screen_text import EXPRESSION_PROMPT, LOG_PROMPTS, NO_MATCH
from tests.support import CEILING_S
from tests.terminal import REPOSITORY, Terminal, panel_command
from tests.ui.log_texts import line_here, shown
from tests.ui.waiting import append, until
from tui.panel.cockpit.screen import CockpitScreen
from tui.panel.terminal.terminal_app import TerminalApp
from tui.panel.widgets.key_bar import KeyBar
from tui.panel.widgets.log.area import LogArea
from tui.panel.widgets.log.pane import LogPane
from tui.panel.widgets.log.watch import (
    CHATTY_FRAME,
    COVERED_FRAME,
    EFFECT_FRAME,
    FRAME,
    PAUSED_FRAME,
    SPARING_FRAME,
    frame_of,
)
from tui.panel.widgets.log.window_reader import LogReader

HOSTILE = b"\x1b]52;c;cm0gLXJmIH4=\x07"


class AreaApp(App[None]):
    """The place of the logs alone, with the cockpit's keys for it."""

    BINDINGS = [  # noqa: RUF012
        binding
        for binding in CockpitScreen.BINDINGS
        if isinstance(binding, Binding) and binding.key != "escape"
    ]

    def compose(self) -> ComposeResult:
        yield LogArea()
        yield KeyBar()

    @property
    def area(self) -> LogArea:
        return self.query_one(LogArea)

    @property
    def pane(self) -> LogPane:
        return self.area.log_pane

    @property
    def title_words(self) -> str:
        return str(self.pane.border_title)

    def action_ask(self, purpose: str) -> None:
        self.area.ask(purpose)

    async def action_split(self) -> None:
        await self.area.toggle_split()

    def notices(self) -> list[str]:
        return [notice.message for notice in self._notifications]

    def said(self, words: str) -> bool:
        return any(words in notice for notice in self.notices())


@asynccontextmanager
async def opened(
    path: Path, size: tuple[int, int] = (80, 24)
) -> AsyncIterator[tuple[AreaApp, Pilot[None]]]:
    app = AreaApp()
    async with app.run_test(size=size) as pilot:
        app.area.show(path, "gaussian · output.log")
        app.pane.focus()
        await pilot.pause()
        yield app, pilot


async def answer(app: AreaApp, pilot: Pilot[None], key: str, text: str) -> None:
    """Press the key that opens the line to type in, and answer."""
    await pilot.press(key)
    await until(pilot, lambda: app.area.asking)
    app.area.bar.value = text
    await pilot.press("enter")


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("TMUX", "STY", "SSH_CONNECTION"):
        monkeypatch.delenv(name, raising=False)
    path = tmp_path / "output.log"
    path.write_bytes(
        b"".join(b"%s %d\n" % (b"loss" if at % 10 == 0 else b"step", at) for at in range(1000))
    )
    return path


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What would have gone to the terminal as a clipboard's text."""
    out: list[str] = []
    monkeypatch.setattr("tui.panel.widgets.log.area.send", lambda _app, words: out.append(words))
    return out


async def test_a_filter_shows_matching_lines_and_follows_new_ones(log: Path) -> None:
    async with opened(log) as (app, pilot):
        await answer(app, pilot, "ampersand", "loss")
        await until(pilot, lambda: shown(app.pane)[-1] == "loss 990")
        assert shown(app.pane)[0].startswith("loss ")
        await until(
            pilot,
            lambda: app.title_words == "gaussian · output.log · filter: loss · 100 of 1,000 lines",
        )
        append(log, b"step x\nloss new\nstep y\n")
        await until(pilot, lambda: shown(app.pane)[-1] == "loss new")
        await until(pilot, lambda: app.title_words.endswith("filter: loss · 101 of 1,003 lines"))
        await pilot.press("g")
        assert shown(app.pane)[:2] == ["loss 0", "loss 10"]
        await pilot.press("down")
        assert shown(app.pane)[0] == "loss 10"
        await answer(app, pilot, "ampersand", "/loss [12]0$/")
        await until(pilot, lambda: shown(app.pane) == ["loss 10", "loss 20"])
        await until(pilot, lambda: "filter: /loss [12]0$/ · 2 of" in app.title_words)
        await answer(app, pilot, "ampersand", "/(/")
        await until(pilot, lambda: app.said("not a regular expression"))
        await answer(app, pilot, "ampersand", "")
        await until(pilot, lambda: app.pane.reader.document.filter is None)
        await until(pilot, lambda: app.title_words == "gaussian · output.log")


async def test_the_line_stays_in_view_when_the_filter_ends(log: Path) -> None:
    async with opened(log) as (app, pilot):
        app.pane.go_line(500)
        await answer(app, pilot, "ampersand", "loss")
        await until(pilot, lambda: shown(app.pane)[0] == "loss 500")
        await pilot.press("down", "down", "escape")
        assert app.pane.reader.document.filter is None
        assert shown(app.pane)[:2] == ["loss 520", "step 521"]
        await answer(app, pilot, "ampersand", "no such thing")
        await until(pilot, lambda: shown(app.pane) == [])
        await pilot.press("escape")
        assert shown(app.pane)[0] == "loss 520"
        await pilot.press("G")
        await answer(app, pilot, "ampersand", "loss 12")
        await until(pilot, lambda: shown(app.pane) == ["loss 120"])
        await pilot.press("escape")
        assert "loss 120" in shown(app.pane)
        assert not app.pane.reader.following
        await pilot.press("G")
        await answer(app, pilot, "ampersand", "99")
        await pilot.press("escape")
        assert app.pane.reader.following


async def test_search_and_errors_stay_inside_a_filter(log: Path) -> None:
    append(
        log,
        b"[rank0]: \x1b[31mTraceback (most recent call last):\x1b[0m\n[rank1]: ValueError: x\n"
        + b"step\n" * 50,
    )
    async with opened(log) as (app, pilot):
        await answer(app, pilot, "ampersand", "loss")
        await answer(app, pilot, "slash", "5")
        await until(pilot, lambda: app.pane.reader.found_at is not None)
        await until(
            pilot,
            lambda: (
                app.pane.reader.document.search is not None
                and app.pane.reader.document.search.matches.count == 19
            ),
        )  # 50, 150 … 950 and 500 … 590
        first = app.pane.reader.found_at
        await until(pilot, lambda: "match 19 of 19 · " in str(app.pane.border_subtitle))
        await pilot.press("N")
        await until(pilot, lambda: app.pane.reader.found_at != first)
        assert line_here(app.pane) == "loss 850"
        await until(pilot, lambda: "match 18 of 19 · " in str(app.pane.border_subtitle))
        await pilot.press("n", "n")
        await until(pilot, lambda: app.said("from the first again"))
        await pilot.press("N")
        await until(pilot, lambda: app.said("from the last again"))
        await pilot.press("N")
        await until(pilot, lambda: line_here(app.pane) == "loss 850")
        await pilot.press("e")
        await until(pilot, lambda: app.said("no errors in the lines shown"))
        await pilot.press("escape", "e")
        await until(
            pilot,
            lambda: "Traceback" in line_here(app.pane) or "ValueError" in line_here(app.pane),
        )
        await answer(app, pilot, "ampersand", "rank0")
        await until(pilot, lambda: "Traceback" in shown(app.pane)[0])
        await pilot.press("g", "e")
        await until(
            pilot, lambda: line_here(app.pane) == "[rank0]: Traceback (most recent call last):"
        )


async def test_an_error_that_is_gone_to_is_none_of_the_matches(tmp_path: Path) -> None:
    log = tmp_path / "output.log"
    log.write_text("epoch 1\nepoch 2\nValueError: x\nepoch 3\n" + "step\n" * 40)
    async with opened(log) as (app, pilot):
        await answer(app, pilot, "slash", "epoch")
        await until(pilot, lambda: "match 3 of 3 · " in str(app.pane.border_subtitle))
        await pilot.press("E")
        await until(pilot, lambda: line_here(app.pane) == "ValueError: x")
        await until(pilot, lambda: "3 matches · " in str(app.pane.border_subtitle))
        await pilot.press("N")
        await until(pilot, lambda: "match 2 of 3 · " in str(app.pane.border_subtitle))


async def test_ranks_are_gone_through(tmp_path: Path) -> None:
    path = tmp_path / "output.log"
    path.write_bytes(b"hello\n" + b"[rank0]: a\n[default3]:b\n[rank 3] c\n" * 10)
    async with opened(path) as (app, pilot):
        await pilot.press("R")
        await until(pilot, lambda: shown(app.pane) == ["[rank0]: a"] * 10)
        await until(pilot, lambda: app.title_words.endswith("rank 0 · 10 of 31 lines"))
        await pilot.press("R")
        await until(pilot, lambda: shown(app.pane)[-2:] == ["[default3]:b", "[rank 3] c"])
        await answer(app, pilot, "ampersand", "c")
        await until(pilot, lambda: shown(app.pane) == ["[rank 3] c"] * 10)
        await until(pilot, lambda: app.title_words.endswith("filter: c · rank 3 · 10 of 31 lines"))
        await pilot.press("escape", "R", "R", "R")
        await until(pilot, lambda: app.pane.reader.document.filter is None)
        path.write_bytes(b"none\n")
        await until(pilot, lambda: shown(app.pane) == ["none"])
        await pilot.press("R")
        await until(pilot, lambda: app.said("no line here names a rank"))


async def test_what_torchrun_passes_on_without_a_rank_is_rank_0_s(tmp_path: Path) -> None:
    path = tmp_path / "output.log"
    path.write_bytes(b"step 1\n[rank1]:step 1\nstep 2\n")
    (tmp_path / "ranks").mkdir()
    async with opened(path) as (app, pilot):
        await pilot.press("R")
        await until(pilot, lambda: shown(app.pane) == ["step 1", "step 2"])
        await pilot.press("R")
        await until(pilot, lambda: shown(app.pane) == ["[rank1]:step 1"])
        await pilot.press("R")
        await until(pilot, lambda: len(shown(app.pane)) == 3)


async def test_logs_that_ranks_have_of_their_own_are_gone_through(tmp_path: Path) -> None:
    path = tmp_path / "output.log"
    path.write_bytes(b"launched\n")
    for rank in (0, 1):
        folder = tmp_path / "ranks" / "none_x" / "attempt_0" / str(rank)
        folder.mkdir(parents=True)
        (folder / "stdout.log").write_bytes(b"I am %d\n" % rank)
        (folder / "stderr.log").touch()
    async with opened(path) as (app, pilot):
        for words, title in (
            ("I am 0", "rank 0 · stdout.log"),
            ("I am 1", "rank 1 · stdout.log"),
            ("launched", "output.log"),
        ):
            await pilot.press("R")
            await until(pilot, lambda words=words: shown(app.pane) == [words])
            await until(pilot, lambda title=title: app.title_words.endswith(title))


async def test_a_log_replaced_while_filtered(log: Path) -> None:
    async with opened(log) as (app, pilot):
        await answer(app, pilot, "ampersand", "loss")
        log.write_bytes(b"a\nloss anew\n")
        await until(pilot, lambda: shown(app.pane) == ["loss anew"])
        await until(pilot, lambda: app.title_words.endswith("filter: loss · 1 of 2 lines"))


async def test_lines_are_selected_and_sent(log: Path, sent: list[str]) -> None:
    append(log, HOSTILE + b"\x1b[31mlast\x1b[0m\n")
    async with opened(log) as (app, pilot):
        await pilot.press("g", "y")
        middle = shown(app.pane)[len(shown(app.pane)) // 2]
        await until(pilot, lambda: app.said("sent line"))
        assert f"\x1b]52;c;{b64encode(middle.encode()).decode()}\x07" in sent
        await pilot.press("v", "down", "j", "k", "j")
        assert str(app.pane.border_subtitle).startswith("3 lines selected")
        first = int(middle.split()[1])
        wanted = "\n".join(
            f"{'loss' if at % 10 == 0 else 'step'} {at}" for at in range(first, first + 3)
        )
        await pilot.press("y")
        await until(
            pilot, lambda: app.said("sent 3 lines (26 B)") or app.said("sent 3 lines (23 B)")
        )
        assert f"\x1b]52;c;{b64encode(wanted.encode()).decode()}\x07" in sent
        assert not app.pane.reader.selection.active
        await pilot.press("G", "v", "G", "y")
        await until(
            pilot,
            lambda: (
                any(b64encode(b"\nlast").decode()[:4] in words for words in sent) or len(sent) > 2
            ),
        )
        assert not any("cm0gLXJmIH4" in words for words in sent)
        assert not app.said("copied")
        await pilot.press("v", "pageup", "escape")
        assert not app.pane.reader.selection.active


async def test_a_selection_within_a_filter(log: Path, sent: list[str]) -> None:
    async with opened(log) as (app, pilot):
        await answer(app, pilot, "ampersand", "loss")
        await until(pilot, lambda: shown(app.pane)[-1:] == ["loss 990"])
        await pilot.press("v", "g", "y")
        wanted = b"loss 0\nloss 10\nloss 20"
        prefix = b64encode(wanted[: len(wanted) // 3 * 3]).decode()
        await until(pilot, lambda: any(f"\x1b]52;c;{prefix}" in words for words in sent))


async def test_a_selection_too_big_for_a_clipboard_says_so(log: Path, sent: list[str]) -> None:
    append(log, b"x" * 60_000 + b"\n" + b"y" * 60_000 + b"\n")
    async with opened(log) as (app, pilot):
        await pilot.press("v", "g", "v", "v", "G", "y")
        await until(pilot, lambda: app.said("75.0 kB, cut there"))
        assert max(len(words) for words in sent) == 100_000


async def test_writing_a_file(log: Path, tmp_path: Path) -> None:
    append(log, HOSTILE + b"\n")
    async with opened(log) as (app, pilot):
        await pilot.press("w")
        await until(pilot, lambda: app.area.asking)
        assert app.area.bar.value == "gaussian.log"
        await pilot.press("enter")
        out = tmp_path / "gaussian.log"
        await until(pilot, lambda: app.said(f"wrote {out} ("))
        assert out.read_bytes() == log.read_bytes()
        await answer(app, pilot, "ampersand", "loss")
        await pilot.press("w", "enter")
        await until(pilot, lambda: app.said("exists"))
        assert app.area.asking
        assert out.read_bytes() == log.read_bytes()
        await pilot.press("enter")
        filtered = b"".join(
            line + b"\n" for line in log.read_bytes().split(b"\n") if b"loss" in line
        )
        await until(pilot, lambda: out.read_bytes() == filtered)
        await answer(app, pilot, "w", "no/folder.log")
        await until(pilot, lambda: app.said("there is no folder"))
        assert app.area.asking
        await pilot.press("escape")
        assert not app.area.asking
        await pilot.press("escape", "g", "v", "down")
        await answer(app, pilot, "w", "part.log")
        await until(pilot, lambda: (tmp_path / "part.log").is_file() and app.said("part.log ("))
        assert (tmp_path / "part.log").read_bytes().count(b"\n") == 2
        assert not (tmp_path / "no").exists()


async def test_going_to_a_line(log: Path) -> None:
    async with opened(log) as (app, pilot):
        await answer(app, pilot, "colon", "500")
        assert shown(app.pane)[0] == "step 499"
        await answer(app, pilot, "ctrl+g", "50%")
        assert abs(int(shown(app.pane)[0].split()[1]) - 500) < 20
        await answer(app, pilot, "colon", ":1,000")
        assert shown(app.pane)[-1] == "step 999"
        await answer(app, pilot, "colon", "there")
        await until(pilot, lambda: app.said("expected a line number"))


async def test_each_log_is_found_as_it_was_left(log: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.log"
    other.write_bytes(b"other\n" * 100)
    async with opened(log) as (app, pilot):
        app.pane.go_line(300)
        await pilot.press("W")
        app.area.show(other, "other")
        await until(pilot, lambda: shown(app.pane)[-1] == "other")
        assert app.pane.reader.following and not app.pane.reader.view.wrap
        app.area.show(log, "again")
        await pilot.pause()
        assert app.pane.reader.view.wrap and not app.pane.reader.following
        assert shown(app.pane)[0] == "step 299"
        app.area.show(other, "other")
        log.write_bytes(b"short\n")
        app.area.show(log, "again")
        await until(pilot, lambda: shown(app.pane) == ["short"])


@pytest.mark.parametrize(("width", "beside"), [(200, True), (80, False)])
async def test_two_logs_both_followed(log: Path, tmp_path: Path, width: int, beside: bool) -> None:
    other = tmp_path / "other.log"
    other.write_bytes(b"other\n" * 100)
    async with opened(log, (width, 24)) as (app, pilot):
        await pilot.press("|")
        await until(pilot, lambda: len(app.query(LogPane)) == 2)
        pinned = app.query_one("#pinned", LogPane)
        app.area.show(other, "other")
        await until(
            pilot,
            lambda: shown(pinned)[-1:] == ["step 999"] and shown(app.pane)[-1:] == ["other"],
        )
        assert (pinned.region.y == app.pane.region.y) == beside
        assert (pinned.region.x == app.pane.region.x) != beside
        append(log, b"more\n")
        append(other, b"more too\n")
        await until(
            pilot,
            lambda: shown(pinned)[-1] == "more" and shown(app.pane)[-1] == "more too",
        )
        pinned.focus()
        await answer(app, pilot, "ampersand", "loss")
        await until(
            pilot,
            lambda: (
                pinned.reader.document.filter is not None
                and app.pane.reader.document.filter is None
            ),
        )
        assert app.focused is pinned
        await pilot.press("|")
        await until(pilot, lambda: len(app.query(LogPane)) == 1)
        assert app.focused is app.pane


async def test_below_a_dialog_a_log_is_painted_now_and_then(log: Path) -> None:
    async with opened(log) as (app, pilot):

        def frame() -> float:
            return frame_of(app.pane.reader, app, 80)

        assert frame() < COVERED_FRAME
        await app.push_screen(ModalScreen[None]())
        assert frame() == COVERED_FRAME, "each painting composes both"
        append(log, b"covered\n")
        app.pop_screen()
        assert frame() < COVERED_FRAME
        await until(pilot, lambda: "covered" in shown(app.pane))


def test_where_each_byte_counts_a_log_is_painted_by_screenfuls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSH_CONNECTION", raising=False)
    fast, slow = TerminalApp(), TerminalApp()
    slow.painter.wants_slow = True
    log = tmp_path / "output.log"
    log.write_text("a line of forty characters, and no more\n" * 100)
    reader = LogReader(log)
    reader.refresh()
    reader.view.resize(80, 10)
    reader.fill(True)

    def grown(lines: int) -> tuple[float, float]:
        with log.open("a") as out:
            out.write("a line of forty characters, and no more\n" * lines)
        reader.refresh()
        return frame_of(reader, fast, 80), frame_of(reader, slow, 80)

    assert grown(3) == (FRAME, SPARING_FRAME)
    assert grown(9) == (FRAME, CHATTY_FRAME)
    slow.painter.typed()  # what the key does goes first
    assert grown(1) == (FRAME, EFFECT_FRAME)
    slow.painter = TerminalApp().painter
    slow.painter.wants_slow = True
    reader.go_start()
    # Only a count changes: where each byte counts it may wait.
    usual, sparing = grown(1)
    assert usual <= PAUSED_FRAME and sparing >= 10 * usual


def panel_with_a_log(tmp_path: Path, lines: str, columns: int = 80, **environment: str) -> Terminal:
    """The panel on one ended run whose log holds `lines`."""
    subprocess.run(
        [
            *panel_command("--no-ui", "launch", "--gpus", "0", "--name", "shown", "--wait"),
            "--",
            "printf",
            lines,
        ],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        check=True,
        capture_output=True,
        timeout=CEILING_S,
    )
    environment = {"TMUX": "", "STY": "", "SSH_CONNECTION": "", **environment}
    return Terminal(panel_command(), columns, 24, **environment)


@pytest.mark.parametrize("between", ["", "TMUX", "STY"])
def test_the_clipboard_s_bytes_in_a_real_terminal(tmp_path: Path, between: str) -> None:
    environment = {between: "something"} if between else {}
    panel = panel_with_a_log(tmp_path, r"\033]52;c;cm0gLXJmIH4=\007only line\n", **environment)
    try:
        panel.wait_for("only line")
        panel.press("3")
        for hint in ("G Follow", "/ Search", "& Filter", "e Error", "y Copy", "? Help", "q Quit"):
            panel.wait_for(re.escape(hint) + r".*$")
        panel.press("y")
        panel.wait_for("sent line 1")
        code = b64encode(b"only line")
        wanted = {
            "": b"\x1b]52;c;" + code + b"\x07",
            "TMUX": b"\x1bPtmux;\x1b\x1b]52;c;" + code + b"\x07\x1b\\",
            "STY": b"\x1bP\x1b]52;c;" + code + b"\x07\x1b\\",
        }[between]
        assert panel.raw.count(wanted) == 1
        assert panel.raw.count(b"]52;") == 1
        assert b"cm0gLXJmIH4" not in panel.raw
    finally:
        panel.close()


def test_an_expression_that_could_take_for_ever_leaves_the_keys_alone(tmp_path: Path) -> None:
    panel = panel_with_a_log(tmp_path, "first line\\n" + "a" * 60 + "!\\n")
    try:
        panel.wait_for("aaa!")
        panel.press("3", "/")
        panel.wait_for(EXPRESSION_PROMPT)
        panel.press("/(a+)+$/\r")
        panel.wait_for(NO_MATCH)
        panel.press("&")
        panel.wait_for(LOG_PROMPTS["filter"])
        panel.press("/(a|aa)+!$/\r")
        panel.wait_for(re.escape("filter: /(a|aa)+!$/"))
        panel.wait_gone("first line")
        panel.press("/")
        panel.wait_for(EXPRESSION_PROMPT)
        panel.press("/(?=a)/\r")
        panel.wait_for("look-around")
    finally:
        panel.close()


async def test_lines_that_come_while_nothing_matches_are_no_notice(tmp_path: Path) -> None:
    log = tmp_path / "output.log"
    log.write_text("epoch 1\nError: a bad batch\n")

    class PlainApp(App[None]):
        def compose(self) -> ComposeResult:
            yield LogArea()

    app = PlainApp()
    async with app.run_test() as pilot:
        area = app.query_one(LogArea)
        area.show(log, "a run · output.log")
        area.log_pane.search("epoch")
        await until(pilot, lambda: "match 1 of 1" in str(area.log_pane.border_subtitle))
        area.log_pane.filter("Error")
        await until(pilot, lambda: "search: no match" in str(area.log_pane.border_subtitle))
        for count in (3, 4, 5):
            append(log, f"epoch {count}\n".encode())
            await until(
                pilot, lambda count=count: f"of {count} lines" in area.log_pane.border_title
            )
        await until(pilot, lambda: area.log_pane.reader.document.search.matches.complete)
        await pilot.pause()
        assert not app._notifications
