"""The configuration that a run's program will read, and which of its keys the program knows."""

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from runners.host.files import is_file, read_plain
from runners.model.errors import WrongInput
from runners.model.spec import RunSpec
from runners.presets.config_file import config_beside, found_near, read_config
from runners.verify.data_facts import CONFIGURATIONS, filled
from runners.verify.facts import ConfigFacts

_MOST_FILES = 600
_MOST_ENTRIES = 20_000
"""A program in a home folder or beside its data: to walk through all of it takes minutes."""
_MOST_BYTES = 24 << 20
_WORD = re.compile(rb"[A-Za-z_]\w*")
# Installed packages contain nearly every word, so every key would look known.
_SKIPPED = frozenset({".git", ".venv", "venv", "node_modules", "site-packages", "__pycache__"})


def config_facts(
    spec: RunSpec, folder: Path, placeholders: Mapping[str, str], script: Path | None
) -> ConfigFacts | None:
    """The configuration file with the run's own values; None when there is none to be read."""
    path = config_place(spec, folder, placeholders, script)
    if path is None:
        return None
    try:
        values: dict[str, Any] = dict(read_config(path).values)
    except WrongInput:
        return None
    # Before the run's own values are added: only keys of the file can be misspelt there.
    unread = None if script is None else unread_keys(list(values), script)
    for parameter in spec.parameters:
        if parameter.config_key:
            values[parameter.config_key] = parameter.value
    return ConfigFacts(str(path), values, unread)


def with_configuration(
    spec: RunSpec, config: ConfigFacts | None, placeholders: Mapping[str, str]
) -> Mapping[str, str]:
    """The words for parameters; one that is left to the configuration is what that says."""
    if config is None:
        return placeholders
    found = {
        f"parameters.{parameter.name}": filled(
            str(config.values[parameter.stands_for]), placeholders
        )
        for parameter in spec.parameters
        if parameter.value is None and config.values.get(parameter.stands_for) is not None
    }
    return {**placeholders, **{name: text for name, text in found.items() if "${" not in text}}


def config_place(
    spec: RunSpec, folder: Path, placeholders: Mapping[str, str], script: Path | None
) -> Path | None:
    """Where the configuration file is: where the preset says, else where a parameter says.

    Such a parameter has a usual name (`config`, …); its file may also be beside the program.
    """
    if spec.config is not None:
        return config_beside(filled(spec.config.path, placeholders), folder, script)
    for parameter in spec.parameters:
        if (
            parameter.name in CONFIGURATIONS
            and isinstance(parameter.value, str)
            and parameter.value
        ):
            return found_near(filled(parameter.value, placeholders), folder, script)
    return None


def unread_keys(keys: list[str], script: Path) -> tuple[str, ...] | None:
    """Keys whose last part is not a word in any of the program's source files.

    None when there are too many files to tell.
    """
    known: set[bytes] = set()
    size = number = 0
    for path in sources_of(script):
        if path is None:
            return None
        try:
            content = read_plain(path, _MOST_BYTES)
        except OSError:
            continue
        size, number = size + len(content), number + 1
        if number > _MOST_FILES or size > _MOST_BYTES:
            return None
        known.update(_WORD.findall(content))
    leaves = {key: key.rpartition(".")[2].encode() for key in keys}
    return tuple(key for key, leaf in leaves.items() if not _is_known(leaf, known))


def _is_known(leaf: bytes, known: set[bytes]) -> bool:
    """True for a word of the sources, or one they may build, as f"batch_size_{stage}" does."""
    starts = (leaf[: at + 1] for at, sign in enumerate(leaf) if sign == ord("_"))
    unnumbered = leaf.rstrip(b"0123456789")
    return leaf in known or unnumbered in known or any(start in known for start in starts)


def sources_of(script: Path) -> Iterator[Path | None]:
    """Yield the Python files below the folder of a program, and of the packages beside that folder.

    None at the end where there are too many files of all kinds to look through.
    """
    folder = script.resolve().parent
    top = folder.parent if is_file(folder / "__init__.py") else folder
    seen = 0
    for place, folders, names in os.walk(top):
        folders[:] = [name for name in folders if name not in _SKIPPED and name[0] != "."]
        seen += len(names) + len(folders)
        if seen > _MOST_ENTRIES:
            yield None
            return
        for name in names:
            if name.endswith(".py"):
                yield Path(place) / name
