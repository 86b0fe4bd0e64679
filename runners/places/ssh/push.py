"""What a preset needs on another machine: its data, its program if it is not ours, itself.

Files are sent that differ there, and deleted there that were pushed and are here no more.
"""

import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path, PurePath
from typing import NamedTuple

from runners.host.files import expanded, is_there
from runners.model.errors import FresnelError, WrongInput
from runners.model.spec import RunSpec
from runners.places.ssh.agent_tool import ask_patiently, ask_stamps
from runners.places.ssh.copying import Copier, Stamp
from runners.places.ssh.push_list import PushList
from runners.places.ssh.pushed_files import PushedFolder
from runners.places.ssh.registry import RemoteHost
from runners.places.ssh.ssh import Ssh
from runners.presets.catalogue import find_preset, resolve_runs
from runners.state.layout import SHIPPED_PRESETS

_SAYS_PATH = re.compile(r"dir|path|root|data|file|csv|model|weights|checkpoint|onnx|resume|images")


class PushItem(NamedTuple):
    """One file or folder to be sent, what it is, and the override that names it there."""

    what: str
    local: Path
    remote: str
    key: str = ""


class PushPlan(NamedTuple):
    """What goes, and what is missing here, in words."""

    items: tuple[PushItem, ...]
    missing: tuple[str, ...]

    @property
    def overrides(self) -> dict[str, str]:
        """The keys of the preset that have another value there."""
        return {item.key: item.remote for item in self.items if item.key}


def plan_push(
    preset: str, overrides: Sequence[str], host: RemoteHost, also: Sequence[str] = ()
) -> PushPlan:
    """What `preset` needs there; relative paths lie there as they do here, others in `inputs/`."""
    specs = resolve_runs(preset, overrides)
    here = Path.cwd()
    items: list[PushItem] = []
    missing: list[str] = []
    for spec in specs:
        prefix = f"{spec.name}." if spec.group else ""
        base, root = here, host.folder
        code = _program(spec, here, host)
        if code is not None:
            items.append(code._replace(key=f"{prefix}working_directory"))
            base, root = code.local, code.remote
        for name, value in _paths(spec):
            local = base / expanded(value)
            if is_there(local):
                items.append(
                    PushItem(name, local, _place(local, base, root, host), f"{prefix}{name}")
                )
            elif _SAYS_PATH.search(name) and "${" not in value:
                missing.append(f"{name}: {local} is not here")
    for path in _own_presets(preset, specs):
        items.append(PushItem("preset", path, f"{host.folder}/presets/{path.name}"))
    items += _also(also, here, host.folder, host)
    return PushPlan(tuple(dict.fromkeys(items)), tuple(dict.fromkeys(missing)))


def plan_folder_push(
    folder: Path, remote: str, host: RemoteHost, also: Sequence[str] = ()
) -> list[PushItem]:
    """What a command needs that runs in `folder`, which lies there as `remote`."""
    return [PushItem("program", folder, remote), *_also(also, folder, remote, host)]


def names_file_of(folder: Path, command: Sequence[str]) -> bool:
    """Whether a command names something that lies in `folder`: a script, a module, data."""
    modules = [after for word, after in pairwise(command) if word == "-m"]
    paths = [module.replace(".", "/") for module in modules]
    names = [*command, *paths, *(f"{path}.py" for path in paths)]
    return any(name and not Path(name).is_absolute() and _is_in(folder, name) for name in names)


def _also(texts: Sequence[str], base: Path, root: str, host: RemoteHost) -> list[PushItem]:
    items = []
    for text in texts:
        local = expanded(text).absolute()
        if not is_there(local):
            raise WrongInput(f"--also {text}: no such file or folder")
        items.append(PushItem("also", local, _place(local, base, root, host)))
    return items


def _program(spec: RunSpec, here: Path, host: RemoteHost) -> PushItem | None:
    """The folder of a program that is not ours: where the preset says that it works."""
    ours = "${trainers}" in spec.script or "${trainers}" in spec.working_directory
    if ours:
        return None
    text = spec.working_directory.replace("${working_directory}", str(here))
    text = text.replace("${preset_dir}", str(Path(spec.source).parent))
    # Relative to the preset, as where it is launched.
    beside = Path(spec.source).absolute().parent if spec.source else here
    folder = Path(os.path.normpath(beside / expanded(text))) if text else here
    module = ["-m", spec.module] if spec.module else []
    if not names_file_of(folder, [spec.script, *module, *spec.command]):
        return None
    return PushItem("program", folder, f"{host.folder}/{folder.name or 'program'}")


def _is_in(folder: Path, name: str) -> bool:
    return name not in (".", "..") and is_there(folder / name)


def _paths(spec: RunSpec) -> list[tuple[str, str]]:
    """Parameters whose values may name something on this disk, and the configuration file."""
    named = [] if spec.config is None else [("config", spec.config.path)]
    return named + [
        (parameter.name, parameter.value)
        for parameter in spec.parameters
        if isinstance(parameter.value, str)
        and parameter.value
        and ("/" in parameter.value or _SAYS_PATH.search(parameter.name))
        and parameter.value not in ("auto", "auto-or-new")
        and not parameter.choices
    ]


def _place(local: Path, base: Path, root: str, host: RemoteHost) -> str:
    """Where something lies there: as it does here below `base`, else among the inputs."""
    path = os.path.normpath(local)
    inside = os.path.relpath(path, base)
    if not inside.startswith("..") and inside != ".":
        return f"{root}/{inside}"
    mark = hashlib.sha256(path.encode()).hexdigest()[:6]
    return f"{host.folder}/inputs/{mark}/{Path(path).name}"


def _own_presets(preset: str, specs: Sequence[RunSpec]) -> list[Path]:
    """The preset's file and those of its members, as far as the panel there does not ship them."""
    files = [find_preset(preset), *(Path(spec.source) for spec in specs if spec.source)]
    mine = [path.absolute() for path in files if path.exists()]
    return [path for path in dict.fromkeys(mine) if SHIPPED_PRESETS not in path.parents]


class PushChanges(NamedTuple):
    """What differs there: files to send and to delete, each with its stamp here or there.

    `altered`: pushed before, deleted here, and changed there since; they stay there.
    """

    to_send: dict[str, Stamp]
    to_delete: dict[str, Stamp]
    altered: tuple[str, ...] = ()

    @property
    def bytes(self) -> int:
        """How much is to be sent."""
        return sum(size for size, _ in self.to_send.values())


def find_changes(ssh: Ssh, listed: PushList, pushed: PushedFolder) -> PushChanges:
    """Compare what is here with what is there, and with what was pushed before.

    An empty folder deletes nothing: a disk that is not mounted looks the same.
    """
    gone = [name for name in pushed.files if not os.path.lexists(listed.root / name)]
    gone = gone if listed.files else []
    stamps = ask_stamps(ssh, pushed.remote, [*listed.files, *gone], patiently=True)
    to_send = {
        name: stamp
        for name, stamp in listed.files.items()
        if name not in stamps
        or (stamps[name] != stamp and pushed.files.get(name) != (stamp, stamps[name]))
    }
    as_pushed = {name: stamps[name] for name in gone if stamps.get(name) == pushed.files[name][1]}
    altered = [name for name in gone if name in stamps and name not in as_pushed]
    return PushChanges(to_send, as_pushed, tuple(altered))


def send_changes(
    ssh: Ssh, copier: Copier, listed: PushList, changes: PushChanges, pushed: PushedFolder
) -> PushedFolder:
    """Send and delete; what was pushed now. FresnelError for what did not arrive."""
    files = dict(pushed.files)
    if changes.to_send:
        copier.send(listed.root, changes.to_send, pushed.remote)
        arrived = ask_stamps(ssh, pushed.remote, list(changes.to_send), patiently=True)
        for name, stamp in changes.to_send.items():
            if name in arrived:
                files[name] = (stamp, arrived[name])
            elif os.path.lexists(listed.root / name):
                raise FresnelError(f"{ssh.host.name}: {name} did not arrive", "push again")
    if changes.to_delete:
        _delete(ssh, listed, changes.to_delete, pushed.remote)
    for name in (*changes.to_delete, *changes.altered):
        files.pop(name, None)
    return PushedFolder(pushed.remote, files)


def _delete(ssh: Ssh, listed: PushList, files: Mapping[str, Stamp], remote: str) -> None:
    """Delete files there that are as they were pushed, and folders that are here no more."""
    parents = {parent for name in files for parent in PurePath(name).parents if parent.parts}
    emptied = [str(parent) for parent in parents if not (listed.root / parent).exists()]
    deepest_first = sorted(emptied, key=lambda name: -len(PurePath(name).parts))
    ask_patiently(ssh, "remove", {"folder": remote, "files": files, "folders": deepest_first})
