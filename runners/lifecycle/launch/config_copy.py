"""The configuration file of a launch: the original, or an edited copy in the run's folder.

Values are replaced where they stand in the text, so comments, order and layout stay. The original
is never written.
"""

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from runners.host.files import expanded, is_file
from runners.lifecycle.launch.placeholder_values import FilledTexts, LaunchInputs
from runners.model.errors import WrongInput
from runners.model.parameters import ENDLESS, flagged, keepable
from runners.model.spec import RunSpec
from runners.presets.config_file import ConfigText, config_beside, read_config


class PlannedConfig(NamedTuple):
    """The words that pass it to the program, the files to write, and what was changed."""

    argv: tuple[str, ...] = ()
    files: Mapping[str, str] = {}
    changes: tuple[str, ...] = ()


def plan_config(inputs: LaunchInputs, texts: FilledTexts, folder: Path) -> PlannedConfig:
    """Plan the configuration file of a run that is started in `folder`.

    Unchanged, the program gets the original by its full path. Raises WrongInput when the file
    cannot be read, lacks a key, or has more than a single value for it.
    """
    spec = inputs.spec
    if spec.config is None:
        return PlannedConfig()
    script = folder / expanded(texts.program[0]) if spec.script else None
    config = read_config(config_beside(texts.config_file, folder, script))
    flag = spec.config.flag
    replaced = _replaced(spec, config)
    # Unedited, there is no copy: programs often look for other files beside their configuration.
    path, files = config.path.resolve(), {}
    if replaced:
        replaced += _found_beside(config, {place for place, _, _ in replaced})
        name = f"config{config.path.suffix}"
        path, text = inputs.directory / name, config.text
        for (start, end), value, _ in sorted(replaced, reverse=True):
            text = text[:start] + value + text[end:]
        files = {name: text}
    argv = tuple(flagged(flag, str(path)))
    return PlannedConfig(argv, files, tuple(filter(None, (change for *_, change in replaced))))


def _found_beside(
    config: ConfigText, taken: Collection[tuple[int, int]]
) -> list[tuple[tuple[int, int], str, str]]:
    """Configuration files that it names by their place beside it: a copy lies elsewhere."""
    found = []
    for key, value in config.values.items():
        is_named = isinstance(value, str) and Path(value).suffix == config.path.suffix
        if not is_named or Path(value).is_absolute() or config.places[key] in taken:
            continue
        beside = config.path.resolve().parent / value
        if is_file(beside):
            found.append((config.places[key], _spell(str(beside)), ""))
    return found


def _replaced(spec: RunSpec, config: ConfigText) -> list[tuple[tuple[int, int], str, str]]:
    """What `spec` changes: its place in the text, what stands there then, and one line on it."""
    found = []
    for parameter in spec.parameters:
        key = parameter.config_key
        if not key:
            continue
        if key not in config.places:
            raise WrongInput(
                f"{parameter.name}: {config.path} has no key `{key}`", "correct the preset's config"
            )
        before, given = keepable(config.values[key]), parameter.value
        value = _spell(float(given) if parameter.type == "float" and given in ENDLESS else given)
        # True is 1 to Python, and not to the program.
        same_kind = isinstance(before, bool) is isinstance(parameter.value, bool)
        if not (same_kind and before == parameter.value):
            found.append((config.places[key], value, f"{key}: {_spell(before)} → {value}"))
    return found


def _spell(value: Any) -> str:
    """A value as YAML and JSON both read it; plain words stay without quotes only when safe."""
    return json.dumps(value, ensure_ascii=False)
