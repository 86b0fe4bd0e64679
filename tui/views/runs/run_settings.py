"""A run's settings as names and values: its program's own, or its command line's flags."""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

from runners.host.shells import shell_command
from runners.model.late_pattern import late_pattern
from runners.model.run import Run
from runners.model.wrappers import unwrapped

_NUMBER = late_pattern(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")
_OVERRIDE = late_pattern(r"\+{0,2}[A-Za-z_][\w./-]*=")
_SHORT = late_pattern(r"-[A-Za-z]")


def settings_of(run: Run, stated: Mapping[str, object]) -> dict[str, str]:
    """What the program told of its settings; else the words it was started with."""
    if stated:
        return {name: as_text(value) for name, value in sorted(stated.items())}
    return launched_settings(run)


def launched_settings(run: Run, shown: Callable[[str], str] = str) -> dict[str, str]:
    """The flags of its command line, each word as `shown`, and what no flag tells.

    That is what stands in its configuration file, and what its sweep put in without a flag.
    """
    if run.plan is None:
        return {}
    spec = run.plan.spec
    found = argv_settings([shown(word) for word in run.plan.argv])
    for parameter in spec.parameters:
        if parameter.config_key and parameter.value is not None:
            found.setdefault(parameter.name, as_text(parameter.value))
    named = {parameter.name for parameter in spec.parameters}
    for key, text in spec.swept.items():
        if key not in named:
            found.setdefault(key, text)
    return found


def started_with(run: Run) -> dict[str, str]:
    """What a run was started with: its parameters, flags, and values that its sweep gave it."""
    if run.plan is None:
        return {}
    named = {
        parameter.name: as_text(parameter.value)
        for parameter in run.plan.spec.parameters
        if parameter.value is not None
    }
    # A parameter's name is what its user knows; its flag may be called otherwise.
    return {**run.plan.spec.swept, **_flags(tuple(run.plan.argv)), **named}


@lru_cache(maxsize=512)
def _flags(argv: tuple[str, ...]) -> dict[str, str]:
    found = argv_settings(argv)
    found.pop("command", None)
    for values in tuple(found.values()):
        # A flag for settings of any name: `--opt=lr=0.1`, `-o lr=0.1`.
        for name, equals, value in (word.partition("=") for word in values.split()):
            if equals and name.isidentifier():
                found.setdefault(name, value)
    return found


def _in_shell(argv: Sequence[str]) -> Sequence[str]:
    line = shell_command(argv).line
    if not line:
        return argv
    import shlex  # few commands need a shell

    try:
        return shlex.split(line)
    except ValueError:
        return argv


def argv_settings(argv: Sequence[str]) -> dict[str, str]:
    """The flags of a command line as names and values; `command` is what is left of it.

    What a plan has put before a program is none of it; a line is taken as its shell takes it.

    `--lr 3e-4`, `--lr=3e-4`, `-b 32`, `optimizer.lr=3e-4` (Hydra) and `--betas 0.9 0.99` are
    understood; a flag without a value is `yes`. What a word means is only guessed: the program
    alone knows.
    """
    argv = _in_shell(unwrapped(argv))
    settings: dict[str, str] = {}
    rest: list[str] = []
    at = 0
    while at < len(argv):
        word = argv[at]
        following = argv[at + 1 : at + 2]
        name, equals, value = word.partition("=")
        at += 1
        if name.startswith("--") and len(name) > 2:
            if equals:
                settings[name[2:]] = value
            elif following and (following[0][:1] != "-" or _is_number(following[0])):
                at += 1
                values = [following[0]]
                while at < len(argv) and _is_number(values[0]) and _is_number(argv[at]):
                    values.append(argv[at])
                    at += 1
                settings[name[2:]] = " ".join(values)
            else:
                settings[name[2:]] = "yes"
        elif _SHORT.fullmatch(word) and following and _is_number(following[0]):
            settings[word[1:]] = following[0]
            at += 1
        elif rest and _OVERRIDE.match(word):
            settings[name.lstrip("+")] = value
        else:
            rest.append(word)
    return {"command": " ".join(rest), **settings} if rest else settings


def as_text(value: object) -> str:
    """A setting's value: as exact as it was set, or runs that differ would seem alike."""
    return f"{value:.15g}" if isinstance(value, float) else str(value)


def as_number(text: str) -> float | None:
    """A setting's value as a number; None where it is none."""
    return float(text) if _is_number(text) else None


def same(first: str | None, other: str | None) -> bool:
    """Whether two spellings are the same value: `3e-4` is `0.0003`."""
    if first == other:
        return True
    if first is None or other is None or not (_is_number(first) and _is_number(other)):
        return False
    return float(first) == float(other)


def _is_number(word: str) -> bool:
    return _NUMBER.fullmatch(word) is not None
