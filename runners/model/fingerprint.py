"""What tells one layout of structs from another: for files and links that name no fields."""

import enum
import types
import typing
import zlib

_UNIONS = (typing.Union, types.UnionType)


def fingerprint(kind: type) -> str:
    """A digest of a struct's fields, their names, order and types, and of those of its fields."""
    structs: dict[str, object] = {}
    _describe(kind, structs)
    # No secret is kept by it: a hash of hashlib would load OpenSSL before the first screen.
    return f"{zlib.crc32(repr(sorted(structs.items())).encode()):08x}"


def _describe(kind: object, structs: dict[str, object]) -> object:
    """A type as plain values, the same for every Python; what it consists of goes to `structs`."""
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if origin is not None:
        name = "Union" if origin in _UNIONS else getattr(origin, "__name__", str(origin))
        return name, [_describe(part, structs) for part in parts]
    if not isinstance(kind, type):
        return str(kind)  # a literal's value, the name of a type that contains itself
    fields = getattr(kind, "__struct_fields__", getattr(kind, "_fields", None))
    if kind.__name__ in structs:
        return kind.__name__
    if issubclass(kind, enum.Enum):
        structs[kind.__name__] = [str(member.value) for member in kind]
    elif fields is not None:
        structs[kind.__name__] = ()
        hints = typing.get_type_hints(kind)
        structs[kind.__name__] = [(name, _describe(hints[name], structs)) for name in fields]
    return kind.__name__
