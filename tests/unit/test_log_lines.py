"""Lines of a log are safe to show, whatever is in them."""

import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from runners.watch.logs.ansi import TextStyle
from runners.watch.logs.render import LIMIT, Span, plain, read_line

ESC = b"\x1b"


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (b"plain text\n", "plain text"),
        (b"windows\r\n", "windows"),
        (b"", ""),
        (b"\r", ""),
        (b" 10%|#    |\r 20%|##   |\r 30%|###  |\n", " 30%|###  |"),
        (b" 99%|## | 12:34\r100%|###|\n", "100%|###| 12:34"),
        (b"a long line\r\x1b[Kshort", "short"),
        (b"gone\x1b[2Kkept", "kept"),
        (b"bar\r", "bar"),
        (b"wrk\bong\b\b\bxyz", "wrxyz"),
        (b"\b\b\bstart", "start"),
        (b"a\tb\tc", "a       b       c"),
        (b"12345678\tx", "12345678        x"),
        (b"nul\x00bell\x07\x01", "nul␀bell␁"),
        (b"\x7f", "␡"),
        (b"bad \xff\xfe utf8 \xc3", "bad �� utf8 �"),
        ("käse 日本 😀".encode(), "käse 日本 😀"),
    ],
)
def test_text_is_what_a_terminal_would_have_left(line: bytes, text: str) -> None:
    assert plain(line) == text


@pytest.mark.parametrize(
    "hostile",
    [
        b"\x1b]52;c;cm0gLXJmIH4=\x07",
        b"\x1b]52;c;cm0gLXJmIH4=\x1b\\",
        b"\x1b]8;;http://example.org\x1b\\",
        b"\x1b]0;a new title\x07",
        b"\x1b[?1049h",
        b"\x1b[2J\x1b[H\x1b[3A\x1b[10;10H",
        b"\x1bP1$r0m\x1b\\",
        b"\x1b_Gf=24;AAAA\x1b\\",
        b"\x1bPtmux;\x1b\x1b]52;c;AAAA\x07\x1b\\",
        b"\x1b^private\x1b\\\x1bXstart\x1b\\",
        b"\x1bc\x1b7\x1b8\x1b(0\x1b#8\x1b=",
        b"\x1b[>4;2m\x1b[?25l\x1b[6n\x1b[21t",
        b"\xc2\x9b31m\xc2\x9d0;title\xc2\x9c\xc2\x85",
        b"\x1b[31",
        b"\x1b",
        b"\x1b\x1b\x1b",
    ],
)
def test_commands_to_the_terminal_are_dropped(hostile: bytes) -> None:
    assert plain(b"before " + hostile) == "before "
    if hostile[-1:] not in b"1\x1b":
        assert plain(b"before " + hostile + b"after") == "before after"


def test_a_string_without_its_end_is_dropped_with_what_it_says() -> None:
    assert plain(b"before \x1b]52;c;AAAA") == "before "
    assert plain(b"before \x1b]0;title\x1b[31mred") == "before red"


@pytest.mark.parametrize(
    "mark", ["\u202e", "\u2066", "\u200b", "\u200f", "\u061c", "\ufeff", "\u2028", "\U000e0041"]
)
def test_invisible_marks_are_named(mark: str) -> None:
    assert plain(f"a{mark}b".encode()) == f"a‹U+{ord(mark):04X}›b"


@pytest.mark.parametrize(
    ("codes", "look"),
    [
        ("31", TextStyle(fg=1)),
        ("1;4;38;5;200", TextStyle(fg=200, bold=True, underline=True)),
        ("38;2;1;2;3;48;2;4;5;6", TextStyle(fg=(1, 2, 3), bg=(4, 5, 6))),
        ("38:2::1:2:3", TextStyle(fg=(1, 2, 3))),
        ("97;100", TextStyle(fg=15, bg=8)),
        ("2;3;7;9", TextStyle(dim=True, italic=True, reverse=True, strike=True)),
        ("1;22;3;23", TextStyle()),
        ("31;39;41;49", TextStyle()),
        ("31;0", TextStyle()),
        ("31;38;5", TextStyle(fg=1)),
        ("999;31;99999999999999", TextStyle()),
    ],
)
def test_colours_are_kept(codes: str, look: TextStyle) -> None:
    line = read_line(f"a\x1b[{codes}mb\x1b[mc".encode())
    assert line.text == "abc"
    assert line.runs == ((Span(1, 2, look),) if look != TextStyle() else ())


def test_colours_end_with_their_line() -> None:
    assert read_line(b"\x1b[31mred\n").runs == (Span(0, 3, TextStyle(fg=1)),)
    assert read_line(b"next\n").runs == ()


def test_long_lines_are_cut_and_say_so() -> None:
    line = read_line(b"x" * 10_000_000)
    assert line.text == "x" * LIMIT + f"… (+{10_000_000 - LIMIT:,} bytes)"
    assert read_line(b"abc", more=7).text == "abc… (+7 bytes)"
    assert len(plain(b"\t" * 10_000_000)) < LIMIT + 100


def test_of_a_long_progress_line_the_last_state_is_shown() -> None:
    bars = b"".join(b"\r%7d/1000000" % at for at in range(100_000))
    assert plain(bars) == "  99999/1000000"


@pytest.mark.parametrize(
    "unit",
    [
        b"\x1b]",
        b"\x1b[",
        b"\x1b[2Kx",
        b"\b",
        b"\rx",
        b"\x1b[1m",
        b"\x1b[38;2;",
        b"\x1bP\x1b",
        b"\xe2\x80\xae",
    ],
)
def test_repeated_hostility_ends(unit: bytes) -> None:
    # Quadratic work on a line of this length would run into the suite's time limit.
    assert len(plain(unit * (2_000_000 // len(unit)))) < 10 * LIMIT


hostile_bytes = st.lists(
    st.one_of(
        st.binary(max_size=8),
        st.text(max_size=8).map(lambda text: text.encode("utf-8", "replace")),
        st.sampled_from(
            [b"\x1b", b"\x1b[", b"\x1b]", b"\x1bP", b"\x07", b"\x9b", b"\xc2\x9b", b"\r", b"\b",
                b"\t", b"m", b"K",
             b"2K", b"38;5;", b";", b"\x1b[31m", b"\x1b[?1049h", b"\x1b]52;c;QQ==\x07",
             "\u202e".encode(), b"\0"]
        ),
    ),
    max_size=40,
).map(b"".join)  # fmt: skip


@given(hostile_bytes)
@example(b"\x1b]\x1b]\x07\x1b")
def test_no_control_character_gets_through(line: bytes) -> None:
    shown = read_line(line)
    for character in shown.text:
        assert unicodedata.category(character) not in ("Cc", "Cf", "Zl", "Zp", "Cs"), hex(
            ord(character)
        )
    end = 0
    for run in shown.runs:
        assert end <= run.start < run.end <= len(shown.text)
        end = run.end
