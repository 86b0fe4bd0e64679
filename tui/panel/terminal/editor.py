"""A file in the person's own editor, in this terminal, with the panel out of the way."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

from textual.app import App, SuspendNotSupported

_USUAL = ("nano", "vim", "vi", "emacs")


def editor_command() -> list[str]:
    """`$VISUAL`, else `$EDITOR`, else an editor that is there; empty when none is."""
    for name in ("VISUAL", "EDITOR"):
        # Often a command with flags, such as `code --wait`.
        command = shlex.split(os.environ.get(name, ""))
        if command:
            return command
    found = next(filter(None, map(shutil.which, _USUAL)), None)
    return [found] if found else []


def edit_file(app: App[Any], path: Path) -> str:
    """Open `path` in the editor and wait for its end.
    Returns what went wrong, empty when nothing did.
    """
    try:
        command = editor_command()
    except ValueError as error:
        return f"$EDITOR: {error}; edit {path}"
    if not command:
        return f"no editor here: set $EDITOR, or edit {path}"
    try:
        with app.suspend():
            ended = subprocess.run([*command, str(path)], check=False)
    except SuspendNotSupported:
        return f"this terminal cannot be lent to an editor: edit {path}"
    except OSError as error:
        return f"{command[0]}: {error.strerror}; set $EDITOR, or edit {path}"
    return f"{command[0]} ended with exit code {ended.returncode}" if ended.returncode else ""
