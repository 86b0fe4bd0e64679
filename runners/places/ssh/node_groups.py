"""Programs that run over several rented machines: which run is whose node."""

import re
import time
from pathlib import Path

import msgspec

from runners.host.files import folder_stamp, replace
from runners.model.errors import NotFound, WrongInput
from runners.state.decoding import read
from runners.state.layout import StateDirectory

NEWEST = "last"
"""What names the newest launch, and can be no other's name."""
_NAME = re.compile(r"[^/.\x00-\x1f\x7f][^/\x00-\x1f\x7f]{0,59}")
_ODD = re.compile(r"[^A-Za-z0-9._-]+")


class NodeRun(msgspec.Struct, frozen=True):
    """One node: the machine, and the run's id there, empty until it is known to have started.

    Its rank is its place in the group. It is started by `command`, the words behind `launch`, and
    once for one `request`.
    """

    host: str
    run: str
    request: str = ""
    command: tuple[str, ...] = ()


class NodeGroup(msgspec.Struct, frozen=True):
    """One launch over several machines, started at `created` (unix seconds). `cause` says which
    node failed first and why; `alert` that one is not reached while the others stand still; `ended`
    is 0 until all have.
    """

    name: str
    preset: str
    created: float
    address: str
    port: int
    nodes: tuple[NodeRun, ...]
    cause: str = ""
    ended: float = 0.0
    alert: str = ""

    @property
    def has_started(self) -> bool:
        """Whether every node is known to have started."""
        return all(node.run for node in self.nodes)


def save_group(state: StateDirectory, group: NodeGroup) -> None:
    """Remember a launch."""
    folder = _folder(state)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    replace(folder / f"{group.name}.json", msgspec.json.encode(group))


def add_group(state: StateDirectory, group: NodeGroup) -> None:
    """Remember a new launch; WrongInput for a name that is none, or of one that has not ended."""
    if group.name == NEWEST or not _NAME.fullmatch(group.name):
        raise WrongInput(
            f"`{group.name[:80]}` is no name for a launch over several machines",
            "at most 60 characters, no slash, no dot at its beginning",
        )
    if any(known.name == group.name and not known.ended for known in list_groups(state)):
        raise WrongInput(
            f"a launch over several machines `{group.name}` goes on",
            f"--name gives this one another; `fresnel-tui nodes stop {group.name}` ends that one",
        )
    save_group(state, group)


def groups_stamp(state: StateDirectory) -> object:
    """By which it is known that a launch changed: reads no file."""
    return folder_stamp(_folder(state))


def list_groups(state: StateDirectory) -> list[NodeGroup]:
    """Every launch, oldest first."""
    found = (read(path, NodeGroup) for path in _folder(state).glob("*.json"))
    return sorted((group for group in found if group is not None), key=lambda group: group.created)


def find_group(state: StateDirectory, name: str) -> NodeGroup:
    """The launch of this name, of a preset's name (its newest), or `last`; NotFound."""
    groups = list_groups(state)
    # Its own name before the preset of another: by it a launch is watched.
    for group in (*(group for group in groups if group.name == name), *reversed(groups)):
        if name in (group.name, group.preset, NEWEST):
            return group
    known = ", ".join(group.name for group in groups[-5:]) or "none yet"
    raise NotFound(f"no launch over several machines `{name}`", f"newest: {known}")


def group_lock(state: StateDirectory, name: str) -> Path:
    """What the one process that watches a launch holds."""
    return _folder(state) / f"{name}.lock"


def new_name(preset: str) -> str:
    """A name for a launch that starts now."""
    plain = _ODD.sub("-", Path(preset).name).lstrip("-.") or "launch"
    return f"{plain[:40]}-{time.strftime('%m%d-%H%M%S')}"


def _folder(state: StateDirectory) -> Path:
    return state.remote / ".groups"
