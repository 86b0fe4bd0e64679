"""The quicker screen of the tests shows what pyte's own shows, whatever is written and however."""

import pyte
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pyte.screens import wcwidth

from tests.screens import QuickScreen, QuickStream

PIECES = st.one_of(
    st.sampled_from(
        ["\r\n", "\n", "\t", "\b", "漢字", "e\u0301", "│ ▶ running", "x" * 25, "\x1b[", "\x1b[3",
            "8;5m",
         "\x1b[K", "\x1b[2J", "\x1b[1;4m", "\x1b[m", "\x1b[38;2;1;2;3m", "\x1b[48;5;7m", "\x1b[H",
         "\x1b[3;5H", "\x1b[99;99H", "\x1b[2P", "\x1b[3@", "\x1b[L", "\x1b[M", "\x1b[4h", "\x1b[4l",
         "\x1b[?7l", "\x1b[?7h", "\x1b(0", "\x1b(B", "\x1b]0;title\x07", "\x1b]0;a\x1b[3mb\x07",
         "\x0e", "\x0f"]
    ),
    st.text("ab é", max_size=30),
)  # fmt: skip


@given(st.lists(st.lists(PIECES, max_size=8), max_size=8), st.integers(1, 12))
@example([["│ ▶ running", "\x1b[?7l", "aaaaaaa", "漢字", "é"]], 1)
@example([["漢字", "\x1b[H", "a"]], 1)
@example([["\t", "aaaaaaaa", "漢字", "\t", "漢字"]], 1)
def test_it_is_pyte_s_screen(blocks: list[list[str]], cut: int) -> None:
    own, theirs = QuickScreen(20, 6), pyte.Screen(20, 6)
    streams = QuickStream(own), pyte.ByteStream(theirs)
    for block in blocks:
        written = "".join(block).encode()
        for at in range(0, len(written), 7 * cut):
            for stream in streams:
                stream.feed(written[at : at + 7 * cut])
        for row, text in enumerate(own.display):
            if _is_whole([theirs.buffer[row][x].data for x in range(20)]):
                assert text == _row(theirs, row)
            else:
                assert sum(map(wcwidth, text)) == 20
    assert (own.cursor.x, own.cursor.y) == (theirs.cursor.x, theirs.cursor.y)
    assert own.cursor.attrs == theirs.cursor.attrs
    for row in range(6):
        assert [own.buffer[row][x] for x in range(20)] == [theirs.buffer[row][x] for x in range(20)]


@pytest.mark.parametrize(
    ("written", "shown"),
    [("漢字\x1b[Ha", "a 字"), ("漢字\bx", "漢 x"), ("漢\b字", " 字"), ("漢\u0301字", "漢字")],
)
def test_half_a_wide_character_is_a_blank(written: str, shown: str) -> None:
    screen = QuickScreen(20, 6)
    QuickStream(screen).feed(written.encode())
    assert screen.display[0].rstrip() == shown


def _row(screen: pyte.Screen, row: int) -> str:
    """What pyte shows of one row: it cannot render a screen on which any row is not whole."""
    alone = pyte.Screen(screen.columns, 1)
    alone.buffer[0] = screen.buffer[row]
    return str(alone.display[0])


def _is_whole(cells: list[str]) -> bool:
    """Whether every wide character has its second half, and every second half its first."""
    is_wide = [cell != "" and wcwidth(cell[0]) == 2 for cell in cells]
    is_second = [cell == "" or wcwidth(cell[0]) == 0 for cell in cells]
    return is_wide == [*is_second[1:], False] and not is_second[0]
