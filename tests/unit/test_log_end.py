"""The last lines of a file are found from its end, whatever holes are in it."""

import os
from pathlib import Path

import pytest

from tui.cli.logs import last_lines_offset


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
