"""Damaged files and lines say nothing, in whatever way they are damaged."""

import json
from pathlib import Path

import msgspec
import pytest

from runners.state.decoding import any_json, decode, decode_lines, read, read_or_raise


class Point(msgspec.Struct):
    """Something to decode."""

    x: int
    name: str = ""


DAMAGED = [
    b"",
    b"{",
    b"[1]",
    b'{"x": "1"}',
    b'{"x": 1e999}',
    b'{"x": 1, "name": "\xff\xfe"}',
    b"[" * 100_000,
]


@pytest.mark.parametrize("content", DAMAGED, ids=range(len(DAMAGED)))
def test_damaged_content_says_nothing(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "point.json"
    path.write_bytes(content)
    assert decode(content, Point) is None and read(path, Point) is None
    with pytest.raises(ValueError):
        read_or_raise(path, Point)


def test_what_is_whole_is_read(tmp_path: Path) -> None:
    path = tmp_path / "point.json"
    path.write_bytes(b'{"x": 1, "other": true}')
    assert read(path, Point) == Point(1) == read_or_raise(path, Point)
    assert decode("[1, null]", any_json) == [1, None]


def test_a_missing_file_and_a_folder_say_nothing(tmp_path: Path) -> None:
    for path in (tmp_path / "none", tmp_path):
        assert read(path, Point) is None
        with pytest.raises(OSError):
            read_or_raise(path, Point)


def test_lines_that_say_nothing_are_left_out() -> None:
    whole = json.dumps({"x": 3}).encode()
    assert list(decode_lines([b'": 1}', whole, *DAMAGED, whole[:-1]], Point)) == [Point(3)]
