"""Launches that have still to find a machine: `remote/.waiting/ID.json`, one file each.

Its one writer is the process that starts them; `ID.cancel` beside it asks for its end.
"""

import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from runners.host.files import folder_stamp, modified_at, replace
from runners.model.errors import NotFound
from runners.model.run_ids import new_run_id
from runners.model.trailing_command import split_at_dashes
from runners.state.decoding import read
from runners.state.layout import StateDirectory

_KEPT_S = 7 * 86400.0


class WaitingLaunch(msgspec.Struct, frozen=True):
    """One launch: the words of its command without the machine, and where it may start.

    `created` and `ended` in unix seconds, `ended` 0 until it has started or was given up. `asked`
    is the machine that is just told to start it under the name `request`: until it is known what
    came of that, no other is. `choice` says what chose the machine.
    """

    id: str
    command: tuple[str, ...]
    where: str
    folder: str
    created: float
    attended: bool = True
    environment: dict[str, str] = {}
    """Variables that it is given, secrets among them; forgotten when it has started."""
    preset: str = ""
    """Empty for a command of somebody's own; `overrides` are those that its command gives."""
    overrides: tuple[str, ...] = ()
    concealed: tuple[str, ...] = ()
    """The variables of its preset that name secrets: machines plan it without those."""
    asked: str = ""
    request: str = ""
    in_doubt: bool = False
    """Whether the machine that is asked broke off: what began there is not known for now."""
    reason: str = ""
    choice: str = ""
    machine: str = ""
    runs: tuple[str, ...] = ()
    problem: str = ""
    exit_code: int = 0
    ended: float = 0.0
    looked: float = 0.0
    """When every machine had answered, or was found not to; 0 before that."""

    @property
    def name(self) -> str:
        """What people know it by."""
        return name_of(self.command)

    @property
    def priority(self) -> int:
        """That of `--priority`: higher goes first."""
        with suppress(ValueError):
            return int(_flag_of(split_at_dashes(self.command)[0], "--priority"))
        return 0


def name_of(command: Sequence[str]) -> str:
    """The name that a launch's command gives, its preset, or its program."""
    given, program = split_at_dashes(command)
    if name := _flag_of(given, "--name"):
        return name
    if program:
        return Path(program[1]).name if len(program) > 1 else "command"
    return given[1] if len(given) > 1 and not given[1].startswith("-") else given[0]


def _flag_of(arguments: Sequence[str], flag: str) -> str:
    """What a flag says, of several the last; empty where it is not given."""
    found = ""
    for i, argument in enumerate(arguments):
        name, equals, value = argument.partition("=")
        if name == flag:
            found = value if equals else next(iter(arguments[i + 1 : i + 2]), "")
    return found


def new_launch(
    command: tuple[str, ...],
    where: str,
    attended: bool,
    environment: dict[str, str],
    preset: str = "",
    overrides: Sequence[str] = (),
    concealed: Sequence[str] = (),
) -> WaitingLaunch:
    """A launch that begins to look for a machine."""
    # Such as runs have: in tables it stands among them.
    number = new_run_id(name_of(command))
    here = str(Path.cwd())
    return WaitingLaunch(
        number,
        command,
        where,
        here,
        time.time(),
        attended,
        environment,
        preset=preset,
        overrides=tuple(overrides),
        concealed=tuple(concealed),
    )


def save_launch(state: StateDirectory, launch: WaitingLaunch) -> None:
    """Write it down; OSError when the disk refuses."""
    folder = _folder(state)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    replace(folder / f"{launch.id}.json", msgspec.json.encode(launch))


def read_launches(state: StateDirectory) -> list[WaitingLaunch]:
    """Every launch that is kept, the first of the queue first."""
    found = (read(path, WaitingLaunch) for path in _folder(state).glob("*.json"))
    known = [launch for launch in found if launch is not None]
    return sorted(known, key=lambda launch: (-launch.priority, launch.created, launch.id))


def launches_stamp(state: StateDirectory) -> object:
    """By which it is known that something changed: reads no file."""
    return folder_stamp(_folder(state))


def open_launches(state: StateDirectory) -> list[WaitingLaunch]:
    """Those that have not started yet."""
    return [launch for launch in read_launches(state) if not launch.ended]


def read_launch(state: StateDirectory, name: str) -> WaitingLaunch:
    """The launch with this id, or the beginning of one; NotFound."""
    path = _folder(state) / f"{name}.json"
    found = read(path, WaitingLaunch) if "/" not in name else None
    if found is not None:
        return found
    alike = [launch for launch in open_launches(state) if launch.id.startswith(name) and name]
    if len(alike) == 1:
        return alike[0]
    known = ", ".join(launch.id for launch in open_launches(state)) or "none"
    raise NotFound(f"no launch `{name}` waits for a machine", f"waiting: {known}")


def ask_to_cancel(state: StateDirectory, launch: WaitingLaunch) -> None:
    """Ask that it is given up; its process does that."""
    replace(_folder(state) / f"{launch.id}.cancel", b"")


def cancelled_at(state: StateDirectory, launch: WaitingLaunch) -> float:
    """When somebody asked for that last, in unix seconds; 0 if nobody did."""
    return modified_at(_folder(state) / f"{launch.id}.cancel")


def forget_old(state: StateDirectory) -> None:
    """Remove what ended long ago."""
    for launch in read_launches(state):
        if launch.ended and time.time() - launch.ended > _KEPT_S:
            for suffix in ("json", "cancel"):
                (_folder(state) / f"{launch.id}.{suffix}").unlink(missing_ok=True)


def queue_lock(state: StateDirectory) -> Path:
    """What the one process holds that starts them."""
    return _folder(state) / "queue.lock"


def _folder(state: StateDirectory) -> Path:
    return state.remote / ".waiting"
