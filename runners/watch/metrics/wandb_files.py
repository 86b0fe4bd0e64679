"""The history in Weights & Biases' `run-ID.wandb` files, read as it grows, offline or not.

Formats: a header of seven bytes, then LevelDB's log format (github.com/google/leveldb,
doc/log_format.md: blocks of 32 KiB; records of CRC u32, length u16, type u8: whole, first, middle,
last) around wandb's Record messages (wandb/proto/wandb_internal.proto). Only the history is used:
items with a key and its value as JSON.
"""

import glob
import struct
from collections.abc import Iterator
from pathlib import Path

from runners.host.bounded_glob import SearchBudget
from runners.host.tail import GrowingFile
from runners.state.decoding import decode, python_json
from runners.watch.metrics.file_source import FileSource
from runners.watch.metrics.numbers import as_float
from runners.watch.metrics.sample import Sample
from runners.watch.metrics.tensorboard import fields

SUFFIX = ".wandb"
_MAGIC = b":W&B\xe1\xbe\x00"
_BLOCK = 32 << 10
_HEADER = 7
_WHOLE, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4
_LONGEST_MESSAGE = 64 << 20


class WandbFile:
    """One `.wandb` file; `poll` gives what was appended. A record that is not whole yet waits."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.problem = ""
        self._file = GrowingFile(path)
        self._restart()

    def _restart(self) -> None:
        self._rest = b""
        self._at = 0  # where in the file `_rest` begins
        self._message: list[bytes] = []
        self._held = 0  # bytes in `_message`

    def poll(self) -> Iterator[Sample]:
        """A sample for each step of the history written since the last call."""
        more = not self.problem
        while more:
            piece = self._file.read(1 << 20)
            if piece.restarted:
                self._restart()
            self._rest += piece.data
            for message in self._messages():
                try:
                    yield from _history(message)
                except (ValueError, IndexError):
                    continue  # a message that is damaged: the next begins where its length says
            more = piece.more and bool(piece.data) and not self.problem

    def _messages(self) -> Iterator[bytes]:
        content, at = self._rest, 0
        # The header is checked once, at the file's start.
        if self._at == 0:
            if len(content) < len(_MAGIC):
                return
            if not content.startswith(_MAGIC):
                self.problem = f"{self.path.name} is no file of wandb's"
                return
            at = len(_MAGIC)
        while True:
            # Records never cross a block: the place inside the block counts, not in `content`.
            left = _BLOCK - (self._at + at) % _BLOCK
            if len(content) - at < min(left, _HEADER):
                break
            if left < _HEADER:  # the end of a block, too short for a record
                at += left
                continue
            length, kind = struct.unpack_from("<HB", content, at + 4)
            if kind not in (_WHOLE, _FIRST, _MIDDLE, _LAST) or length > left - _HEADER:
                self.problem = f"{self.path.name} is damaged at byte {self._at + at:,}"
                break
            if len(content) - at < _HEADER + length:
                break
            piece = content[at + _HEADER : at + _HEADER + length]
            at += _HEADER + length
            if kind in (_WHOLE, _FIRST):
                self._message, self._held = [], 0
            # A message longer than a block comes in several records, joined once at its end.
            self._held += len(piece)
            if self._held > _LONGEST_MESSAGE:
                self.problem = f"{self.path.name} has a message of {self._held:,} bytes"
                break
            if piece:
                self._message.append(piece)
            if kind in (_WHOLE, _LAST):
                yield b"".join(self._message)
                self._message, self._held = [], 0
        self._rest, self._at = content[at:], self._at + at


class WandbSource(FileSource[WandbFile]):
    """All `.wandb` files of one run."""

    source = "wandb"
    called = "wandb's files"
    most = 20

    def _is_of_kind(self, path: Path) -> bool:
        return path.suffix == SUFFIX

    def _below(self, folder: str, budget: SearchBudget) -> tuple[Path, ...]:
        return ()  # its patterns name the files themselves

    def _open(self, path: Path) -> WandbFile:
        return WandbFile(path)


def patterns_in(folder: str) -> list[str]:
    """Patterns for wandb's files below a folder that is its own, a run's, or the one above them."""
    own = glob.escape(folder)
    return [f"{own}/{below}*{SUFFIX}" for below in ("", "*run-*/", "wandb/*run-*/")]


def _history(record: bytes) -> Iterator[Sample]:
    for number, _, value in fields(record):
        if number == 2 and isinstance(value, bytes):
            sample = _step(value)
            if sample.values:
                yield sample


def _step(history: bytes) -> Sample:
    step: float | None = None
    found: dict[str, float] = {}
    for number, _, value in fields(history):
        if not isinstance(value, bytes):
            continue
        if number == 1:
            name, text = _item(value)
            scalar = decode(text, python_json) if text else None
            if isinstance(scalar, (int, float)) and not isinstance(scalar, bool):
                found[name] = as_float(scalar)
        elif number == 2:
            step = _number(value)
    # The step inside the history is the one users see; the message's own may be missing.
    moment, inner = found.get("_timestamp"), found.get("_step")
    values = {name: scalar for name, scalar in found.items() if not name.startswith("_")}
    return Sample(values, inner if inner is not None else step, time=moment)


def _number(message: bytes) -> float:
    """The first field of a message that counts; protobuf does not write a 0."""
    for number, _, value in fields(message):
        if number == 1 and isinstance(value, int):
            return float(value)
    return 0.0


def _item(item: bytes) -> tuple[str, bytes]:
    keys: list[str] = []
    text = b""
    for number, _, value in fields(item):
        if isinstance(value, bytes):
            if number in (1, 2):
                keys.append(value.decode("utf-8", "replace"))
            elif number == 16:
                text = value
    return ".".join(keys), text
