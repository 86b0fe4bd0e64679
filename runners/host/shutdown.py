"""Whether systemd ends this machine, or what a login has left. Standard library only."""

import os
from typing import Literal

from runners.host.files import read_text

_ANSWERS_WITHIN_S = 2.0
_LAST_PROGRAM = "systemd-shutdow"  # the kernel's 15 letters of systemd-shutdown(8)


def what_ends() -> Literal["machine", "login", ""]:
    """What systemd is ending just now, and this process with it; empty for neither.

    A login's session ends where KillUserProcesses is set (logind.conf(5)), its user's own systemd
    at the last logout where lingering is off, each with all that was started below it.
    """
    # In the end process 1 is another program, which ends what no unit did, and answers nothing.
    if read_text("/proc/1/comm").startswith(_LAST_PROGRAM):
        return "machine"
    if _answers("is-system-running") == "stopping":
        return "machine"
    groups = read_text("/proc/self/cgroup").replace("\n", "/").split("/")
    for group in groups:
        if group.startswith("user@") and _answers("--user", "is-system-running") == "stopping":
            return "login"
        if group.startswith("session-") and _answers("is-active", group) == "deactivating":
            return "login"
    return ""


def _answers(*question: str) -> str:
    import subprocess  # dozens of supervisors live for days without it

    runtime = os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}"
    try:
        answer = subprocess.run(
            ["systemctl", *question],
            env={**os.environ, "XDG_RUNTIME_DIR": runtime},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_ANSWERS_WITHIN_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return answer.stdout.decode(errors="replace").strip()
