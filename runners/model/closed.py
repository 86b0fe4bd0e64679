"""Closed sets: a branch for a member that was forgotten is found by the type checker."""

from enum import Enum
from typing import NoReturn


class TextEnum(str, Enum):
    """An enum whose members are texts, in messages and JSON too: Python 3.11's StrEnum."""

    __str__ = str.__str__
    __format__ = str.__format__  # type: ignore[assignment]


def assert_never(value: NoReturn) -> NoReturn:
    """The last branch over a closed set, which nothing reaches; AssertionError if something does.

    Python 3.11's `typing.assert_never`, for 3.10 too.
    """
    raise AssertionError(f"not one of its set: {value!r}")
