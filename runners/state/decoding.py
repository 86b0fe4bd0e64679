"""Bytes as structs, or None: the one place that knows in which ways a file can be damaged."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Protocol, TypeVar

import msgspec

from runners.host.files import PLAIN_LIMIT, read_plain

T = TypeVar("T")
_Content = TypeVar("_Content")
_Given = TypeVar("_Given", contravariant=True)
_Told = TypeVar("_Told", covariant=True)

# Text that is not UTF-8 raises UnicodeDecodeError, a ValueError, and not msgspec's own error.
_DAMAGES = (msgspec.DecodeError, ValueError, OverflowError, RecursionError)

any_json: "msgspec.json.Decoder[Any]" = msgspec.json.Decoder()


class _Decoder(Protocol[_Given, _Told]):
    def decode(self, buf: _Given, /) -> _Told: ...


def decode(content: _Content, decoder: _Decoder[_Content, T]) -> T | None:
    """What `content` says; None when it is damaged, or says something else."""
    try:
        return decoder.decode(content)
    except _DAMAGES:
        return None


def decode_lines(lines: Iterable[bytes], decoder: _Decoder[bytes, T]) -> Iterator[T]:
    """What each line says; those that say nothing are left out.

    A first line may be cut off, and a last one half written.
    """
    for line in lines:
        found = decode(line, decoder)
        if found is not None:
            yield found


def read(path: Path | str, decoder: _Decoder[bytes, T], limit: int = PLAIN_LIMIT) -> T | None:
    """The plain file at `path`, decoded; None when it is missing, no plain file, or damaged."""
    try:
        content = read_plain(path, limit)
    except OSError:
        return None
    return decode(content, decoder)


def read_or_raise(path: Path, decoder: _Decoder[bytes, T]) -> T:
    """The plain file at `path`, decoded; raises OSError, and ValueError when it is damaged."""
    content = read_plain(path)
    try:
        return decoder.decode(content)
    except _DAMAGES as error:
        raise ValueError(str(error)) from None
