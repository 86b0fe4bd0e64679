"""What the source of a Python script says, by its syntax: nothing of it is run.

The options that its argparse knows, only where the source says all of them: one parser of its own,
whose options are written out, and which is handed to nobody who could add more. For everything else
nothing is known.
"""

import ast
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from runners.host.files import read_plain

_LONGEST = 4 << 20
_ADDS = ("add_argument", "add_argument_group", "add_mutually_exclusive_group")
_PLAIN_KEYWORDS = ("prog", "usage", "description", "epilog", "formatter_class", "allow_abbrev")
_READS = ("parse_args", "set_defaults", "print_help", "print_usage", "error", "exit")
_READS_MORE = ("format_help", "format_usage", "get_default", "description", "epilog", "usage")


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


class ProgramOptions(NamedTuple):
    """All options of a program, as they are written: `--batch-size`, `-b`."""

    names: frozenset[str]
    abbreviates: bool = True

    def unknown(self, arguments: Sequence[str]) -> Iterator[str]:
        """Words of `arguments` that are options and none of these."""
        shorts = {name[1] for name in self.names if not name.startswith("--")}
        for word in arguments:
            if word == "--":
                return
            name = word.partition("=")[0]
            is_short = word[:1] == "-" and word[1:2].isalpha()
            # `-b8` is -b with its value.
            is_known = self._knows(name) or (is_short and word[1] in shorts)
            if not is_known and (is_short or word.startswith("--")):
                yield name

    def _knows(self, name: str) -> bool:
        if name in self.names:
            return True
        return self.abbreviates and any(known.startswith(name) for known in self.names)


def options_of(script: Path) -> ProgramOptions | None:
    """The options of the argparse parser in `script`; None where they are not certain."""
    tree = read_script(script)
    made = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and _is_made(node)]
    if len(made) != 1 or not _is_argparse(tree, made[0]) or _changes_words(tree):
        return None
    maker = made[0]
    if any(word.arg not in _PLAIN_KEYWORDS for word in maker.keywords):
        return None
    names = _written_out(tree, maker)
    if names is None:
        return None
    full = not any(word.arg == "allow_abbrev" for word in maker.keywords)
    return ProgramOptions(frozenset(names | {"-h", "--help"}), full)


def _is_made(call: ast.Call) -> bool:
    return _attribute(call.func).endswith(("ArgumentParser", "ArgParser"))


def _is_argparse(tree: ast.Module, maker: ast.Call) -> bool:
    """True for the standard library's own parser: others know more options than are written."""
    if isinstance(maker.func, ast.Attribute):
        return _name_of(maker.func.value) == "argparse" and maker.func.attr == "ArgumentParser"
    imported = (node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom))
    return _name_of(maker.func) == "ArgumentParser" and any(
        node.module == "argparse" and any(name.name == "ArgumentParser" for name in node.names)
        for node in imported
    )


def _changes_words(tree: ast.Module) -> bool:
    """True where the program may read other words than those that it is given."""
    nodes = list(ast.walk(tree))
    imported = (node for node in nodes if isinstance(node, ast.ImportFrom))
    reads = (
        node
        for node in nodes
        if isinstance(node, ast.Call) and _attribute(node.func) == "parse_args"
    )
    return (
        any(isinstance(node, ast.Attribute) and node.attr == "argv" for node in nodes)
        or any(name.name == "argv" for node in imported for name in node.names)
        or any(call.args or call.keywords for call in reads)
    )


def _written_out(tree: ast.Module, maker: ast.Call) -> set[str] | None:
    """The options that are added to the parser; None where somebody else may add or read some."""
    parsers = _variables(tree, maker)
    if not parsers:
        return None
    attributes = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    own = [node for node in attributes if _name_of(node.value) in parsers]
    if any(node.attr not in (*_ADDS, *_READS, *_READS_MORE) for node in own):
        return None
    used = {id(node.value) for node in own}
    loaded = (
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    )
    # Handed on, returned or compared: somebody else may do anything with it.
    if any(node.id in parsers and id(node) not in used for node in loaded):
        return None
    names: set[str] = set()
    for parser, call in added_options(tree):
        added = _options_in(call)
        if added is None or _name_of(parser) not in parsers:
            return None
        names |= added
    return names


def _variables(tree: ast.Module, maker: ast.Call) -> set[str]:
    """The names of the parser and of its groups."""
    found: set[str] = set()
    for _ in range(2):  # groups are made from the parser
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign) and len(node.targets) == 1:
                value, target = node.value, _name_of(node.targets[0])
                is_group = (
                    isinstance(value, ast.Call)
                    and isinstance(value.func, ast.Attribute)
                    and value.func.attr in _ADDS[1:]
                    and _name_of(value.func.value) in found
                )
                if target and (value is maker or is_group):
                    found.add(target)
    return found


def _options_in(call: ast.Call) -> set[str] | None:
    """The option strings of one `add_argument`; None where they are not written out."""
    found: set[str] = set()
    if any(word.arg is None for word in call.keywords):
        return None
    for given in call.args:
        if not isinstance(given, ast.Constant) or not isinstance(given.value, str):
            return None
        if given.value.startswith("-"):
            found.add(given.value)
    for word in call.keywords:
        if word.arg == "action" and not isinstance(word.value, ast.Constant):
            # argparse.BooleanOptionalAction adds --no-NAME; what another class adds is not known.
            if _attribute(word.value) != "BooleanOptionalAction":
                return None
            found |= {f"--no-{name[2:]}" for name in found if name.startswith("--")}
        if word.arg == "nargs" and _is_remainder(word.value):
            return None
    return found


def _is_remainder(value: ast.expr) -> bool:
    return _attribute(value) == "REMAINDER" or (
        isinstance(value, ast.Constant) and value.value in ("...", "A...")
    )


def _attribute(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else _name_of(node)


def _name_of(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else ""
