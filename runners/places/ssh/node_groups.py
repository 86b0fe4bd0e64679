"""Programs that run over several rented machines: which run is whose node."""

import time
from pathlib import Path

import msgspec

from runners.host.files import replace
from runners.model.errors import NotFound
from runners.state.decoding import read
from runners.state.layout import StateDirectory


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


_decoder = msgspec.json.Decoder(NodeGroup)


def save_group(state: StateDirectory, group: NodeGroup) -> None:
    """Remember a launch."""
    folder = _folder(state)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    replace(folder / f"{group.name}.json", msgspec.json.encode(group))


def list_groups(state: StateDirectory) -> list[NodeGroup]:
    """Every launch, oldest first."""
    found = (read(path, _decoder) for path in _folder(state).glob("*.json"))
    return sorted((group for group in found if group is not None), key=lambda group: group.created)


def find_group(state: StateDirectory, name: str) -> NodeGroup:
    """The launch of this name, of a preset's name (its newest), or `last`; NotFound."""
    groups = list_groups(state)
    for group in reversed(groups):
        if name in (group.name, group.preset, "last"):
            return group
    known = ", ".join(group.name for group in groups[-5:]) or "none yet"
    raise NotFound(f"no launch over several machines `{name}`", f"newest: {known}")


def group_lock(state: StateDirectory, name: str) -> Path:
    """What the one process that watches a launch holds."""
    return _folder(state) / f"{name}.lock"


def new_name(preset: str) -> str:
    """A name for a launch that starts now."""
    return f"{preset}-{time.strftime('%m%d-%H%M%S')}"


def _folder(state: StateDirectory) -> Path:
    return state.remote / ".groups"
