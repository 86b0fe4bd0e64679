"""What another machine said, as structs: the one place where a message becomes a type."""

from typing import Any, TypeVar

import msgspec

T = TypeVar("T")


class Hello(msgspec.Struct, frozen=True):
    """An agent's first words: its clock (unix seconds) and its version."""

    time: float
    version: str = ""


def decoded(value: Any, kind: type[T]) -> T:
    """`value` as a `kind`. ValueError when it is something else."""
    try:
        return msgspec.convert(value, kind)
    except (msgspec.ValidationError, RecursionError) as error:
        raise ValueError(str(error)) from None
