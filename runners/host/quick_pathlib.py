"""`pathlib` without `urllib.parse`, which before Python 3.13 it imports for `as_uri` alone.

With `ipaddress` below it, that is half a megabyte of every supervisor and 2 ms of every start.
"""

import sys
from types import ModuleType

_PARSER = "urllib.parse"


class _UrlParser(ModuleType):
    """What `pathlib` takes from there: when it is called, all of it is imported."""

    @staticmethod
    def quote_from_bytes(path: bytes) -> str:
        from urllib.parse import quote_from_bytes

        return quote_from_bytes(path)


if {_PARSER, "pathlib"} & sys.modules.keys():
    from pathlib import Path
else:
    sys.modules[_PARSER] = _UrlParser(_PARSER)
    try:
        from pathlib import Path
    finally:
        del sys.modules[_PARSER]

__all__ = ["Path"]
