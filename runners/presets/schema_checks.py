"""The keys of a preset that say what is checked before it is launched."""

from typing import Annotated

import msgspec
from msgspec import Meta

from runners.presets.schema_course import Duration


class FileCheckKeys(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Files that must be there before the run starts."""

    path: Annotated[
        str,
        Meta(
            description="A file or glob pattern, or several divided by |, relative to "
            "working_directory; ${parameters.NAME} is a parameter's value: empty, and the check "
            "is left out."
        ),
    ]
    name: Annotated[str, Meta(description="What to call it; the pattern when not given.")] = ""
    count: Annotated[
        int | str | None, Meta(description="How many: 500, '500-' (at least) or '450-500'.")
    ] = None
    size: Annotated[
        int | str | None, Meta(description="Bytes of each: 2102784, '10K-' or '1M-2M'.")
    ] = None
    pairs: Annotated[
        list[str],
        Meta(
            description="Files that each of them needs, relative to its folder, e.g. "
            "features/{stem}_depth.bin; alternatives divided by |."
        ),
    ] = []
    rows: Annotated[
        list[str],
        Meta(
            description="The file is a list; files that each row (its first column) needs, e.g. "
            "'{row}_pc.npz', relative to the list or to working_directory."
        ),
    ] = []
    optional: Annotated[bool, Meta(description="A warning instead of a failure.")] = False
    advice: Annotated[str, Meta(description="What to do when it fails.")] = ""


class CommandCheckKeys(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A command that must succeed before the run starts, with its environment and folder."""

    command: Annotated[
        list[str] | str,
        Meta(description="A list of words; a text is split as by a shell, but none runs it."),
    ]
    name: Annotated[str, Meta(description="What to call it; the command when not given.")] = ""
    exits: Annotated[int, Meta(description="The exit code that is right.")] = 0
    within: Annotated[Duration, Meta(description="It is ended after so long.")] = "60s"
    optional: Annotated[bool, Meta(description="A warning instead of a failure.")] = False
    advice: Annotated[str, Meta(description="What to do when it fails.")] = ""


class CheckKeys(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Checks of the preset's own, made by `fresnel-tui verify` beside the built-in ones."""

    imports: Annotated[
        list[str],
        Meta(description="Modules the run's interpreter must be able to import."),
    ] = []
    files: Annotated[list[FileCheckKeys], Meta(description="Files that must be there.")] = []
    commands: Annotated[
        list[CommandCheckKeys], Meta(description="Commands that must succeed.")
    ] = []
    without_effect: Annotated[
        dict[str, str],
        Meta(description="Keys of its configuration file that do nothing, and why."),
    ] = {}
