"""What a preset needs on another machine: its data, its program if it is not ours, itself."""

import hashlib
import os
import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from runners.model.errors import WrongInput
from runners.model.spec import RunSpec
from runners.places.ssh.registry import RemoteHost
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
            local = (base / value).expanduser()
            if local.exists():
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
        local = Path(text).expanduser().absolute()
        if not local.exists():
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
    folder = Path(os.path.normpath(beside / Path(text).expanduser())) if text else here
    module = ["-m", spec.module] if spec.module else []
    if not names_file_of(folder, [spec.script, *module, *spec.command]):
        return None
    return PushItem("program", folder, f"{host.folder}/{folder.name or 'program'}")


def _is_in(folder: Path, name: str) -> bool:
    try:
        return len(name) < 256 and (folder / name).exists() and name not in (".", "..")
    except (OSError, ValueError):
        return False


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
