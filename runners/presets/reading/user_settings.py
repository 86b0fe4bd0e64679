"""The user's own settings: `settings.yaml` in the configuration folder, one Struct per section.

A section is a field of `Settings`: what is declared there is checked, explained in errors, and has
a default, so the file may be missing, and any part of it.
"""

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import Meta

from runners.host.files import stamp_of
from runners.model.cluster import ClusterKeys
from runners.model.errors import WrongInput
from runners.model.spelling import Dollars, key
from runners.state.layout import settings_file

if TYPE_CHECKING:
    from runners.presets.reading.diagnostics import Diagnostics


class CostKeys(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Money."""

    metadata: Annotated[
        bool,
        key(
            "Ask the cloud's metadata service (169.254.169.254) which machine this is, "
            "and whether it is about to be taken away."
        ),
    ] = False


class PanelKeys(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The panel."""

    theme: Annotated[
        str,
        key("The theme it opens with; one chosen with Ctrl+P is remembered instead."),
    ] = ""
    mouse: Annotated[
        bool,
        key("Take the mouse; M gives it back to the terminal and takes it again."),
    ] = True
    slow: Annotated[
        bool,
        key(
            "The line is slow: two frames a second at most, keys' effects at once; "
            "without it the panel finds out by itself."
        ),
    ] = False


class NoticeKeys(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Telling somebody who is not looking."""

    on: Annotated[
        list[
            Literal[
                "done", "failed", "stopped", "cancelled", "unseen", "lost", "alert", "preempted"
            ]
        ],
        key(
            "What is worth a notice: how runs end, their alerts, and that the machine "
            "is taken away."
        ),
    ] = msgspec.field(
        default_factory=lambda: ["done", "failed", "unseen", "lost", "alert", "preempted"]
    )
    bell: Annotated[bool, key("Ring the terminal's bell; the panel does.")] = True
    desktop: Annotated[
        Literal["osc9", "osc777", "off"],
        key(
            "How the panel asks the terminal for a desktop notice: OSC 9, or OSC "
            "777 (urxvt, foot, VTE)."
        ),
    ] = "osc9"
    command: Annotated[
        str,
        key(
            "Run by a shell, panel or not; FRESNEL_NOTICE_TEXT, _KIND, _RUN, _NAME, _HOST say what."
        ),
    ] = ""
    webhook: Annotated[
        str, key("Posted to as JSON, panel or not; Slack and Discord understand it.")
    ] = ""


class UnattendedKeys(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Calls without a terminal: scripts, timers, assistants."""

    gpus: Annotated[
        Annotated[int, Meta(ge=0)] | None,
        key("At most so many GPUs, held or waited for, by all runs of such."),
    ] = None
    cost: Annotated[
        Dollars | None,
        key(
            "In a session each run of such needs a limit of cost (limits.cost); those "
            "of all that live are at most so many US dollars together."
        ),
    ] = None
    commands: Annotated[
        list[str] | None,
        key("Only these commands, e.g. [list, status, logs, launch]."),
    ] = None


class Settings(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Everything that settings.yaml can say."""

    cost: Annotated[CostKeys, key("Prices, sessions and guards.")] = CostKeys()
    panel: Annotated[PanelKeys, key("The panel.")] = PanelKeys()
    notices: Annotated[NoticeKeys, key("Bell, desktop notice, command and webhook.")] = NoticeKeys()
    slurm: Annotated[
        ClusterKeys, key("What jobs ask of this machine's Slurm unless they say so.")
    ] = ClusterKeys()
    unattended: Annotated[UnattendedKeys, key("What may be called for without a terminal.")] = (
        UnattendedKeys()
    )


def read_settings() -> Settings:
    """The settings as the file has them now, or defaults; WrongInput names file, line and key."""
    path = settings_file()
    changed = stamp_of(path)
    return _read(path, changed) if changed else Settings()


@cache
def _read(path: Path, changed: int) -> Settings:
    # Most people have no such file: they need not wait for the YAML reader.
    from runners.presets.reading.diagnostics import Diagnostics
    from runners.presets.reading.yaml_lines import read_yaml

    values, lines = read_yaml(path)
    return _convert(values, Diagnostics(path, lines))


def check_settings(text: str) -> Settings:
    """The settings that `text` would be in the file; WrongInput names every mistake."""
    from runners.presets.reading.diagnostics import Diagnostics
    from runners.presets.reading.yaml_lines import parse_yaml

    values, lines = parse_yaml(text, settings_file())
    return _convert(values, Diagnostics(settings_file(), lines))


def _convert(values: Any, source: "Diagnostics") -> Settings:
    """The settings; WrongInput names every mistake, each in a line of its own."""
    from runners.presets.reading.typed import decode

    if values is not None and not isinstance(values, dict):
        raise source.error((), f"expected sections: {', '.join(Settings.__struct_fields__)}")
    problems = []
    for section, keys in (values or {}).items():
        parts = [{name: value} for name, value in keys.items()] if isinstance(keys, dict) else []
        for part in parts or [keys]:
            try:
                with source.located():
                    decode({section: part}, Settings, ())
            except WrongInput as error:
                problems.append(error.message)
    if problems:
        raise WrongInput("\n".join(dict.fromkeys(problems)))
    with source.located():
        settings: Settings = decode(values or {}, Settings, ())
    return settings
