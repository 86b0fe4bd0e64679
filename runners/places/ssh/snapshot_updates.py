"""Snapshots as they go over a link: nested values, whole at first, then what changed in them.

A row has no field names there, so both ends have to have the same fields: who asks says `LAYOUT`,
and an agent of another one refuses. What comes is made into structs here, at once and in one place,
and refused where it is something else, or too much.

What changed in a dict says what becomes of its keys: `[value]` sets one, a dict goes into one, 0
removes one. Lists of one length are compared place by place, their places being the keys.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from runners.model.errors import FresnelError
from runners.model.fingerprint import fingerprint
from runners.model.run import Run
from runners.model.run_ids import is_run_id
from runners.places.run_row import (
    MOST_METRICS,
    MOST_SETTINGS,
    MetricValues,
    RunRow,
    pack_metrics,
    pack_settings,
)
from runners.places.snapshot import PlaceSnapshot
from runners.places.ssh.bounds import require_few, require_gpu, require_sane
from runners.places.ssh.frames import CurvePart, WatchFrame, decoded
from runners.watch.metrics.sample import NotFinite, not_finite

LAYOUT = "-".join(fingerprint(kind) for kind in (PlaceSnapshot, CurvePart, Run))
"""What both ends have to agree on."""

_MOST_RUNS = 10_000
_MOST_GPUS = 1024
_FIELDS = RunRow.__struct_fields__
_PACKED, _HEADLINE, _LAST, _BEST = map(_FIELDS.index, ("packed", "headline", "last", "best"))
_SETTINGS = _FIELDS.index("packed_settings")
_SentValues = tuple[float | NotFinite | None, float | None, float | None]
"""A metric's values in JSON, which has no number for NaN."""
_MEASURED = {_PACKED, _LAST, _BEST}


def require_layout(asked: Mapping[str, Any]) -> None:
    """FresnelError when who asks has other fields than this end."""
    if asked.get("layout") != LAYOUT:
        raise FresnelError("the panel there is another version", "set it up again")


# ---- sending


def snapshot_to_tree(snapshot: PlaceSnapshot) -> dict[str, Any]:
    """The snapshot as nested dicts and lists: ready to be compared."""
    tree: dict[str, Any] = msgspec.to_builtins(msgspec.structs.replace(snapshot, runs={}))
    tree["runs"] = {run_id: row_to_tree(row) for run_id, row in snapshot.runs.items()}
    return tree


def row_to_tree(row: RunRow) -> list[Any]:
    """A row with its metrics by name, each value once."""
    tree: list[Any] = msgspec.to_builtins(row)
    tree[_PACKED] = {
        name: [not_finite(last) or last, best, at] for name, (last, best, at) in row.metrics.items()
    }
    tree[_SETTINGS] = row.settings
    if tree[_PACKED].get(row.headline, ())[:2] == [not_finite(row.last) or row.last, row.best]:
        tree[_LAST] = tree[_BEST] = None
    return tree


# ---- receiving


def rows_of(trees: Sequence[Any]) -> list[RunRow]:
    """Rows as another machine sent them. ValueError for what is none."""
    return [_row(tree) for tree in trees]


def _snapshot(tree: Mapping[str, Any]) -> PlaceSnapshot:
    """The snapshot that a tree tells, but its runs. ValueError for something else, or too much."""
    runs = decoded(tree.get("runs", {}), dict[str, list[Any]])
    if len(runs) > _MOST_RUNS:
        raise ValueError(f"{len(runs):,} runs")
    rest = {**tree, "runs": {}}
    require_few(rest)  # what changes may add for ever, to no field that we know
    snapshot = decoded(rest, PlaceSnapshot)
    if len(snapshot.gpus) > _MOST_GPUS:
        raise ValueError(f"{len(snapshot.gpus):,} GPUs")
    unknown = tree.keys() - set(PlaceSnapshot.__struct_fields__)
    if unknown:
        raise ValueError(f"{len(unknown)} values that no snapshot has")
    require_sane(snapshot)
    for gpu in snapshot.gpus:
        require_gpu(gpu)
    return snapshot


def _row(tree: Any) -> RunRow:
    if not isinstance(tree, list) or len(tree) != len(_FIELDS):
        raise ValueError("a row of other fields")
    require_few(tree)
    sent = decoded(tree[_PACKED], dict[str, _SentValues])
    metrics: dict[str, MetricValues] = {
        name: (float(last) if isinstance(last, str) else last, best, at)
        for name, (last, best, at) in sent.items()
    }
    if len(metrics) > MOST_METRICS:
        raise ValueError(f"{len(metrics):,} metrics")
    settings = decoded(tree[_SETTINGS], dict[str, str])
    if len(settings) > MOST_SETTINGS:
        raise ValueError(f"{len(settings):,} settings")
    values = list(tree)
    values[_PACKED] = values[_SETTINGS] = b""
    row = decoded(values, RunRow)
    if not is_run_id(row.id):
        raise ValueError(f"a run called {row.id[:80]!r}")
    # A loss may well be no number; nothing else is.
    require_sane([value for i, value in enumerate(values) if i not in _MEASURED])
    row.packed = pack_metrics(metrics, row.headline, row.judged_by, row.validation)
    row.packed_settings = pack_settings(settings)
    if row.last is None and row.best is None and row.headline in metrics:
        row.last, row.best, _ = metrics[row.headline]
    return row


class SnapshotReader:
    """Puts snapshots together from what an agent sends."""

    def __init__(self) -> None:
        self._tree: dict[str, Any] = {}
        self._rows: dict[str, tuple[Any, RunRow]] = {}
        """Each row with the tree it was made of: what did not change is not looked at again."""

    def take(self, fields: dict[str, Any]) -> PlaceSnapshot | None:
        """The snapshot after this message; None when it brought none. ValueError when it means
        something else by it than we do.
        """
        frame = decoded(fields, WatchFrame)
        if frame.snapshot is not None:
            self._tree = frame.snapshot
        elif frame.changes is not None:
            self._tree = apply(self._tree, frame.changes)
        else:
            return None
        snapshot = _snapshot(self._tree)
        rows = {}
        for run_id, tree in self._tree.get("runs", {}).items():
            known = self._rows.get(run_id)
            rows[run_id] = known if known is not None and known[0] is tree else (tree, _row(tree))
            if rows[run_id][1].id != run_id:
                raise ValueError("a run under the name of another")
        self._rows = rows
        runs = {run_id: row for run_id, (_, row) in rows.items()}
        return msgspec.structs.replace(snapshot, runs=runs)


def difference(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """What makes `new` of `old`; empty when nothing does."""
    changes: dict[str, Any] = {key: 0 for key in old if key not in new}
    for key, value in new.items():
        if key in old:
            _note_change(changes, key, old[key], value)
        else:
            changes[key] = [value]
    return changes


def _note_change(changes: dict[str, Any], key: str, before: Any, value: Any) -> None:
    if isinstance(value, dict) and isinstance(before, dict):
        if inner := difference(before, value):
            changes[key] = inner
    elif _are_lists(before, value) and len(value) == len(before):
        inner = difference(_by_place(before), _by_place(value))
        if len(inner) > len(value) / 2 and not any(
            isinstance(change, dict) for change in inner.values()
        ):
            changes[key] = [value]  # shorter than place by place
        elif inner:
            changes[key] = inner
    # What is not a number is never itself, and no change either.
    elif before != value and (before == before or value == value):
        changes[key] = [value]


def apply(old: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """`old` with the changes made; `old` itself stays as it is. ValueError when they do not fit."""
    new = dict(old)
    for key, change in changes.items():
        if isinstance(change, list) and len(change) == 1:
            new[key] = change[0]
        elif isinstance(change, dict):
            new[key] = _applied(new.get(key), change)
        elif change == 0:
            new.pop(key, None)
        else:
            raise ValueError("changes that are none")
    return new


def _applied(before: Any, changes: dict[str, Any]) -> Any:
    if not isinstance(before, list):
        return apply(before if isinstance(before, dict) else {}, changes)
    changed = apply(_by_place(before), changes)
    if len(changed) != len(before):
        raise ValueError("changes of places that are not there")
    return list(changed.values())


def _are_lists(*values: Any) -> bool:
    return all(isinstance(value, (list, tuple)) for value in values)


def _by_place(values: Sequence[Any]) -> dict[str, Any]:
    return {str(i): value for i, value in enumerate(values)}
