"""What a plan says of its command: what a run would not see of it, and where it leaves its GPUs.

Facts: sbatch(1), tmux(1), systemd-run(1) return once theirs is submitted or started; ssh(1) without
a terminal hands no signal on; sudo(8) resets the environment by default; `conda run` captures what
is printed until its program ends (docs.conda.io, "conda run", --no-capture-output; conda issue
9412). `docker run` passes no variable of its client to the container (docs.docker.com, "docker
container run", --env), and the client hands SIGINT and SIGTERM on, but not SIGKILL (--sig-proxy);
`docker exec` hands on none; podman's --env-host passes all. `apptainer exec` passes the whole
environment, but shows GPUs with --nv, --nvccli or --rocm only (apptainer-exec(1)); `enroot start`
passes what --env names (its doc/cmd/start.md).
"""

import re
from collections.abc import Iterator, Sequence
from itertools import chain, dropwhile, takewhile
from pathlib import Path, PurePath
from typing import NamedTuple

from runners.host.files import is_there, read_text
from runners.host.shells import shell_command
from runners.model.late_pattern import late_pattern
from runners.model.python_command import python_command, python_script
from runners.model.suggestions import nearest_hint
from runners.model.vendors import VendorTraits
from runners.model.wrappers import CONTAINERS, started_in_the_end
from runners.scheduling.visibility import ALL_VARIABLES

_LARGEST = 1 << 20
"""Bytes: a larger script is not looked into."""
_BACKGROUND = late_pattern(r"(?<![&>|<\\])&(?![&>\d])")
_TO_FILE = late_pattern(
    r"^[^#\n]*\b(?:python[\d.]*|torchrun|accelerate|deepspeed)\s[^|;\n'\"]*?[\s&1]>{1,2}\s*"
    r"(?P<file>[^\s&;|<>()'\"]+)",
    re.MULTILINE,
)
_TEE = late_pattern(r"\|&?\s*tee\b[^|;&]*$")
_PARTS = late_pattern(r"[\n;]|&&|\|\|")
_WAITS_FOR_NOTHING = {"echo", "printf", "disown", "exit", "true", ":", "jobs", "sleep"} | {
    *("done", "fi", "esac", "}", ")", "{"),
}


def command_notes(
    argv: Sequence[str], folder: Path, traits: VendorTraits | None
) -> tuple[str, ...]:
    """What to know of `argv`, which is started in `folder`; with a maker of GPUs, of those too.

    Nothing is refused: a script may be sent, or written by another run, before this one starts.
    """
    layers = started_in_the_end(argv).layers
    script = _read_script(layers[-1], folder)
    notes = [*_script_notes(layers[-1], folder, script), *chain(*map(_layer_notes, layers))]
    if traits is not None:
        notes += _set_in_words(layers[0])
        notes += _set_in_script(script)
        notes += _container_notes(layers[-1], traits)
    return tuple(dict.fromkeys(notes))


class _Script(NamedTuple):
    """A script's name and text; other than Python, it is a shell's."""

    name: str
    text: str
    is_python: bool


def _read_script(program: Sequence[str], folder: Path) -> _Script | None:
    """The Python or shell script that `program` runs in `folder`; None where none can be read."""
    python = python_command(program)
    name = python.script if python is not None else shell_command(program).script
    if not name:
        return None
    text = read_text(folder / name, _LARGEST)
    return _Script(PurePath(name).name, text, python is not None) if text else None


def _script_notes(program: Sequence[str], folder: Path, script: _Script | None) -> Iterator[str]:
    """That Python finds no file to run, or what a shell's script keeps from its run."""
    path = python_script(program, folder)
    if path is not None:
        if not is_there(path):
            hint = nearest_hint(path.name, (other.name for other in path.parent.glob("*.py")))
            yield f"no file {path} yet: without it the run ends at once{hint}"
        return
    where, text = "the command", shell_command(program).line
    if script is not None:
        where, text = script.name, script.text
    lines = [
        line for line in text.splitlines() if line.strip() and not line.strip().startswith("#")
    ]
    redirected = _TO_FILE.search(text)
    if redirected is not None:
        yield (
            f"{where} sends a program's output to {redirected['file']}: nothing of it is seen or "
            "read here; leave that out"
        )
    if lines and _TEE.search(lines[-1]) and "pipefail" not in text:
        yield (
            f"{where} ends in `tee`, whose exit code hides that of the program: leave it out, its "
            "output is kept; or begin with `set -o pipefail`"
        )
    *_, after = -1, *(found.end() for found in _BACKGROUND.finditer(text))
    if after >= 0 and not any(map(_may_wait, _PARTS.split(text[after:]))):
        yield (
            f"{where} leaves a program in the background (&): a run ends with its first process, "
            "and what is left is ended then; leave out that &, or add `wait`"
        )


def _may_wait(part: str) -> bool:
    """Whether a shell that has come so far could still wait for a program."""
    word = next(iter(part.split()), "#")
    return not (word in _WAITS_FOR_NOTHING or word.startswith("#") or "=" in word)


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


def _layer_notes(program: Sequence[str]) -> tuple[str, ...]:
    name = PurePath(program[0]).name if program else ""
    remark = _REMARKS.get(name)
    options = {word.partition("=")[0] for word in program[1:]}
    if remark is None or not options.isdisjoint(remark.unless):
        return ()
    if remark.first and [*program[1:2]] != [remark.first]:
        return ()
    return (f"`{name}{' ' if remark.first else '` '}{remark.text}",)


_NAMES = "|".join(name for name in ALL_VARIABLES if "VISIBLE" in name)
_IN_WORDS = late_pattern(rf"(?:^|[\s;&|])(?P<name>{_NAMES})=(?P<value>[^\s;&|]*)")
_IN_PYTHON = late_pattern(
    rf"^[^\S\n]*(?:os\.)?environ\[\s*['\"](?P<name>{_NAMES})['\"]\s*\]\s*=(?!=)\s*"
    r"(?P<value>[^#\n]+)",
    re.MULTILINE,
)
_IN_SHELL = late_pattern(
    rf"^(?:[^#\n]*[\s;&|])??(?P<name>{_NAMES})=(?P<value>[^\s;&|#]*)", re.MULTILINE
)
_SAME_ENVIRONMENT = ("apptainer", "singularity")
_RUNS = late_pattern(r"(?:^|/)(?:python[\d.]*|torchrun|accelerate|bash|sh)$|\.(?:py|sh)$")
_LONGEST = 40


def _set_in_words(program: Sequence[str]) -> Iterator[str]:
    for found in chain.from_iterable(map(_IN_WORDS.finditer, program)):
        if not _is_given(found["value"]):
            yield _note("the command", found["name"], found["value"], "leave that out")


def _set_in_script(script: _Script | None) -> Iterator[str]:
    if script is None:
        return
    pattern = _IN_PYTHON if script.is_python else _IN_SHELL
    for found in pattern.finditer(script.text):
        if not _is_given(found["value"]):
            line = script.text.count("\n", 0, found.start("name")) + 1
            yield _note(
                f"line {line} of {script.name}", found["name"], found["value"], "take that out"
            )


def _is_given(value: str) -> bool:
    """Whether a value only hands on what the run was given."""
    return "environ" in value or value.strip("\"'").startswith("$")


def _note(where: str, name: str, value: str, advice: str) -> str:
    value = value.strip()
    value = value if len(value) <= _LONGEST else f"{value[:_LONGEST]}…"
    return f"{where} sets {name}={value}: it may take other GPUs than those it is given; {advice}"


def _container_notes(program: Sequence[str], traits: VendorTraits) -> Iterator[str]:
    # What the container runs may have options of the same names.
    before = [*takewhile(lambda word: not _RUNS.search(word), program[1:])]
    before = before[before[:1] == ["container"] :]
    name = PurePath(program[0]).name if program else ""
    if before and before[0].startswith("-"):  # `docker --context there run …`
        before = [*dropwhile(lambda word: word not in CONTAINERS.get(name, ()), before)]
    action, options = next(iter(before), ""), {*before}
    if action not in CONTAINERS.get(name, ()):
        return
    if name in _SAME_ENVIRONMENT:
        if not options & {"--nv", "--nvccli", "--rocm"} and "instance:" not in " ".join(before):
            yield f"add {traits.container_flag} to `{name} {action}`: it shows no GPU without that"
        return
    if action == "exec":
        yield (
            f"`{name} exec` hands no signal on: a stop ends its client, and the program in the "
            f"container goes on; `{name} run` in its place can be stopped"
        )
    visible = traits.visible
    passed = {visible, f"--env={visible}", f"-e{visible}", "--env-host"}
    if not passed & options and not any(f"{visible}=" in word for word in before):
        adds = " ".join(f"-e {variable}" for variable in (visible, *traits.beside))
        yield f"the container does not get {visible} and may take any GPU: add {adds}"
    if action == "run":
        if {"-d", "--detach", "-dt", "-td", "-dit", "-itd"} & options:
            yield f"with -d {name} returns at once, and its container goes on unseen: leave -d out"
        elif "--init" not in before:
            yield (
                f"add --init to `{name} run`: a container's first process ignores SIGTERM, and a "
                "kill ends the client alone"
            )
