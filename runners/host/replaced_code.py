"""A long process whose source is replaced under it, as by an upgrade, starts anew from the new one.

It has in memory what it imported before, and what it would import now need not fit that. A late
import of ours from a file that is newer than the process therefore begins the process again, as if
it had been killed there: each of them goes on from what is on disk. Standard library only.
"""

import os
import sys
import time
from collections.abc import Sequence
from typing import Any

REPLACED = "another version of fresnel-tui was installed meanwhile; runs go on"
"""What a process says that cannot begin anew by itself."""

_BEGUN = time.time()
_OURS = ("runners.", "tui.")
_ANEW = "FRESNEL_BEGUN_ANEW"
_MOST = 3
"""So often a process begins anew; where a file's time can never fit, it goes on then."""
_SETTLES_S = 1.0
_SETTLED_WITHIN_S = 60.0
_RETURNS_WITHIN_S = 120.0
"""For so long what was removed is waited for: an environment is made again in that time."""
_ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 2))

_before = os.environ.pop(_ANEW, "")
_times = int(_before) if _before.isdecimal() else 0


class _LateImports:
    """What an import asks first; it finds nothing itself."""

    def __init__(self, argv: Sequence[str], kept: Sequence[int]) -> None:
        self.argv, self.kept = argv, kept
        self.since = _BEGUN
        if is_replaced():
            # It was there before: the clock has been set back since, or is not that of the disk.
            self.since = max(at for _, at in _sources() if at is not None)

    def find_spec(self, name: str, path: Sequence[str] | None = None, _: object = None) -> None:
        """Begin anew where the module that is looked for is newer than this process, or gone."""
        if path is None or not name.startswith(_OURS):
            return
        leaf = name.rpartition(".")[2]
        files = [f"{folder}/{leaf}{end}" for folder in path for end in (".py", "/__init__.py")]
        changed = [_changed(file) for file in files]
        known = [at for at in changed if at is not None]
        if max(known, default=0.0) > self.since or (not known and is_replaced()):
            _begin_anew(self.argv, self.kept)


def begin_anew_when_replaced(argv: Sequence[str] | None = None, kept: Sequence[int] = ()) -> None:
    """Start `argv` in this process's place when a late import shows that our source is another.

    The default is what this process was started by. The descriptors `kept` stay open.
    """
    if _times < _MOST:
        stop_looking()
        finder: Any = _LateImports(sys.orig_argv if argv is None else argv, kept)
        sys.meta_path.insert(0, finder)


def stop_looking() -> None:
    """For a fork that is no process of its kind: it keeps what it has."""
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, _LateImports)]


def is_replaced() -> bool:
    """Whether a source file of ours that this process has imported is another since, or gone."""
    ours = [module for name, module in list(sys.modules.items()) if name.startswith(_OURS)]
    files = {getattr(module, "__file__", None) for module in ours} - {None}
    return any((_changed(str(file)) or time.time()) > _BEGUN for file in files)


def leave_when_removed() -> None:
    """Where our source or interpreter is gone: wait for it and begin anew, else end as if killed.

    Whoever looks from another place where fresnel-tui is installed then goes on with the work.
    """
    finder = next((entry for entry in sys.meta_path if isinstance(entry, _LateImports)), None)
    if finder is not None and _is_removed():
        _begin_anew(finder.argv, finder.kept)
        os._exit(1)


def _is_removed() -> bool:
    return not (os.path.exists(__file__) and os.path.exists(sys.executable))


def _changed(file: str) -> float | None:
    """When a file was last changed, by the inode: installers set the other time as they like."""
    try:
        return os.stat(file).st_ctime
    except OSError:
        return None


def _begin_anew(argv: Sequence[str], kept: Sequence[int]) -> None:
    """Become `argv` once the source is whole; returns where that cannot be started."""
    until = time.monotonic() + (_RETURNS_WITHIN_S if _is_removed() else _SETTLED_WITHIN_S)
    before: object = None
    while time.monotonic() < until:
        now = _sources()
        if now == before and not _is_removed():
            break
        before = now
        time.sleep(_SETTLES_S)
    os.environ[_ANEW] = str(_times + 1)
    for descriptor in kept:
        os.set_inheritable(descriptor, True)
    try:
        os.execv(sys.executable, list(argv))
    except OSError:
        del os.environ[_ANEW]
        for descriptor in kept:
            os.set_inheritable(descriptor, False)


def _sources() -> list[tuple[str, float | None]]:
    """Every source file of ours and when it was changed, in order."""
    return sorted(
        (file, _changed(file))
        for top in ("runners", "tui")
        for folder, _, names in os.walk(os.path.join(_ROOT, top))
        for file in (os.path.join(folder, name) for name in names if name.endswith(".py"))
    )
