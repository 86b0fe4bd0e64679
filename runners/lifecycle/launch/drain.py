"""Whether the queue is drained: a file says so."""

from runners.host.clock import local_time
from runners.state.layout import StateDirectory


def drained_since(state: StateDirectory) -> str:
    """Since when nothing may start, as local date and time; empty when things may."""
    try:
        return local_time(state.drain.stat().st_mtime, "%Y-%m-%d %H:%M")
    except OSError:
        return ""
