"""What the source of a Python script says, by its syntax: nothing of it is run."""

import ast
from collections.abc import Iterator
from pathlib import Path

from runners.host.files import read_plain

_LONGEST = 4 << 20


def read_script(script: Path) -> ast.Module:
    """The syntax tree of a script; an empty one for a script that cannot be read or understood."""
    try:
        return ast.parse(read_plain(script, _LONGEST))
    except (OSError, SyntaxError, ValueError, RecursionError):
        return ast.Module([], [])


def added_options(tree: ast.Module) -> Iterator[tuple[ast.expr, ast.Call]]:
    """Each `PARSER.add_argument(…)` in a script: what stands for the parser, and the call."""
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "add_argument"
        ):
            yield node.func.value, node
