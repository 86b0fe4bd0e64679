"""What systemd does at logout, and whether it gives scopes; None, or no, without systemd."""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from runners.host.files import is_file, is_there, read_json, read_text, write_json
from runners.host.identity import boot_id
from runners.host.ownership import user_name_of

_PATIENCE_S = 3.0
_LOGIND = (
    "org.freedesktop.login1",
    "/org/freedesktop/login1",
    "org.freedesktop.login1.Manager",
    "KillUserProcesses",
)
_CONFIGURED_IN = (
    "etc/systemd",
    "run/systemd",
    "usr/local/lib/systemd",
    "usr/lib/systemd",
    "lib/systemd",
)


class ScopeProbe(NamedTuple):
    """Whether `systemd-run --user --scope` works since this boot; why not in words."""

    works: bool
    why: str = ""


def this_user() -> str:
    """The user whose processes these are, whatever $USER says."""
    return user_name_of(os.getuid())


def lingers(root: Path = Path("/")) -> bool:
    """True when this user's processes may stay although the user has logged out."""
    return is_there(root / "var/lib/systemd/linger" / this_user())


def kills_user_processes(root: Path = Path("/")) -> bool | None:
    """Whether logind, or its configuration, ends this user's processes at logout, or None."""
    answer = _ask(["loginctl", "show-session", "--property=KillUserProcesses", "--value"])
    if answer not in ("yes", "no"):
        answer = _ask(["busctl", "get-property", *_LOGIND]).removeprefix("b ")
    if answer in ("yes", "no", "true", "false"):
        kills = answer in ("yes", "true")
    else:
        setting = _configured("KillUserProcesses", root)
        if setting is None:
            return None
        kills = setting.lower() in ("yes", "true", "on", "1")
    # Logind itself leaves root alone unless told otherwise (logind.conf(5)).
    excluded = (_configured("KillExcludeUsers", root) or "root").split()
    return kills and this_user() not in excluded


def session_of_ours() -> str:
    """Which part of the control group tree this process is in: `session`, `user`, or empty."""
    groups = read_text("/proc/self/cgroup")
    if "/user@" in groups:
        return "user"
    return "session" if "/session-" in groups else ""


def probe_scope(remembered: Path, again: bool = False) -> ScopeProbe:
    """Try a scope once per boot, or `again`, and remember the answer in the file `remembered`."""
    if why := why_no_scope():
        return ScopeProbe(False, why)
    known = read_json(remembered)
    if known is not None and known.get("boot_id") == boot_id() and not again:
        return ScopeProbe(bool(known.get("works")), str(known.get("why", "")))
    # A trial is the only way to know: containers may have the socket and no permission.
    trial = systemd_run("--scope", "--quiet", "--collect", "true")
    return remember_scope(remembered, try_systemd_run(trial, _PATIENCE_S))


def remember_scope(remembered: Path, probe: ScopeProbe) -> ScopeProbe:
    """Write down what a probe, or a launch, found out about scopes in this boot."""
    with suppress(OSError):  # asked again next time
        write_json(
            remembered,
            {"boot_id": boot_id(), "works": probe.works, "why": probe.why, "time": time.time()},
        )
    return probe


def why_no_scope() -> str:
    """Why no scope can be had, as far as that shows without a trial; empty where one might be."""
    if shutil.which("systemd-run") is None:
        return "no systemd-run here"
    folder = Path(os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}")
    # Without either, systemd-run would only fail, after having started a process.
    # After `su` it is the folder of the former user, into which this one may not look.
    signs = (folder / "bus", folder / "systemd" / "private")
    return "" if any(map(is_there, signs)) else "no systemd of this user is running"


def systemd_run(*options: str) -> list[str]:
    """A command that has this user's systemd run another, which stands behind its `options`."""
    # By our own PATH: that of the run's environment is its program's.
    return [shutil.which("systemd-run") or "systemd-run", "--user", *options]


def try_systemd_run(
    argv: Sequence[str], within_s: float, environment: Mapping[str, str] | None = None
) -> ScopeProbe:
    """Whether systemd-run does as `argv` says within so many seconds, and why not. OSError."""
    null = subprocess.DEVNULL
    child = subprocess.Popen(
        argv,
        env=environment,
        cwd="/",
        stdin=null,
        stdout=null,
        stderr=null,
        start_new_session=True,
    )
    try:
        code = child.wait(within_s)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        return ScopeProbe(False, f"systemd-run did not answer within {within_s:g} s")
    return ScopeProbe(code == 0, f"systemd-run failed with exit code {code}" if code else "")


def _ask(command: list[str]) -> str:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_PATIENCE_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _configured(key: str, root: Path) -> str | None:
    """A key of logind.conf and its drop-ins, else the default named in the shipped comments."""
    main = next(
        (found for folder in _CONFIGURED_IN if is_file(found := root / folder / "logind.conf")),
        None,
    )
    drops: dict[str, Path] = {}
    # Backwards, so that /etc wins: among drop-ins of one name the first folder's counts.
    for folder in reversed(_CONFIGURED_IN):
        drops |= {path.name: path for path in (root / folder / "logind.conf.d").glob("*.conf")}
    default = value = None
    for path in [*([main] if main else []), *(drops[name] for name in sorted(drops))]:
        for line in read_text(path).splitlines():
            name, equals, text = line.strip().partition("=")
            if equals and name.strip() == key:
                value = text.strip()
            elif equals and name.lstrip("#; ").strip() == key and default is None:
                default = text.strip()
    return default if value is None else value
