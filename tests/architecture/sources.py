"""Our own sources as trees: each file is read, parsed and walked once, however many rules ask."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.support import REPOSITORY


def modules(*folders: str) -> list[Path]:
    """Every module below some folders of the repository."""
    return [path for folder in folders for path in sorted((REPOSITORY / folder).rglob("*.py"))]


@cache
def name_of(path: Path) -> str:
    """A file's name as a finding shows it: its place in the repository."""
    return str(path.relative_to(REPOSITORY))


@cache
def text_of(path: Path) -> str:
    """What a file holds."""
    return path.read_text(encoding="utf-8")


@cache
def tree_of(path: Path) -> ast.Module:
    """A module's syntax tree."""
    return ast.parse(text_of(path))


@cache
def _nodes_of(path: Path) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(tree_of(path)))


def nodes(*folders: str) -> Iterator[tuple[Path, ast.AST]]:
    """Every syntax node of all modules below some folders, with its file."""
    for path in modules(*folders):
        for node in _nodes_of(path):
            yield path, node


def place(path: Path, node: ast.AST) -> str:
    """Where a node stands, as a finding shows it."""
    return f"{name_of(path)}:{getattr(node, 'lineno', 1)}"
