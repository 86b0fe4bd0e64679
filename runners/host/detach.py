"""Starting a supervisor out of reach of the terminal: in a systemd scope of its own where that
helps, else by setsid.

A scope leaves the login session, but ends with the user's own systemd, at the last logout, unless
lingering is on. So it is taken where lingering is on, or where logind would kill the session
anyway; a machine that leaves processes alone and does not linger keeps a run alive by setsid only.
"""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, NamedTuple

from runners.host.procfs import process_state
from runners.host.systemd import (
    ScopeProbe,
    kills_user_processes,
    lingers,
    probe_scope,
    remember_scope,
)

_SCOPE_WITHIN_S = 5.0


class Detached(NamedTuple):
    """How a process was detached: its exit code, `scope` or `setsid`, the scope's unit, why no
    scope.
    """

    code: int
    how: str
    unit: str | None = None
    reason: str | None = None

    def fields(self) -> dict[str, str]:
        """Return what an event tells of it."""
        told = {"how": self.how, "unit": self.unit, "reason": self.reason}
        return {name: value for name, value in told.items() if value is not None}


def detach(
    unit: str,
    command: Sequence[str],
    environment: Mapping[str, str],
    descriptors: Sequence[int],
    log: IO[bytes],
    remembered: Path,
) -> Detached:
    """Run `command`, which forks itself away, in a session and if possible a scope named `unit`.

    `remembered` is the file that keeps whether scopes work on this host.
    """
    probe = _choose(remembered)
    if probe.works:
        # By our own PATH: that of the run's environment is its program's.
        scope = [
            shutil.which("systemd-run") or "systemd-run",
            "--user",
            "--scope",
            "--quiet",
            "--collect",
            f"--unit={unit}",
            "--",
            *command,
        ]
        child = _spawn(scope, environment, descriptors, log)
        if _arrives(child, command):
            return Detached(0, "scope", f"{unit}.scope")
        why = (
            "did not answer"
            if child.returncode == -signal.SIGKILL
            else f"failed with exit code {child.returncode}"
        )
        probe = remember_scope(remembered, ScopeProbe(False, f"systemd-run {why} at a launch"))
    code = _spawn(command, environment, descriptors, log).wait()
    return Detached(code, "setsid", reason=probe.why)


def _choose(remembered: Path) -> ScopeProbe:
    probe = probe_scope(remembered)
    if not probe.works or lingers() or kills_user_processes():
        return probe
    return ScopeProbe(False, "lingering is off: a scope would end at logout, a session goes on")


def _spawn(
    command: Sequence[str],
    environment: Mapping[str, str],
    descriptors: Sequence[int],
    log: IO[bytes],
) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        command,
        env=dict(environment),
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        pass_fds=descriptors,
        start_new_session=True,
    )


def _arrives(child: "subprocess.Popen[bytes]", command: Sequence[str]) -> bool:
    """True when systemd-run has become `command` and that has detached; one that hangs before that
    is killed.
    """
    try:
        return child.wait(_SCOPE_WITHIN_S) == 0
    except subprocess.TimeoutExpired:
        pass
    # Stopped, it can be looked at: only what is still systemd-run may be killed, for a second
    # supervisor beside one that is merely slow would share its locks.
    os.kill(child.pid, signal.SIGSTOP)
    while process_state(child.pid) not in ("T", "Z", ""):
        time.sleep(0.001)
    if _has_become(child.pid, command):
        os.kill(child.pid, signal.SIGCONT)
        return child.wait() == 0
    os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    return child.returncode == 0


def _has_become(pid: int, command: Sequence[str]) -> bool:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return words[: len(command)] == [os.fsencode(word) for word in command]
