"""The part of a spec that says what is checked before it is launched."""

from typing import Annotated, Literal, get_args

import msgspec

from runners.model.spelling import Seconds, key, spelled, split_text
from runners.model.units import parse_range, parse_size_range

CheckGroup = Literal[
    "program",
    "gpus",
    "data",
    "checkpoint",
    "config",
    "memory",
    "batch",
    "disk",
    "network",
    "machine",
    "outputs",
    "own",
]
"""Kinds of checks before a launch."""
CHECK_GROUPS: tuple[CheckGroup, ...] = get_args(CheckGroup)

Groups = Annotated[
    tuple[CheckGroup, ...], spelled(lambda every: CHECK_GROUPS if every else (), bool)
]
_Range = tuple[int, int | None]
"""The least and the most; None for no end."""


class FileRule(msgspec.Struct, frozen=True, omit_defaults=True):
    """Files that must be there before the run starts."""

    path: Annotated[
        str,
        key(
            "A file or glob pattern, or several divided by |, relative to working_directory; "
            "${parameters.NAME} is a parameter's value: empty, and the check is left out."
        ),
    ]
    name: Annotated[str, key("What to call it; the pattern when not given.")] = ""
    count: Annotated[
        Annotated[_Range, spelled(parse_range, str, int)] | None,
        key("How many: 500, '500-' (at least) or '450-500'."),
    ] = None
    size: Annotated[
        Annotated[_Range, spelled(parse_size_range, str, int)] | None,
        key("Bytes of each: 2102784, '10K-' or '1M-2M'."),
    ] = None
    pairs: Annotated[
        tuple[str, ...],
        key(
            "Files that each of them needs, relative to its folder, e.g. "
            "features/{stem}_depth.bin; alternatives divided by |."
        ),
    ] = ()
    rows: Annotated[
        tuple[str, ...],
        key(
            "The file is a list; files that each row (its first column) needs, e.g. "
            "'{row}_pc.npz', relative to the list or to working_directory."
        ),
    ] = ()
    optional: Annotated[bool, key("A warning instead of a failure.")] = False
    advice: Annotated[str, key("What to do when it fails.")] = ""


class CommandRule(msgspec.Struct, frozen=True, omit_defaults=True):
    """A command that must succeed before the run starts, with its environment and folder."""

    command: Annotated[
        tuple[str, ...],
        spelled(split_text, str),
        key("A list of words; a text is split as by a shell, but none runs it.", min_length=1),
    ]
    name: Annotated[str, key("What to call it; the command when not given.")] = ""
    exits: Annotated[int, key("The exit code that is right.")] = 0
    seconds: Annotated[Seconds, key("It is ended after so long.")] = msgspec.field(
        default=60.0, name="within"
    )
    optional: Annotated[bool, key("A warning instead of a failure.")] = False
    advice: Annotated[str, key("What to do when it fails.")] = ""


class DeclaredChecks(msgspec.Struct, frozen=True, omit_defaults=True):
    """Checks of the preset's own, made by `fresnel-tui verify` beside the built-in ones."""

    imports: Annotated[
        tuple[str, ...], key("Modules the run's interpreter must be able to import.")
    ] = ()
    files: Annotated[tuple[FileRule, ...], key("Files that must be there.")] = ()
    commands: Annotated[tuple[CommandRule, ...], key("Commands that must succeed.")] = ()
    without_effect: Annotated[
        dict[str, str], key("Keys of its configuration file that do nothing, and why.")
    ] = {}
