"""The last lines of a file are found from its end, whatever holes are in it."""

import os
from pathlib import Path

import pytest

from runners.state.layout import output_set_aside
from tui.cli.logs import last_lines_offset
from tui.cli.output_blocks import OutputBlocks, OutputFollower


def test_a_hole_of_many_gigabytes_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "output.log"
    with path.open("wb") as file:
        file.write(b"one\ntwo\nthree\n")
        file.seek(20 << 30)
        file.write(b"four\nfive\n")
    read = 0
    real = os.pread

    def count(descriptor: int, size: int, offset: int) -> bytes:
        nonlocal read
        block = real(descriptor, size, offset)
        read += len(block)
        return block

    monkeypatch.setattr(os, "pread", count)
    offset = last_lines_offset(path, 4)
    assert offset == len(b"one\n")
    assert read < 16 << 20
    assert last_lines_offset(path, 1) == (20 << 30) + len(b"four\n")


def test_attempts_that_came_and_went_between_two_looks_are_followed_too(tmp_path: Path) -> None:
    output = tmp_path / "output.log"
    output_set_aside(tmp_path, 1).write_text("first\n")
    output.write_text("second\n")
    stream = (tmp_path / "shown").open("w")
    with stream, OutputFollower(OutputBlocks(output, attempt=1), stream=stream) as follower:
        follower.copy()
        with output.open("a") as file:
            file.write("more\n")
        output.rename(output_set_aside(tmp_path, 2))
        output_set_aside(tmp_path, 3).write_text("third\n")
        output.write_text("last\n")
        follower.copy()
        follower.copy()
    shown = (tmp_path / "shown").read_text().split()
    assert shown == ["first", "second", "more", "third", "last"]
