"""Where a command would not keep to the GPUs that it is given, read from its words and its script.

Facts: `docker run` passes no variable of its client to the container (docs.docker.com, "docker
container run", --env), and the client hands SIGINT and SIGTERM on, but not SIGKILL (--sig-proxy);
`docker exec` hands on none.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import chain, takewhile
from pathlib import Path, PurePath

from runners.lifecycle.launch.scripts import read_script
from runners.model.late_pattern import late_pattern
from runners.model.vendors import VendorTraits
from runners.model.wrappers import unwrapped
from runners.scheduling.visibility import ALL_VARIABLES

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
_CONTAINERS = ("docker", "podman", "nerdctl")
_RUNS = late_pattern(r"(?:^|/)(?:python[\d.]*|torchrun|accelerate|bash|sh)$|\.(?:py|sh)$")
_LONGEST = 40


def device_notes(argv: Sequence[str], folder: Path, traits: VendorTraits) -> tuple[str, ...]:
    """What makes a command take other GPUs than its own, or live on after it; and what to do."""
    program = unwrapped(argv)
    found = chain(_set_in_words(program), _set_in_script(program, folder))
    return (*dict.fromkeys(found), *_container_notes(program, traits))


def _set_in_words(program: Sequence[str]) -> Iterator[str]:
    for found in chain.from_iterable(map(_IN_WORDS.finditer, program)):
        if not _is_given(found["value"]):
            yield _note("the command", found["name"], found["value"], "leave that out")


def _set_in_script(program: Sequence[str], folder: Path) -> Iterator[str]:
    script = read_script(program, folder)
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
    if not before or PurePath(program[0]).name not in _CONTAINERS:
        return
    name = PurePath(program[0]).name
    if before[0] == "exec":
        yield (
            f"`{name} exec` hands no signal on: a stop ends its client, and the program in the "
            f"container goes on; `{name} run` in its place can be stopped"
        )
    if before[0] not in ("run", "exec"):
        return
    visible = traits.visible
    passed = {visible, f"--env={visible}", f"-e{visible}"}
    if not passed & {*before} and not any(f"{visible}=" in word for word in before):
        adds = " ".join(f"-e {variable}" for variable in (visible, *traits.beside))
        yield f"the container does not get {visible} and may take any GPU: add {adds}"
    if before[0] == "run":
        if {"-d", "--detach", "-dt", "-td", "-dit", "-itd"} & {*before}:
            yield f"with -d {name} returns at once, and its container goes on unseen: leave -d out"
        elif "--init" not in before:
            yield (
                f"add --init to `{name} run`: a container's first process ignores SIGTERM, and a "
                "kill ends the client alone"
            )
