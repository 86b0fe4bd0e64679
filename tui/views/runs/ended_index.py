"""The rows of all ended runs, kept in one file: thousands are there in milliseconds.

The file is a cache. A row counts only while the folder of its run has not changed since (files of
a run are replaced whole, which changes their folder); all else is read from the run anew, and a
file that is missing, damaged or holds rows of other fields is simply made again: it carries the
fingerprint of the fields, which changes by itself when they do.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from sys import intern
from typing import NamedTuple

import msgspec

from runners.host.files import replace, stamp_of
from runners.model.fingerprint import fingerprint
from runners.places.run_row import RunRow
from runners.state.decoding import decode, read
from runners.state.layout import StateDirectory
from runners.state.runs import read_run
from tui.views.runs.row_reading import row_of_ended

_MEANING = 3
"""Raised when a field comes to say something else; what fields there are tells itself."""
_SAVED_FROM = 32
"""Rows that must have been read anew before the file is written again."""
_YOUNG_S = 900.0
"""So long after its end a run's report may still come."""


class _File(msgspec.Struct, array_like=True):
    """Rows lie in chunks: what a chunk's texts have in common is shared before the next is read."""

    fields: str
    chunks: list[msgspec.Raw]


# Small enough that no more than so many rows have texts of their own while they are read.
_CHUNK = 256
_decode_file = msgspec.msgpack.Decoder(_File)
_decode_chunk = msgspec.msgpack.Decoder(list[RunRow])


class EndedRows(NamedTuple):
    """The rows of ended runs, newest first; each list has a `version`, 0 before any was read."""

    rows: tuple[RunRow, ...] = ()
    version: int = 0
    ids: frozenset[str] = frozenset()


class EndedIndex:
    """The rows of one state folder's ended runs."""

    def __init__(self, state: StateDirectory, may_write: bool = True) -> None:
        self.ended = EndedRows()
        self._state = state
        self._may_write = may_write
        self._known: dict[str, RunRow] | None = None
        self._unsaved = 0
        self._wanted: set[str] = set()
        self._passing: set[str] = set()

    def refresh(
        self, ids: Sequence[str], live: Collection[str], verify: bool, budget_s: float | None = None
    ) -> bool:
        """Bring the rows up to date with `ids`; True when `budget_s` ran out with more to read.

        With `verify` every folder is checked; else only those of runs that came or ended lately.
        """
        if self._known is None:
            self._known, verify = self._load(), True
        known = self._known
        live = frozenset(live)
        ended = [run_id for run_id in ids if run_id not in live]
        stamps = self._stamps() if verify else {}
        gone = known.keys() - set(ended)
        for run_id in gone:
            del known[run_id]
        changed = bool(gone)
        until = None if budget_s is None else time.monotonic() + budget_s
        self._wanted |= self._stale(ended, stamps, verify)
        self._wanted -= gone
        while self._wanted:
            changed = self._read(self._wanted.pop()) or changed
            if until is not None and time.monotonic() > until:
                break
        if changed or not self.ended.version:
            rows = sorted(known.values(), key=lambda row: (row.created, row.id), reverse=True)
            self.ended = EndedRows(tuple(rows), self.ended.version + 1, frozenset(known))
        if not self._wanted and self._unsaved >= _SAVED_FROM:
            self.save()
        return bool(self._wanted)

    def take_costs(self, costs: Mapping[str, float]) -> None:
        """Give the rows what was looked up for them, in dollars."""
        for row in self.ended.rows:
            # In place: rows are kept by thousands, and the new version has them drawn anew.
            row.cost = costs.get(row.id, row.cost)
        self.ended = self.ended._replace(version=self.ended.version + 1)

    def save(self) -> None:
        """Write the file, if it is ours to write."""
        if not self._may_write or self._known is None:
            return
        rows = [row for row in self._known.values() if row.id not in self._passing]
        chunks = [
            msgspec.Raw(msgspec.msgpack.encode(rows[at : at + _CHUNK]))
            for at in range(0, len(rows), _CHUNK)
        ]
        content = msgspec.msgpack.encode(_File(_fields(), chunks))
        try:
            # Without fsync: a cache that is lost in a crash is made again.
            replace(self._state.ended_rows, content, sync=False)
        except OSError:
            return  # a full or read-only disk: the rows are read from the runs each time
        self._unsaved = 0

    def _load(self) -> dict[str, RunRow]:
        known: dict[str, RunRow] = {}
        file = read(self._state.ended_rows, _decode_file, limit=1 << 30)
        for chunk in file.chunks if file is not None and file.fields == _fields() else ():
            rows = decode(chunk, _decode_chunk)
            # One damaged chunk: the whole file is not trusted.
            if rows is None:
                return {}
            for row in rows:
                _share_texts(row)
                row.cost = None  # a price is corrected afterwards
                known[row.id] = row
        return known

    def _stamps(self) -> dict[str, int]:
        """When each run's folder last changed, in nanoseconds."""
        stamps = {}
        with suppress(OSError), os.scandir(self._state.runs) as entries:
            for entry in entries:
                with suppress(OSError):  # deleted meanwhile
                    stamps[entry.name] = entry.stat().st_mtime_ns
        return stamps

    def _stale(self, ended: list[str], stamps: dict[str, int], verify: bool) -> set[str]:
        """The runs to read, anew or for the first time."""
        known = self._known or {}
        if verify:
            return {
                run_id
                for run_id in ended
                if run_id in self._passing
                or (row := known.get(run_id)) is None
                or row.stamp != stamps.get(run_id)
            }
        since = time.time() - _YOUNG_S
        stale = set()
        for run_id in ended:
            row = known.get(run_id)
            # Without an end it was seen while it began, before its marker, and not since.
            young = row is not None and not row.is_final and (row.ended or row.created) > since
            if row is None or (young and stamp_of(self._state.run(run_id).path) != row.stamp):
                stale.add(run_id)
        return stale

    def _read(self, run_id: str) -> bool:
        """Read one run; True when its row is another than before."""
        assert self._known is not None
        stamp = stamp_of(self._state.run(run_id).path)
        if not stamp:
            return self._known.pop(run_id, None) is not None
        run = read_run(self._state, run_id)
        row = row_of_ended(run, stamp)
        _share_texts(row)
        before = self._known.get(run_id)
        self._known[run_id] = row
        if run.record is not None and not run.record.state.is_live:
            self._passing.discard(run_id)
            self._unsaved += 1
        else:
            self._passing.add(run_id)  # as it looks from here and now: another look may differ
        return row != before


def _fields() -> str:
    return f"{_MEANING}-{fingerprint(RunRow)}"


def _share_texts(row: RunRow) -> None:
    """Texts that thousands of rows have in common are kept once."""
    row.name, row.preset, row.group = intern(row.name), intern(row.preset), intern(row.group)
    row.host, row.user, row.remark = intern(row.host), intern(row.user), intern(row.remark)
    row.headline = row.headline and intern(row.headline)
