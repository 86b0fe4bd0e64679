"""What the panel remembers from one time to the next: theme, split, saved views."""

from typing import Any

from runners.host.files import read_json, write_json
from runners.state.layout import StateDirectory


def recall(state: StateDirectory) -> dict[str, Any]:
    """What was remembered, by name; whatever is damaged is forgotten."""
    return read_json(state.panel) or {}


def remember(state: StateDirectory, **values: object) -> bool:
    """Keep these beside what is remembered; False where the folder cannot be written."""
    try:
        write_json(state.panel, {**recall(state), **values})
    except OSError:
        return False
    return True
