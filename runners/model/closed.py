"""Closed sets: a branch for a member that was forgotten is found by the type checker."""

from typing import NoReturn


def assert_never(value: NoReturn) -> NoReturn:
    """The last branch over a closed set, which nothing reaches; AssertionError if something does.

    Python 3.11's `typing.assert_never`, for 3.10 too.
    """
    raise AssertionError(f"not one of its set: {value!r}")
