"""What is left on a rented machine after its use, found and removed there."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path, PurePath

import msgspec

from runners.host.below import resolve_below
from runners.host.files import home_folder
from runners.lifecycle.launch.service_unit import NAME, unit_folder
from runners.model.units import counted
from runners.places.ssh.copying import stamps_of
from runners.places.ssh.pushed_files import PushedFolder
from runners.state.layout import StateDirectory

MADE_BY_US = ".fresnel-made"
"""Lies in a folder that `host setup` made: it may be removed whole."""

_OUR_NAME = "fresnel-tui"
_STATE = "runs, their output, the ledger, the guard"


class LeftoversQuestion(msgspec.Struct, frozen=True):
    """Where pushed things lie: the machine's folder, and what was pushed file by file."""

    folder: str
    pushed: list[PushedFolder]
    remove: bool = False


class Leftover(msgspec.Struct, frozen=True):
    """One thing of ours there; `problem`: why it stays, or could not be removed."""

    what: str
    path: str
    bytes: int = 0
    problem: str = ""


class Leftovers(msgspec.Struct, frozen=True):
    """Everything of ours there."""

    items: list[Leftover]


def look_at_leftovers(question: LeftoversQuestion) -> Leftovers:
    """What is left here; removed when that is asked for, the program itself last."""
    found = [*_pushed(question), *_state(), *_units(), *_program()]
    if not question.remove:
        return Leftovers([item for item, _ in found])
    return Leftovers([_removed(item, remove) for item, remove in found])


_Found = tuple[Leftover, Callable[[], object] | None]


def _removed(item: Leftover, remove: Callable[[], object] | None) -> Leftover:
    if remove is None:
        return item
    try:
        remove()
    except OSError as error:
        return msgspec.structs.replace(item, problem=str(error))
    return item


def _pushed(question: LeftoversQuestion) -> Iterator[_Found]:
    """The folder that `host setup` made; in another one only the files that were pushed."""
    folder = Path(question.folder)
    if (folder / MADE_BY_US).is_file():
        yield _whole("pushed and written there", folder)
        return
    for pushed in question.pushed:
        files = {name: stamp for name, (_, stamp) in pushed.files.items()}
        root = Path(pushed.remote)
        stamps = stamps_of(root, files)
        same = [name for name, stamp in files.items() if stamps.get(name) == stamp]
        if same:
            size = sum(stamps[name][0] for name in same)
            item = Leftover(counted(len(same), "pushed file"), str(root), size)
            yield item, partial(_delete, root, same, folder)
    if folder.is_dir():
        problem = "not made by host setup: what else is in it stays"
        yield Leftover("folder", str(folder), problem=problem), None


def _delete(root: Path, names: list[str], last: Path) -> None:
    """Delete these files, and the folders on the way to them below `last` that are empty then."""
    for name in names:
        with suppress(ValueError):
            resolve_below(root, name).unlink(missing_ok=True)
    parents = {parent for name in names for parent in PurePath(name).parents}
    for parent in sorted(parents, key=lambda path: -len(path.parts)):
        if root / parent != last:
            with suppress(OSError):
                (root / parent).rmdir()


def _state() -> Iterator[_Found]:
    state = StateDirectory()
    root, hosts = state.root, state.host.parent
    if not root.is_dir():
        return
    others = sorted({path.name for path in hosts.glob("*")} - {state.host.name})
    if root.name != _OUR_NAME:
        problem = "a folder of your own choice: remove it by hand"
    elif others:
        problem = f"shared with {', '.join(others)}: remove it by hand"
    else:
        yield _whole(_STATE, root)
        return
    yield Leftover(_STATE, str(root), problem=problem), None


def _units() -> Iterator[_Found]:
    path = unit_folder(False) / NAME
    wanted = path.parent / "default.target.wants" / NAME
    for unit in (wanted, path):
        if os.path.lexists(unit):
            yield Leftover("unit", str(unit)), unit.unlink


def _program() -> Iterator[_Found]:
    base = home_folder() / ".local" / "share" / _OUR_NAME
    link = home_folder() / ".local" / "bin" / _OUR_NAME
    if link.is_symlink() and link.readlink() == base / "bin" / _OUR_NAME:
        yield Leftover("command", str(link)), link.unlink
    if (base / "bin" / _OUR_NAME).is_file():
        yield _whole("program and its environment", base)


def _whole(what: str, folder: Path) -> _Found:
    size = 0
    for top, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                size += (Path(top) / name).lstat().st_size
    return Leftover(what, str(folder), size), partial(shutil.rmtree, folder)
