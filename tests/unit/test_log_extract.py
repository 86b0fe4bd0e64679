"""What is taken from a log: raw bytes into files, safe text for a clipboard."""

import random
from base64 import b64decode
from pathlib import Path

import pytest

from runners.watch.logs.extract import ExtractRefused, check_target, text_of, write_part
from runners.watch.logs.filter import LineFilter
from runners.watch.logs.index import LogFile
from runners.watch.logs.reader import BLOCK
from runners.watch.logs.search import TextPattern
from tui.panel.terminal.osc import CAP, describe_sent, osc52

OSC = b"\x1b]52;c;cm0gLXJmIH4=\x07"


def log_of(tmp_path: Path, data: bytes) -> LogFile:
    path = tmp_path / "output.log"
    path.write_bytes(data)
    return LogFile(path)


def test_osc_52_is_written_for_what_is_between() -> None:
    assert osc52(b"hello", {}) == "\x1b]52;c;aGVsbG8=\x07"
    assert osc52(b"hello", {"TMUX": "/x,1,0"}) == "\x1bPtmux;\x1b\x1b]52;c;aGVsbG8=\x07\x1b\\"
    assert osc52(b"hello", {"STY": "1.x"}) == "\x1bP\x1b]52;c;aGVsbG8=\x07\x1b\\"
    long = osc52(b"x" * 600, {"STY": "1.x"})
    assert long.count("\x1bP") == 4
    assert all(len(piece) <= 242 for piece in long.split("\x1b\\"))
    assert long.replace("\x1bP", "").replace("\x1b\\", "") == osc52(b"x" * 600, {})


def test_osc_52_has_a_cap() -> None:
    assert len(osc52(b"x" * 200_000, {})) == 100_000
    assert len(b64decode(osc52(b"x" * 200_000, {})[7:-1])) == CAP == 74_994


def test_what_is_said_is_what_was_sent() -> None:
    assert describe_sent("3 lines", 1234, False, {}) == (
        "sent 3 lines (1.2 kB) to the terminal's clipboard (OSC 52); w writes them to a file"
    )
    cut = describe_sent("9 lines", CAP, True, {"TMUX": "x"})
    assert "75.0 kB, cut there" in cut and "allow-passthrough" in cut and "copied" not in cut
    assert describe_sent("line 7", 5, False, {}).endswith("w writes it to a file")


def test_text_is_safe_and_capped(tmp_path: Path) -> None:
    log = log_of(
        tmp_path, b"first\n" + OSC + b"\x1b[31mred\x1b[0m\xff\n" + "Größe\n".encode() * 100
    )
    text = text_of(log.source, 0, log.size, 1000)
    assert text.data.startswith("first\nred�\nGröße\nGröße".encode())
    assert b"\x1b" not in text.data
    assert (text.lines, text.cut) == (102, False)
    assert text_of(log.source, 6, 6, 1000).data == "red�".encode()
    for cap in range(12, 40):
        cut = text_of(log.source, 0, log.size, cap)
        assert cut.cut and len(cut.data) <= cap
        assert text.data.startswith(cut.data)
        cut.data.decode()
    some = text_of(LineFilter(log.source, TextPattern("nothing")), 0, log.size, 1000)
    assert some.lines == 0


def written(log: LogFile, path: Path, part: tuple[int, int], lines: LineFilter | None) -> bytes:
    steps = list(write_part(log.source, path, path.exists(), part, lines))
    assert steps[-1] == (1.0, path.stat().st_size)
    return path.read_bytes()


def test_files_hold_the_raw_bytes(tmp_path: Path) -> None:
    dice = random.Random(3)
    kinds = [
        OSC + b" loss\n",
        b"plain\n",
        b"loss\xff\x00\n",
        b"x" * 300_000 + b"loss\n",
        b"y" * BLOCK,
        b"loss\n" * 999,
    ]
    data = b"".join(dice.choice(kinds) for _ in range(60))
    log = log_of(tmp_path, data)
    out = tmp_path / "out"
    assert written(log, out, (0, log.size), None) == data
    for _ in range(5):
        low = log.source.start_of(dice.randrange(log.size))
        high = log.source.end_of(log.source.start_of(dice.randrange(low, log.size)))
        assert written(log, out, (low, high), None) == data[low:high]
        lines = LineFilter(log.source, TextPattern("loss"))
        lines.step(BLOCK)
        wanted = [
            line
            for line in read_all(log)
            if low <= line[0] < high and b"loss" in data[line[0] : line[1]]
        ]
        assert written(log, out, (low, high), lines) == b"".join(
            data[start:end] for start, end in wanted
        )
    empty = log_of(tmp_path, b"")
    assert written(empty, out, (0, 0), None) == b""


def read_all(log: LogFile) -> list[tuple[int, int]]:
    places, at = [], 0
    while line := log.source.read_forward(at, 1):
        places.append((line[0].start, line[0].end))
        at = line[0].end
    return places


def test_a_file_that_is_not_finished_is_not_left(tmp_path: Path) -> None:
    log = log_of(tmp_path, b"x\n" * BLOCK)
    going = write_part(log.source, tmp_path / "out", False, (0, log.size), None)
    next(going)
    going.close()
    assert not (tmp_path / "out").exists()
    with pytest.raises(FileExistsError):
        next(write_part(log.source, tmp_path / "output.log", False, (0, log.size), None))
    assert (tmp_path / "output.log").stat().st_size == log.size


def test_which_file_is_meant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = log_of(tmp_path, b"log\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert check_target("new.log", tmp_path, log.path) == (tmp_path / "new.log", False)
    assert check_target("~/new.log", Path("/"), log.path) == (tmp_path / "new.log", False)
    (tmp_path / "old.log").write_bytes(b"old\n")
    with pytest.raises(ExtractRefused, match=r"exists \(4 bytes\)") as refused:
        check_target("old.log", tmp_path, log.path)
    assert refused.value.may_insist
    assert check_target("old.log!", tmp_path, log.path) == (tmp_path / "old.log", True)
    for words in (
        "",
        "!",
        "none/new.log",
        ".",
        "output.log!",
        "a\0b",
        "~nobody-at-all/x",
        "x" * 300,
    ):
        with pytest.raises(ExtractRefused) as refused:
            check_target(words, tmp_path, log.path)
        assert not refused.value.may_insist
    assert sorted(path.name for path in tmp_path.iterdir()) == ["old.log", "output.log"]
