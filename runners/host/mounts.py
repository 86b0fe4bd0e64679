"""What a folder is on: a disk of this machine, or a server, which may not answer. Standard library.

The kernel lets whoever looks at a file wait for its server, for ever if need be, and often nothing
can end such a process. So a short program is made to ask first; nobody waits long for that one.
"""

import _thread
import atexit
import os
import re
import signal
import time
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

NETWORK = re.compile(r"nfs|cifs|smb|lustre|beegfs|gpfs|ceph|fuse\.sshfs|afs|glusterfs|9p")
"""The kinds that lie on another machine, as the kernel calls them."""
_SERVED = re.compile(NETWORK.pattern + r"|fuse\b|virtiofs|orangefs|panfs|wekafs")
"""Those behind which any program may be that has to answer."""
_ESCAPED = re.compile(r"\\([0-7]{3})")
_TABLE_LASTS_S = 5.0
_PATIENCE_S = 2.0
_TRUST_S = 1.0
"""So long an answer counts for what is looked at next."""
_MOST_LINKS = 40
_ASKS = ("/usr/bin/stat", "/bin/stat")


def filesystem_of(path: Path, mounts: Path = Path("/proc/self/mountinfo")) -> str:
    """The kind of file system that `path` is on; empty when the system does not say."""
    return _mount_of(str(path), _read_mounts(mounts))[1]


def mount_point(path: Path) -> str:
    """Where the file system that `path` is on is mounted."""
    return _mount_of(str(path), _MOUNTS.now())[0]


@lru_cache(maxsize=8)
def is_network_folder(path: Path) -> bool:
    """True where what another machine writes into `path` may be seen here a while later."""
    return NETWORK.match(filesystem_of(path)) is not None


def silent_server(path: str) -> str:
    """The mounted folder with `path` in it whose server does not answer; empty where all is well.

    After two seconds the first time, at once as long as it stays so.
    """
    mounts = _MOUNTS.now()
    point, kind = _mount_of(path, mounts) if _MOUNTS.any_served else ("", "")
    if not _SERVED.match(kind):
        return ""
    with _LOCK:
        if point not in _SERVERS:
            _SERVERS[point] = _Server(point)
        return "" if _SERVERS[point].answers() else point


def no_answer(server: str) -> str:
    """In words, that the server of what is mounted there does not answer."""
    return f"the file server of {server} does not answer"


def real_path(path: str) -> str:
    """`path` without links in it; as it is written where its server does not answer."""
    return os.path.abspath(path) if silent_server(path) else os.path.realpath(path)


def is_mounted(folder: str) -> bool:
    """Whether what lies in a folder is another file system than the folder itself."""
    return folder in _MOUNTS.now()


class _Mounts:
    """The table of mounts, as it was some seconds ago at most."""

    def __init__(self) -> None:
        self._table: dict[str, str] = {}
        self._until = -1.0
        self.any_served = False

    def now(self) -> dict[str, str]:
        if time.monotonic() >= self._until:
            self._table = _read_mounts(Path("/proc/self/mountinfo"))
            self.any_served = any(_SERVED.match(kind) for kind in self._table.values())
            self._until = time.monotonic() + _TABLE_LASTS_S
        return self._table


class _Server:
    """What is mounted at one place, and the program that asks it."""

    def __init__(self, point: str) -> None:
        self._point = point
        self._pid = self._pipe = self._asked_by = -1
        self._until = -1.0
        atexit.register(self._give_up)

    def answers(self) -> bool:
        """Whether it answered a second ago or does now; one that is silent is waited for once."""
        if self._pipe < 0:
            if time.monotonic() < self._until or not self._ask():
                return True
            patience = _PATIENCE_S
        else:
            patience = 0.0
        import select  # few machines have a server of files

        ended = select.poll()  # `select` takes no number from 1024 on
        ended.register(self._pipe, select.POLLIN)
        if not ended.poll(patience * 1000):
            return False
        os.close(self._pipe)
        self._pipe = -1
        with suppress(ChildProcessError):  # asked by the process that this one was forked from
            os.waitpid(self._pid, 0)
        self._until = time.monotonic() + _TRUST_S
        return True

    def _ask(self) -> bool:
        """Look for a name that nobody can know but the server; False where that is not possible."""
        name = f"{self._point}/.asked-by-{os.getpid()}-{time.monotonic_ns()}"
        try:
            ours, theirs = os.pipe()
        except OSError:
            return False  # so many files are open that nobody can be asked
        try:
            # By its path and without variables: what they name may lie on the same server.
            self._pid = os.posix_spawn(
                next(filter(os.path.exists, _ASKS)),
                ["stat", name],
                {},
                file_actions=[
                    (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                    (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
                    (os.POSIX_SPAWN_DUP2, theirs, 1),
                ],
            )
        except (OSError, StopIteration):
            os.close(ours)
            return False
        finally:
            os.close(theirs)
        self._pipe, self._asked_by = ours, os.getpid()
        return True

    def _give_up(self) -> None:
        if self._pipe >= 0 and self._asked_by == os.getpid():
            os.kill(self._pid, signal.SIGKILL)


_MOUNTS = _Mounts()
_SERVERS: dict[str, _Server] = {}
_LOCK = _thread.allocate_lock()


def _read_mounts(file: Path) -> dict[str, str]:
    """The kind of what is mounted at each place: the last of several at one."""
    try:
        lines = file.read_text(errors="replace").splitlines()
    except OSError:
        return {}
    mounts = {}
    for line in lines:
        before, _, after = line.partition(" - ")
        point = _ESCAPED.sub(lambda found: chr(int(found[1], 8)), before.split(" ")[4])
        mounts[point] = after.split(" ")[0]
    return mounts


def _mount_of(path: str, mounts: dict[str, str]) -> tuple[str, str]:
    """Where what `path` is on is mounted, and its kind. Links are followed, but for a server's."""
    place, links = "", 0
    waiting = _absolute(path).split("/")[::-1]
    while waiting:
        part = waiting.pop()
        if not part or part == ".":
            continue
        place = os.path.dirname(place) if part == ".." else f"{place.rstrip('/')}/{part}"
        if place in mounts or _SERVED.match(_innermost(place, mounts)[1]):
            continue
        try:
            target = os.readlink(place)
        except (OSError, ValueError):
            continue
        links += 1
        if links > _MOST_LINKS:
            break
        place = "" if target.startswith("/") else os.path.dirname(place)
        waiting += target.split("/")[::-1]
    return _innermost(place, mounts)


def _absolute(path: str) -> str:
    try:
        return os.path.abspath(path)
    except OSError:
        return path  # relative, and the working folder is gone


def _innermost(place: str, mounts: dict[str, str]) -> tuple[str, str]:
    while place not in mounts and place not in ("", "/"):
        place = os.path.dirname(place)
    return place or "/", mounts.get(place or "/", "")
