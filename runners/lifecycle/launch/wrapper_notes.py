"""What a plan says of programs that start another one out of a run's reach or sight.

Facts: sbatch(1), tmux(1), systemd-run(1) return once theirs is submitted or started; ssh(1) without
a terminal hands no signal on; sudo(8) resets the environment by default; `conda run` captures what
is printed until its program ends (docs.conda.io, "conda run", --no-capture-output; conda issue
9412).
"""

from collections.abc import Sequence
from pathlib import PurePath
from typing import NamedTuple

from runners.model.wrappers import started_in_the_end


class _Remark(NamedTuple):
    text: str
    unless: tuple[str, ...] = ()
    """Options with which it is otherwise."""
    first: str = ""
    """What its first argument has to be."""


_RETURNS = "hands its program on and returns, so that the run ends:"
_WITHOUT = f"{_RETURNS} launch the program itself, it needs no terminal"
_REMARKS = {
    "sbatch": _Remark(
        f"{_RETURNS} `fresnel-tui launch --slurm` submits a job that is followed", ("--wait", "-W")
    ),
    "tmux": _Remark(_WITHOUT),
    "screen": _Remark(_WITHOUT),
    "systemd-run": _Remark(_WITHOUT, ("--wait", "--scope", "--pty", "-t", "--pipe", "-P")),
    "ssh": _Remark(
        "hands no signal on: a stop ends it, and the program there goes on; "
        "`fresnel-tui up ADDRESS -- COMMAND` launches it there",
        ("-t", "-tt"),
    ),
    "sudo": _Remark(
        "hands no variable on, not even which GPUs the run has: add --preserve-env",
        ("-E", "--preserve-env"),
    ),
    "conda": _Remark(
        "run` keeps what its program prints until that ends: add --no-capture-output",
        ("--no-capture-output", "--live-stream", "-s"),
        "run",
    ),
}


def wrapper_notes(program: Sequence[str]) -> tuple[str, ...]:
    """What the run would not see of what `program` starts, and what to do."""
    layers = started_in_the_end(program).layers
    return tuple(note for layer in layers for note in _layer_notes(layer))


def _layer_notes(program: Sequence[str]) -> tuple[str, ...]:
    name = PurePath(program[0]).name if program else ""
    remark = _REMARKS.get(name)
    options = {word.partition("=")[0] for word in program[1:]}
    if remark is None or not options.isdisjoint(remark.unless):
        return ()
    if remark.first and [*program[1:2]] != [remark.first]:
        return ()
    return (f"`{name}{' ' if remark.first else '` '}{remark.text}",)
