"""Starting a supervisor out of reach of the terminal: in a systemd scope, else by setsid.

A scope leaves the login session, but ends with the user's own systemd at the last logout, unless
lingering is on. So it is used where lingering is on, or where logind would kill the session anyway;
on a machine that leaves processes alone and does not linger, setsid keeps a run alive.
"""

import os
import re
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, NamedTuple

from runners.host.procfs import command_of, process_state
from runners.host.slurm_job import slurm_job
from runners.host.systemd import (
    ScopeProbe,
    kills_user_processes,
    lingers,
    probe_scope,
    remember_scope,
    systemd_run,
    try_systemd_run,
)

_SCOPE_WITHIN_S = 5.0
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_RESTARTED = (
    "Restart=always",
    "RestartPreventExitStatus=0",
    "RestartSec=1",
    "StartLimitIntervalSec=0",
    # What it has started is not ended with it.
    "KillMode=process",
)


class Detached(NamedTuple):
    """How a process was detached: exit code, `scope` or `setsid`, its unit, or why none."""

    code: int
    how: str
    unit: str | None = None
    reason: str | None = None

    def fields(self) -> dict[str, str]:
        """Return the fields of the event that records it."""
        known = {"how": self.how, "unit": self.unit, "reason": self.reason}
        return {name: value for name, value in known.items() if value is not None}


def detach(
    unit: str,
    command: Sequence[str],
    environment: Mapping[str, str],
    descriptors: Sequence[int],
    log: IO[bytes],
    remembered: Path,
) -> Detached:
    """Run `command`, which forks itself away, in its own session and if possible in scope `unit`.

    `remembered` is the file that keeps whether scopes work on this host. Raises OSError
    when no process can be started.
    """
    probe = _choose(remembered)
    if probe.works:
        options = ("--scope", "--quiet", "--collect", f"--unit={unit}", "--")
        scope = systemd_run(*options, *command)
        child = _spawn(scope, environment, descriptors, log)
        if _arrives(child, command):
            return Detached(0, "scope", f"{unit}.scope")
        # Remembered for this boot, so that only one launch pays for a systemd that hangs.
        why = (
            "did not answer"
            if child.returncode == -signal.SIGKILL
            else f"failed with exit code {child.returncode}"
        )
        probe = remember_scope(remembered, ScopeProbe(False, f"systemd-run {why} at a launch"))
    code = _spawn(command, environment, descriptors, log).wait()
    return Detached(code, "setsid", reason=probe.why)


def start_service(
    unit: str, command: Sequence[str], environment: Mapping[str, str], remembered: Path
) -> ScopeProbe:
    """Have this user's systemd run `command` until it exits with 0; else say why it does not.

    Raises OSError when no process can be started.
    """
    probe = _choose(remembered)
    if not probe.works:
        return probe
    service = systemd_run(
        "--quiet",
        "--collect",
        f"--unit={unit}",
        *(f"--property={setting}" for setting in _RESTARTED),
        # By name: values on a command line are everybody's to read.
        *(f"--setenv={name}" for name in environment if _PLAIN_NAME.fullmatch(name)),
        "--",
        *command,
    )
    return try_systemd_run(service, _SCOPE_WITHIN_S, environment)


def _choose(remembered: Path) -> ScopeProbe:
    job = slurm_job()
    if job is not None:
        # In a scope it would outlive the job, on GPUs that are another's by then.
        return ScopeProbe(False, f"part of Slurm job {job.id}, and ends with it")
    probe = probe_scope(remembered)
    if not probe.works or lingers() or kills_user_processes():
        return probe
    return ScopeProbe(False, "lingering is off: a scope would end at logout, a session survives it")


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
        # The run's locks travel by these: the child holds them before the parent lets go.
        stdout=log,
        stderr=log,
        pass_fds=descriptors,
        start_new_session=True,
    )


def _arrives(child: "subprocess.Popen[bytes]", command: Sequence[str]) -> bool:
    """True when systemd-run became `command` and that detached itself; one that hangs is killed."""
    with suppress(subprocess.TimeoutExpired):
        return child.wait(_SCOPE_WITHIN_S) == 0
    # It is stopped before it is looked at, so that it cannot change in between. Only what is still
    # systemd-run may be killed: a second supervisor beside a slow first one would share its locks.
    os.kill(child.pid, signal.SIGSTOP)
    # SIGSTOP takes effect a moment later; until then the process may still exec.
    while process_state(child.pid) not in ("T", "Z", ""):
        time.sleep(0.001)
    if command_of(child.pid)[: len(command)] == [*command]:
        os.kill(child.pid, signal.SIGCONT)
        return child.wait() == 0
    os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    return child.returncode == 0
