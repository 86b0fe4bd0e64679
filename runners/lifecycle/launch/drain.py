"""Whether the queue is drained: a file says so."""

import time

from runners.state.layout import StateDirectory


def drained_since(state: StateDirectory) -> str:
    """Since when nothing may start, as local date and time; empty when things may."""
    try:
        return time.strftime("%Y-%m-%d %H:%M", time.localtime(state.drain.stat().st_mtime))
    except OSError:
        return ""
