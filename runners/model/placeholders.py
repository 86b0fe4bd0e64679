"""`${...}` in preset values: our own words in lower case, else environment variables."""

import os
import re
import shlex
from collections.abc import Mapping, Sequence

from runners.host.shells import shell_command
from runners.model.late_pattern import late_pattern

PLACEHOLDERS = {
    "run_dir": "the run's own directory",
    "run_id": "the run's id",
    "gpu_count": "how many GPUs the run got (0 on a CPU)",
    "gpu_ids": "their physical indices, e.g. 0,1,2",
    "processes": "how many processes torchrun or accelerate start",
    "port": "a TCP port of this host that was free at launch",
    "python": "the Python that fresnel-tui runs with",
    "trainers": "the folder of the trainers that fresnel-tui ships",
    "checkpoint": "the newest complete checkpoint (in restart.arguments only)",
    "preset_dir": "the folder of the preset file",
    "working_directory": "the directory that fresnel-tui was started in",
}
"""Beside them `parameters.NAME`, the value that a parameter of the preset has in this run, and in
variables `secrets.NAME`, what `fresnel-tui secret set NAME` keeps."""

_REFERENCE = late_pattern(r"\$\$\{|\$\{([^}]*)\}")
_PARAMETER = late_pattern(r"parameters\.[A-Za-z_][\w.]*")
_SECRET = late_pattern(r"secrets\.([A-Za-z_]\w*)")
_PLAIN = late_pattern(r"[\w./:=,+@%${}-]*")
_OPEN = late_pattern(r"(?<!\$)\{([A-Za-z_]\w*)\}")
_NAME = late_pattern(r"(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?", re.DOTALL)


def used_placeholders(text: str) -> set[str]:
    """Our own words that stand in `text`."""
    return {m.group(1) for m in _REFERENCE.finditer(text) if m.group(1) in PLACEHOLDERS}


def variables_in(text: str) -> list[str]:
    """The names of the environment variables that `${...}` in `text` may stand for."""
    inner = [match.group(1) for match in _REFERENCE.finditer(text) if match.group(1)]
    parsed = [_NAME.fullmatch(name) for name in inner if name not in PLACEHOLDERS]
    return [match.group(1) for match in parsed if match]


def secrets_in(text: str) -> list[str]:
    """The names of the kept secrets that `${secrets.NAME}` in `text` stands for."""
    inner = [match.group(1) for match in _REFERENCE.finditer(text) if match.group(1)]
    return [match.group(1) for match in map(_SECRET.fullmatch, inner) if match]


def check_placeholders(text: str) -> None:
    """ValueError for a `${...}` in `text` that is no word of ours and not spelled as a variable."""
    for match in _REFERENCE.finditer(text):
        name = match.group(1)
        if name is None or name in PLACEHOLDERS:
            continue
        if _PARAMETER.fullmatch(name) or _SECRET.fullmatch(name):
            continue
        parsed = _NAME.fullmatch(name)
        if parsed:
            marked = parsed.group(2) is not None or name.startswith("env:")
            if marked or not name.islower() or name in os.environ:
                continue
        import difflib  # only mistakes need it

        close = difflib.get_close_matches(name, PLACEHOLDERS, 1)
        hint = f"; did you mean ${{{close[0]}}}?" if close else ""
        raise ValueError(
            f"${{{name}}} is not known{hint or '.'} Known: {', '.join(PLACEHOLDERS)}; "
            "environment variables as ${NAME} or ${NAME:-default}"
        )


def substitute(text: str, values: Mapping[str, str], environment: Mapping[str, str]) -> str:
    """`text` with every `${...}` replaced, `$${` by a literal `${`; ValueError if one is unset."""

    def value(match: re.Match[str]) -> str:
        name = match.group(1)
        if name is None:
            return "${"
        if name in values:
            return values[name]
        if _PARAMETER.fullmatch(name):
            raise ValueError(f"${{{name}}}: no such parameter, or it has no value")
        if secret := _SECRET.fullmatch(name):
            raise ValueError(
                f"${{{name}}}: no such secret here; `fresnel-tui secret set {secret[1]}` keeps "
                f"one, `--env {secret[1]}` takes it from the environment"
            )
        parsed = _NAME.fullmatch(name)
        if parsed is None:
            raise ValueError(f"${{{name}}} is not a name")
        variable, default = parsed.groups()
        found = environment.get(variable)
        if found is None and default is None:
            raise ValueError(
                f"${{{name}}}: the environment variable {variable} is not set "
                f"(${{{variable}:-default}} gives a default)"
            )
        return found or default or ""

    return _REFERENCE.sub(value, text)


def partly_filled(text: str, values: Mapping[str, str]) -> str:
    """`text` with those `${...}` replaced of which `values` knows something."""
    return _REFERENCE.sub(lambda match: values.get(match.group(1), match.group()), text)


def open_places(command: Sequence[str]) -> list[str]:
    """The names of `{NAME}` in the plain words of a command: places for values, left empty.

    Of code and JSON, which have braces of their own, nothing is said.
    """
    plain: Sequence[str] = command
    if line := shell_command(command).line:
        try:
            plain = shlex.split(line)
        except ValueError:
            return []
    found = (_OPEN.findall(word) for word in plain if _PLAIN.fullmatch(word))
    return list(dict.fromkeys(name for names in found for name in names))
