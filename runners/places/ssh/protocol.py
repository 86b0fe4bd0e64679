"""What goes over a link: a start marker, then JSON lines, each with the raw bytes it announces.

A shell may print whatever it likes before the marker (a message of the day, a talking `.bashrc`):
it is passed over. Standard library only: a link must start quickly.
"""

import json
import os
from typing import Any, NamedTuple

MARKER = b"\x1efresnel-tui link 1\n"
"""The first bytes that an agent writes; another number is another language."""

MOST_NOISE = 1 << 20
_LONGEST_HEADER = 16 << 20
_MOST_PAYLOAD = 16 << 20


class LinkNoise(Exception):
    """What came is no link; the argument is the end of what was said instead."""


class LinkMessage(NamedTuple):
    """One message: its fields, and the raw bytes behind them."""

    fields: dict[str, Any]
    payload: bytes = b""


def new_request_name() -> str:
    """A name for a launch, which nobody else has given."""
    return os.urandom(12).hex()


def pack(fields: dict[str, Any], payload: bytes = b"") -> bytes:
    """A message as it goes over the line; `bytes` among the fields is ours alone."""
    assert "bytes" not in fields
    if payload:
        fields = {**fields, "bytes": len(payload)}
    return json.dumps(fields, separators=(",", ":")).encode() + b"\n" + payload


class MessageReader:
    """Messages out of a stream of bytes that comes in any pieces.

    With `marker`, what comes before the start marker is passed over; LinkNoise when it is too much.
    """

    def __init__(self, marker: bool = False) -> None:
        self._buffer = bytearray()
        self._header: dict[str, Any] | None = None
        self.begun = not marker

    @property
    def noise(self) -> str:
        """What came instead of the marker so far, its end."""
        return bytes(self._buffer[-400:]).decode("utf-8", "replace").strip()

    def feed(self, data: bytes) -> list[LinkMessage]:
        """The messages that are whole now."""
        self._buffer += data
        if not self.begun and not self._find_marker():
            return []
        frames = []
        while (frame := self._next()) is not None:
            frames.append(frame)
        return frames

    def _find_marker(self) -> bool:
        at = self._buffer.find(MARKER)
        if at < 0:
            if len(self._buffer) > MOST_NOISE:
                raise LinkNoise(self.noise)
            return False
        del self._buffer[: at + len(MARKER)]
        self.begun = True
        return True

    def _next(self) -> LinkMessage | None:
        while self._header is None:
            end = self._buffer.find(b"\n")
            if end < 0:
                if len(self._buffer) > _LONGEST_HEADER:
                    raise LinkNoise("a message without an end")
                return None
            line = bytes(self._buffer[:end])
            del self._buffer[: end + 1]
            self._header = _object(line)
        count = self._header.get("bytes", 0)
        if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= _MOST_PAYLOAD:
            raise LinkNoise(f"a message of {count} bytes")
        if len(self._buffer) < count:
            return None
        frame = LinkMessage(self._header, bytes(self._buffer[:count]))
        del self._buffer[:count]
        self._header = None
        return frame


def _object(line: bytes) -> dict[str, Any] | None:
    """The object in a line; None for what a background job of the shell wrote between."""
    try:
        value = json.loads(line)
    except RecursionError:
        raise LinkNoise("a message without a bottom") from None
    except ValueError:
        return None
    return value if isinstance(value, dict) else None
