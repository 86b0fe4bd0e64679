"""How much of our own source a class is, with all that it inherits."""

import ast
from typing import NamedTuple

from tests.architecture.sources import modules, nodes, place, text_of

LIMIT = 350
"""Lines: what is more is composed of parts."""


class Source(NamedTuple):
    """A class of ours: its lines, and the names of what it derives from."""

    lines: int
    bases: list[str]


def classes(code: str) -> dict[str, Source]:
    """Every class of a module, by name."""
    return {
        node.name: Source(node.end_lineno - node.lineno + 1, [_name(base) for base in node.bases])
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.ClassDef) and node.end_lineno is not None
    }


def _name(base: ast.expr) -> str:
    match base:
        case ast.Subscript(value=value):
            return _name(value)
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
        case _:
            return ""


def chain(name: str, known: dict[str, Source]) -> set[str]:
    """The class and all classes of ours that it inherits from, each once."""
    if name not in known:
        return set()
    return {name}.union(*(chain(base, known) for base in known[name].bases))


def test_the_lines_of_a_class_are_those_of_its_whole_chain() -> None:
    known = classes(
        "class Top(Generic[T]):\n    a = 1\n"
        "class Left(Top): pass\nclass Right(module.Top): pass\n"
        "class Low(Left, Right):\n    b = 1\n    c = 1\n"
    )
    assert sum(known[name].lines for name in chain("Low", known)) == 2 + 1 + 1 + 3


def test_no_class_is_longer_than_a_reader_holds_in_mind() -> None:
    known: dict[str, Source] = {}
    for path in modules("tui", "runners"):
        known |= classes(text_of(path))
    lengths = {name: sum(known[each].lines for each in chain(name, known)) for name in known}
    assert len(lengths) > 500
    assert not {name: length for name, length in lengths.items() if length > LIMIT}


def test_no_field_s_type_names_another_as_text_within_brackets() -> None:
    """Python 3.10 leaves `list["Row"]` as it is, and what comes over a link is not converted."""
    found = [
        place(path, node)
        for path, node in nodes("tui", "runners")
        if isinstance(node, ast.ClassDef)
        for field in node.body
        if isinstance(field, ast.AnnAssign)
        for part in ast.walk(field.annotation)
        if isinstance(part, ast.Subscript) and _name(part) not in ("Literal", "Annotated")
        if any(
            isinstance(inner, ast.Constant) and isinstance(inner.value, str)
            for inner in _inside(part)
        )
    ]
    assert not found


def _inside(part: ast.Subscript) -> list[ast.expr]:
    return part.slice.elts if isinstance(part.slice, ast.Tuple) else [part.slice]
