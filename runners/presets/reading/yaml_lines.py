"""YAML with line numbers: plain values, and for every key the line where it stands.

Scalars follow YAML 1.2's core schema, because 1.1 reads `1e-4` as text and `no` as false.
"""

import re
from collections.abc import Hashable
from pathlib import Path
from typing import Any

from runners.host.files import read_plain
from runners.model.errors import WrongInput
from runners.model.late_pattern import late_patterns

with late_patterns():  # half of what it takes: libyaml reads, which needs few of them
    import yaml

_LONGEST = 256 << 10
"""Bytes; reading takes a second for as much."""
_MOST_VALUES = 20_000
_MOST_DIGITS = 3_000
"""Python writes out no number of more than 4,300, but reads any that is in hexadecimal digits."""

AS_WRITTEN = ("environment", "arguments", "launcher_arguments")
"""Keys of a preset whose numbers a program gets as they are written: 12.10 is no 12.1."""

Lines = dict[tuple[str | int, ...], int]
_Resolvers = dict[str, list[tuple[str, re.Pattern[str]]]]

_CORE_SCHEMA = [
    ("tag:yaml.org,2002:null", re.compile(r"^(?:~|null|Null|NULL|)$"), ["~", "n", "N", ""]),
    ("tag:yaml.org,2002:bool", re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF")),
    (
        "tag:yaml.org,2002:int",
        re.compile(r"^[-+]?[0-9]+$|^0o[0-7]+$|^0x[0-9a-fA-F]+$"),
        list("-+0123456789"),
    ),
    (
        "tag:yaml.org,2002:float",
        re.compile(
            r"^[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$"
            r"|^[-+]?\.(?:inf|Inf|INF)$|^\.(?:nan|NaN|NAN)$"
        ),
        list("-+.0123456789"),
    ),
]


class CoreLoader(yaml.SafeLoader):
    """SafeLoader with the scalars of YAML 1.2."""

    yaml_implicit_resolvers: _Resolvers = {}  # noqa: RUF012 (the way of PyYAML)


_Libyaml: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # PyYAML can be built without it


class FastLoader(_Libyaml):  # type: ignore[misc]
    """The same over libyaml, ten times as fast; its messages say less."""

    yaml_implicit_resolvers: _Resolvers = {}  # noqa: RUF012 (the way of PyYAML)


def _construct_int(loader: CoreLoader | FastLoader, node: yaml.ScalarNode) -> int:
    """An int as YAML 1.2 reads it: 010 is ten, 0o10 is eight."""
    text = str(loader.construct_scalar(node))
    if len(text) > _MOST_DIGITS:
        raise ValueError(text)
    return int(text, {"0o": 8, "0x": 16}.get(text[:2].lower(), 10))


def _construct_text(loader: CoreLoader | FastLoader, node: yaml.ScalarNode) -> str:
    """A text that commands, paths and files can hold: no null byte, no half of a character."""
    text = str(loader.construct_scalar(node))
    if b"\0" in text.encode():
        raise ValueError(text)
    return text


for _loader in (CoreLoader, FastLoader):
    for _tag, _pattern, _first in _CORE_SCHEMA:
        _loader.add_implicit_resolver(_tag, _pattern, _first)
    _loader.add_constructor("tag:yaml.org,2002:int", _construct_int)
    _loader.add_constructor("tag:yaml.org,2002:str", _construct_text)


def read_yaml(path: Path) -> tuple[Any, Lines]:
    """Values of the YAML file at `path` and the line of every key; WrongInput names the line."""
    try:
        text = read_plain(path, _LONGEST).decode()
    except UnicodeDecodeError as error:
        raise WrongInput(
            f"{path}: not UTF-8 text (byte {error.start})", "save the file as UTF-8"
        ) from None
    except OSError as error:
        raise WrongInput(f"{path}: cannot be read: {error.strerror}") from None
    return parse_yaml(text, path)


def parse_yaml(text: str, path: Path) -> tuple[Any, Lines]:
    """The same of a text that is, or shall be, the file at `path`."""
    try:
        return _read(FastLoader, text, path)
    except (yaml.YAMLError, RecursionError):
        return _read_and_explain(text, path)


def _read(kind: type[CoreLoader] | type[FastLoader], text: str, path: Path) -> tuple[Any, Lines]:
    loader = kind(text)  # refuses control characters
    try:
        node = loader.get_single_node()
        lines: Lines = {}
        return (_build(loader, node, (), lines, path) if node is not None else None), lines
    finally:
        loader.dispose()


def _read_and_explain(text: str, path: Path) -> tuple[Any, Lines]:
    """Read with the loader that says best what is wrong."""
    try:
        return _read(CoreLoader, text, path)
    except RecursionError:
        raise WrongInput(f"{path}: nested too deeply, or an alias inside its own anchor") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{path}:{mark.line + 1}" if mark else str(path)
        raise WrongInput(f"{where}: not valid YAML: {error.problem or error.context}") from None
    except yaml.YAMLError as error:
        raise WrongInput(f"{path}: not valid YAML: {str(error).splitlines()[0]}") from None


def _build(
    loader: CoreLoader | FastLoader,
    node: yaml.Node,
    key: tuple[str | int, ...],
    lines: Lines,
    path: Path,
) -> Any:
    lines.setdefault(key, node.start_mark.line + 1)
    if len(lines) > _MOST_VALUES:
        # Ten lines of aliases to aliases can stand for more values than memory holds.
        raise WrongInput(
            f"{path}:{node.start_mark.line + 1}: expands to more than {_MOST_VALUES:,} values",
            "write fewer, or fewer aliases",
        )
    if isinstance(node, yaml.MappingNode):
        return _build_mapping(loader, node, key, lines, path)
    if isinstance(node, yaml.SequenceNode):
        return [_build(loader, child, (*key, i), lines, path) for i, child in enumerate(node.value)]
    value = _constructed(loader, node, path)
    is_number = type(value) in (int, float) and value - value == 0  # .inf is YAML's word alone
    return node.value if is_number and key and key[0] in AS_WRITTEN else value


def _constructed(loader: CoreLoader | FastLoader, node: yaml.Node, path: Path) -> Any:
    try:
        return loader.construct_object(node, deep=True)
    except (ValueError, LookupError, AttributeError, TypeError):
        # An explicit tag that does not fit, such as !!int abc: PyYAML does not say so itself.
        kind = node.tag.rpartition(":")[2]
        raise WrongInput(
            f"{path}:{node.start_mark.line + 1}: {node.value!r} is not a valid {kind}"
        ) from None


def _build_mapping(
    loader: CoreLoader | FastLoader,
    node: yaml.MappingNode,
    key: tuple[str | int, ...],
    lines: Lines,
    path: Path,
) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key_node, value_node in node.value:
        name = _constructed(loader, key_node, path)
        line = key_node.start_mark.line + 1
        if not isinstance(name, Hashable) or isinstance(name, (tuple, list, dict)):
            raise WrongInput(f"{path}:{line}: a key must be a word, not {type(name).__name__}")
        name = key_node.value if not isinstance(name, str) else name
        place = (*key, name)
        if name in result:
            first = lines[place]
            raise WrongInput(f"{path}:{line}: `{name}` is given twice (first in line {first})")
        lines[place] = line
        result[name] = _build(loader, value_node, (*key, name), lines, path)
    return result
