"""What is known of this machine's end: announced by its provider, kept for every front end.

One file of the host, written by the process that asks the provider. The session ends with the
machine: at the announced moment, or where the machine was seen alive after that, the last of these.
"""

import msgspec

from runners.cost.timeline import Timeline
from runners.host.clock import Moment, moment_now, seconds_between, time_of_day
from runners.host.files import replace
from runners.host.identity import boot_id
from runners.model.units import duration_text
from runners.state.decoding import read
from runners.state.layout import StateDirectory

_SHOWN = 3


class Preemption(msgspec.Struct, frozen=True):
    """An announced end: the provider, its word for it, when it was first seen and when it comes.

    `ends` is None where none is announced: the machine is at risk, and nothing is stopped.
    `last_seen` is when the machine was last seen alive; `unfetched` are the runs whose results are
    nowhere else.
    """

    provider: str
    action: str
    seen: Moment
    ends: Moment | None = None
    ends_bill: bool = False
    last_seen: Moment | None = None
    unfetched: tuple[str, ...] = ()
    announced: bool = False
    settled: bool = False
    """The session was ended with the machine."""

    @property
    def gone(self) -> Moment | None:
        """When the machine is the provider's again, by what is known; None if it is not to be."""
        if self.ends is None or not self.ends_bill:
            return None
        last = self.last_seen or self.seen
        if last.boot == self.ends.boot and (last.boot_ns or 0) > (self.ends.boot_ns or 0):
            return last
        return self.ends

    def describe(self, now: Moment) -> str:
        """In a line: who takes the machine away, when, and what would be lost."""
        if self.ends is None:
            text = f"{self.provider} may take this machine away soon ({self.action})"
            return f"{text}{self._left_behind()}"
        at = time_of_day(self.ends.wall, now.wall, "%H:%M:%S")
        left = seconds_between(now, self.ends)
        does = "takes this machine away" if self.ends_bill else "restarts this machine"
        when = f"at {at} (in {duration_text(left)})" if left else f"since {at}"
        return f"{self.provider} {does} {when}: {self.action}{self._left_behind()}"

    def _left_behind(self) -> str:
        if not self.unfetched:
            return ""
        more = len(self.unfetched) - _SHOWN
        named = ", ".join(self.unfetched[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
        return f"; not fetched: {named}"


def read_preemption(state: StateDirectory) -> Preemption | None:
    """What is announced in this boot; None where nothing is, or the file is damaged."""
    found = read(state.preemption, Preemption)
    return found if found is not None and found.seen.boot == boot_id() else None


def write_preemption(state: StateDirectory, found: Preemption) -> None:
    """Keep what is announced. Raises OSError."""
    replace(state.preemption, msgspec.json.encode(found), sync=False)


def unsettled_preemption(state: StateDirectory) -> Preemption | None:
    """What took the machine away in an earlier boot, and has ended no session so far; or None."""
    found = read(state.preemption, Preemption)
    is_over = found is not None and not found.settled and found.seen.boot != boot_id()
    return found if is_over else None


def taken_at(state: StateDirectory, start: Moment) -> Moment | None:
    """When a session that began at `start` ended with the machine, which has come back; or None.

    Its provider stopped it, and started it again later: what it costs now is another session's.
    """
    found = unsettled_preemption(state)
    gone = None if found is None else found.gone
    return gone if gone is not None and _was_open(start, gone) else None


def _was_open(start: Moment, gone: Moment) -> bool:
    timeline = Timeline([start, gone, moment_now()])
    return start.boot == gone.boot or timeline.place(start) < timeline.place(gone)
