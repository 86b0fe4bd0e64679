"""A program's own configuration file, YAML or JSON with comments: its keys and where they stand."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from runners.host.files import current_folder, expanded, is_file, read_plain
from runners.model.errors import WrongInput
from runners.model.parameters import keepable
from runners.model.placeholders import substitute
from runners.model.spec import ParameterValue, RunSpec
from runners.presets.parameter_input import parse_scalar
from runners.presets.reading.typed import KeyMistake
from runners.state.layout import TRAINERS

if TYPE_CHECKING:
    import yaml

    from runners.presets.reading.yaml_lines import CoreLoader, FastLoader

MOST_BYTES = 4 << 20
MOST_KEYS = 100_000
"""Ten lines of aliases to aliases can stand for more than memory holds."""
_BESIDE_PROGRAM = ("", "config", "configs")
_COMMENT = re.compile(r'"(?:\\.|[^"\\\n])*"?|(//[^\n]*|/\*.*?(?:\*/|\Z))', re.DOTALL)
_COMMA = re.compile(r'"(?:\\.|[^"\\\n])*"?|(,)(?=\s*[}\]])', re.DOTALL)


class ConfigText(NamedTuple):
    """A configuration file: its text, and for every dotted key its value and place in the text.

    And how many entries each list has.
    """

    path: Path
    text: str
    values: Mapping[str, Any]
    places: Mapping[str, tuple[int, int]]
    lists: Mapping[str, int]


class _Found(NamedTuple):
    values: dict[str, Any]
    places: dict[str, tuple[int, int]]
    lists: dict[str, int]
    seen: list[int]
    """How many keys, those of aliases as often as they are named."""


def read_config(path: Path) -> ConfigText:
    """Read the configuration file at `path`; WrongInput when it is none that we can read whole."""
    try:
        if not is_file(path):
            raise WrongInput(f"config.file: no file {path}", "make it, or change the preset")
        if path.stat().st_size > MOST_BYTES:
            raise WrongInput(f"config.file: {path} is larger than {MOST_BYTES >> 20} MiB")
        text = read_plain(path, MOST_BYTES).decode()
    except UnicodeDecodeError:
        raise WrongInput(f"config.file: {path} is not UTF-8 text") from None
    except OSError as error:
        raise WrongInput(f"config.file: {path}: {error.strerror}") from None
    return _parsed(path, text)


# A preset asks for its file again and again, and so do others of the same trainer.
@lru_cache(maxsize=16)
def _parsed(path: Path, text: str) -> ConfigText:
    import yaml  # few launches need any

    from runners.presets.reading.yaml_lines import CoreLoader, FastLoader

    # Blanked out rather than cut out: what stands behind keeps its place.
    readable = _without_comments(text) if path.suffix.lower() in (".json", ".jsonc") else text
    readable = readable.replace("\ufeff", "\n", 1) if readable[:1] == "\ufeff" else readable
    try:
        try:
            found = _read(FastLoader, readable)
        except (yaml.YAMLError, RecursionError):
            found = _read(CoreLoader, readable)  # it says best what is wrong
    except (yaml.YAMLError, RecursionError) as error:
        raise WrongInput(f"config.file: {path}: {_first_line(error)}") from None
    if found is None:
        raise WrongInput(f"config.file: {path} holds no mapping of keys to values")
    if found.seen[0] > MOST_KEYS:
        raise WrongInput(f"config.file: {path} has more than {MOST_KEYS:,} keys")
    return ConfigText(path, text, found.values, found.places, found.lists)


def _read(kind: type[CoreLoader] | type[FastLoader], text: str) -> _Found | None:
    """What a text says; None where it is no mapping."""
    import yaml

    loader = kind(text)
    try:
        node = loader.get_single_node()
        found = _Found({}, {}, {}, [0])
        if not isinstance(node, yaml.MappingNode):
            return None
        _collect(loader, node, "", found)
        return found
    finally:
        loader.dispose()


def found_near(value: str, folder: Path, script: Path | None) -> Path | None:
    """The file that `value` names, from the run's folder or from its program's."""
    named = expanded(value)
    beside = [script.parent / name for name in _BESIDE_PROGRAM] if script is not None else []
    return next((place / named for place in (folder, *beside) if is_file(place / named)), None)


def config_beside(value: str, folder: Path, script: Path | None) -> Path:
    """Where the configuration file `value` is; in `folder` where it is nowhere."""
    return found_near(value, folder, script) or folder / expanded(value)


class InFile(NamedTuple):
    """What the configuration file has of the parameters.

    The `names` of those that are its keys, which of them the preset does not name, and the file's
    values for the parameters that win over it. And what it gives each stage (0: nothing).
    """

    names: set[str]
    unnamed: tuple[str, ...] = ()
    values: Mapping[str, Any] = {}
    stages: tuple[int, ...] = ()


def config_parameters(values: dict[str, Any], preset: Path, asked: Collection[str] = ()) -> InFile:
    """Move `config.parameters` among the preset's parameters, in place.

    So are keys of the file that are `asked` for and no parameter stands for. Values that the
    preset does not give come from the file. A file that is not there (yet) gives none: whether it
    exists is checked at launch.
    """
    config = values.get("config")
    if not isinstance(config, dict) or not isinstance(config.get("file"), str):
        return InFile(set())
    entries = config.pop("parameters", None) or {}
    if not isinstance(entries, dict):
        raise KeyMistake(("config", "parameters"), "expected a mapping (KEY: {…})")
    mine = values.get("parameters")
    values["parameters"] = mine = dict(mine) if isinstance(mine, dict) else {}
    found = _named_config(values, preset)
    for name, entry in entries.items():
        if name in mine:
            raise KeyMistake(("config", "parameters", name), "it is among `parameters` already")
        mine[name] = _with_value(name, entry, found)
    known = {*mine, *stand_ins(mine)}
    more = [key for key in asked if found is not None and key in found.values and key not in known]
    mine.update({key: _with_value(key, None, found) for key in more})
    stated = {name: _stated_in(found, key) for key, name in stand_ins(mine).items() if found}
    return InFile({*entries, *more}, tuple(more), stated, _stages_in(found, values.get("total")))


def _stages_in(found: ConfigText | None, total: Any) -> tuple[int, ...]:
    """How many epochs a file gives each of the stages that it lists; 0 where it does not say."""
    if found is None or not isinstance(total, dict):
        return ()
    numbers, begins = range(found.lists.get(str(total.get("stages")), 0)), total.get("of_stage")
    own = [found.values.get(f"{begins}{number + 1}") if begins else 0 for number in numbers]
    return tuple(value if type(value) is int and value > 0 else 0 for value in own)


def length_of_preset(values: dict[str, Any], preset: Path) -> tuple[int, tuple[int, ...]]:
    """How many epochs (or steps) a preset has before anything is changed; 0 where none are said.

    And how many each of its stages, where its configuration file lists some.
    """
    total, config = values.get("total"), values.get("config")
    name = (total.get("parameter") if isinstance(total, dict) else None) or "epochs"
    entries: dict[str, Any] = {}
    for place in (config if isinstance(config, dict) else {}, values):
        entries |= found if isinstance(found := place.get("parameters"), dict) else {}
    entry = entries[name] if isinstance(name, str) and name in entries else 0
    stated = entry.get("value") if isinstance(entry, dict) else entry
    has_stages = isinstance(total, dict) and bool(total.get("stages"))
    found = _named_config(values, preset) if stated is None or has_stages else None
    own = _stages_in(found, total)
    if stated is None and found:
        key = entry.get("stands_for") if isinstance(entry, dict) else None
        stated = _value_in(found, str(key or name))
    else:
        own = tuple(0 for _ in own)
    each = stated if isinstance(stated, int) and not isinstance(stated, bool) else 0
    stages = tuple(length or each for length in own)
    return each, stages if all(stages) else ()


def with_config_file(spec: RunSpec, file: str) -> RunSpec:
    """`spec` with another configuration file, and with what that says where nothing else does."""
    if spec.config is None:
        return spec
    places = {"working_directory": spec.working_directory, "script": spec.script}
    before, found = (
        _named_config({"config": {"file": name}, **places}, Path(spec.source))
        for name in (spec.config.path, file)
    )
    parameters = []
    for parameter in spec.parameters:
        key, changes = parameter.config_key, dict[str, Any]()
        if key and before and found and parameter.value == _value_in(before, key):
            changes["value"] = changes["default"] = _value_in(found, key)
        elif parameter.stands_for:
            changes["in_file"] = _stated_in(found, parameter.stands_for) if found else None
        parameters.append(msgspec.structs.replace(parameter, **changes))
    return msgspec.structs.replace(
        spec,
        config=msgspec.structs.replace(spec.config, path=file),
        parameters=tuple(parameters),
        stages_in_file=_stages_in(found, msgspec.to_builtins(spec.total)),
    )


def _named_config(values: dict[str, Any], preset: Path) -> ConfigText | None:
    """The preset's configuration file; None where there is none, or none that can be read."""
    config = values.get("config")
    if not isinstance(config, dict) or not isinstance(config.get("file"), str):
        return None
    try:
        return read_config(_path_of(values, config["file"], preset))
    except WrongInput:
        return None


def stand_ins(parameters: dict[str, Any]) -> dict[str, str]:
    """By key of the configuration: the parameter whose flag wins over it."""
    return {
        str(entry["stands_for"]): name
        for name, entry in parameters.items()
        if isinstance(entry, dict) and entry.get("stands_for")
    }


def _path_of(values: dict[str, Any], file: str, preset: Path) -> Path:
    """The configuration file's path as a launch from here would find it."""
    placeholders = {
        "preset_dir": str(preset.absolute().parent),
        "working_directory": str(current_folder()),
        "trainers": str(TRAINERS),
    }
    base = preset.absolute().parent
    try:
        folder = substitute(str(values.get("working_directory") or ""), placeholders, os.environ)
        named = substitute(file, placeholders, os.environ)
        script = substitute(str(values.get("script") or ""), placeholders, os.environ)
    except ValueError as error:
        raise WrongInput(f"config.file: {error}") from None
    root = (base / expanded(folder)) if folder else current_folder()
    return config_beside(named, root, root / expanded(script) if script else None)


def _with_value(name: str, entry: Any, found: ConfigText | None) -> Any:
    keys = dict(entry) if isinstance(entry, dict) else {"value": entry}
    if entry is None:
        keys = {}
    if "value" not in keys and found is not None:
        keys["value"] = _value_in(found, name)
    return keys


def _collect(
    loader: CoreLoader | FastLoader, node: yaml.MappingNode, prefix: str, found: _Found
) -> None:
    import yaml

    for key_node, value_node in node.value:
        found.seen[0] += 1
        if found.seen[0] > MOST_KEYS:
            return
        key = f"{prefix}{key_node.value}"
        if isinstance(value_node, yaml.MappingNode):
            _collect(loader, value_node, f"{key}.", found)
            continue
        block = isinstance(value_node, yaml.SequenceNode) and not value_node.flow_style
        if isinstance(value_node, yaml.SequenceNode):
            found.lists[key] = len(value_node.value)
        anchored = value_node.start_mark.index < key_node.end_mark.index  # an alias
        try:
            value = loader.construct_object(value_node, deep=True)
        except (ValueError, TypeError, LookupError, AttributeError):
            continue  # a tag of the program's own: shown by the program, not edited by us
        if block or anchored or getattr(value_node, "style", None) in ("|", ">"):
            continue
        found.values[key] = value
        found.places[key] = (value_node.start_mark.index, value_node.end_mark.index)


def _without_comments(text: str) -> str:
    def blank(match: re.Match[str]) -> str:
        if match[1] is None:
            return match[0].replace("\t", " ")
        return re.sub(r"[^\n]", " ", match[0])

    return _COMMA.sub(blank, _COMMENT.sub(blank, text)).replace("\t", " ")


def _value_in(config: ConfigText, key: str) -> ParameterValue:
    """The value of a dotted key, None where the file has no such key or it is empty."""
    value = config.values.get(key)
    return parse_scalar(value) if isinstance(value, str) and _is_number(value) else value


def _stated_in(config: ConfigText, key: str) -> ParameterValue:
    """The same of a key that no parameter holds: None also for lists of lists and the like."""
    value: Any = keepable(_value_in(config, key))
    items = value if isinstance(value, list) else [value]
    return value if all(isinstance(item, (int, float, str)) for item in items) else None


def _is_number(text: str) -> bool:
    # YAML 1.1 files write 1e-4, which their own readers take for text and their programs convert.
    return re.fullmatch(r"[-+]?\d+(?:\.\d*)?[eE][-+]?\d+", text) is not None


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else "nested too deeply"
