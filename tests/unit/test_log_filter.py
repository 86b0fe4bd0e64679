"""A filtered log reads like a file that holds the matching lines alone."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runners.watch.logs import filter as logfilter
from runners.watch.logs.filter import LineFilter
from runners.watch.logs.index import LogFile
from runners.watch.logs.ranks import RankPattern, ranks_in
from runners.watch.logs.reader import BLOCK
from runners.watch.logs.search import AllOf, Pattern, RegexPattern, TextPattern

PIECES = [
    b"loss 0.1\n", b"\n", b"other\n", b"lo", b"ss", b"\x1b[31mlo\x1b[0mss\n", b"50%\rloss\n",
    b"loss\rgone....\n",
    b"x" * 70_000, b"loss" + b"y" * BLOCK, (b"step 12 of many" + b"." * 110 + b"\n") * 4_000,
    (b"loss at step 12" + b"." * 110 + b"\n") * 9_000, b"z" * BLOCK,
]  # fmt: skip


def naive(log: LogFile, accepts: Callable[[bytes], bool]) -> list[tuple[int, int]]:
    """Start and end of every line that matches, found line by line."""
    found, start = [], 0
    while lines := log.source.read_forward(start, 4096):
        for line in lines:
            whole = log.source.read(line.start, line.end) if line.more else line.data
            if accepts(whole):
                found.append((line.start, line.end))
        start = lines[-1].end
    return found


def holds_loss(line: bytes) -> bool:
    """What `TextPattern("loss")` is meant to find in these lines, as a terminal would show them."""
    line = line.replace(b"\x1b[31m", b"").replace(b"\x1b[0m", b"").rstrip(b"\n")
    *before, last = line.split(b"\r")
    if len(line) <= 8192:  # of a longer line the last redraw is shown alone
        for drawn in reversed(before):
            last += drawn[len(last) :]
    return b"loss" in last


def searched(lines: LineFilter) -> LineFilter:
    while not lines.step(BLOCK):
        pass
    return lines


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.lists(st.integers(0, len(PIECES) - 1), max_size=6), min_size=1, max_size=4),
    st.integers(0, 6 * BLOCK),
    st.integers(1, 50),
    st.sampled_from([0, 3, logfilter.KEPT]),
)
def test_a_filter_agrees_with_a_naive_one_however_the_log_grew(
    tmp_path_factory: pytest.TempPathFactory,
    growth: list[list[int]],
    near: int,
    page: int,
    kept: int,
) -> None:
    path = tmp_path_factory.mktemp("log") / "output.log"
    path.touch()
    log = LogFile(path)
    lines = LineFilter(log.source, TextPattern("loss"), near)
    with pytest.MonkeyPatch.context() as patch, path.open("ab", buffering=0) as out:
        patch.setattr(logfilter, "KEPT", kept)
        for pieces in growth:
            out.write(b"".join(PIECES[at] for at in pieces))
            log.refresh()
            searched(lines)
    wanted = naive(log, holds_loss)
    assert lines.count == len(wanted)
    assert [(line.start, line.end) for line in lines.read_forward(0, len(wanted) + 9)] == wanted
    assert [
        (line.start, line.end) for line in lines.read_backward(log.size, len(wanted) + 9)
    ] == wanted
    after = [place for place in wanted if place[0] >= near]
    assert [(line.start, line.end) for line in lines.read_forward(near, page)] == after[:page]
    end = log.source.start_of(min(near, log.size))
    before = [place for place in wanted if place[0] < end]
    assert [(line.start, line.end) for line in lines.read_backward(end, page)] == before[-page:]
    for line in lines.read_forward(near, page):
        assert line.data == log.source.read_forward(line.start, 1)[0].data


def test_what_a_short_redraw_leaves_of_a_line_is_found(tmp_path: Path) -> None:
    line = b"z" * 13 + b"loss\rgone....\n"
    assert holds_loss(line) and not holds_loss(b"loss\rgone....\n")
    assert only(tmp_path, b"loss\rgone....\n" + line, TextPattern("loss")) == line


def test_what_the_reader_looks_at_is_searched_first(tmp_path: Path) -> None:
    path = tmp_path / "output.log"
    path.write_bytes(b"loss 0.123\n" * (10 * BLOCK // 11))
    log = LogFile(path)
    lines = LineFilter(log.source, TextPattern("loss"), near=5 * BLOCK + 100)
    assert not lines.complete
    lines.step(3 * BLOCK)
    assert 0 < lines.searched < 1
    start = log.source.start_of(5 * BLOCK + 100)
    assert [line.start for line in lines.read_forward(start, 3)] == [start, start + 11, start + 22]
    lines.near = 2 * BLOCK + 100
    lines.step(BLOCK)
    start = log.source.start_of(2 * BLOCK + 100)
    assert len(lines.read_forward(start, 3)) == 3
    assert searched(lines).count == log.source.size // 11
    assert lines.searched == 1


def test_a_filter_that_matches_millions_keeps_no_more_than_the_cap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logfilter, "KEPT", 1000)
    path = tmp_path / "output.log"
    path.write_bytes(b"loss\n" * (4 * BLOCK // 5))
    log = LogFile(path)
    lines = searched(LineFilter(log.source, TextPattern("loss")))
    assert lines.count == 4 * BLOCK // 5
    assert sum(len(hits) for hits in lines._kept.values()) <= 1000
    assert [line.start for line in lines.read_backward(2 * BLOCK, 2)] == [
        2 * BLOCK - 7,
        2 * BLOCK - 2,
    ]


def only(tmp_path: Path, data: bytes, pattern: Pattern) -> bytes:
    path = tmp_path / "output.log"
    path.write_bytes(data)
    log = LogFile(path)
    return b"".join(
        line.data for line in searched(LineFilter(log.source, pattern)).read_forward(0, 1000)
    )


RANKED = (
    b"launching\n[rank0]: one\n[default1]:two\n[rank 1] three\n[default0]:[rank1]: "
    b"four\n[rank: 1] five\n"
    b"\x1b[31m[rank1]\x1b[0m: six\n[epoch1]: seven\n[rank12]: eight\n2026-11-20 12:00 [rank "
    b"2] nine\n"
)


def test_lines_of_a_rank(tmp_path: Path) -> None:
    assert only(tmp_path, RANKED, RankPattern(0)) == b"[rank0]: one\n[default0]:[rank1]: four\n"
    wanted = b"[default1]:two\n[rank 1] three\n[rank: 1] five\n\x1b[31m[rank1]\x1b[0m: six\n"
    assert only(tmp_path, RANKED, RankPattern(1)) == wanted
    assert ranks_in(LogFile(tmp_path / "output.log").source) == [0, 1, 2, 12]


def test_two_patterns_at_once(tmp_path: Path) -> None:
    assert only(tmp_path, RANKED, AllOf(TextPattern("o"), RankPattern(1))) == b"[default1]:two\n"
    assert (
        only(tmp_path, RANKED, AllOf(RegexPattern("fi|two"), RankPattern(1)))
        == b"[default1]:two\n[rank: 1] five\n"
    )
