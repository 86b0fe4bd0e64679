"""Would this machine kill a run when its user logs out, and what to do about it."""

from pathlib import Path
from typing import Literal, NamedTuple

from runners.host import systemd
from runners.host.files import is_there, read_text
from runners.host.identity import is_booted

_ENABLE = "`loginctl enable-linger` (an administrator: `loginctl enable-linger {user}`)"
_KILLS = "logind kills a user's processes (KillUserProcesses=yes)"
_WITH_SYSTEMD = "a systemd of your own (Debian: the package dbus-user-session), and a new login"


class LogoutVerdict(NamedTuple):
    """What becomes of runs at logout, why, and what to do about it."""

    outcome: Literal["safe", "killed", "unknown"]
    reason: str
    advice: str = ""


def judge_logout(root: Path = Path("/")) -> LogoutVerdict:
    """What would become of a run started here and now when its user logs out everywhere."""
    if not is_booted(root):
        where = "in a container" if in_container(root) else "on this machine"
        return LogoutVerdict("safe", f"no systemd-logind {where}: nothing ends processes at logout")
    place = systemd.session_of_ours()
    if systemd.lingers(root):
        why = systemd.why_no_scope()
        if why and place == "session" and systemd.kills_user_processes(root):
            return LogoutVerdict("killed", f"{_KILLS}, lingering or not: {why}", _WITH_SYSTEMD)
        return LogoutVerdict("safe", "lingering is on: processes stay after logout")
    advice = _ENABLE.format(user=systemd.this_user())
    if place == "user":
        why = "started below the user's own systemd, which ends at the last logout"
        return LogoutVerdict("killed", f"{why}: lingering is off", advice)
    kills = systemd.kills_user_processes(root)
    if kills is None:
        why = "logind does not say whether it kills processes"
        return LogoutVerdict("unknown", f"{why}; lingering is off", advice)
    if kills and place == "session":
        return LogoutVerdict("killed", f"{_KILLS}, lingering is off", advice)
    if kills:
        why = "started outside of any login session, which logind leaves alone"
        return LogoutVerdict("safe", why)
    return LogoutVerdict("safe", "logind leaves processes alone (KillUserProcesses=no)")


def in_container(root: Path = Path("/")) -> bool:
    """True inside Docker, Podman, LXC, Kubernetes and their like, as far as they leave a sign."""
    signs = (root / ".dockerenv", root / "run/.containerenv", root / "run/systemd/container")
    if any(map(is_there, signs)):
        return True
    return "container=" in read_text(root / "proc/1/environ")
