"""What changed between two values of JSON: as little as there is to say.

A dict says what becomes of its keys: `[value]` sets one, a dict goes into one, 0 removes one. Lists
of one length are compared place by place, their places being the keys.
"""

from collections.abc import Sequence
from typing import Any


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
