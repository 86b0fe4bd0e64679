"""The keys of a program's configuration file as parameters of the preset that names it."""

import os
from pathlib import Path
from typing import Any

from runners.model.errors import WrongInput
from runners.model.placeholders import substitute
from runners.presets.config_file import ConfigText, read_config, value_in
from runners.presets.reading.diagnostics import KeyMistake
from runners.state.layout import TRAINERS


def config_parameters(values: dict[str, Any], preset: Path) -> set[str]:
    """Move `config.parameters` among the preset's parameters, in place; return their names.

    Values that the preset does not give come from the file. A file that is not there (yet) gives
    none: whether it exists is checked at launch.
    """
    config = values.get("config")
    if not isinstance(config, dict) or not isinstance(config.get("file"), str):
        return set()
    entries = config.pop("parameters", None) or {}
    if not isinstance(entries, dict):
        raise KeyMistake(("config", "parameters"), "expected a mapping (KEY: {…})")
    mine = values.get("parameters")
    values["parameters"] = mine = dict(mine) if isinstance(mine, dict) else {}
    try:
        found: ConfigText | None = read_config(config_path(values, config["file"], preset))
    except WrongInput:
        found = None
    for name, entry in entries.items():
        if name in mine:
            raise KeyMistake(("config", "parameters", name), "it is among `parameters` already")
        mine[name] = _with_value(name, entry, found)
    return set(entries)


def config_path(values: dict[str, Any], file: str, preset: Path) -> Path:
    """The configuration file's path as a launch from here would find it."""
    words = {
        "preset_dir": str(preset.absolute().parent),
        "working_directory": str(Path.cwd()),
        "trainers": str(TRAINERS),
    }
    base = preset.absolute().parent
    try:
        folder = substitute(str(values.get("working_directory") or ""), words, os.environ)
        named = substitute(file, words, os.environ)
    except ValueError as error:
        raise WrongInput(f"config.file: {error}") from None
    root = (base / Path(folder).expanduser()) if folder else Path.cwd()
    return root / Path(named).expanduser()


def _with_value(name: str, entry: Any, found: ConfigText | None) -> Any:
    keys = dict(entry) if isinstance(entry, dict) else {"value": entry}
    if entry is None:
        keys = {}
    if "value" not in keys and found is not None:
        keys["value"] = value_in(found, name)
    return keys
