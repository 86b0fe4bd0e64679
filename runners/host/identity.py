"""Which host and boot this is, as pids and locks mean nothing on another; and who asks."""

import os
import time
from functools import cache

from runners.host.files import read_text
from runners.host.procfs import HELPER_MARK

UNATTENDED = "FRESNEL_UNATTENDED"
"""The variable by which whoever runs a command of ours says it of that command: 0 or 1."""

_answer: bool | None = None


def host_name() -> str:
    """This host's name; `$FRESNEL_HOST` replaces it where one machine acts as several."""
    return os.environ.get("FRESNEL_HOST") or os.uname().nodename


@cache
def boot_id() -> str:
    """The id of this boot; empty where the kernel has none."""
    return read_text("/proc/sys/kernel/random/boot_id").strip()


def boot_time() -> float:
    """When this host booted, in unix seconds, by the clock as it is set now."""
    return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)


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
