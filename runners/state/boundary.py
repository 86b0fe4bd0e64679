"""The boundary around what is read of one run: whatever an odd file raises costs that file only."""

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from runners.host.files import append_line, read_tail
from runners.state.layout import RunDirectory

T = TypeVar("T")

_LONGEST_TEXT = 120
_LONGEST_LOG = 1 << 20
_MOST_NOTED = 1000
_noted: set[tuple[str, str]] = set()
"""What this process has logged already: a panel looks at the same odd file every second."""


class ReadBoundary:
    """Reads the sources of the run in `directory`, and keeps a sentence for each that cannot be.

    What is raised is logged once, with where, in `unreadable.log` of this host's state.
    """

    def __init__(self, directory: Path | str) -> None:
        self._directory = directory
        self._problems: dict[str, str] = {}

    @property
    def problems(self) -> tuple[str, ...]:
        """A sentence for each source that cannot be read."""
        return tuple(self._problems.values())

    def read(self, source: str, read: Callable[[], T], otherwise: T, again: bool = False) -> T:
        """What `read` returns; `otherwise` when it raises.

        A reader that has failed in the middle of a file is in no known state: its `source` is not
        read again, unless `again` says that each look begins anew.
        """
        if source in self._problems and not again:
            return otherwise
        try:
            found = read()
        except Exception as error:  # the boundary: no file may end what shows all runs
            self._problems[source] = note_unreadable(self._directory, source, error)
            return otherwise
        self._problems.pop(source, None)
        return found


def cannot_be_read(source: str, error: Exception) -> str:
    """The sentence about a source that raised `error`, for a row."""
    text = " ".join(str(error).split())[:_LONGEST_TEXT]
    return f"cannot be read: {source} ({type(error).__name__}{': ' if text else ''}{text})"


def note_unreadable(directory: Path | str, source: str, error: Exception) -> str:
    """The sentence about a source of the run in `directory`, written down once with its trace."""
    sentence = cannot_be_read(source, error)
    if (str(directory), sentence) not in _noted and len(_noted) < _MOST_NOTED:
        _noted.add((str(directory), sentence))
        _log(Path(directory), sentence, error)
    return sentence


def _log(directory: Path, sentence: str, error: Exception) -> None:
    path = RunDirectory.at(directory).home.host / "unreadable.log"
    heading = f"{directory.name} {sentence}".encode("utf-8", "replace")
    known = read_tail(path, _LONGEST_LOG)
    if heading in known or len(known) >= _LONGEST_LOG:
        return
    stamp = time.strftime("%Y-%m-%d %H:%M:%S")
    import traceback  # seldom needed, and it brings the tokenizer

    trace = "".join(traceback.format_exception(error)).encode("utf-8", "replace")
    with suppress(OSError):  # a full disk, or somebody else's state
        append_line(path, stamp.encode() + b" " + heading + b"\n" + trace)
