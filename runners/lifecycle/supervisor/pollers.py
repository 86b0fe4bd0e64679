"""What an attempt does while its program runs, each part by `poll(now)`.

It returns the seconds until the next poll; `now` is monotonic.
"""

import json
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from runners.host.files import append_event, read_json, replace
from runners.host.suspension import SuspensionWatch
from runners.lifecycle.supervisor.processes import RunProcesses
from runners.lifecycle.supervisor.queue_wait import notify
from runners.state.layout import RunDirectory
from runners.state.records import IntentFields, RecordFields

NEVER = float("inf")
_FIRST_POLL_S, _POLL_EVERY_S = 1.0, 20.0
_OVERRUN_EVERY_S = 20.0
_SUSPENDED_EVERY_S = 20.0


class Poller(Protocol):
    """One thing that is polled."""

    def poll(self, now: float) -> float:
        """Look and act; returns the seconds until the next look is due.

        It may be polled earlier, and more often.
        """


class LatePoller:
    """Does what `poller` does from `after_s` seconds on."""

    def __init__(self, poller: Poller, after_s: float) -> None:
        self._minder = poller
        self._begins = time.monotonic() + after_s

    def poll(self, now: float) -> float:
        """Wait, then do as the other."""
        return self._begins - now if now < self._begins else self._minder.poll(now)


class OverrunNotice:
    """Sends a notification, once, of an overrun that a panel or a guard has found.

    Their alert is seen only by those who look at the run. That it was sent stands in their file,
    for who adopts the run.
    """

    def __init__(self, run: RunDirectory) -> None:
        self._run = run
        self._is_sent = False

    def poll(self, now: float) -> float:
        """Look for the file that they write."""
        if self._is_sent:
            return NEVER
        found = read_json(self._run.overrun)
        if not found:
            return _OVERRUN_EVERY_S
        self._is_sent = True
        if not found.get("notified"):
            with suppress(OSError):  # a full disk: better told twice than not at all
                replace(self._run.overrun, json.dumps({**found, "notified": True}).encode())
            notify(self._run, "alert", str(found.get("text", "will cost more than estimated")))
        return NEVER


class SuspensionAlert:
    """Says in the run's events that the machine was suspended while it ran, and for how long."""

    def __init__(self, run: RunDirectory) -> None:
        self._run = run
        self._watch = SuspensionWatch(run.home.suspensions)

    def poll(self, now: float) -> float:
        """Look, and say it."""
        with suppress(OSError):  # a full disk: it is not said
            if lasted := self._watch.poll():
                from runners.model.quantities import duration_text  # hardly any machine sleeps

                text = f"the machine was suspended for {duration_text(lasted)}"
                append_event(self._run.supervisor_events, "alert", text=text)
        return _SUSPENDED_EVERY_S


class UnmarkedProcesses:
    """Writes down the run's processes without its mark, so that an adopter knows them too."""

    def __init__(self, processes: RunProcesses, write: Callable[[RecordFields], bool]) -> None:
        self._processes = processes
        self._write = write
        self._written = sorted(processes.unmarked.items())
        # Soon at first: a program forks its workers in its first second,
        # and may lose its mark then.
        self._next = time.monotonic() + _FIRST_POLL_S

    def poll(self, now: float) -> float:
        """Look, and record what has changed."""
        if now >= self._next:
            self._next = now + _POLL_EVERY_S
            self._processes.find()
            found = sorted(self._processes.unmarked.items())
            # Only what the disk took counts as written: else it is tried again.
            if found != self._written and self._write({"followed": found}):
                self._written = found
        return self._next - now


def write_intent(run: RunDirectory, intent: IntentFields) -> bool:
    """Write down the request to stop a run; False when the disk refuses."""
    import json

    try:
        replace(run.stop, json.dumps(intent, ensure_ascii=False).encode())
    except OSError:
        return False
    return True
