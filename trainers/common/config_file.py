"""Configuration files in YAML, or in JSON with comments, read into a parser's defaults."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from trainers.common.errors import SettingsError, nearest

_COMMENT = re.compile(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/|#[^\n]*', re.DOTALL)
_TRAILING_COMMA = re.compile(r'("(?:\\.|[^"\\])*")|,(?=\s*[}\]])', re.DOTALL)


def read_config_file(path: Path) -> dict[str, Any]:
    """Return what a .yaml, .yml or .json file holds; JSON may have comments and trailing commas.

    Raises SettingsError where the file is missing, is no mapping, or names a key twice.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as problem:
        raise SettingsError(f"--config: {path} cannot be read ({problem})") from problem
    try:
        content = _read_json(text) if path.suffix.lower() == ".json" else _read_yaml(text)
    except ValueError as problem:
        first = " ".join(str(problem).split())
        raise SettingsError(f"--config: {path} is not valid: {first}") from problem
    if not isinstance(content, dict):
        raise SettingsError(f"--config: {path} has to hold keys and values")
    return content


def count_comments(path: Path) -> int:
    """Return how many comments a JSON file has, which other programs would refuse; 0 for YAML."""
    if path.suffix.lower() != ".json":
        return 0
    found = _COMMENT.finditer(path.read_text(encoding="utf-8-sig"))
    return sum(entry[1] is None for entry in found)


def _read_json(text: str) -> Any:
    # Comments become blanks, not nothing, so that an error names the right line and column.
    bare = _COMMENT.sub(lambda m: m[1] or re.sub(r"[^\n]", " ", m[0]), text)
    bare = _TRAILING_COMMA.sub(lambda m: m[1] or " ", bare)
    return json.loads(bare, object_pairs_hook=_once)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"key {key!r} is there twice")
        found[key] = value
    return found


def _read_yaml(text: str) -> Any:
    try:
        import yaml
    except ModuleNotFoundError:
        raise ValueError("PyYAML is not installed: pip install pyyaml, or use JSON") from None

    class Loader(yaml.SafeLoader):
        """Reads plain types and refuses a key that is there twice."""

    def mapping(loader: Any, node: Any) -> dict[str, Any]:
        loader.flatten_mapping(node)
        pairs = loader.construct_pairs(node, deep=True)
        return _once([(str(key), value) for key, value in pairs])

    Loader.add_constructor("tag:yaml.org,2002:map", mapping)
    try:
        return yaml.load(text, Loader) or {}
    except yaml.YAMLError as problem:
        raise ValueError(str(problem)) from problem


def flat_keys(content: Mapping[str, Any], section: str = "") -> Iterator[tuple[str, Any]]:
    """Yield `section.key` and value of every leaf; lists are leaves."""
    for key, value in content.items():
        name = f"{section}.{key}" if section else str(key)
        if isinstance(value, Mapping):
            yield from flat_keys(value, name)
        else:
            yield name, value


def apply_config(parser: argparse.ArgumentParser, path: Path) -> None:
    """Make a file's values the parser's defaults, checked as if they had been given as flags.

    A key is a flag's name without the dashes. Sections are headings: `training.lr` sets
    `--training_lr` if there is such a flag, else `--lr`. Raises SettingsError naming file and key.
    """
    actions = {action.dest: action for action in parser._actions if action.option_strings}
    known = sorted(set(actions) - {"help", "config"})
    taken: dict[str, str] = {}
    for name, value in flat_keys(read_config_file(path)):
        parts = name.replace("-", "_").split(".")
        choices = ["_".join(parts[first:]) for first in range(len(parts))]
        dest = next(
            (flag for flag in choices if flag in actions and flag not in ("help", "config")), None
        )
        if dest is None:
            raise SettingsError(
                f"--config: {path}: unknown key {name!r}{nearest(parts[-1], known)}"
            )
        if dest in taken:
            raise SettingsError(
                f"--config: {path}: {taken[dest]!r} and {name!r} set the same thing"
            )
        taken[dest] = name
        action = actions[dest]
        if reason := getattr(action, "reason", ""):
            raise SettingsError(f"--config: {path}: {name}: {reason}")
        action.required = False
        parser.set_defaults(**{dest: _checked(parser, action, value, f"{path}: {name}")})


def _checked(
    parser: argparse.ArgumentParser, action: argparse.Action, value: Any, where: str
) -> Any:
    if value is None:
        if action.default is None:
            return None
        raise SettingsError(f"--config: {where} is empty; leave the key away for its default")
    if action.nargs == 0:
        if not isinstance(value, bool):
            raise SettingsError(f"--config: {where}: {value!r} is neither true nor false")
        return value
    if action.nargs in ("*", "+") or isinstance(action.nargs, int):
        items = value if isinstance(value, list) else [value]
        if isinstance(action.nargs, int) and len(items) != action.nargs:
            raise SettingsError(
                f"--config: {where}: {action.nargs} values are wanted, not {len(items)}"
            )
        return [_single_value(parser, action, item, where) for item in items]
    return _single_value(parser, action, value, where)


def _single_value(
    parser: argparse.ArgumentParser, action: argparse.Action, value: Any, where: str
) -> Any:
    if isinstance(value, (list, Mapping)) or (isinstance(value, bool) and action.type is not None):
        raise SettingsError(f"--config: {where}: {value!r} is not a single value of its kind")
    try:
        found = parser._get_value(action, str(value))
        parser._check_value(action, found)
    except argparse.ArgumentError as problem:
        raise SettingsError(f"--config: {where}: {problem.message}") from problem
    return found
