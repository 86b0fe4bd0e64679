"""What is searched is found: every line that matches once, none twice."""

import random
import re
from pathlib import Path

import pytest

from runners.watch.logs.expressions import BadExpression, texts_needed
from runners.watch.logs.index import LogFile
from runners.watch.logs.ranks import RankPattern
from runners.watch.logs.reader import BLOCK
from runners.watch.logs.search import (
    AllOf,
    ErrorPattern,
    MatchCount,
    Pattern,
    RegexPattern,
    TextPattern,
    find,
)


def found(log: LogFile, pattern: Pattern, offset: int, backward: bool = False) -> list[int]:
    return [
        hit.start for hit in find(log.source, pattern, offset, backward) if hit.start is not None
    ]


def counted(log: LogFile, pattern: Pattern) -> MatchCount:
    matches = MatchCount(log.source, pattern)
    while not matches.step(BLOCK):
        pass
    return matches


@pytest.fixture(scope="module")
def big(tmp_path_factory: pytest.TempPathFactory) -> tuple[LogFile, list[bytes], list[int]]:
    dice = random.Random(5)
    lines = []
    for at in range(40_000):
        kind = dice.random()
        text = b"step %d loss 0.%d" % (at, dice.randrange(10_000))
        if kind < 0.001:
            text += b" needle"
        elif kind < 0.002:
            text = b"\x1b[31mstep\x1b[0m %d nee\x1b[1mdle" % at
        elif kind < 0.0025:
            text = b"x" * dice.randrange(100_000) + b"needle"
        lines.append(text + b"\n")
    path = tmp_path_factory.mktemp("log") / "output.log"
    path.write_bytes(b"".join(lines))
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    return LogFile(path), lines, starts


@pytest.mark.parametrize(
    "text", ["needle", "need?le", "^.*needle$", "s[^x]*needle", "n[e]{2}d.e", "needle|nothing"]
)
@pytest.mark.parametrize("kind", [TextPattern, RegexPattern])
def test_all_matching_lines_are_found_both_ways(
    big: tuple[LogFile, list[bytes], list[int]],
    text: str,
    kind: type[TextPattern] | type[RegexPattern],
) -> None:
    log, lines, starts = big
    pattern = kind(text) if kind is RegexPattern else kind("needle")
    shown = [re.sub(rb"\x1b\[\d*m", b"", line) for line in lines]
    if isinstance(pattern, TextPattern):
        wanted = [starts[at] for at, line in enumerate(shown) if b"needle" in line]
    else:
        regex = re.compile(text.encode())
        wanted = [starts[at] for at, line in enumerate(shown) if regex.search(line[:-1])]
    assert len(wanted) > 40
    assert found(log, pattern, -1) == wanted
    assert found(log, pattern, log.size, backward=True) == wanted[::-1]
    middle = wanted[len(wanted) // 2]
    assert found(log, pattern, middle) == [hit for hit in wanted if hit > middle]
    assert (
        found(log, pattern, middle, backward=True) == [hit for hit in wanted if hit < middle][::-1]
    )
    matches = counted(log, pattern)
    assert matches.count == len(wanted)
    for number, start in enumerate(wanted, start=1):
        assert matches.rank(start) == number
    assert matches.rank(starts[1]) is None


def test_a_search_tells_how_far_it_is_and_can_be_stopped(
    big: tuple[LogFile, list[bytes], list[int]],
) -> None:
    log, _, _ = big
    going = find(log.source, TextPattern("no such thing"), -1)
    assert next(going) == (None, BLOCK)
    going.close()


def test_counting_goes_on_as_the_log_grows(tmp_path: Path) -> None:
    path = tmp_path / "output.log"
    path.write_bytes(b"hit\nmiss\nhi")
    log = LogFile(path)
    matches = counted(log, TextPattern("hit"))
    assert matches.count == 1
    for extra in (b"t\n", b"hit\n" * 1000, b"miss\n" * 300_000, b"hit"):
        with path.open("ab") as out:
            out.write(extra)
        log.refresh()
        assert not matches.complete
        while not matches.step(BLOCK):
            pass
    assert matches.count == 1003


def lone(tmp_path: Path, line: bytes, pattern: Pattern) -> bool:
    path = tmp_path / "output.log"
    path.write_bytes(b"first\n" + line + b"\nlast\n")
    return found(LogFile(path), pattern, -1) == [6]


def test_redraws_count_by_what_is_left_of_them(tmp_path: Path) -> None:
    assert lone(tmp_path, b" 50%|\r100%|", TextPattern("100%"))
    assert not lone(tmp_path, b" 50%|\r100%|", TextPattern(" 50%"))
    assert lone(tmp_path, b"windows\r", TextPattern("windows"))


def test_case_and_letters_beyond_ascii(tmp_path: Path) -> None:
    assert not lone(tmp_path, b"A Needle", TextPattern("needle"))
    assert lone(tmp_path, b"A Needle", RegexPattern("(?i)NEED"))
    assert lone(tmp_path, "Größe".encode(), TextPattern("öß"))
    assert lone(tmp_path, "Größe".encode(), RegexPattern("Gr(öß|x)e$"))


def test_a_regex_never_matches_over_two_lines(tmp_path: Path) -> None:
    assert found(_log(tmp_path, b"a\nb\nab\n"), RegexPattern("a[^x]*b"), -1) == [4]
    assert found(_log(tmp_path, b"a\nb\n"), RegexPattern(r"a\s+b"), -1) == []


def _log(tmp_path: Path, data: bytes) -> LogFile:
    path = tmp_path / "output.log"
    path.write_bytes(data)
    return LogFile(path)


@pytest.mark.parametrize(
    "line",
    [
        b"Traceback (most recent call last):",
        b"RuntimeError: CUDA error: device-side assert triggered",
        b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB",
        b"[rank0]: ValueError: 5 is not allowed",
        b"error: no such file",
        b"2026-11-20 12:00:00 ERROR could not open",
        b"[Error] bad",
        b"bash: line 1: 4242 Killed                  python train.py",
        b"Segmentation fault (core dumped)",
        b"Memory access fault by GPU node-2",
        b"slurmstepd: fatal: not enough memory",
        b"\x1b[31mError: broken\x1b[0m",
    ],
)
def test_failures_are_recognised(tmp_path: Path, line: bytes) -> None:
    assert lone(tmp_path, line, ErrorPattern())


@pytest.mark.parametrize(
    "line",
    [
        b"error: 0.0123",
        b"mean error 0.5 px",
        b"Error: 1e-3",
        b"default settings",
        b"terror",
        b"errors=0 fatalities",
    ],
)
def test_measured_errors_are_no_failures(tmp_path: Path, line: bytes) -> None:
    assert not lone(tmp_path, line, ErrorPattern())


@pytest.mark.parametrize(
    "expression", ["(a+)+$", "(a|a)+$", "(a|aa)+c", "^(([a-z])+.)+[A-Z]([a-z])+$"]
)
def test_an_expression_that_could_take_for_ever_does_not(tmp_path: Path, expression: str) -> None:
    log = _log(tmp_path, b"a" * 60_000 + b"!\n")
    assert found(log, RegexPattern(expression), -1) == []


@pytest.mark.parametrize("expression", ["(", "a{2,1}", "(?=a)", r"(a)\1"])
def test_what_is_no_expression_is_refused_in_words(expression: str) -> None:
    with pytest.raises(BadExpression, match=r"\w"):
        RegexPattern(expression)


@pytest.mark.parametrize(
    ("expression", "needed"),
    [
        ("needle [0-9]+", ["needle "]),
        ("nan|inf", ["nan", "inf"]),
        ("colou?r: red", ["r: red"]),
        ("ab*c{0,3}de+f", ["de"]),
        (r"lr=(1e-4|3e-4)\.", ["lr="]),
        (r"a\.b\d+ms", ["a.b"]),
        ("(loss|acc)=", ["="]),
        ("x|[0-9]+", []),
        (r"a\x41", []),
        ("(?i)abc", []),
        ("ab(?:cd)?e", ["ab"]),
        ("[]a]bc|[[:alpha:]]de", ["bc", "de"]),
    ],
)
def test_the_texts_that_an_expression_needs(expression: str, needed: list[str]) -> None:
    assert texts_needed(expression) == needed


@pytest.mark.parametrize(
    "expression", ["wrong", "w[r]ong", "is .*wrong", "(it|this) is", r"\bwrong$", "^this"]
)
def test_colours_anywhere_hide_nothing(tmp_path: Path, expression: str) -> None:
    rainbow = b"".join(
        b"\x1b[38;5;%dm%c" % (at, letter) for at, letter in enumerate(b"this is wrong")
    )
    assert lone(tmp_path, rainbow + b"\x1b[0m", RegexPattern(expression))
    assert lone(tmp_path, b"this is \x1b[01;31m\x1b[Kwro\x1b[m\x1b[Kng", RegexPattern(expression))


def test_colours_themselves_are_not_found(tmp_path: Path) -> None:
    assert not lone(tmp_path, b"\x1b[31mred\x1b[0m", TextPattern("31"))
    assert not lone(tmp_path, b"\x1b[31mred\x1b[0m", RegexPattern("3.m"))


DENSE = [
    "loss", "loss: 0", "^step", "5$", "[^x]5", r"step\s\d+5\s", r"\D5", r"[\s,]loss",
    "loss|step 3", "s[^s]*s",
    r"\bloss\b", "(?i)LOSS", "5\\n", "[\\t-z]5", "(?:step|x) .*5", "", "$", "x{2,3}",
]  # fmt: skip


@pytest.mark.parametrize("text", DENSE)
@pytest.mark.parametrize("coloured", [False, True])
@pytest.mark.parametrize("ending", [b"\n", b""])
def test_where_most_lines_match_the_same_are_found(
    tmp_path: Path, text: str, coloured: bool, ending: bytes
) -> None:
    dice = random.Random(7)
    plain = [b"step %d loss: 0.%d" % (at, dice.randrange(99)) for at in range(5_000)]
    plain += [b"", b"xx", b"loss"] * 500
    dice.shuffle(plain)
    lines = [re.sub(rb"(\d)", b"\x1b[31m\\1\x1b[0m", line, count=1) for line in plain]
    path = tmp_path / "output.log"
    path.write_bytes(b"\n".join(lines if coloured else plain) + ending)
    log = LogFile(path)
    try:
        pattern = RegexPattern(text)
    except BadExpression:
        pytest.skip("RE2 does not know it")
    one_by_one = [pattern.accepts(line) for line in plain]
    matches = counted(log, pattern)
    hits = found(log, pattern, -1)
    starts = [0]
    for line in lines if coloured else plain:
        starts.append(starts[-1] + len(line) + 1)
    wanted = [start for start, yes in zip(starts, one_by_one, strict=False) if yes]
    wanted = [start for start in wanted if start < log.size]
    assert hits == wanted
    assert matches.count == len(wanted)


def test_two_patterns_that_most_lines_match(tmp_path: Path) -> None:
    path = tmp_path / "output.log"
    path.write_bytes(b"".join(b"[rank%d]: loss %d\n" % (at % 2, at) for at in range(90_000)))
    both = counted(LogFile(path), AllOf(TextPattern("loss"), RankPattern(1)))
    assert both.count == 45_000
    assert counted(LogFile(path), AllOf(RegexPattern("loss .*7"), RankPattern(0))).count == sum(
        "7" in str(at) for at in range(0, 90_000, 2)
    )
