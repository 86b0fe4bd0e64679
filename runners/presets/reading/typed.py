"""YAML values as the types that declare their keys; one clear error for what does not fit.

Written for its errors: msgspec's own name neither the place of a key in a mapping nor the nearest.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

import msgspec
from msgspec import Meta

from runners.model.spelling import Spelling
from runners.model.suggestions import nearest_hint

KeyPath = tuple[str | int, ...]
"""Where a value stands: the keys and indices that lead to it."""


class KeyMistake(Exception):
    """What is wrong with the value at `key`; in which file and line, says who read it."""

    def __init__(self, key: KeyPath, message: str) -> None:
        super().__init__(key, message)
        self.key, self.message = key, message


@contextmanager
def at_key(key: KeyPath) -> Iterator[None]:
    """Make a ValueError in the block the mistake of the value at `key`."""
    try:
        yield
    except ValueError as error:
        raise KeyMistake(key, str(error)) from None


_NAMES = {
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    list: "a list",
    tuple: "a list",
    dict: "a mapping (key: value)",
    NoneType: "nothing",
}


class KeyType(NamedTuple):
    """A declared type taken apart: the type itself, its annotations, how else it is spelled."""

    type: Any
    metas: tuple[Meta, ...]
    spelling: Spelling | None

    @property
    def members(self) -> tuple[Any, ...]:
        """The types of a union, else the type alone."""
        is_union = get_origin(self.type) in (Union, UnionType)
        return get_args(self.type) if is_union else (self.type,)

    @property
    def description(self) -> str:
        """What is said of it in the documentation; empty for what is no key."""
        return next((meta.description for meta in self.metas if meta.description), "")


def key_type(kind: Any) -> KeyType:
    """Take a declared type apart."""
    if get_origin(kind) is not Annotated:
        return KeyType(kind, (), None)
    inner, *annotations = get_args(kind)
    metas = tuple(meta for meta in annotations if isinstance(meta, Meta))
    spellings = (meta.extra["spelling"] for meta in metas if meta.extra)
    return KeyType(inner, metas, next(spellings, None))


@cache
def keys_of(struct: type[msgspec.Struct]) -> dict[str, msgspec.structs.FieldInfo]:
    """The keys that a struct declares: its fields with a description, by their names in YAML."""
    fields = msgspec.structs.fields(struct)
    return {field.encode_name: field for field in fields if key_type(field.type).description}


def short_key(struct: Any) -> msgspec.structs.FieldInfo | None:
    """The key of a struct that a bare value in place of the mapping stands for."""
    name = getattr(struct, "short", None)
    return None if name is None else keys_of(struct)[name]


def is_struct(kind: Any) -> bool:
    """Whether `kind` is a class of structs."""
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def decode(value: Any, kind: Any, key: KeyPath) -> Any:
    """`value`, which stands at `key`, as `kind`; WrongInput says what is wrong, and where."""
    declared = key_type(kind)
    spelling, stands_for_list = declared.spelling, False
    if spelling is not None and type(value) in spelling.takes:
        stands_for_list = not isinstance(value, list)
        with at_key(key):
            value = spelling.read(value)
        if not isinstance(value, (list, dict)):
            _check_bounds(value, declared, key)
            return value
    member = next((kind for kind in declared.members if _accepts(value, kind)), None)
    if member is None or (get_origin(member) is Literal and value not in get_args(member)):
        raise KeyMistake(key, _refusal(value, kind))
    if len(declared.members) > 1:
        found = decode(value, member, key)
    else:
        found = _decode_member(value, member, key, stands_for_list)
    _check_bounds(found, declared, key)
    return found


def decode_keys(values: dict[str, Any], struct: Any, key: KeyPath) -> dict[str, Any]:
    """The given keys of a mapping as the fields of `struct`, by the fields' names."""
    keys = keys_of(struct)
    for name in values:
        if name not in keys:
            hint = nearest_hint(name, keys) or f"; the keys here are {', '.join(keys)}"
            raise KeyMistake((*key, name), f"unknown key{hint}")
    for name, field in keys.items():
        if field.required and name not in values:
            *others, last = choices_of(field.type) or [""]
            choices = f" ({', '.join(others)} or {last})" if others else ""
            raise KeyMistake(key, f"the key `{name}` is missing{choices}")
    return {
        keys[name].name: decode(value, keys[name].type, (*key, name))
        for name, value in values.items()
    }


def _decode_member(value: Any, kind: Any, key: KeyPath, stands_for_list: bool) -> Any:
    if is_struct(kind):
        short = short_key(kind)
        if short is not None and not isinstance(value, dict):
            return kind(**{short.name: decode(value, short.type, key)})
        return kind(**decode_keys(value, kind, key))
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (list, tuple):
        # A text that stands for a list of one has no index of its own.
        places = [key if stands_for_list else (*key, i) for i in range(len(value))]
        items = zip(value, places, strict=True)
        return origin(decode(item, inner[0], place) for item, place in items)
    if origin is dict:
        return {name: decode(item, inner[1], (*key, name)) for name, item in value.items()}
    if kind is not float:
        return value
    # inf and nan are no numbers to JSON, in which all of this is kept; nor is what a float exceeds.
    if not abs(value) <= sys.float_info.max:
        raise KeyMistake(key, f"expected a number with an end, got {value!r}")
    return float(value)


def _accepts(value: Any, kind: Any) -> bool:
    """Whether `value` has the form of `kind`, so that what is wrong with it lies further in."""
    declared = key_type(kind)
    if declared.spelling is not None and type(value) in declared.spelling.takes:
        return True
    if len(declared.members) > 1:
        return any(_accepts(value, member) for member in declared.members)
    plain = declared.type
    if is_struct(plain):
        short = short_key(plain)
        is_long = isinstance(value, dict) and bool(keys_of(plain))
        return is_long or (short is not None and _accepts(value, short.type))
    origin = get_origin(plain)
    if origin is Literal:
        return isinstance(value, str)
    if origin in (list, tuple):
        # A range, whose ends are not alike, is only written in its short spelling.
        return isinstance(value, list) and (origin is list or get_args(plain)[-1] is ...)
    if plain is float:
        return type(value) in (int, float)
    return type(value) is (origin or plain)


def _refusal(value: Any, kind: Any) -> str:
    choices, forms = choices_of(kind), list(dict.fromkeys(_forms(kind)))
    if choices and isinstance(value, str):
        expected = ", or ".join([", ".join(choices), *forms])
        return f"expected one of {expected}, got {value!r}{nearest_hint(value, choices)}"
    known = f" (one of {', '.join(choices)})" if choices else ""
    forms = [_NAMES[str], *forms] if choices else forms
    return f"expected {' or '.join(forms)}, got {_NAMES.get(type(value), repr(value))}{known}"


def choices_of(kind: Any) -> list[str]:
    """The texts that a closed type takes; none of any other."""
    declared = key_type(kind)
    if get_origin(declared.type) is Literal:
        return list(get_args(declared.type))
    members = declared.members if len(declared.members) > 1 else ()
    return [choice for member in members for choice in choices_of(member)]


def _forms(kind: Any) -> Iterator[str]:
    """What may stand there, in words; choices and an optional key's nothing left out."""
    declared = key_type(kind)
    plain, spelling = declared.type, declared.spelling
    if spelling is not None and spelling.form:
        yield spelling.form
        return
    if len(declared.members) > 1:
        for member in declared.members:
            if member is not NoneType:
                yield from _forms(member)
    elif is_struct(plain):
        short = short_key(plain)
        if short is not None:
            yield from _forms(short.type)
        if keys_of(plain):
            yield _NAMES[dict]
    elif get_origin(plain) is not Literal:
        yield _NAMES.get(get_origin(plain) or plain, "a value")
    if spelling is not None:
        yield from (_NAMES[kind] for kind in spelling.takes if kind is not dict)


def _check_bounds(value: Any, declared: KeyType, key: KeyPath) -> None:
    for meta in declared.metas:
        if meta.min_length is not None and len(value) < meta.min_length:
            raise KeyMistake(key, f"expected a list of length >= {meta.min_length}")
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            continue
        form = next(iter(_forms(declared.type)))
        for bound, sign, holds in (
            (meta.ge, ">=", meta.ge is None or value >= meta.ge),
            (meta.gt, ">", meta.gt is None or value > meta.gt),
            (meta.le, "<=", meta.le is None or value <= meta.le),
        ):
            if not holds:
                raise KeyMistake(key, f"expected {form} {sign} {bound}, got {value!r}")
