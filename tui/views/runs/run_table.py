"""Which runs a table shows, and in which order: filtered, sorted, groups together or folded.

Without a chosen order, what lives stands first and then the newest; the runs of a group stand
together where the first of them does. Of thousands of ended runs the order is kept: as long as
nothing else is asked for, only what lives is looked at again.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from math import isfinite
from typing import NamedTuple

import msgspec

from runners.places.run_row import NO_METRICS, NO_SETTINGS, RunRow
from tui.views.runs.run_query import RunQuery
from tui.views.runs.run_sort import SortKey, sort_rows

_SORTED_FOR_S = 5.0
"""A chosen order is kept for so long while what lives moves: rows must not jump about."""
_FOLDED = "group:"


class TableChoice(NamedTuple):
    """What a person chose to see."""

    query: RunQuery = RunQuery("")
    sort: tuple[SortKey, ...] = ()
    metric: str | None = None
    folded: frozenset[str] = frozenset()
    columns: tuple[str, ...] = ()
    """Metrics and settings that are columns: `best:loss`, `set:lr`."""


class FoldedGroup(NamedTuple):
    """The runs of a group as one line."""

    group: str
    rows: tuple[RunRow, ...]

    @property
    def id(self) -> str:
        """The line's key, which no run has."""
        return _FOLDED + self.group


Line = RunRow | FoldedGroup


class Arrangement(NamedTuple):
    """The lines of a table from top to bottom, a key for each; `runs` are in it, of `total`."""

    keys: tuple[str, ...] = ()
    lines: Sequence[Line] = ()
    runs: int = 0
    total: int = 0


class Arranger:
    """Arranges again and again at little cost; one thread at a time."""

    def __init__(self) -> None:
        self._key: object = None
        self._ended: list[Line] = []
        self._ended_keys: tuple[str, ...] = ()
        self._ended_runs = 0
        self._ended_of_live: list[RunRow] = []
        self._sorted: Arrangement | None = None
        self._sorted_key: object = None
        self._sorted_at = 0.0

    def is_ready(self, version: int, live: Iterable[RunRow], choice: TableChoice) -> bool:
        """Whether nothing has to be done that takes longer the more runs there are."""
        return self._key == _key(version, live, choice)

    def arrange(
        self, live: Sequence[RunRow], ended: tuple[RunRow, ...], version: int, choice: TableChoice
    ) -> Arrangement:
        """The table of `live` and `ended` runs, newest first; `version` identifies the `ended`."""
        key = _key(version, live, choice)
        if key != self._key:
            found = choice.query.of(ended)
            groups = _live_groups(live)
            if choice.sort:
                lines: list[Line] = list(sort_rows(found, choice.sort, choice.metric))
            else:
                lines = _grouped(
                    (row for row in found if row.group not in groups), choice.folded, False
                )
            self._ended, self._ended_keys = lines, tuple([line.id for line in lines])
            self._ended_runs = len(found)
            # They stand beside their live members, above all others that ended.
            self._ended_of_live = [row for row in found if row.group in groups]
            self._key, self._sorted = key, None
        wanted = [row for row in live if choice.query(row)]
        total = len(live) + len(ended)
        if choice.sort:
            return self._merge(wanted, choice, total)
        lines = _grouped((*wanted, *self._ended_of_live), choice.folded, False)
        keys = tuple([line.id for line in lines])
        return Arrangement(
            keys + self._ended_keys,
            _Joined(lines, self._ended),
            len(wanted) + self._ended_runs,
            total,
        )

    def _merge(self, live: list[RunRow], choice: TableChoice, total: int) -> Arrangement:
        ids, now = frozenset(row.id for row in live), time.monotonic()
        if self._sorted is None or ids != self._sorted_key or now > self._sorted_at + _SORTED_FOR_S:
            rows = [line for line in self._ended if isinstance(line, RunRow)]
            lines = sort_rows([*live, *rows], choice.sort, choice.metric) if live else rows
            shown = _grouped(lines, choice.folded, True) if choice.folded else lines
            keys = tuple([line.id for line in shown])
            self._sorted = Arrangement(keys, shown, len(lines), total)
            self._sorted_key, self._sorted_at = ids, now
        return self._sorted


class _Joined(Sequence[Line]):
    """Two lists as one, neither of them copied."""

    def __init__(self, first: list[Line], second: list[Line]) -> None:
        self._first, self._second = first, second

    def __len__(self) -> int:
        return len(self._first) + len(self._second)

    def __getitem__(self, at):  # type: ignore[no-untyped-def]
        if isinstance(at, slice):
            return [self[i] for i in range(*at.indices(len(self)))]
        length = len(self._first)
        return self._first[at] if at < length else self._second[at - length]


def _key(version: int, live: Iterable[RunRow], choice: TableChoice) -> object:
    return version, choice.query.text, choice.sort, choice.metric, choice.folded, _live_groups(live)


def _live_groups(live: Iterable[RunRow]) -> frozenset[str]:
    return frozenset(row.group for row in live if row.group)


def _grouped(rows: Iterable[RunRow], folded: frozenset[str], is_sorted: bool) -> list[Line]:
    """The rows, those of a group where its first one stands; a folded group is one line.

    Rows in an order of their own (`is_sorted`) stay apart, but for those of a folded group.
    """
    found = list(rows)
    members: dict[str, list[RunRow]] = {}
    for row in found:
        if row.group and (row.group in folded or not is_sorted):
            members.setdefault(row.group, []).append(row)
    if not members:
        return list(found)
    lines: list[Line] = []
    for row in found:
        mine = members.get(row.group)
        if mine is None:
            lines.append(row)
        elif mine[0] is row:
            if not is_sorted:
                # As launched, though the table has the newest first: a sweep reads downwards.
                mine = sorted(mine, key=lambda member: (member.created, member.id))
            is_one = row.group in folded and len(mine) > 1
            lines += [FoldedGroup(row.group, tuple(mine))] if is_one else mine
    return lines


def group_mark(lines: Sequence[Line], at: int) -> str:
    """The mark before a name where a group begins, goes on and ends; empty for a single run."""
    line = lines[at]
    if isinstance(line, FoldedGroup):
        return "▸ "
    if not line.group:
        return ""
    above = at > 0 and _group_of(lines[at - 1]) == line.group
    below = at + 1 < len(lines) and _group_of(lines[at + 1]) == line.group
    return {(False, True): "┌ ", (True, True): "│ ", (True, False): "└ "}.get((above, below), "")


def _group_of(line: Line) -> str:
    return "" if isinstance(line, FoldedGroup) else line.group


def group_row(group: FoldedGroup) -> RunRow:
    """A folded group as a row: what its runs are, how far, and the best of them."""
    rows = group.rows
    # Of those that ended all together, where they ran: they did not run on the CPU.
    holding = [row for row in rows if row.is_live and row.gpus] or rows
    first = min(rows, key=lambda row: (not row.is_live, row.created))
    counts = Counter(str(row.state) for row in rows)
    done = [float(not row.is_live) if row.fraction is None else row.fraction for row in rows]
    known = [row.best_value for row in rows if row.judge == first.judge]
    best = [value for value in known if value is not None]
    pick = max if first.is_higher_better else min
    alike = [row for row in rows if row.judge == first.judge == row.headline]
    known_last = [row.last for row in alike if row.last is not None]
    # One that diverged is not the best of them, wherever it stands.
    last = [value for value in known_last if isfinite(value)] or known_last
    costs = [row.cost for row in rows if row.cost is not None]
    etas = [row.eta_s for row in rows if row.eta_s is not None]
    states = ", ".join(f"{count} {state}" for state, count in counts.items())
    return msgspec.structs.replace(
        first,
        id=group.id,
        name=f"{group.group} ({len(rows)})",
        remark=states,
        fraction=sum(done) / len(done),
        step=None,
        epoch=None,
        phase="",
        gpus=tuple(sorted({gpu for row in holding for gpu in row.gpus})),
        last=pick(last) if last else None,
        best=pick(best) if best else None,
        judged_by=None,
        validation=None,
        packed=NO_METRICS,
        packed_settings=NO_SETTINGS,
        spark="",
        seconds=None,
        eta_s=max(etas) if etas else None,
        rate=None,
        created=min(row.created for row in rows),
        cost=sum(costs) if costs else None,
        starred=False,
    )
