"""Which host and boot this is: pids and locks mean nothing on another."""

import os
import time
from functools import cache
from pathlib import Path


def host_name() -> str:
    """This host's name; `$FRESNEL_HOST` replaces it where one machine acts as several."""
    return os.environ.get("FRESNEL_HOST") or os.uname().nodename


@cache
def boot_id() -> str:
    """The id of this boot; empty where the kernel has none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


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
