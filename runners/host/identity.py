"""Which host and boot this is, as pids and locks mean nothing on another; and who asks.

A container's boot is its start: none of its processes is older, and the machine below it may have
been up for months. Its name may change with each start.
"""

import os
import time
from functools import cache

from runners.host.files import read_text
from runners.host.procfs import HELPER_MARK, has_hosts_pids, start_ticks

UNATTENDED = "FRESNEL_UNATTENDED"
"""The variable by which whoever runs a command of ours says it of that command: 0 or 1."""

_answer: bool | None = None


def host_name() -> str:
    """This host's name; `$FRESNEL_HOST` replaces it where one machine acts as several."""
    return os.environ.get("FRESNEL_HOST") or os.uname().nodename


@cache
def kernel_boot() -> str:
    """The id of the kernel's boot, which all containers of a machine share; empty for none."""
    return read_text("/proc/sys/kernel/random/boot_id").strip()


@cache
def _container_began_ns() -> int:
    """When this container's first process started, in nanoseconds of the kernel's boot; else 0."""
    ticks = None if has_hosts_pids() else start_ticks(1)
    return 0 if ticks is None else ticks * 10**9 // os.sysconf("SC_CLK_TCK")


@cache
def boot_id() -> str:
    """The id of this boot; empty where the kernel has none."""
    began = _container_began_ns()
    return f"{kernel_boot()}/{began}" if began else kernel_boot()


def up_ns() -> int:
    """Nanoseconds since this boot, by its own clock; suspended time counts."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) - _container_began_ns()


def boot_time() -> float:
    """When this host booted, in unix seconds, by the clock as it is set now."""
    return time.time() - up_ns() / 1e9


def kernel_time() -> float:
    """The moment from which the kernel counts in /proc and in its log, in unix seconds."""
    return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)


def is_past(boot: str) -> bool:
    """Whether a recorded boot is another one, or another container: its pids mean nothing here."""
    # Version 0.3 recorded the kernel's boot in containers too.
    return bool(boot) and boot not in (boot_id(), kernel_boot())


def has_our_locks(boot: str) -> bool:
    """Whether what is locked in a recorded boot is seen here: in a container of this machine."""
    return boot.partition("/")[0] == kernel_boot()


def user_name() -> str:
    """Who is asking, as far as the system knows."""
    import getpass  # brings termios: the supervisor does without

    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def note_person() -> None:
    """A person is there, whatever the streams are: at a panel in a browser, or at a line's end."""
    global _answer
    _answer = True


def attendance() -> dict[str, str]:
    """The variable that tells a command of ours, run without a terminal, whether a person asks."""
    return {UNATTENDED: "0" if is_attended() else "1"}


def is_attended() -> bool:
    """Whether a person may be there: one of the streams is a terminal.

    Our own helpers do what was asked for before, by whomever.
    """
    global _answer
    given = os.environ.pop(UNATTENDED, "")  # of this process, and of nobody below it
    if _answer is None:
        by_streams = HELPER_MARK in os.environ or any(map(os.isatty, (0, 1, 2)))
        _answer = given == "0" if given else by_streams
    return _answer


def is_booted(root: str | os.PathLike[str] = "/") -> bool:
    """True when systemd runs this machine, and its logind watches the logins."""
    return os.path.isdir(os.path.join(root, "run/systemd/system"))
