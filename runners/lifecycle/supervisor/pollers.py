"""What an attempt does while its program runs, each part by `poll(now)`.

It returns the seconds until the next poll; `now` is monotonic.
"""

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from runners.host.clock import Moment, moment_after, moment_now, seconds_between
from runners.host.files import append_event, read_json, write_json
from runners.host.shutdown import what_ends
from runners.host.suspension import SuspensionWatch
from runners.lifecycle.supervisor.processes import RunProcesses
from runners.lifecycle.supervisor.queue_wait import notify
from runners.model.endings import Ending, EndingCause
from runners.state.layout import RunDirectory
from runners.state.limits import EarlierSessions, current_limit, follows_price, limit_of_launch
from runners.state.records import IntentFields, PlanFields, RecordFields, intent_fields

NEVER = float("inf")
_FIRST_POLL_S, _POLL_EVERY_S = 1.0, 20.0
_OVERRUN_EVERY_S = 20.0
_SUSPENDED_EVERY_S = 20.0
_PRICE_EVERY_S = 10.0
_SHUTDOWN = "the machine is being shut down"
_LOGOUT = "ended by systemd with its user's login"
_LEFT_S = 85.0
_LEFT_AT_S = {"Google Cloud": 25.0}
"""Until everything is killed, less what it takes to record the end; by the session's provider."""


class Poller(Protocol):
    """One thing that is polled."""

    def poll(self, now: float) -> float:
        """Look and act; returns the seconds until the next look is due.

        It may be polled earlier, and more often.
        """


class LatePoller:
    """Does what the poller that `begin` makes does, made and polled from `after_s` seconds on."""

    def __init__(self, begin: Callable[[], Poller], after_s: float) -> None:
        self._begin = begin
        self._begins = time.monotonic() + after_s
        self._poller: Poller | None = None

    def poll(self, now: float) -> float:
        """Wait, then do as the other."""
        if now < self._begins:
            return self._begins - now
        self._poller = self._poller or self._begin()
        return self._poller.poll(now)


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
                write_json(self._run.overrun, {**found, "notified": True})
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
                from runners.model.units import duration_text  # hardly any machine sleeps

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


def write_intent(run: RunDirectory, intent: IntentFields) -> None:
    """Write down the request to stop a run, if the disk takes it."""
    with suppress(OSError):
        write_json(run.stop, intent)


class TimeLimit:
    """Asks for a stop once the plan's limit, counted from the run's start, is reached."""

    def __init__(
        self,
        run: RunDirectory,
        plan: PlanFields,
        began: Moment,
        request: Callable[[IntentFields], None],
    ) -> None:
        self._run = run
        self._plan = plan
        self._began = began
        self._request = request
        self._is_over = False
        self._limit = limit_of_launch(plan)
        self._follows = follows_price(plan)
        self._paid = EarlierSessions(run, plan, began)
        self._look_at, self._ends_at = 0.0, NEVER
        self._set(time.monotonic())

    def poll(self, now: float) -> float:
        """Write the durable intent, as a user's stop does; a full disk does not lift a limit."""
        if self._is_over:
            return NEVER
        if self._follows and now >= self._look_at:
            self._set(now)
        if now < self._ends_at:
            return min(self._ends_at, self._look_at if self._follows else NEVER) - now
        # Asked for once: every further request would take the next rung of the ladder.
        self._is_over = True
        if not self._run.stop.exists():
            ending = Ending(cause=EndingCause.LIMIT, seconds=self._limit.seconds or 0.0)
            if self._limit.usd:
                ending["usd"] = self._limit.usd
            asked = intent_fields({"time": time.time(), "by": "its limit"})
            self._request({**asked, "ending": ending})
        return NEVER

    def _set(self, now: float) -> None:
        if self._follows:
            self._look_at = now + _PRICE_EVERY_S
            self._limit = current_limit(self._plan, self._run, self._paid) or self._limit
        seconds = self._limit.seconds
        # Counted from the start, not from now: an adopter must not extend the limit.
        left = None if seconds is None else seconds - seconds_between(self._began, moment_now())
        self._ends_at = NEVER if left is None else now + left


class ShutdownNotice:
    """Asks for a stop, once, when SIGTERM comes while systemd ends the machine or the login.

    From when it is made on: as long as nobody asks it, the signal is kept. `survives_boot`: a run
    that is queued again after a boot is left to that, as it is.
    """

    def __init__(
        self,
        run: RunDirectory,
        request: Callable[[IntentFields], None],
        survives_boot: bool = False,
    ) -> None:
        self._run = run
        self._request = request
        self._survives_boot = survives_boot
        self._ends = ""
        self._is_asked = False
        signal.signal(signal.SIGTERM, self._receive)

    def poll(self, now: float) -> float:
        """Ask for the stop, if the signal has come."""
        if self._ends and not self._is_asked:
            self._is_asked = True
            session = read_json(self._run.home.session) or {}
            left = _LEFT_AT_S.get(str(session.get("provider")), _LEFT_S)
            is_logout = self._ends == "login"
            text = _LOGOUT if is_logout else _SHUTDOWN
            asked = intent_fields(read_json(self._run.stop) or {"time": time.time(), "by": text})
            cause = EndingCause.LOGOUT if is_logout else EndingCause.PREEMPTED
            ending = Ending(cause=cause, detail=text)
            if self._run.stop.exists():
                ending = asked["ending"]
            append_event(self._run.supervisor_events, "alert", text=text)
            if not is_logout:
                notify(self._run, "preempted", text)
            self._request({**asked, "ending": ending, "deadline": moment_after(moment_now(), left)})
        return NEVER

    def heed_end(self, by_sigterm: bool) -> None:
        """Let the end be systemd's where its signal came, or ended the program, first."""
        if by_sigterm and not self._ends:
            self._ends = self._what_ends()
        self.poll(0.0)

    def close(self) -> None:
        """Nothing is left to record: the signal ends this process, one that has come too."""
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        if self._ends:
            os.kill(os.getpid(), signal.SIGTERM)

    def _receive(self, *_: object) -> None:
        self._ends = self._ends or self._what_ends()
        if not self._ends:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGTERM)

    def _what_ends(self) -> str:
        ends = what_ends()
        return "" if ends == "machine" and self._survives_boot else ends
