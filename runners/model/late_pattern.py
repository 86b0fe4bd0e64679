"""Regular expressions that are compiled when they are used first.

Compiling one takes up to two milliseconds, and a program that starts for one run meets few of the
formats that it could read.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, AnyStr, cast

_METHODS = ("search", "match", "fullmatch", "finditer", "findall", "sub", "subn", "split")


class _LatePattern:
    """Stands where an `re.Pattern` would, and costs nothing more once it is compiled."""

    def __init__(self, text: Any, flags: int) -> None:
        self.pattern, self._flags = text, flags

    def __getattr__(self, name: str) -> Any:
        compiled = re.compile(self.pattern, self._flags)
        for method in _METHODS:
            setattr(self, method, getattr(compiled, method))
        return getattr(compiled, name)


def late_pattern(text: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """As `re.compile`, on the first use; a mistake in it raises `re.error` then."""
    return cast("re.Pattern[AnyStr]", _LatePattern(text, flags))


@contextmanager
def late_patterns() -> Iterator[None]:
    """Within it, what is imported of others compiles its patterns on their first use as well."""
    at_once = re.compile
    re.compile = late_pattern  # type: ignore[assignment]
    try:
        yield
    finally:
        re.compile = at_once
