"""How a link stands, in words. Not reached is a state of the line, never one of a run."""

import time

from runners.host.clock import local_time
from runners.model.quantities import duration_text
from runners.places.ssh.link import LinkState, LinkStatus


def link_text(status: LinkStatus, now: float | None = None) -> str:
    """`reached since 12:04`, or `not reached since 12:04: why; tries again in 8 s`."""
    now = time.time() if now is None else now
    since = local_time(status.since, "%H:%M")
    if status.state is LinkState.CONNECTING:
        return "connecting…"
    if status.state is LinkState.UP:
        return f"reached since {since}"
    text = f"not reached since {since}"
    if status.reason:
        text += f": {status.reason}"
    left = None if status.retry_at is None else max(0, round(status.retry_at - now))
    return text if left is None else f"{text}; tries again in {left} s"


def offset_text(offset: float | None) -> str:
    """How far a machine's clock is from ours, when it is more than a person would overlook."""
    if offset is None or abs(offset) < 2.0:
        return ""
    return f"its clock is {duration_text(abs(offset))} {'ahead' if offset > 0 else 'behind'}"
