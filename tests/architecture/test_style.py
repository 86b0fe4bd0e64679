"""Rules of the house that a tool can hold: names, docstrings, nothing of one person's machine."""

import ast
from pathlib import Path

import pytest

from tests.architecture.sources import modules, name_of, nodes, place, text_of, tree_of
from tests.support import REPOSITORY, committed_files

SOURCES = sorted(
    path
    for folder in ("tui", "runners", "trainers", "tests")
    for path in (REPOSITORY / folder).rglob("*.py")
)
TOP_LEVEL = {
    *(".ci", ".gitignore", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "Makefile"),
    *("README.md", "SECURITY.md", "constraints.txt", "docs", "presets", "pyproject.toml"),
    *("runners", "tests", "trainers", "tui"),
}
MACHINE = [b"/".join([b"", b"work", b""]), b"/".join([b"", b"tmp", b"venv0"])]


def files() -> list[Path]:
    """Every file of the project that is, or would be, committed."""
    folders = ("tui", "runners", "trainers", "tests", "presets")
    return committed_files() or [
        path for folder in folders for path in (REPOSITORY / folder).rglob("*") if path.is_file()
    ]


def test_no_file_names_a_path_of_somebody_s_machine() -> None:
    found = [
        str(path.relative_to(REPOSITORY))
        for path in files()
        if any(word in path.read_bytes() for word in MACHINE)
    ]
    assert not found


def test_nothing_that_use_leaves_behind_is_committed() -> None:
    top = {path.relative_to(REPOSITORY).parts[0] for path in committed_files()}
    assert top <= TOP_LEVEL


def test_there_are_sources_to_look_at() -> None:
    assert len(SOURCES) > 80 and len(files()) > len(SOURCES)


def test_no_line_is_longer_than_a_reader_s_window() -> None:
    # ruff's E501 lets pass what has no space in it, such as a regular expression, and pragmas.
    found = [
        f"{name_of(path)}:{number}"
        for path in modules("tui", "runners", "trainers")
        for number, line in enumerate(text_of(path).split("\n"), 1)
        if len(line) > 100
    ]
    assert not found


def test_no_source_file_is_longer_than_four_hundred_lines() -> None:
    lengths = {name_of(p): text_of(p).count("\n") for p in modules("tui", "runners", "trainers")}
    assert not {name: lines for name, lines in lengths.items() if lines > 400}


def test_a_public_class_name_exists_once() -> None:
    places: dict[str, list[str]] = {}
    for path, node in nodes("runners", "tui", "trainers"):
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            places.setdefault(node.name, []).append(place(path, node))
    assert not {name: where for name, where in places.items() if len(where) > 1}


@pytest.mark.parametrize("folder", ["runners", "tui"])
def test_a_public_function_has_a_docstring(folder: str) -> None:
    missing = [
        f"{name_of(path)}: {node.name}"
        for path in modules(folder)
        for node in tree_of(path).body
        if isinstance(node, (ast.FunctionDef, ast.ClassDef))
        and not node.name.startswith("_")
        and not ast.get_docstring(node)
    ]
    assert not missing


_OWN_WORDS = {"reason", "remark", "note", "obstacle"}
"""What sentences of our own are called, as a variable, a field or a key."""
_OWN_FIELDS = _OWN_WORDS | {"cause", "summary", "detail", "message", "hint", "headline"}
_READERS = {"startswith", "endswith", "removeprefix", "removesuffix", "partition", "rpartition"}


def _is_own_sentence(node: ast.expr) -> bool:
    match node:
        case ast.Attribute(attr=name) | ast.Subscript(slice=ast.Constant(value=str(name))):
            return name in _OWN_FIELDS
        case ast.Name(id=name):
            return name in _OWN_WORDS
        case _:
            return False


def _is_words(node: ast.expr) -> bool:
    match node:
        case ast.Constant(value=str(text)):
            return any(letter.isalpha() for letter in text)
        case ast.Tuple(elts=parts):
            return any(_is_words(part) for part in parts)
        case _:
            return False


def _reads_back(node: ast.AST) -> bool:
    """Whether it decides something by what one of our own sentences says."""
    match node:
        case ast.Call(func=ast.Attribute(value=said, attr=method), args=[words, *_]):
            return method in _READERS and _is_own_sentence(said) and _is_words(words)
        case ast.Compare(left=left, ops=[ast.In() | ast.NotIn()], comparators=[right]):
            return _is_words(left) and _is_own_sentence(right)
        case ast.Compare(left=left, ops=[ast.Eq() | ast.NotEq()], comparators=[right]):
            pairs = ((left, right), (right, left))
            return any(_is_own_sentence(one) and _is_words(other) for one, other in pairs)
        case _:
            return False


@pytest.mark.parametrize(
    "code",
    [
        'run.reason.startswith("guard:")',
        'reason.startswith(("could not start", "the launch was"))',
        'row.remark.removeprefix("waits: ")',
        '[note for note in notes if note.startswith("batch ")]',
        'told["reason"].partition(": ")[0] == run.reason or "rank" in ending.reason',
        'error.message == "no preset"',
    ],
)
def test_the_rule_sees_what_it_forbids(code: str) -> None:
    assert any(_reads_back(node) for node in ast.walk(ast.parse(code)))


def test_our_own_sentences_are_never_read_back() -> None:
    """What a sentence says is kept beside it as an enum or a field: rewording breaks nothing."""
    found = [
        f"{place(path, node)}: {ast.unparse(node)}"
        for path, node in nodes("tui", "runners")
        if isinstance(node, ast.expr) and _reads_back(node)
    ]
    assert not found
