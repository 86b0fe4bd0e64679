"""Where a preset's values come from, so that one clear error can name file, line, key and the
nearest valid key.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar, get_args, get_type_hints

import msgspec

from runners.model.errors import WrongInput
from runners.model.spec import CheckGroup, MetricReader, ParameterValue
from runners.presets.reading.yaml_lines import Lines, read_yaml

T = TypeVar("T")

_READABLE = {
    "`object`": "a mapping (key: value)",
    "`array`": "a list",
    "`str`": "text",
    "`int`": "a whole number",
    "`float`": "a number",
    "`bool`": "true or false",
    "`null`": "nothing",
}
_CHOICES = {
    "launcher": ["python", "torchrun", "accelerate", "command"],
    "metrics": list(get_args(MetricReader)),
    "on": ["success", "failure", "any"],
    "target": ["leader", "group", "workers"],
    "type": ["int", "float", "str", "bool", "list"],
    "verify": list(get_args(CheckGroup)),
}


class Diagnostics:
    """Where values come from, so that an error can name file, line and key."""

    def __init__(self, path: Path, lines: Lines) -> None:
        self.path = path
        self.lines = lines
        self.flags: dict[tuple[str | int, ...], str] = {}
        self.defaults: dict[str, ParameterValue] = {}  # of parameters that were overridden

    def error(self, key: tuple[str | int, ...], message: str) -> WrongInput:
        """A WrongInput for the value at `key`."""
        for end in range(len(key), -1, -1):
            if key[:end] in self.flags:
                return WrongInput(f"{self.flags[key[:end]]}: {message}")
            if key[:end] in self.lines:
                name = ".".join(str(part) for part in key)
                place = f"{self.path}:{self.lines[key[:end]]}"
                return WrongInput(f"{place}: {name}: {message}" if name else f"{place}: {message}")
        return WrongInput(
            ": ".join([str(self.path), *([".".join(map(str, key))] if key else []), message])
        )

    def attempt(self, key: tuple[str | int, ...], make: Callable[[], T]) -> T:
        """The result of `make()`, its ValueError turned into an error at `key`."""
        try:
            return make()
        except ValueError as error:
            raise self.error(key, str(error)) from None

    def convert(self, value: Any, kind: Any, key: tuple[str | int, ...]) -> Any:
        """`value` as `kind`; WrongInput says what is wrong, and where, in a person's words."""
        try:
            return msgspec.convert(value, kind, strict=True)
        except msgspec.ValidationError as error:
            message, _, place = str(error).partition(" - at `$")
            below = _parse_place(place.rstrip("`"))
            raise self.error(*_explain(message, (*key, *below), fields_of(kind, below))) from None


@contextmanager
def located(path: str) -> Iterator[None]:
    """Give a WrongInput `KEY: …` raised in the block, long after the file at `path` was read, its
    file and line.

    Some mistakes show only when a run is planned: a script that is not there, a variable that is
    not set.
    """
    try:
        yield
    except WrongInput as error:
        key, colon, _ = error.message.partition(": ")
        if not path or not colon or " " in key:
            raise
        lines = read_yaml(Path(path))[1]
        line = lines.get(tuple(key.split("."))) or lines.get((key.split(".")[0],))
        place = f"{path}:{line}" if line else path
        raise WrongInput(f"{place}: {error.message}", error.hint) from None


def nearest(word: str, words: Iterable[str]) -> str:
    """`; did you mean …?` when one of `words` is close to `word`, else nothing."""
    import difflib  # only mistakes need it

    close = difflib.get_close_matches(word, list(words), 1, cutoff=0.6)
    return f"; did you mean `{close[0]}`?" if close else ""


def fields_of(kind: Any, place: tuple[str | int, ...]) -> list[str]:
    """The keys that a value of `kind` may have at `place`, found in the types themselves."""
    for part in place:
        kind = _step(kind, part)
    for struct in _structs_in(kind):
        return list(struct.__struct_fields__)
    return []


def _step(kind: Any, part: str | int) -> Any:
    for struct in _structs_in(kind):
        hints = get_type_hints(struct, include_extras=True)
        if part in hints:
            return hints[str(part)]
    return kind


def _structs_in(kind: Any) -> Iterator[Any]:
    """The Struct classes inside annotations, unions and lists."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        yield kind
    for inner in get_args(kind):
        yield from _structs_in(inner)


def _explain(
    message: str, key: tuple[str | int, ...], fields: list[str]
) -> tuple[tuple[str | int, ...], str]:
    unknown = re.fullmatch(r"Object contains unknown field `(.*)`", message)
    if unknown:
        hint = nearest(unknown[1], fields) or f"; the keys here are {', '.join(fields)}"
        return (*key, unknown[1]), f"unknown key{hint}"
    missing = re.fullmatch(r"Object missing required field `(.*)`", message)
    if missing:
        choices = _CHOICES.get(missing[1])
        return key, f"the key `{missing[1]}` is missing" + (f" ({_or(choices)})" if choices else "")
    for word, readable in _READABLE.items():
        message = message.replace(word, readable)
    message = re.sub(r"`([^`]*)`", lambda m: _readable_union(m[1]), message)
    if "Invalid enum value" in message:
        value_text = message.removeprefix("Invalid enum value ").strip("'`")
        named = next((str(part) for part in reversed(key) if str(part) in _CHOICES), "")
        choices = _CHOICES.get(named, ["all, or a whole number"])
        message = (
            f"expected one of {', '.join(choices)}, got "
            f"{value_text!r}{nearest(value_text, choices)}"
        )
    return key, message[:1].lower() + message[1:]


def _or(words: list[str]) -> str:
    return f"{', '.join(words[:-1])} or {words[-1]}"


def _readable_union(union: str) -> str:
    words = [_READABLE.get(f"`{word.strip()}`", word.strip()) for word in union.split("|")]
    return " or ".join(words)


def _parse_place(place: str) -> tuple[str | int, ...]:
    parts = re.findall(r"\.([\w-]+)|\[(\d+)\]", place)
    return tuple(name if name else int(index) for name, index in parts)
