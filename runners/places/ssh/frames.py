"""What another machine said, as structs: the one place where a message becomes a type.

Every number, text and list has bounds far above what any agent of ours sends.
"""

from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

T = TypeVar("T")

_Word = Annotated[str, Meta(max_length=200)]
_Path = Annotated[str, Meta(max_length=4096)]
_Text = Annotated[str, Meta(max_length=1 << 20)]
_Bytes = Annotated[int, Meta(ge=0, le=1 << 60)]
_Code = Annotated[int, Meta(ge=-255, le=255)]
_Count = Annotated[int, Meta(ge=0, le=1_000_000)]
_Moment = Annotated[float, Meta(ge=0.0, le=1e11)]
"""Unix seconds, until the year 5138."""

_DEEPEST = 40
_MOST_VALUES = 5_000_000


class AgentFrame(msgspec.Struct, frozen=True):
    """What is the same in every message of an agent: whose answer it is, or that it is none."""

    id: Annotated[int, Meta(ge=0, le=1 << 53)] | None = None
    bytes: _Bytes = 0
    error: _Text | None = None
    hint: _Text | None = ""
    code: _Code = 1


class Hello(msgspec.Struct, frozen=True):
    """An agent's first words: its clock (unix seconds) and its version."""

    time: _Moment
    version: Annotated[str, Meta(max_length=100)] = ""
    python: Annotated[str, Meta(max_length=100)] = ""
    installed: _Word = ""
    state: _Path = ""
    host: _Word = ""
    user: _Word = ""
    home: _Path = ""


class CommandFrame(AgentFrame, frozen=True, forbid_unknown_fields=True):
    """What a command prints on stdout (1) or stderr (2), as the payload; at last how it exits."""

    stream: Annotated[int, Meta(ge=1, le=2)] = 1
    exit: _Code | None = None


class WatchFrame(AgentFrame, frozen=True, forbid_unknown_fields=True):
    """A whole snapshot, what changed in it, or neither: that it is still as it was."""

    snapshot: dict[str, Any] | None = None
    changes: dict[str, Any] | None = None
    same: Annotated[int, Meta(ge=0, le=1)] = 0


class OutputFrame(AgentFrame, frozen=True, forbid_unknown_fields=True):
    """A piece of a run's output, as the payload, from the offset `at` of the file `inode` on."""

    run: _Word | None = None
    at: _Bytes = 0
    inode: Annotated[int, Meta(ge=0, le=(1 << 63) - 1)] | None = None
    skipped: _Bytes = 0
    ended: bool = False


class CurvePart(msgspec.Struct, frozen=True):
    """Points of one curve of the `of`th run of a line, after the first `keep`, which stay.

    `count` points follow in the message's raw bytes, column after column.
    """

    of: Annotated[int, Meta(ge=0, le=10_000)]
    name: Annotated[str, Meta(max_length=1000)]
    keep: _Count
    count: _Count
    source: _Word = ""
    unit: _Word = ""
    simulated: bool = False
    also: tuple[_Word, ...] = ()
    stages: Annotated[tuple[tuple[float, _Word], ...], Meta(max_length=64)] = ()


class CurvesFrame(AgentFrame, frozen=True, forbid_unknown_fields=True):
    """What is new of a run's curves; `runs` are decoded by who knows what a run is."""

    anew: bool = False
    runs: Annotated[list[dict[str, Any]], Meta(max_length=10_000)] | None = None
    curves: Annotated[list[CurvePart], Meta(max_length=10_000)] = []
    settings: Annotated[dict[str, Any], Meta(max_length=10_000)] | None = None
    notes: Annotated[list[_Path], Meta(max_length=1000)] | None = None
    ended: bool = False


class OlderAnswer(msgspec.Struct, frozen=True):
    """Rows of runs that ended long ago, and how many are still older."""

    runs: Annotated[list[list[Any]], Meta(max_length=1000)]
    left: _Count | None = None


class FoundAnswer(msgspec.Struct, frozen=True):
    """What was asked about runs, to be decoded by who asked."""

    found: dict[str, Any] | None


class NodeEnding(msgspec.Struct, frozen=True):
    """How one node's run ended, at `ended` (unix seconds; as it comes, by its machine's clock).

    `rank` is the one of all that torchrun saw fail first there, where the reason does not name it;
    `diagnosis` is the class of a known cause.
    """

    state: Annotated[str, Meta(max_length=64)]
    reason: Annotated[str, Meta(max_length=1 << 16)] | None = ""
    ended: _Moment | None = None
    rank: _Count | None = None
    diagnosis: _Word | None = None


class QuietAnswer(msgspec.Struct, frozen=True):
    """For how many seconds a run has written nothing."""

    quiet_s: Annotated[float, Meta(ge=0, le=1e12)]


class EndAnswer(msgspec.Struct, frozen=True):
    """Whether a run was asked to stop."""

    asked: bool


class _Withdrawn(msgspec.Struct, frozen=True):
    runs: Annotated[list[_Word], Meta(max_length=100)]


class WithdrawnAnswer(msgspec.Struct, frozen=True):
    """The runs that a launch had made before it was withdrawn."""

    found: _Withdrawn


class ListeningFrame(AgentFrame, frozen=True, forbid_unknown_fields=True):
    """The addresses, and the port, at which a machine listens for others."""

    listening: Annotated[list[_Word], Meta(max_length=100)] | None = None
    port: Annotated[int, Meta(ge=1, le=65535)] | None = None


class ReachAnswer(msgspec.Struct, frozen=True):
    """The address at which another machine was reached, or why none was."""

    reached: _Word | None
    why: _Path = ""


def check_frame(fields: Mapping[str, Any]) -> None:
    """Raise ValueError for a message that no agent of ours sends: of other types, or too much."""
    decoded(fields, AgentFrame)
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
