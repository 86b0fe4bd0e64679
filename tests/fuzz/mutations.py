"""Damage done to whole samples: bytes that disks, other programs and other versions leave."""

import json
import random
from typing import Any

from hypothesis import strategies as st

_LONG = b"1" + b"0" * 400
_TOKENS = (
    b"nan", b"NaN", b"inf", b"-Infinity", _LONG, b"-" + _LONG, b"1e400", b"-1", b"0", b"null",
    b"[]", b"{}", b'"x"', b"\xff" * 8, b"\0" * 8, b"\x7f", b"\\ud800", b"\xed\xa0\x80", b"\n",
    b"9223372036854775808", b"1e308", b"[" * 300, b"\x1b]0;t\x07", b"1970-13-45",
)  # fmt: skip
_VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 1e308, -1e308, 10**400, 2**63, "", "x", "\ud800", "\0", "/", "../..",
    [], {}, [[]], {"a": {}}, "nan", "\x1b[2J", 1e18, 253402300800.0, "y" * 5000,
)  # fmt: skip

Step = tuple[int, int, int]

STEPS = st.lists(
    st.tuples(st.integers(0, 5), st.integers(0, 1 << 30), st.integers(0, 1 << 30)),
    min_size=1,
    max_size=5,
)
"""How a sample is changed; fewer steps, and smaller numbers, are simpler."""


def changed_bytes(content: bytes, steps: list[Step]) -> bytes:
    """`content` with pieces turned over, replaced, put in, cut out, doubled or cut off."""
    for kind, place, more in steps:
        at = place % (len(content) + 1)
        end = at + more % 16
        if kind == 0:
            content = content[:at] + bytes(255 - one for one in content[at:end]) + content[end:]
        elif kind == 1:
            content = content[:at] + _TOKENS[more % len(_TOKENS)] + content[end:]
        elif kind == 2:
            content = content[:at] + _TOKENS[more % len(_TOKENS)] + content[at:]
        elif kind == 3:
            content = content[:at] + content[end:]
        elif kind == 4:
            content = content[:end] + content[at:end] * 3 + content[end:]
        else:
            content = content[:at] + bytes([more % 256]) + content[at + 1 :]
    return content


def changed_json(content: bytes, steps: list[Step]) -> bytes:
    """A JSON document with other values in some places; as bytes where a step says so."""
    value = json.loads(content)
    for kind, place, more in steps:
        if kind == 5:
            return changed_bytes(json.dumps(value).encode(), steps)
        value = _replaced(value, random.Random(place), _VALUES[more % len(_VALUES)])
    return json.dumps(value).encode()


def _replaced(value: Any, chance: random.Random, new: Any) -> Any:
    """`value` with `new` somewhere in it."""
    if isinstance(value, dict) and value and chance.random() < 0.9:
        key = chance.choice(sorted(value))
        return {**value, key: _replaced(value[key], chance, new)}
    if isinstance(value, list) and value and chance.random() < 0.9:
        at = chance.randrange(len(value))
        return [*value[:at], _replaced(value[at], chance, new), *value[at + 1 :]]
    return new
