"""The Python that `host setup` chose on a rented machine, for programs that name none.

An image keeps its torch in an environment of its own, which a login by ssh does not have on PATH.
"""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

CHOSEN = "FRESNEL_PYTHON"
"""Names it; the launcher that `host setup` writes sets it."""

_PLAIN = ("python", "python3")


def chosen_python(own: Mapping[str, str]) -> str:
    """Its path; empty where none was chosen, or where `own`, a preset's variables, say PATH."""
    path = os.environ.get(CHOSEN, "")
    return path if path and "PATH" not in own and os.access(path, os.X_OK) else ""


def replaced_python(name: str, own: Mapping[str, str]) -> str:
    """What is meant by the program `name`: for a plain `python` the one that was chosen."""
    return (chosen_python(own) if name in _PLAIN else "") or name


def search_path(own: Mapping[str, str]) -> dict[str, str]:
    """PATH with the chosen Python's own programs (torchrun, pip) first, where others are now."""
    chosen = chosen_python(own)
    if not chosen:
        return {}
    folder, path = str(Path(chosen).parent), os.environ.get("PATH", os.defpath)
    found = {Path(place).parent for name in _PLAIN if (place := shutil.which(name, path=path))}
    return {} if found == {Path(folder)} else {"PATH": f"{folder}{os.pathsep}{path}"}
