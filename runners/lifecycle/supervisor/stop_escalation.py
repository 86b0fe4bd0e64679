"""Carrying out a stop: every rung that is due is taken, recorded, and its signal sent."""

import signal
import time
from collections.abc import Callable, Mapping
from contextlib import suppress

from runners.host import helpers
from runners.host.clock import Moment, moment_now, seconds_between
from runners.host.files import append_event, read_json
from runners.host.procfs import ignores, process_state, start_ticks
from runners.host.signals import signal_process
from runners.lifecycle.supervisor.pollers import NEVER, write_intent
from runners.lifecycle.supervisor.processes import RunProcesses
from runners.model.endings import asked_again, stop_text
from runners.model.states import State
from runners.state.layout import RunDirectory
from runners.state.records import (
    IntentFields,
    Moments,
    PlanFields,
    RecordFields,
    RungFields,
    StopProgressFields,
    intent_fields,
)
from runners.state.vanished import asked_ending

_AFTER_THE_LAST_S = 1.0
_STACKS_WITHIN_S = 12.0


class Ladder:
    """Walks the rungs of a plan's stop rule; knows time only as the numbers it is given."""

    def __init__(self, rungs: list[RungFields]) -> None:
        self.rungs = [(rung["how"], rung["wait_s"]) for rung in rungs]
        self.step = -1
        self.until = 0.0

    @property
    def how(self) -> str:
        """The current rung: stop-file or a signal's name; empty before the first."""
        return self.rungs[self.step][0] if self.step >= 0 else ""

    @property
    def wait_s(self) -> float:
        """How long the current rung lasts, in seconds; 0 before the first."""
        return self.rungs[self.step][1] if self.step >= 0 else 0.0

    @property
    def is_last(self) -> bool:
        """True on the last rung, after which nothing more can be done."""
        return self.step == len(self.rungs) - 1

    def clip(self, now: float, left_s: float) -> None:
        """Shorten what is left of all rungs, in proportion, so that they end within `left_s`."""
        current = max(0.0, self.until - now) if self.step >= 0 else 0.0
        together = current + sum(wait_s for _, wait_s in self.rungs[self.step + 1 :])
        if together <= left_s:
            return
        part = left_s / together
        self.until = now + current * part
        self.rungs = [
            (how, wait_s * part if i > self.step else wait_s)
            for i, (how, wait_s) in enumerate(self.rungs)
        ]

    def due(self, now: float, requests: int, force: bool) -> bool:
        """True when the next rung must be taken now: by another request, by force, or by time."""
        if self.is_last:
            return False
        # Each further request moves one rung on at once, but never past the last.
        wanted = len(self.rungs) - 1 if force else min(requests, len(self.rungs)) - 1
        return self.step < wanted or (self.step >= 0 and now >= self.until)

    def advance(self, now: float, force: bool) -> str:
        """Move on by one rung, or to the last by force; return what it does."""
        self.step = len(self.rungs) - 1 if force else self.step + 1
        self.until = now + self.rungs[self.step][1]
        return self.how


class StopEscalation:
    """The stop of one attempt: what was asked for, and how far it has come."""

    def __init__(
        self,
        run: RunDirectory,
        plan: PlanFields,
        processes: RunProcesses,
        write: Callable[[RecordFields], bool],
    ) -> None:
        self.run = run
        self.ladder = Ladder(plan["stop"]["ladder"])
        self.intent: IntentFields | None = None
        self._target = plan["stop"]["target"]
        self._processes = processes
        self._write = write
        # Who was reached by a signal it does not ignore; None when an earlier supervisor sent some.
        self._received: set[int] | None = set()
        self._deadline: Moments | None = None
        self._reached: set[int] = set()
        """Who was reached by the rung that was taken last."""

    @property
    def is_over(self) -> bool:
        """True once the time of the last rung has passed."""
        return self.ladder.is_last and time.monotonic() >= self.ladder.until

    def continue_from(self, stop: StopProgressFields) -> None:
        """Continue where the ladder was under an earlier supervisor, not at its first rung."""
        self._received = None
        self.ladder.step = min(stop["step"], len(self.ladder.rungs)) - 1
        # The record has wall time, which front ends show; the ladder counts by the monotonic clock.
        # A clock set back since must not make the rung longer than it is.
        left = min(stop["until"] - time.time(), self.ladder.wait_s)
        self.ladder.until = time.monotonic() + max(0.0, left)

    def read(self) -> IntentFields | None:
        """The intent on disk, or the one that was handed over while the disk was full."""
        if self.run.stop.exists():
            self.intent = intent_fields(read_json(self.run.stop))
        return self.intent

    def request(self, intent: IntentFields) -> None:
        """Take an intent that did not come by the disk, and write it down if possible."""
        self.intent = intent
        write_intent(self.run, intent)

    def request_again(self, force: bool) -> None:
        """Take one more request by signal: somebody could not write it down."""
        intent = self.read() or intent_fields({"time": time.time(), "by": "a signal"})
        count = 1 if self.intent is None else intent["requests"] + 1
        force, ending = intent["force"] or force, asked_again(intent["ending"])
        self.request({**intent, "requests": count, "force": force, "ending": ending})

    def poll(self, now: float) -> float:
        """Take every rung that is due."""
        intent = self.read()
        if intent is None:
            return NEVER
        if intent["deadline"] is not None and intent["deadline"] != self._deadline:
            self._deadline = intent["deadline"]
            self.ladder.clip(now, seconds_between(moment_now(), Moment(*self._deadline)))
        while self.ladder.due(now, intent["requests"], intent["force"]):
            how = self.ladder.advance(now, intent["force"])
            until = time.time() + self.ladder.until - now
            if how == "SIGKILL" and not intent["force"]:
                self._save_stacks()
            self._reached.clear()
            if self.run.pause.exists():
                # Paused by us: to heed any rung, all of it has to go on, its workers too.
                self._continue(self._processes.find(thorough=True))
                self.run.pause.unlink(missing_ok=True)
            # The signal first, then the record: on a full disk the stop still happens.
            reached = self._signal(how)
            self._note(how, until, reached)
            self._write(
                {
                    "state": State.STOPPING,
                    "reason": stop_text(asked_ending(intent)),
                    "stop": {
                        "rung": how,
                        "step": self.ladder.step + 1,
                        "steps": len(self.ladder.rungs),
                        "until": until,
                        "asked_by": intent["by"],
                        "asked_at": intent["time"],
                    },
                }
            )
        if not self.ladder.is_last:
            return max(0.0, self.ladder.until - now)
        self._reach_latecomers()
        return _AFTER_THE_LAST_S

    def was_received_by(self, pids: set[int]) -> bool:
        """False when none of `pids` was reached by any signal of this stop."""
        return self._received is None or not self._received.isdisjoint(pids)

    def _save_stacks(self) -> None:
        """Keep where a program hangs that nothing gentler could end: SIGKILL leaves no trace."""
        if self._processes.find():
            with suppress(OSError):
                helpers.run("stacks", self.run.path, "before SIGKILL", within_s=_STACKS_WITHIN_S)

    def _reach_latecomers(self) -> None:
        """Send the last rung's signal to processes that began after it was sent.

        SIGKILL goes to each of them, another signal only when it reached nobody at all: a program
        that was just being started had no mark yet, and no further rung comes for it.
        """
        self._continue({})
        how, reached_any = self.ladder.how, self._reached or self._received is None
        if how == "stop-file" or (how != "SIGKILL" and reached_any):
            return
        found = self._chosen(how)
        late = {pid: ticks for pid, ticks in found.items() if pid not in self._reached}
        reached = self._send(signal.Signals[how], late)
        if reached:
            self._note(how, time.time() + self.ladder.until - time.monotonic(), reached)

    def _continue(self, chosen: Mapping[int, int]) -> None:
        """Let whoever was paused by SIGSTOP go on: only then can it heed, and the waiter report."""
        waiter = self._processes.waiter
        ticks = None if waiter is None else start_ticks(waiter)
        held = dict(chosen)
        if waiter is not None and ticks is not None:
            held[waiter] = ticks
        for pid, began in held.items():
            if process_state(pid) == "T":
                signal_process(pid, began, signal.SIGCONT)

    def _note(self, how: str, until: float, reached: list[int]) -> None:
        append_event(self.run.supervisor_events, "stop", rung=how, until=until, signalled=reached)

    def _signal(self, how: str) -> list[int]:
        """Send the rung's signal to the plan's target, SIGKILL to all; return the pids reached."""
        if how == "stop-file":
            # The intent on disk is the stop file: programs that know it look for it themselves.
            return []
        return self._send(signal.Signals[how], self._chosen(how))

    def _chosen(self, how: str) -> Mapping[int, int]:
        if how == "SIGKILL":
            return self._processes.find(thorough=True)
        return self._processes.targets(self._target, self.run.leader_pid())

    def _send(self, number: int, chosen: Mapping[int, int]) -> list[int]:
        reached = [pid for pid, ticks in chosen.items() if signal_process(pid, ticks, number)]
        self._continue(chosen)
        self._reached.update(reached)
        if self._received is not None:
            self._received.update(pid for pid in reached if not ignores(pid, number))
        return reached
