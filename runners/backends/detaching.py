"""Starting a supervisor out of reach of the terminal: in a systemd scope of its own where that helps, else by setsid.

A scope leaves the login session, but ends with the user's own systemd, at the last logout, unless lingering is
on. So it is taken where lingering is on, or where logind would kill the session anyway; a machine that leaves
processes alone and does not linger keeps a run alive by setsid only.
"""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from runners.host.files import append_event
from runners.host.marks import process_state
from runners.host.systemd import ScopeProbe, kills_user_processes, lingers, probe_scope, remember_scope
from runners.model.paths import RunDirectory, StateDirectory

_SCOPE_WITHIN_S = 5.0


def detach(
    run: RunDirectory,
    command: Sequence[str],
    environment: Mapping[str, str],
    descriptors: Sequence[int],
    log: IO[bytes],
) -> int:
    """Run `command`, which forks itself away, in a session and if possible a scope of its own; its exit code.

    Which it was, and why, stands in supervisor.jsonl.
    """
    remembered = StateDirectory(run.path.parent.parent).host / "scope.json"
    probe = _choose(remembered)
    if probe.works:
        unit = f"fresnel-{run.id}" if descriptors else f"fresnel-{run.id}-adopted-{os.getpid()}"
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
            append_event(run.supervisor_events, "detached", how="scope", unit=f"{unit}.scope")
            return 0
        why = "did not answer" if child.returncode == -signal.SIGKILL else f"failed with exit code {child.returncode}"
        probe = remember_scope(remembered, ScopeProbe(False, f"systemd-run {why} at a launch"))
    code = _spawn(command, environment, descriptors, log).wait()
    append_event(run.supervisor_events, "detached", how="setsid", reason=probe.why)
    return code


def _choose(remembered: Path) -> ScopeProbe:
    probe = probe_scope(remembered)
    if not probe.works or lingers() or kills_user_processes():
        return probe
    return ScopeProbe(False, "lingering is off: a scope would end at logout, a session goes on")


def _spawn(
    command: Sequence[str], environment: Mapping[str, str], descriptors: Sequence[int], log: IO[bytes]
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
    """True when systemd-run has become `command` and that has detached; one that hangs before that is killed."""
    try:
        return child.wait(_SCOPE_WITHIN_S) == 0
    except subprocess.TimeoutExpired:
        pass
    # Stopped, it can be looked at: only what is still systemd-run may be killed, for a second supervisor
    # beside one that is merely slow would share its locks.
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
