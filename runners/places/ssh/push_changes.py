"""What a push changes there: files that are sent, and files that are deleted."""

import os
from collections.abc import Mapping
from pathlib import PurePath
from typing import NamedTuple

from runners.model.errors import FresnelError
from runners.places.ssh.agent_tool import ask_patiently, ask_stamps
from runners.places.ssh.copying import Copier, Stamp
from runners.places.ssh.push_list import PushList
from runners.places.ssh.pushed_files import PushedFolder
from runners.places.ssh.ssh import Ssh


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
