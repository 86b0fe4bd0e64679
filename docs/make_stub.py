"""Writes `tui/package/fresnel_tui/api.pyi` (`make docs`), by which type checkers know the API.

Checkers do not see through its import, which only a running program can do: the packages behind it
are not importable under their own names where fresnel-tui is installed.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
STUB = ROOT / "tui" / "package" / "fresnel_tui" / "api.pyi"
SOURCES = ("runners/model/errors.py", "runners/model/states.py", "tui/api.py")
_BASES = {"TextEnum": "(str, Enum)"}
_HEAD = """\
# Written from tui/api.py and what it names by `make docs`.
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum, IntEnum
from pathlib import Path
from typing import Any, Literal
"""


def stub() -> str:
    """The text of the stub file."""
    trees = [ast.parse((ROOT / source).read_text(encoding="utf-8")) for source in SOURCES]
    defined = {node.name: node for tree in trees for node in tree.body if _is_named(node)}
    (public,) = [
        ast.literal_eval(node.value)
        for node in trees[-1].body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
    ]
    wanted = {"ExitCode", *public}
    parts = [_HEAD, f"__all__ = {public!r}", _value(trees[-1])]
    for name, node in defined.items():
        if name in wanted:
            parts += _function(node, "") if isinstance(node, ast.FunctionDef) else _class(node)
    return "\n".join(parts) + "\n"


def _is_named(node: ast.stmt) -> bool:
    return isinstance(node, ast.ClassDef | ast.FunctionDef)


def _value(tree: ast.Module) -> str:
    (node,) = [
        node
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "Value"
    ]
    return ast.unparse(node)


def _class(node: ast.ClassDef) -> Iterator[str]:
    base = ast.unparse(node.bases[0]) if node.bases else ""
    yield f"class {node.name}{_BASES.get(base, f'({base})' if base else '')}:"
    yield _docstring(node, "    ")
    for member in node.body:
        if isinstance(member, ast.FunctionDef):
            if not member.name.startswith("_") or member.name == "__init__":
                yield from _function(member, "    ")
                yield from _attributes(member)
        elif isinstance(member, ast.Assign):
            yield f"    {ast.unparse(member)}"


def _attributes(member: ast.FunctionDef) -> Iterator[str]:
    """What `__init__` sets from an argument of the same type."""
    types = {argument.arg: argument.annotation for argument in member.args.args}
    for node in member.body if member.name == "__init__" else ():
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name):
            (target,) = node.targets
            kind = types.get(node.value.id)
            if isinstance(target, ast.Attribute) and not target.attr.startswith("_") and kind:
                yield f"    {target.attr}: {ast.unparse(kind)}"


def _function(node: ast.FunctionDef, indent: str) -> Iterator[str]:
    arguments = node.args
    if node.name == "__init__":
        # Which state folder it is says the environment.
        taken = [argument for argument in arguments.args if argument.arg != "state"]
        defaults = arguments.defaults[: len(taken) - len(arguments.args) or None]
        arguments = ast.arguments([], taken, None, [], [], None, defaults)
    for decorator in node.decorator_list:
        yield f"{indent}@{ast.unparse(decorator)}"
    returns = ast.unparse(node.returns) if node.returns else "None"
    yield f"{indent}def {node.name}({ast.unparse(arguments)}) -> {returns}:"
    yield _docstring(node, f"{indent}    ")


def _docstring(node: ast.ClassDef | ast.FunctionDef, indent: str) -> str:
    text = ast.get_docstring(node)
    if text is None:
        return f"{indent}..."
    end = "\n" if "\n" in text else ""
    return "\n".join(f"{indent}{line}".rstrip() for line in f'"""{text}{end}"""'.splitlines())


if __name__ == "__main__":
    STUB.write_text(stub(), encoding="utf-8")
    print(STUB.relative_to(ROOT))
