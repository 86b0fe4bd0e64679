"""The JSON Schema of a preset file, and what a group of presets is."""

from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin

import msgspec

from runners.model.program import Gpus, Parameter, Scalar
from runners.model.spec import RunSpec
from runners.model.spelling import key
from runners.presets.reading.typed import KeyType, is_struct, key_type, keys_of, short_key

_JSON_NAMES = {str: "string", int: "integer", float: "number", bool: "boolean", NoneType: "null"}


class Member(msgspec.Struct, frozen=True):
    """One run of a group."""

    preset: Annotated[str, key("The preset it runs, by name or path, or beside this file.")]
    name: Annotated[str, key("What to call it; the preset's name when not given.")] = ""
    gpus: Annotated[Gpus | None, key("How many GPUs, or which, instead of the preset's.")] = None
    set: Annotated[dict[str, Scalar], key("Parameters and keys it changes.")] = {}


class Group(msgspec.Struct, frozen=True):
    """Several presets launched together."""

    runs: Annotated[tuple[Member, ...], key("The runs; all start or none does.", min_length=1)]
    description: Annotated[str, key("One line shown beside the preset's name.")] = ""


def json_schema() -> dict[str, Any]:
    """The JSON Schema of a preset file, for editors that complete and check YAML."""
    definitions: dict[str, Any] = {}
    preset, group = (_schema(kind, definitions) for kind in (RunSpec, Group))
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "fresnel-tui preset",
        "if": {"required": ["runs"]},
        "then": group,
        "else": preset,
        "$defs": definitions,
    }


def _schema(kind: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    declared = key_type(kind)
    forms = _spelled_forms(declared)
    for member in declared.members:
        forms += _member_forms(member, declared, definitions)
    found = forms[0] if len(forms) == 1 else {"anyOf": forms}
    return found | ({"description": declared.description} if declared.description else {})


def _spelled_forms(declared: KeyType) -> list[dict[str, Any]]:
    takes = declared.spelling.takes if declared.spelling is not None else ()
    if get_origin(declared.type) is tuple and takes == (str,):
        # One text in place of a list: where the items are a choice, it is that choice.
        item = get_args(declared.type)[0]
        if get_origin(item) is Literal:
            return _member_forms(item, declared, {})
    return [{"type": _JSON_NAMES[taken]} for taken in takes if taken not in (list, dict)]


def _member_forms(
    kind: Any, declared: KeyType, definitions: dict[str, Any]
) -> list[dict[str, Any]]:
    """How a value of one type may be written, apart from its short spellings."""
    origin, inner = get_origin(kind), get_args(kind)
    takes = declared.spelling.takes if declared.spelling is not None else ()
    if origin is Annotated:
        return [_schema(kind, definitions)]
    if is_struct(kind):
        return _struct_forms(kind, definitions)
    if origin is Literal:
        return [{"enum": list(inner)}]
    if origin is dict:
        return [{"type": "object", "additionalProperties": _schema(inner[1], definitions)}]
    if inner and inner[0] is Parameter:
        return [{"type": "object", "additionalProperties": _schema(Parameter, definitions)}]
    if origin in (list, tuple):
        if origin is tuple and inner[-1] is not Ellipsis:
            return []  # a range, which is only written in its short spelling
        found = {"type": "array", "items": _schema(inner[0], definitions), **_bounds(declared)}
        return [found]
    if kind in takes or (kind is float and int in takes):
        return []
    return [{"type": _JSON_NAMES[kind], **(_bounds(declared) if kind in (int, float) else {})}]


def _bounds(declared: KeyType) -> dict[str, Any]:
    named = (
        ("minimum", "ge"),
        ("exclusiveMinimum", "gt"),
        ("maximum", "le"),
        ("minItems", "min_length"),
    )
    return {
        name: getattr(meta, bound)
        for meta in declared.metas
        for name, bound in named
        if getattr(meta, bound) is not None
    }


def _struct_forms(struct: Any, definitions: dict[str, Any]) -> list[dict[str, Any]]:
    keys = keys_of(struct)
    if not keys:
        return []
    if struct.__name__ not in definitions:
        definition = definitions[struct.__name__] = {
            "title": struct.__name__,
            "description": str(struct.__doc__).partition("\n")[0],
            "type": "object",
            "additionalProperties": False,
        }
        definition["properties"] = {
            name: _schema(field.type, definitions) | _default(field.default)
            for name, field in keys.items()
        }
        definition["required"] = [name for name, field in keys.items() if field.required]
    short = short_key(struct)
    shorts = [] if short is None else [_schema(short.type, definitions)]
    return [*shorts, {"$ref": f"#/$defs/{struct.__name__}"}]


def _default(value: Any) -> dict[str, Any]:
    """What a key is worth when it is not given, where that is one plain value."""
    return {"default": value} if isinstance(value, (bool, int, float, str)) and value != "" else {}
