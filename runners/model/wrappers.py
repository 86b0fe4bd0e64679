"""What a command line starts in the end, behind what a plan puts before it, or `nice`, `uv run`.

Options that take a value are those of coreutils 9, util-linux 2.38, numactl 2.0, GNU time 1.9 and
sudo 1.9 (their manual pages). Of profilers, environments and launchers, which have hundreds of
options, the program is the first word that is a Python, a script or one of PyTorch's launchers.
"""

import re
from collections.abc import Sequence
from pathlib import PurePath
from typing import NamedTuple

from runners.host.helpers import command as helper_command
from runners.host.shells import SHELLS
from runners.model.late_pattern import late_pattern

STDBUF = ("stdbuf", "-oL", "-eL")
"""What is put before a program so that its lines are seen at once."""


class _Options(NamedTuple):
    """How a program's own arguments are told from those of what it starts."""

    with_value: frozenset[str] = frozenset()
    positional: int = 0
    """Arguments of its own that are no options: a list of processors, a duration."""


def _taking(*options: str, positional: int = 0) -> _Options:
    return _Options(frozenset(options), positional)


_STARTERS = {
    "env": _taking("-u", "--unset", "-C", "--chdir"),
    "nice": _taking("-n", "--adjustment"),
    "ionice": _taking("-c", "--class", "-n", "--classdata"),
    "numactl": _taking("-i", "--interleave", "-p", "--preferred", "-C", "--physcpubind", "-N",
                       "--cpunodebind", "-m", "--membind"),
    "taskset": _taking(positional=1),
    "chrt": _taking("-T", "-P", "-D", positional=1),
    "time": _taking("-f", "--format", "-o", "--output"),
    "timeout": _taking("-k", "--kill-after", "-s", "--signal", positional=1),
    "stdbuf": _taking("-i", "--input", "-o", "--output", "-e", "--error"),
    "sudo": _taking("-u", "--user", "-g", "--group", "-D", "--chdir", "-C", "-h", "-p", "-r", "-t"),
    "nohup": _taking(),
    "setsid": _taking(),
}  # fmt: skip
"""Programs that start another one as it is, in this environment."""
_SUBCOMMANDS = dict.fromkeys(
    ("ncu", "rocprof", "rocprofv3", "strace", "xvfb-run", "kernprof", "scalene", "viztracer"), ""
) | {"nsys": "profile", "py-spy": "record", "perf": "record", "coverage": "run"}
"""Profilers and the like, with the word that has to follow."""
_ENVIRONMENTS = dict.fromkeys(
    ("uv", "poetry", "pdm", "hatch", "pixi", "pipenv", "rye", "conda", "mamba", "micromamba"), "run"
)
"""Programs that choose the Python of what they start."""
_LAUNCHERS = dict.fromkeys(("mpirun", "mpiexec", "srun", "horovodrun", "deepspeed"), "")
"""Programs that start several processes, here or elsewhere."""
STARTERS = frozenset({*_STARTERS, *_SUBCOMMANDS, *_ENVIRONMENTS, *_LAUNCHERS})
_ASSIGNED = late_pattern(r"[A-Za-z_]\w*=.*", re.DOTALL)
CONTAINERS = {
    **dict.fromkeys(("docker", "podman", "nerdctl", "apptainer", "singularity"), ("run", "exec")),
    "enroot": ("start",),
}
"""By its program, with what a container is given a command; nothing is looked for behind it.

What it starts has other files.
"""
_NAMED = "|".join((r"python[\d.]*", "torchrun", "accelerate", *SHELLS, *CONTAINERS))
_PROGRAM = late_pattern(rf"(?:.*/)?(?:{_NAMED})|.+\.(?:py|sh)", re.DOTALL)


def unwrapped(argv: Sequence[str]) -> list[str]:
    """The program that matters: `argv` without what a plan has put before it."""
    program = list(argv)
    for wrapper in (helper_command("pty"), list(STDBUF)):
        if program[: len(wrapper)] == wrapper:
            program = program[len(wrapper) :]
    return program


class WrappedCommand(NamedTuple):
    """What is started in the end; what chooses its Python, and whether it is one process.

    `layers` are the commands that it stands in, the outermost first: `argv` is the last.
    `chooser` is empty where this environment's Python is meant.
    """

    layers: list[list[str]]
    chooser: str
    is_one: bool

    @property
    def argv(self) -> list[str]:
        """The command without the programs that only start another one."""
        return self.layers[-1]


def started_in_the_end(argv: Sequence[str]) -> WrappedCommand:
    """What `argv` starts in the end; itself where that is not known for certain.

    What a plan has put before it is none of it.
    """
    layers, inner = list[list[str]](), unwrapped(argv)
    while inner or not layers:
        layers.append(inner)
        inner = _behind(PurePath(inner[0]).name, inner[1:]) if inner else []
    starters = [PurePath(layer[0]).name for layer in layers[:-1]]
    choosers = (
        f"{name} {_ENVIRONMENTS.get(name, '')}".rstrip()
        for name in starters
        if name in (*_ENVIRONMENTS, *_LAUNCHERS, "sudo")
    )
    return WrappedCommand(layers, next(choosers, ""), _LAUNCHERS.keys().isdisjoint(starters))


def _behind(name: str, arguments: list[str]) -> list[str]:
    """What the program `name` starts with these arguments; empty: nothing, or not known."""
    options = _STARTERS.get(name)
    if options is not None:
        return _behind_options(options, arguments)
    subcommand = (_SUBCOMMANDS | _ENVIRONMENTS | _LAUNCHERS).get(name)
    if subcommand is None or (subcommand and arguments[:1] != [subcommand]):
        return []
    places = (place for place, word in enumerate(arguments) if _PROGRAM.fullmatch(word))
    return arguments[next(places, len(arguments)) :]


def _behind_options(options: _Options, arguments: list[str]) -> list[str]:
    own = options.positional
    while arguments:
        word = arguments[0]
        if word == "--":
            return arguments[1 + own :]
        if word.startswith("-"):
            arguments = arguments[2 if word in options.with_value else 1 :]
        elif _ASSIGNED.fullmatch(word):
            arguments = arguments[1:]
        elif own:
            own, arguments = own - 1, arguments[1:]
        else:
            return arguments
    return []
