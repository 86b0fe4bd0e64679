"""What the program says in English is compared where that is the subject, and seldom elsewhere."""

import ast
import re
from collections.abc import Iterator

import pytest

from tests import command_text, screen_text
from tests.architecture.sources import modules, place

MOST = 150
"""Comparisons with a sentence that the tests may hold.

Each is an edit when the program is worded anew. Where something else is tested there are states,
enums, exit codes, fields of `--json`, file names and numbers to ask for; what is waited for on a
screen has a name in `tests/screen_text.py`, what commands answer one in `tests/command_text.py`.
A test whose subject is a sentence raises this.
"""
FOLDERS = tuple(f"tests/{room}" for room in ("fuzz", "pairs", "process", "remote", "ui", "unit"))
_SENTENCE = re.compile(r"(?<![\w-])[A-Za-z]{2,},? [a-z]{2,},? [a-z]{2,}(?![\w-])")
"""Three plain words in a row: no command, no path, no `name=value`."""
_WAITS = {"wait_for", "wait_gone"}
_NAMED = {
    name
    for names in (screen_text, command_text)
    for name in vars(names)
    if not name.startswith("_")
}


def texts(node: ast.AST) -> Iterator[str]:
    """The texts of an expression; what a function that names a text is given is data."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _NAMED:
        return
    if isinstance(node, ast.JoinedStr):
        parts = [part.value if isinstance(part, ast.Constant) else "{}" for part in node.values]
        yield "".join(map(str, parts))
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    else:
        for child in ast.iter_child_nodes(node):
            yield from texts(child)


def compared(node: ast.AST) -> Iterator[str]:
    """The texts that something is compared with, or that are waited for."""
    if isinstance(node, ast.Compare):
        for side in (node.left, *node.comparators):
            if isinstance(side, (ast.Constant, ast.JoinedStr)):
                yield from texts(side)
    elif isinstance(node, ast.Call):
        if isinstance(node.func, ast.Attribute) and node.func.attr in _WAITS:
            for argument in node.args[:1]:
                yield from texts(argument)
        for keyword in node.keywords:
            if keyword.arg == "until":
                yield from texts(keyword.value)


def sentences(tree: ast.AST) -> list[ast.AST]:
    """The nodes that compare something with a sentence."""
    return [
        node for node in ast.walk(tree) if any(_SENTENCE.search(text) for text in compared(node))
    ]


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ('assert "has ended all the same" in said', True),
        ('assert reason == f"it waits for {name}"', True),
        ('panel.wait_for("none is open: s starts one")', True),
        ('show(until="no run has been launched")', True),
        ('assert f"fresnel-tui stop {name} --wait" in said', False),
        ('panel.wait_for(help_of("x", "help of this preset"))', False),
        ('assert "2 of 4 free" in said', False),
    ],
)
def test_a_sentence_is_told_from_a_command_and_from_data(code: str, found: bool) -> None:
    assert bool(sentences(ast.parse(code))) is found


def test_few_tests_hold_sentences() -> None:
    places = [
        place(path, node)
        for path in modules(*FOLDERS)
        for node in sentences(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert len(places) <= MOST, f"{len(places)} comparisons with sentences:\n" + "\n".join(places)
