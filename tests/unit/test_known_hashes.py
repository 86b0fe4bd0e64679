"""Hashes of large files that are kept: of a file that has changed none counts."""

import hashlib
import os
import time
from pathlib import Path

import pytest

from runners.places.ssh import manifest
from runners.places.ssh.manifest import KNOWN_HASHES, KnownHashes

LONG_AGO = time.time() - 3600


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that were read."""
    names: list[str] = []
    true = manifest.hash_of

    def hash_of(path: Path, size: int) -> str:
        names.append(path.name)
        return true(path, size)

    monkeypatch.setattr(manifest, "hash_of", hash_of)
    monkeypatch.setattr(manifest, "_SETTLED_S", -1e9)
    return names


def write(path: Path, content: bytes) -> Path:
    """A file of a megabyte, written an hour ago by its own time."""
    path.write_bytes(content.ljust(1 << 20))
    os.utime(path, (LONG_AGO, LONG_AGO))
    return path


def ask(folder: Path, *paths: Path) -> list[str]:
    """Their hashes, asked anew."""
    hashes = KnownHashes(folder)
    found = [hashes.of(path)[1] for path in paths]
    hashes.close()
    return found


def test_what_has_not_changed_is_read_once(tmp_path: Path, read: list[str]) -> None:
    large, small = write(tmp_path / "large", b"a"), tmp_path / "small"
    small.write_bytes(b"b")
    assert ask(tmp_path, large, small) == ask(tmp_path, large, small)
    assert read == ["large", "small", "small"]


def test_a_change_of_the_same_size_and_time_is_seen(tmp_path: Path, read: list[str]) -> None:
    large = write(tmp_path / "large", b"a")
    ask(tmp_path, large)
    write(large, b"b")
    assert ask(tmp_path, large) == [hashlib.sha256(large.read_bytes()).hexdigest()]


def test_a_damaged_file_of_hashes_is_none(tmp_path: Path, read: list[str]) -> None:
    large = write(tmp_path / "large", b"a")
    before = ask(tmp_path, large)
    (tmp_path / KNOWN_HASHES).write_text('{"x": [[1, 2], "no hash"]}')
    assert ask(tmp_path, large) == before


def test_what_was_just_written_is_read_again(tmp_path: Path, read: list[str]) -> None:
    manifest._SETTLED_S = 2.0
    large = write(tmp_path / "large", b"a")
    ask(tmp_path, large)
    ask(tmp_path, large)
    assert read == ["large", "large"]
