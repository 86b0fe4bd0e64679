"""JSON files in which people left // and /* */ comments, as guides show them though JSON has none."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from trainers.common.settings import SettingsError

_PIECES = re.compile(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)


def without_comments(text: str) -> tuple[str, int]:
    """Return the text with its comments blanked, so that lines keep their numbers, and how many there were."""
    count = 0

    def blank(found: re.Match[str]) -> str:
        nonlocal count
        piece = found[0]
        if piece.startswith('"'):
            return piece
        count += 1
        return re.sub(r"[^\n]", " ", piece)

    return _PIECES.sub(blank, text), count


def refuse_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return pairs as a dictionary; raises SettingsError where a key comes twice."""
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise SettingsError(f"{key} is given twice in the same section")
        found[key] = value
    return found


def read_json(path: Path) -> tuple[dict[str, Any], int]:
    """Return a file's content and how many comments were passed over.

    Raises SettingsError, naming line and column, where the file cannot be read or is not one JSON object.
    """
    try:
        text, comments = without_comments(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as problem:
        raise SettingsError(f"--config: {path} cannot be read ({problem})") from problem
    try:
        content = json.loads(text, object_pairs_hook=refuse_twice)
    except json.JSONDecodeError as problem:
        where = f"line {problem.lineno} column {problem.colno}"
        raise SettingsError(f"--config: {path}, {where}: {problem.msg}") from problem
    except SettingsError as problem:
        raise SettingsError(f"--config: {path}: {problem}") from problem
    if not isinstance(content, dict):
        raise SettingsError(f"--config: {path} does not hold a JSON object")
    return content, comments
