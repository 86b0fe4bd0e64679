"""Bytes as structs, or None: the one place that knows in which ways a file can be damaged."""

import os
import time
from _thread import allocate_lock
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

import msgspec

from runners.host.files import PLAIN_LIMIT, read_plain

T = TypeVar("T")
_Content = TypeVar("_Content")
_Given = TypeVar("_Given", contravariant=True)
_Decoded = TypeVar("_Decoded", covariant=True)

# Text that is not UTF-8 raises UnicodeDecodeError, a ValueError, and not msgspec's own error.
_DAMAGES = (msgspec.DecodeError, ValueError, OverflowError, RecursionError)

any_json: "msgspec.json.Decoder[Any]" = msgspec.json.Decoder()


class _PythonJson:
    """JSON of any kind, also with the NaN and infinities that Python's json.dumps writes."""

    def decode(self, buf: bytes | str, /) -> Any:
        try:
            return any_json.decode(buf)
        except msgspec.DecodeError:
            text = buf if isinstance(buf, str) else buf.decode()
            if "NaN" not in text and "Infinity" not in text:
                raise
        import json  # few programs write such numbers

        return json.loads(text)


python_json = _PythonJson()

_MOST_KEPT = 1024
SETTLED_S = 0.1
"""A file changed so lately may change once more without another modification time."""


class _Kept(NamedTuple):
    """What a file held, and by what it is known to be the same file still."""

    stamp: tuple[int, int, int, int]
    value: Any


_kept: dict[tuple[str, int], _Kept] | None = None


class _Decoder(Protocol[_Given, _Decoded]):
    def decode(self, buf: _Given, /) -> _Decoded: ...


_building = allocate_lock()


@cache
def json_decoder(kind: Any) -> Any:
    """The decoder of a type's JSON, built once: that takes as long as decoding a small file.

    One thread at a time, and what several use from their beginning is built when it is imported:
    msgspec crashes where two threads use a type of structs for the first time at once.
    """
    with _building:
        return msgspec.json.Decoder(kind)


def _decoder_of(kind: Any) -> Any:
    """A decoder as it is; for a type the one of its JSON, which is made when it is first needed."""
    return kind if hasattr(kind, "decode") else json_decoder(kind)


def decode(content: _Content, kind: type[T] | _Decoder[_Content, T]) -> T | None:
    """What `content` says; None when it is damaged, or says something else."""
    decoder: _Decoder[_Content, T] = _decoder_of(kind)
    try:
        return decoder.decode(content)
    except _DAMAGES:
        return None


def decode_lines(lines: Iterable[bytes], kind: type[T] | _Decoder[bytes, T]) -> Iterator[T]:
    """What each line says; those that say nothing are left out.

    A first line may be cut off, and a last one half written.
    """
    decoder: _Decoder[bytes, T] = _decoder_of(kind)
    for line in lines:
        found = decode(line, decoder)
        if found is not None:
            yield found


def keep_what_is_read() -> None:
    """From now on this process decodes a file again only once it has changed.

    For programs that look at the same files every second: a look is one question to the system
    then instead of five. What was read belongs to everybody who reads it: nobody may change it.
    """
    global _kept
    _kept = {} if _kept is None else _kept


def read(
    path: Path | str, kind: type[T] | _Decoder[bytes, T], limit: int = PLAIN_LIMIT
) -> T | None:
    """The plain file at `path`, decoded; None when it is missing, no plain file, or damaged."""
    decoder: _Decoder[bytes, T] = _decoder_of(kind)
    if _kept is None or decoder is any_json:
        return _read(path, decoder, limit)
    key = str(path), id(decoder)
    try:
        now = os.stat(path)  # noqa: PTH116 (mostly all that a look costs)
    except OSError:
        _kept.pop(key, None)
        return None
    stamp = now.st_mtime_ns, now.st_ctime_ns, now.st_size, now.st_ino
    found = _kept.get(key)
    if found is not None and found.stamp == stamp:
        value: T | None = found.value
        return value
    is_settled = abs(time.time() - now.st_ctime) > SETTLED_S  # before reading, which may take long
    try:
        value = decode(read_plain(path, limit), decoder)
    except OSError:
        return None  # perhaps for a moment only
    if is_settled:
        if len(_kept) >= _MOST_KEPT:
            _kept.clear()
        _kept[key] = _Kept(stamp, value)
    return value


def _read(path: Path | str, decoder: _Decoder[bytes, T], limit: int) -> T | None:
    try:
        content = read_plain(path, limit)
    except OSError:
        return None
    return decode(content, decoder)


def read_or_raise(path: Path, kind: type[T]) -> T:
    """The plain file at `path`, decoded; raises OSError, and ValueError when it is damaged."""
    decoder: _Decoder[bytes, T] = _decoder_of(kind)
    content = read_plain(path)
    try:
        return decoder.decode(content)
    except _DAMAGES as error:
        raise ValueError(str(error)) from None
