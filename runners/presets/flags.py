"""Flags of a command line changed by name: `--lr 3e-4`, `--lr=3e-4`, `-b 32`, `optim.lr=3e-4`."""

import re
from collections.abc import Sequence

_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")
_OVERRIDE = re.compile(r"\+{0,2}[A-Za-z_][\w./-]*=.*", re.DOTALL)
_TRUTH_VALUES = {"true": True, "yes": True, "false": False, "no": False}


def flag_names(arguments: Sequence[str]) -> list[str]:
    """The names of the flags in a command line, without dashes."""
    named = [_name(word) for i, word in enumerate(arguments) if i and _is_flag(word)]
    return list(dict.fromkeys(name for name in named if name))


def change_flag(arguments: Sequence[str], name: str, value: str) -> list[str] | None:
    """`arguments` with the last flag `name` given another value; None where there is no such flag.

    A flag that stands without a value goes with `false`, and stays with `true`.
    """
    places = [i for i, word in enumerate(arguments) if i and _is_flag(word) and _same(word, name)]
    if not places:
        return None
    at = places[-1]
    found = list(arguments)
    head, equals, _ = found[at].partition("=")
    following = found[at + 1] if at + 1 < len(found) and not _is_flag(found[at + 1]) else None
    if equals:
        found[at] = f"{head}={value}"
    elif following is not None and (
        value not in _TRUTH_VALUES or following.lower() in _TRUTH_VALUES
    ):
        found[at + 1] = value
    elif value not in _TRUTH_VALUES:
        found.insert(at + 1, value)
    elif not _TRUTH_VALUES[value]:
        del found[at]
    return found


def change_flags(arguments: Sequence[str], flags: Sequence[str]) -> list[str]:
    """`arguments` with `flags`, as typed after `--`, in place of their own or at the end.

    ValueError when what stands there does not begin with a flag.
    """
    found = list(arguments)
    at = 0
    while at < len(flags):
        word = flags[at]
        at += 1
        if not _is_flag(word):
            raise ValueError(f"expected a flag such as --lr, got {word!r}")
        head, equals, value = word.partition("=")
        more: list[str] = []
        while not equals and at < len(flags) and not _is_flag(flags[at]):
            more.append(flags[at])
            at += 1
        single = more[0] if len(more) == 1 else None
        if equals:
            single = value
        changed = None if single is None else change_flag(found, _name(head), single)
        if changed is None:
            changed = found if not more and not equals and _has(found, head) else None
        found = [*found, word, *more] if changed is None else changed
    return found


def _has(arguments: Sequence[str], flag: str) -> bool:
    return any(_is_flag(word) and _same(word, _name(flag)) for word in arguments)


def _is_flag(word: str) -> bool:
    if word.startswith("-"):
        return len(word) > 1 and _NUMBER.fullmatch(word) is None and word != "--"
    return _OVERRIDE.fullmatch(word) is not None


def _name(word: str) -> str:
    return word.partition("=")[0].lstrip("-+")


def _same(word: str, name: str) -> bool:
    return _name(word).replace("-", "_") == name.lstrip("-+").replace("-", "_")
