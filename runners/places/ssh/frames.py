"""What another machine said, as structs: the one place where a message becomes a type."""

from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

T = TypeVar("T")


class Hello(msgspec.Struct, frozen=True):
    """An agent's first words: its clock (unix seconds) and its version."""

    time: Annotated[float, Meta(ge=0.0, le=1e11)]
    version: Annotated[str, Meta(max_length=100)] = ""
    python: Annotated[str, Meta(max_length=100)] = ""
    installed: Annotated[str, Meta(max_length=200)] = ""
    state: Annotated[str, Meta(max_length=4096)] = ""


_Text = Annotated[str, Meta(max_length=1 << 20)]
_Bytes = Annotated[int, Meta(ge=0, le=1 << 60)]
_DEEPEST = 40
_MOST_VALUES = 5_000_000


class _Frame(msgspec.Struct, frozen=True):
    """What is the same in every message of an agent; what an answer holds is its reader's."""

    id: Annotated[int, Meta(ge=0, le=1 << 53)] | None = None
    bytes: _Bytes = 0
    stream: Annotated[int, Meta(ge=1, le=2)] = 1
    exit: Annotated[int, Meta(ge=-255, le=255)] = 0
    error: _Text = ""
    hint: _Text | None = ""
    code: Annotated[int, Meta(ge=-255, le=255)] = 1
    at: _Bytes = 0
    inode: Annotated[int, Meta(ge=0, le=(1 << 63) - 1)] = 0
    skipped: _Bytes = 0


def check_frame(fields: Mapping[str, Any]) -> None:
    """Raise ValueError for a message that no agent of ours sends: of other types, or too much."""
    decoded(fields, _Frame)
    level: list[Any] = list(fields.values())
    count = 0
    for _ in range(_DEEPEST):
        below: list[Any] = []
        for value in level:
            if isinstance(value, dict):
                below += value.values()
            elif isinstance(value, list):
                below += value
        count += len(below)
        if not below:
            return
        if count > _MOST_VALUES:
            raise ValueError("too many values in one message")
        level = below
    raise ValueError("a message that is too deep")


def decoded(value: Any, kind: type[T]) -> T:
    """`value` as a `kind`. ValueError when it is something else."""
    try:
        return msgspec.convert(value, kind)
    except (msgspec.ValidationError, RecursionError, OverflowError) as error:
        raise ValueError(str(error)) from None
