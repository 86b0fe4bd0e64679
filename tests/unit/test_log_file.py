"""A log is read right wherever one looks, counted right, and noticed when it changes."""

import os
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runners.watch.logs.index import Change, LogFile
from runners.watch.logs.reader import BLOCK


def index(log: LogFile) -> LogFile:
    while not log.index.step(BLOCK // 3):
        pass
    return log


def split(data: bytes) -> list[bytes]:
    """The lines of some bytes, read naively: at newlines, and at whole blocks that have none."""
    lines, start = [], 0
    cuts = {at for at in range(BLOCK, len(data) + 1, BLOCK) if b"\n" not in data[at - BLOCK : at]}
    cuts |= {at + 1 for at, byte in enumerate(data) if byte == 10} if data.count(b"\n") else set()
    for cut in sorted(cuts):
        lines.append(data[start:cut])
        start = cut
    return [*lines, data[start:]] if start < len(data) else lines


def random_log(seed: int) -> bytes:
    """Around three blocks of lines of all lengths, some far longer than a block."""
    dice = random.Random(seed)
    parts = []
    size = 0
    wanted = dice.choice([0, 1000, BLOCK, 2 * BLOCK, 3 * BLOCK])
    while size < wanted:
        length = dice.choice(
            [0, 1, 50, 50, 50, 3000, 70_000, 200_000, BLOCK - 1, BLOCK, 2 * BLOCK + 5]
        )
        many = dice.randrange(1, 200) if length <= 50 else 1
        parts.append((b"x" * length + b"\n") * many)
        size += (length + 1) * many
    return b"".join(parts) + b"y" * dice.choice([0, 0, 7, BLOCK])


@pytest.mark.parametrize("seed", range(25))
def test_index_and_reading_agree_with_a_naive_reading(seed: int, tmp_path: Path) -> None:
    data = random_log(seed)
    path = tmp_path / "output.log"
    path.write_bytes(data)
    lines = split(data)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    log = index(LogFile(path))
    assert log.line_count == (len(lines), True)
    dice = random.Random(seed)
    for number in dice.sample(range(len(lines)), min(40, len(lines))):
        start = starts[number]
        assert log.index.offset_of(number) == start
        assert log.index.line_at(start) == number
        assert log.source.end_of(start) == starts[number + 1]
        inside = dice.randrange(start, starts[number + 1])
        assert log.source.start_of(inside) == start
        ahead = log.source.read_forward(start, 5)
        assert [line.start for line in ahead] == starts[number : number + 5][: len(ahead)]
        assert len(ahead) == min(5, len(lines) - number)
        back = log.source.read_backward(start, 5)
        assert [line.start for line in back] == starts[max(0, number - 5) : number]
        for line in (*ahead, *back):
            whole = data[line.start : line.end]
            assert line.data == whole or (line.more > 0 and whole.startswith(line.data))
            assert len(line.data) + line.more == len(whole)
    tail = log.tail(7)
    assert [line.start for line in tail] == starts[:-1][-7:]
    assert log.index.offset_of(len(lines)) is None


@settings(max_examples=60, deadline=None)
@given(
    lengths=st.lists(st.integers(0, 12), max_size=60),
    looks=st.lists(st.integers(0, 400), max_size=6),
)
def test_a_log_counted_while_it_grows(
    lengths: list[int], looks: list[int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    data = b"\n".join(b"x" * length for length in lengths)
    path = tmp_path_factory.mktemp("log") / "output.log"
    path.write_bytes(b"")
    log = LogFile(path)
    for size in sorted(looks):
        path.write_bytes(data[:size])
        log.refresh()
        log.index.step(size // 2)
    path.write_bytes(data)
    log.refresh()
    index(log)
    lines = split(data)
    assert log.line_count == (len(lines), True)
    assert log.lines(0, 1000) == lines


def test_the_end_is_read_without_an_index(tmp_path: Path) -> None:
    path = tmp_path / "output.log"
    path.write_bytes(b"".join(b"line %d\n" % at for at in range(400_000)))
    log = LogFile(path)
    assert [line.data for line in log.tail(2)] == [b"line 399998\n", b"line 399999\n"]
    assert log.index.scanned == 0
    count, exact = log.line_count
    assert not exact
    assert 300_000 < count < 500_000
    assert log.lines(5, 1) == [b"line 5\n"] or log.lines(5, 1) == []
    index(log)
    assert log.lines(123_456, 2) == [b"line 123456\n", b"line 123457\n"]


def test_a_line_of_100_mb_is_never_read_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "output.log"
    with path.open("wb") as out:
        out.truncate(100 << 20)
    read: list[int] = []
    pread = os.pread

    def spy(descriptor: int, count: int, offset: int) -> bytes:
        read.append(count)
        return pread(descriptor, count, offset)

    monkeypatch.setattr(os, "pread", spy)
    log = LogFile(path)
    (last,) = log.tail(1)
    assert last.end == 100 << 20
    assert max(read) <= BLOCK
    assert sum(read) <= 3 * BLOCK
    assert index(log).line_count == (100, True)
    assert max(read) <= BLOCK


def test_the_end_of_a_giant_progress_line_is_its_last_bar(tmp_path: Path) -> None:
    path = tmp_path / "output.log"
    path.write_bytes(b"".join(b"\r%9d/10000000 it/s" % at for at in range(200_000)))
    (last,) = LogFile(path).tail(1)
    assert last.data.endswith(b"\r   199999/10000000 it/s")
    assert len(last.data) <= 64 * 1024


def test_a_log_that_is_not_there_is_empty_until_it_is(tmp_path: Path) -> None:
    path = tmp_path / "later" / "output.log"
    log = LogFile(path)
    assert (log.size, log.line_count, log.tail(5)) == (0, (0, True), [])
    assert log.refresh() is Change.NONE
    path.parent.mkdir()
    path.write_bytes(b"here\n")
    assert log.refresh() is Change.GROWN
    assert log.tail(5)[0].data == b"here\n"


def test_growth_truncation_replacement_and_removal_are_noticed(tmp_path: Path) -> None:
    path = tmp_path / "output.log"
    path.write_bytes(b"one\ntwo\n")
    log = index(LogFile(path))
    assert log.refresh() is Change.NONE
    with path.open("ab") as out:
        out.write(b"three\n")
    assert log.refresh() is Change.GROWN
    assert index(log).line_count == (3, True)
    old = log.index
    with path.open("r+b") as out:
        out.truncate(4)
    assert log.refresh() is Change.TRUNCATED
    assert log.index is not old
    assert index(log).lines(0, 9) == [b"one\n"]
    other = tmp_path / "other"
    other.write_bytes(b"new\nfile\n")
    other.replace(path)
    assert log.refresh() is Change.REPLACED
    assert index(log).lines(0, 9) == [b"new\n", b"file\n"]
    path.unlink()
    assert log.refresh() is Change.NONE
    assert log.lines(0, 9) == [b"new\n", b"file\n"]


def test_a_log_cut_and_filled_again_beyond_its_old_size_is_another(tmp_path: Path) -> None:
    path = tmp_path / "output.log"
    path.write_bytes(b"old " * 100)
    log = LogFile(path)
    path.write_bytes(b"brand new " * 100)
    assert log.refresh() is Change.TRUNCATED


def test_a_file_cut_short_under_a_reader_gives_what_is_left(tmp_path: Path) -> None:
    path = tmp_path / "output.log"
    path.write_bytes(b"line\n" * 100_000)
    log = LogFile(path)
    path.write_bytes(b"li")
    assert log.tail(3) is not None
    assert log.source.read_forward(250_000, 3) == []
    assert [line.data for line in log.source.read_forward(0, 3)] == [b"li"]
    log.index.step(1 << 30)
    assert log.refresh() is Change.TRUNCATED
    assert [line.data for line in log.tail(3)] == [b"li"]


def test_descriptors_of_replaced_files_are_closed(tmp_path: Path) -> None:
    path = tmp_path / "output.log"
    path.write_bytes(b"0\n")
    log = LogFile(path)
    before = len(list(Path("/proc/self/fd").iterdir()))
    for at in range(20):
        other = tmp_path / "other"
        other.write_bytes(b"%d\n" % at)
        other.replace(path)
        assert log.refresh() is Change.REPLACED
    assert len(list(Path("/proc/self/fd").iterdir())) <= before  # garbage may close more
