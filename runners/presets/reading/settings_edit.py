"""Change settings.yaml in place: comments and layout stay; what would not load is not written."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from runners.host.files import ABSENT, absence, read_plain, replace
from runners.model.errors import FresnelError, WrongInput
from runners.presets.reading.user_settings import Settings, check_settings
from runners.presets.reading.yaml_lines import CoreLoader
from runners.state.layout import settings_file

_HEAD = "# Settings of fresnel-tui; docs/settings.md says what each is.\n"


def change_settings(changes: Mapping[tuple[str, str], Any]) -> Settings:
    """Give keys (section, name) other values in the user's file, and return the settings then.

    WrongInput for a value that the settings do not take, and for a file that is not valid;
    FresnelError when it cannot be written.
    """
    path = settings_file()
    try:
        text = _HEAD if absence(path) == ABSENT else read_plain(path, 1 << 20).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise WrongInput(f"{path}: {error}") from None
    for (section, name), value in changes.items():
        text = changed_text(text, section, name, value)
    settings = check_settings(text)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Of those who keep their settings elsewhere: a link stays one.
        replace(Path(os.path.realpath(path)), text.encode())
    except OSError as error:
        raise FresnelError(f"{path}: {error.strerror}") from None
    return settings


def changed_text(text: str, section: str, name: str, value: Any) -> str:
    """YAML `text` with `section.name` set to `value`; WrongInput when it has no sections."""
    spelled = json.dumps(value, ensure_ascii=False)
    root = _root(text)
    found = _value_of(root, section) if root is not None else None
    if root is not None and root.flow_style:
        raise WrongInput(f"{settings_file()}: one line in braces; edit it by hand")
    if found is None:
        gap = "" if text.endswith("\n") or not text else "\n"
        return f"{text}{gap}{section}:\n  {name}: {spelled}\n"
    if not isinstance(found, yaml.MappingNode):
        place = found.start_mark.index
        return f"{text[:place]}\n  {name}: {spelled}{text[found.end_mark.index :]}"
    old = _value_of(found, name)
    if old is not None:
        start, end = old.start_mark.index, _end_of(old)
        gap = "" if text[start - 1 : start].isspace() else " "
        return f"{text[:start]}{gap}{spelled}{text[end:]}"
    if found.flow_style:
        end = found.end_mark.index - 1
        comma = ", " if found.value else ""
        return f"{text[:end].rstrip()}{comma}{name}: {spelled}{text[end:]}"
    start = found.start_mark
    return f"{text[: start.index]}{name}: {spelled}\n{' ' * start.column}{text[start.index :]}"


def _root(text: str) -> yaml.MappingNode | None:
    try:
        node = yaml.compose(text, CoreLoader)
    except yaml.YAMLError as error:
        first = (str(error).splitlines() or ["not valid YAML"])[0]
        raise WrongInput(f"{settings_file()}: {first}", "edit it by hand first") from None
    if node is not None and not isinstance(node, yaml.MappingNode):
        raise WrongInput(f"{settings_file()}: expected sections", "edit it by hand first")
    return node


def _value_of(node: yaml.MappingNode, key: str) -> yaml.Node | None:
    return next((value for name, value in node.value if name.value == key), None)


def _end_of(node: yaml.Node) -> int:
    """Where a value ends, without the comments and blank lines behind a list in lines."""
    if isinstance(node, yaml.SequenceNode) and not node.flow_style and node.value:
        return _end_of(node.value[-1])
    return int(node.end_mark.index)
