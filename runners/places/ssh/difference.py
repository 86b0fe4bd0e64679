"""What changed between two values of JSON: as little as there is to say.

A dict says what becomes of its keys: `[value]` sets one, a dict goes into one, 0 removes one.
"""

from typing import Any


def difference(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """What makes `new` of `old`; empty when nothing does."""
    changes: dict[str, Any] = {key: 0 for key in old if key not in new}
    for key, value in new.items():
        before = old.get(key)
        if isinstance(value, dict) and isinstance(before, dict):
            inner = difference(before, value)
            if inner:
                changes[key] = inner
        elif key not in old or before != value:
            changes[key] = [value]
    return changes


def apply(old: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """`old` with the changes made; `old` itself stays as it is."""
    new = dict(old)
    for key, change in changes.items():
        if change == 0:
            new.pop(key, None)
        elif isinstance(change, list):
            new[key] = change[0]
        else:
            before = new.get(key)
            new[key] = apply(before if isinstance(before, dict) else {}, change)
    return new
