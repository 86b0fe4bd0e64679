"""How a preset may spell a value that the program holds in another form, such as 10m for 600.0.

A field that has a description is a key of a preset; one without is set by the program.
"""

from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

from msgspec import Meta

from runners.model.units import as_text, parse_dollars, parse_duration, parse_size


class Spelling(NamedTuple):
    """YAML values of the types in `takes` go through `read`; ValueError says what is expected.

    A list or mapping that `read` returns is decoded further. `form` says in words what is taken.
    """

    read: Callable[[Any], Any]
    takes: tuple[type, ...]
    form: str = ""


def spelled(read: Callable[[Any], Any], *takes: type, form: str = "") -> Meta:
    """The annotation of a type that a preset may spell so."""
    return Meta(extra={"spelling": Spelling(read, takes, form)})


def key(description: str, **bounds: Any) -> Meta:
    """The annotation of a field that is a key of a preset; `bounds` are msgspec's, such as ge."""
    return Meta(description=description, **bounds)


def split_text(text: str) -> list[str]:
    """The words of `text` as a shell splits it; ValueError for an open quotation."""
    import shlex  # plans are read far more often than presets

    return shlex.split(text)


Positive = Annotated[int, Meta(ge=1)]
Seconds = Annotated[float, spelled(parse_duration, str, int, float, form="a length of time")]
Bytes = Annotated[int, spelled(parse_size, str, int, form="an amount of memory")]
Dollars = Annotated[str, spelled(parse_dollars, str, int, float, form="US dollars")]
Word = Annotated[str, spelled(str, int, float)]
VariableText = Annotated[str, spelled(as_text, bool, int, float, form="text or a number")]
one_or_more = spelled(lambda text: [text], str)
"""For a list of texts: a text alone is a list of one."""
