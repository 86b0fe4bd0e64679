"""How code reads: a docstring's first sentence on one line, no nested ternaries, no dialect."""

import ast
import re
from collections.abc import Iterator

import pytest

from tests.architecture.sources import modules, nodes, place

PACKAGES = ("runners", "trainers", "tui")
DIALECT = {
    *("told", "said", "say", "tell", "telling", "look", "looks", "words", "one"),
    *("there", "far", "elsewhere", "wish", "wakes", "darts", "going_on"),
}
"""Names that say nothing about what they hold, or that nobody would search for."""
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
_SENTENCE_END = re.compile(r"[.!?](?=\s|$)")


def first_sentence(docstring: str) -> str:
    """What stands before the first full stop or blank line."""
    paragraph = docstring.partition("\n\n")[0]
    end = _SENTENCE_END.search(paragraph)
    return paragraph[: end.end()] if end else paragraph


@pytest.mark.parametrize("package", PACKAGES)
def test_a_docstring_s_first_sentence_stands_on_one_line(package: str) -> None:
    broken = [
        place(path, node)
        for path, node in nodes(package)
        if isinstance(node, _DOCUMENTED) and "\n" in first_sentence(ast.get_docstring(node) or "")
    ]
    assert not broken


@pytest.mark.parametrize("package", PACKAGES)
def test_no_ternary_stands_inside_another(package: str) -> None:
    nested = []
    for path, node in nodes(package):
        if isinstance(node, ast.IfExp):
            inside = (child for part in ast.iter_child_nodes(node) for child in ast.walk(part))
            if any(isinstance(child, ast.IfExp) for child in inside):
                nested.append(place(path, node))
    assert not nested


def defined_names(node: ast.AST) -> Iterator[str]:
    """Names that a node defines: a variable, a parameter, a function, a class, an attribute."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield node.name
    elif isinstance(node, ast.arg):
        yield node.arg
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id
    elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
        yield node.attr


@pytest.mark.parametrize("package", PACKAGES)
def test_names_are_plain_nouns_and_verbs(package: str) -> None:
    found = {path.stem for path in modules(package)} & DIALECT
    places = [
        f"{place(path, node)} {name}"
        for path, node in nodes(package)
        for name in defined_names(node)
        if name.lstrip("_") in DIALECT
    ]
    assert not found
    assert not places


def test_first_sentences_are_found() -> None:
    assert first_sentence("One line.\nAnother sentence.") == "One line."
    assert first_sentence("Two\nlines. More") == "Two\nlines."
    assert first_sentence("No stop\n\nbelow.") == "No stop"
