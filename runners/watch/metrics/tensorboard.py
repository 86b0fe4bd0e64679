"""The scalars in TensorBoard's event files, read as they grow.

Formats: TFRecord (tensorflow/core/lib/io/record_writer: length u64, its CRC u32, bytes, their CRC
u32, little endian) around Event messages (tensorflow/core/util/event.proto,
framework/summary.proto, framework/tensor.proto). Only wall time, step, tag and a single number are
used: `simple_value`, or a tensor of one element.
"""

import os
import struct
from collections.abc import Iterator, Sequence
from glob import escape
from pathlib import Path

from runners.host.bounded_glob import SearchBudget, bounded_glob
from runners.host.tail import GrowingFile
from runners.model.late_pattern import late_pattern
from runners.watch.metrics.file_source import FileSource
from runners.watch.metrics.sample import Sample

_NAME = "*tfevents*"
_HUGE = 256 << 20
_BLOCK = 4 << 20

_PLACES = late_pattern(r"(?:^|/)(?:epoch|global_step|step)$")
_HPARAMS = late_pattern(r"^\d{9,}\.\d+$")
"""The folder that torch's `add_hparams` makes for the settings of a run."""

Field = tuple[int, int, int | bytes]
"""Number, wire type, and value: an integer for varints and fixed sizes, else bytes."""


class EventFile:
    """One event file; `poll` gives what was appended. A record that is not whole yet waits."""

    def __init__(self, path: Path, prefix: str = "") -> None:
        self.path = path
        self.problem = ""
        self.prefix = prefix
        self._file = GrowingFile(path)
        self._rest = b""

    def poll(self) -> Iterator[Sample]:
        """Every scalar written since the last call."""
        more = not self.problem
        while more:
            piece = self._file.read(_BLOCK)
            if piece.restarted:
                self._rest = b""
            yield from self._take(piece.data)
            more = piece.more and bool(piece.data) and not self.problem

    def _take(self, block: bytes) -> Iterator[Sample]:
        content, at = self._rest + block, 0
        while len(content) - at >= 12:
            (length,) = struct.unpack_from("<Q", content, at)
            # No event is that long: this is no length, and the next record cannot be found.
            if length > _HUGE:
                self.problem = (
                    f"{self.path.name} is damaged at byte {self._file.offset - len(content) + at:,}"
                )
                return
            # 8 bytes of length, 4 of its checksum, the record, 4 of its checksum.
            if len(content) - at < 16 + length:
                break
            try:
                for sample in _scalars(content[at + 12 : at + 12 + length], self.prefix):
                    values = {n: v for n, v in sample.values.items() if not _PLACES.search(n)}
                    if values:
                        yield sample._replace(values=values)
            except (ValueError, struct.error, IndexError, OverflowError):
                # Of another kind, or damaged: the next message begins where its length says.
                pass
            at += 16 + length
        self._rest = content[at:]


class BoardSource(FileSource[EventFile]):
    """All event files of one run."""

    source = "tensorboard"
    called = "TensorBoard's files"
    most = 200
    _top = ""

    def _is_of_kind(self, path: Path) -> bool:
        return "tfevents" in path.name and not _HPARAMS.match(path.parent.name)

    def _below(self, folder: str, budget: SearchBudget) -> list[Path]:
        return [Path(name) for name in sorted(bounded_glob(f"{escape(folder)}/**/{_NAME}", budget))]

    def _is_renamed(self, found: Sequence[Path]) -> bool:
        # Writers in subfolders of one log folder are told apart by the folder's name.
        folders = {str(file.parent) for file in (*found, *self._files)}
        before, self._top = self._top, os.path.commonpath(folders) if folders else ""
        return bool(self._files) and self._top != before

    def _open(self, path: Path) -> EventFile:
        folder = path.parent.relative_to(self._top)
        return EventFile(path, f"{folder}/" if folder.parts else "")


def _scalars(message: bytes, prefix: str) -> Iterator[Sample]:
    moment, step, summaries = None, 0, []
    for number, kind, value in fields(message):
        if number == 1 and isinstance(value, int) and kind == 1:
            moment = struct.unpack("<d", value.to_bytes(8, "little"))[0]
        elif number == 2 and isinstance(value, int):
            # Negative int64 come as large unsigned varints.
            step = value - (1 << 64) if value >> 63 else value
        elif number == 5 and isinstance(value, bytes):
            summaries.append(value)
    values: dict[str, float] = {}
    for summary in summaries:
        for number, _, value in fields(summary):
            if number == 1 and isinstance(value, bytes):
                tag, scalar = _value(value)
                if scalar is not None:
                    values[prefix + tag] = scalar
    if values:
        yield Sample(values, float(step), time=moment)


def _value(message: bytes) -> tuple[str, float | None]:
    tag, scalar = "", None
    for number, kind, value in fields(message):
        if number == 1 and isinstance(value, bytes):
            tag = value.decode("utf-8", "replace")
        elif number == 2 and kind == 5 and isinstance(value, int):
            scalar = float(struct.unpack("<f", value.to_bytes(4, "little"))[0])
        elif number == 8 and isinstance(value, bytes):
            scalar = _tensor(value)
    return tag, scalar


def _tensor(message: bytes) -> float | None:
    """The number in a tensor of one element; None for any other."""
    dtype, content, listed, length = 0, b"", [], 1
    for number, kind, value in fields(message):
        if number == 1 and isinstance(value, int):
            dtype = value
        elif number == 2 and isinstance(value, bytes):
            length = _elements(value)
        elif number == 4 and isinstance(value, bytes):
            content = value
        elif number in (5, 6, 7, 10):
            listed += _listed(number, kind, value)
    # Numbers of DT_FLOAT, DT_DOUBLE, DT_INT32, DT_INT64 and DT_HALF in types.proto.
    form = {1: "<f", 2: "<d", 3: "<i", 9: "<q", 19: "<e"}.get(dtype)
    if length != 1 or form is None:
        return None
    if len(content) == struct.calcsize(form):
        return float(struct.unpack(form, content)[0])
    return listed[0] if len(listed) == 1 else None


def _elements(shape: bytes) -> int:
    count = 1
    for number, _, dimension in fields(shape):
        if number == 2 and isinstance(dimension, bytes):
            count *= next(
                (size for at, _, size in fields(dimension) if at == 1 and isinstance(size, int)), 0
            )
    return count


def _listed(number: int, kind: int, value: int | bytes) -> list[float]:
    """Numbers of float_val, double_val, int_val or int64_val, packed or one by one."""
    if number in (5, 6):
        size, form = (4, "<f") if number == 5 else (8, "<d")
        raw = value if isinstance(value, bytes) else value.to_bytes(size, "little")
        return [float(item[0]) for item in struct.iter_unpack(form, raw)]
    if isinstance(value, int):
        return [float(value - (1 << 64) if value >> 63 else value)]
    at, found = 0, []
    while at < len(value):
        item, at = _varint(value, at)
        found.append(float(item - (1 << 64) if item >> 63 else item))
    return found


def fields(message: bytes) -> Iterator[Field]:
    """The fields of a protocol buffer, unparsed. Raises ValueError or IndexError if it is none."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        number, kind = key >> 3, key & 7
        if kind == 0:
            value, at = _varint(message, at)
            yield number, kind, value
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
            if at + size > len(message):
                raise ValueError("cut short")
            yield number, kind, int.from_bytes(message[at : at + size], "little")
            at += size
        elif kind == 2:
            length, at = _varint(message, at)
            if at + length > len(message):
                raise ValueError("cut short")
            yield number, kind, message[at : at + length]
            at += length
        else:
            raise ValueError(f"wire type {kind}")


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise ValueError("a number without an end")
