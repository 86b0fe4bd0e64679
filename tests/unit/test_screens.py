"""The quicker screen of the tests shows what pyte's own shows, whatever is written and however."""

import pyte
from hypothesis import given
from hypothesis import strategies as st

from tests.screens import QuickScreen, QuickStream

PIECES = st.one_of(
    st.sampled_from(
        ["\r\n", "\n", "\t", "\b", "漢字", "e\u0301", "│ ▶ running", "x" * 25, "\x1b[", "\x1b[3", "8;5m",
         "\x1b[K", "\x1b[2J", "\x1b[1;4m", "\x1b[m", "\x1b[38;2;1;2;3m", "\x1b[48;5;7m", "\x1b[H",
         "\x1b[3;5H", "\x1b[99;99H", "\x1b[2P", "\x1b[3@", "\x1b[L", "\x1b[M", "\x1b[4h", "\x1b[4l",
         "\x1b[?7l", "\x1b[?7h", "\x1b(0", "\x1b(B", "\x1b]0;title\x07", "\x1b]0;a\x1b[3mb\x07", "\x0e", "\x0f"]
    ),
    st.text("ab é", max_size=30),
)  # fmt: skip


@given(st.lists(st.lists(PIECES, max_size=8), max_size=8), st.integers(1, 12))
def test_it_is_pyte_s_screen(blocks: list[list[str]], cut: int) -> None:
    own, theirs = QuickScreen(20, 6), pyte.Screen(20, 6)
    streams = QuickStream(own), pyte.ByteStream(theirs)
    for block in blocks:
        written = "".join(block).encode()
        for at in range(0, len(written), 7 * cut):
            for stream in streams:
                stream.feed(written[at : at + 7 * cut])
        assert own.display == theirs.display
    assert (own.cursor.x, own.cursor.y) == (theirs.cursor.x, theirs.cursor.y)
    assert own.cursor.attrs == theirs.cursor.attrs
    for row in range(6):
        assert [own.buffer[row][x] for x in range(20)] == [theirs.buffer[row][x] for x in range(20)]
