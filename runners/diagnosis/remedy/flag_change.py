"""Changing a flag of a bare command, without guessing anything about its other words."""

from collections.abc import Callable, Sequence

from runners.diagnosis.remedy.case import Case, Unfit


def with_flag(case: Case, names: Sequence[str], change: Callable[[str], str]) -> Case:
    """Return `case` with one of these flags changed: `--bs 8` or `--bs=8`, with `-` or `_`.

    Raises Unfit for a shell command, and where no such flag is given or it is given twice.
    """
    if case.spec.launcher != "command" or case.spec.shell:
        raise Unfit("its preset has no parameter for this")
    command = list(case.spec.command)
    places = [i for i, word in enumerate(command) if _flag(word) in names]
    if len(places) != 1:
        what = ", ".join(f"--{name}" for name in names[:3])
        raise Unfit(f"its command has {'several' if places else 'no'} {what}")
    at = places[0]
    flag, equals, value = command[at].partition("=")
    if equals:
        command[at] = f"{flag}={change(value)}"
    elif at + 1 < len(command):
        command[at + 1] = change(command[at + 1])
    else:
        raise Unfit(f"{flag} has no value")
    return case.changed(command=tuple(command))


def whole(text: str) -> int:
    """The whole number in a flag's value. Raises Unfit for anything else."""
    if not text.isdigit():
        raise Unfit(f"{text!r} is no whole number")
    return int(text)


def _flag(word: str) -> str:
    return word.partition("=")[0].lstrip("-").replace("-", "_") if word.startswith("-") else ""
