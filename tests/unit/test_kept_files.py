"""Files that are looked at every second: decoded again only once they have changed."""

from __future__ import annotations

import errno
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from runners.state import decoding


class Word(msgspec.Struct, frozen=True):
    """What the files of these tests say."""

    word: str


class Counting:
    """A decoder that counts what it decodes."""

    def __init__(self) -> None:
        self.decoded = 0
        self._decoder = msgspec.json.Decoder(Word)

    def decode(self, content: bytes, /) -> Word:
        self.decoded += 1
        return self._decoder.decode(content)


@pytest.fixture
def decoder(monkeypatch: pytest.MonkeyPatch) -> Counting:
    monkeypatch.setattr(decoding, "_kept", None)
    decoding.keep_what_is_read()
    return Counting()


def write(path: Path, word: str) -> None:
    """Replace the file whole, as all writers do."""
    new = path.with_suffix(".new")
    new.write_bytes(msgspec.json.encode(Word(word)))
    new.rename(path)


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> None:
    """A minute after everything that these tests write."""
    now = time.time
    monkeypatch.setattr(decoding.time, "time", lambda: now() + 60)


@pytest.mark.usefixtures("later")
def test_what_has_not_changed_is_decoded_once(tmp_path: Path, decoder: Counting) -> None:
    path = tmp_path / "word.json"
    write(path, "one")
    for _ in range(3):
        assert decoding.read(path, decoder) == Word("one")
    assert decoder.decoded == 1
    write(path, "two")
    assert decoding.read(path, decoder) == Word("two")
    other = Counting()
    assert decoding.read(path, other) == Word("two") and other.decoded == 1


@pytest.mark.usefixtures("later")
def test_what_went_or_broke_is_not_remembered(tmp_path: Path, decoder: Counting) -> None:
    path = tmp_path / "word.json"
    write(path, "one")
    assert decoding.read(path, decoder) == Word("one")
    path.unlink()
    assert decoding.read(path, decoder) is None
    path.write_bytes(b'{"word": 7')
    assert decoding.read(path, decoder) is None
    write(path, "one")
    assert decoding.read(path, decoder) == Word("one")


def test_what_was_just_written_may_change_unseen_and_is_read_again(
    tmp_path: Path, decoder: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "word.json"
    path.write_bytes(msgspec.json.encode(Word("one")))
    written = path.stat()
    monkeypatch.setattr(decoding.time, "time", lambda: written.st_ctime + 0.01)
    stamp = (written.st_mtime_ns, written.st_ctime_ns, written.st_size, written.st_ino)
    assert decoding.read(path, decoder) == Word("one")
    # The same length within the same tick of the file system's clock.
    path.write_bytes(msgspec.json.encode(Word("two")))

    class Frozen:
        st_mtime_ns, st_ctime_ns, st_size, st_ino = stamp
        st_ctime = written.st_ctime

    monkeypatch.setattr(decoding.os, "stat", lambda _: Frozen())
    assert decoding.read(path, decoder) == Word("two")


@pytest.mark.usefixtures("later")
def test_what_could_not_be_read_for_a_moment_is_read_at_the_next_look(
    tmp_path: Path, decoder: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "word.json"
    write(path, "one")

    def refused(*_: object) -> bytes:
        raise OSError(errno.EMFILE, "too many open files")

    with monkeypatch.context() as moment:
        moment.setattr(decoding, "read_plain", refused)
        assert decoding.read(path, decoder) is None
    assert decoding.read(path, decoder) == Word("one")


def test_a_file_just_written_whose_reading_took_long_is_read_again(
    tmp_path: Path, decoder: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "word.json"
    write(path, "one")
    read_plain, now = decoding.read_plain, time.time

    def slowly(*given: Any) -> bytes:
        monkeypatch.setattr(decoding.time, "time", lambda: now() + 60)
        return read_plain(*given)

    monkeypatch.setattr(decoding, "read_plain", slowly)
    for _ in range(2):
        assert decoding.read(path, decoder) == Word("one")
    assert decoder.decoded == 2
