"""What a supervisor records of its run: `state.json`, and its ending wherever one is kept.

Of a run whose end nobody saw, when it was alive last: by the boot's clock where that is known.
"""

import json
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from runners.host.clock import Moment, moment_after, moment_now
from runners.host.exit_status import read_exit_status
from runners.host.files import append_event, is_gone, modified_at, read_tail, write_json
from runners.host.identity import boot_id, host_name
from runners.host.procfs import start_ticks
from runners.lifecycle.supervisor.kept_environment import forget_all, place_of
from runners.lifecycle.supervisor.ledger_entry import append_run
from runners.lifecycle.supervisor.queue_wait import notify, summarize
from runners.model.endings import Ending, ending_text
from runners.model.states import State, check_transition
from runners.state.layout import RunDirectory
from runners.state.records import PlanFields, RecordFields

_RETRY_WRITE_S = 2.0
_SIGNS = ("output.log", "events.jsonl", "usage.json", "exit")
_BETWEEN_LINES_S = 20.0
"""Twice what is between two lines of gpus.jsonl, which have both clocks."""
_SAME_CLOCK_S = 1.0


class RecordKeeper:
    """The record of one run as its supervisor last wrote it; nobody else writes it."""

    def __init__(self, directory: RunDirectory, record: RecordFields) -> None:
        self.directory = directory
        self.record = record
        self._kept_in = place_of(directory)
        self.check: Callable[[], None] = lambda: None
        """Raises before anything is recorded that is no longer ours to record."""
        self.unobserved = False  # the program ended while no supervisor ran
        self._reported: set[tuple[State, State]] = set()

    def began(self) -> Moment:
        """When the first attempt started, by the boot's time too where it is recorded."""
        began = self.record.get("began")
        return Moment(*began) if began else Moment(self.record.get("started") or time.time())

    def write(self, changes: RecordFields) -> bool:
        """Replace state.json by the record with `changes`; False when the disk refuses.

        The run goes on then. A transition that should not happen is reported as an alert,
        never refused: it has happened.
        """
        self.check()
        before, after = self.record.get("state"), changes.get("state")
        if before is not None and after is not None and (before, after) not in self._reported:
            try:
                check_transition(before, after)
            except ValueError as error:
                self._reported.add((before, after))
                append_event(self.directory.supervisor_events, "alert", text=str(error))
        # Kept in memory although the disk may refuse: the next write carries this change too.
        self.record = {**self.record, **changes, "host": host_name(), "boot_id": boot_id()}
        self.record["supervisor_pid"] = os.getpid()
        self.record["leader_pid"] = self.directory.leader_pid()
        try:
            write_json(self.directory.state, self.record)
        except OSError:
            return False
        return True

    def end(
        self,
        plan: PlanFields,
        state: State,
        ending: Ending,
        code: int | None = None,
        left: Sequence[int] = (),
    ) -> None:
        """Record the ending, and remove the run from the live ones once the disk took it.

        Processes in `left` are still alive: their run still holds its GPUs.
        """
        self.check()
        forget_all(self.directory, self._kept_in)
        events = self.directory.supervisor_events
        append_event(events, "state", state=state, ending=ending, exit_code=code)
        changes: RecordFields = {
            "state": state,
            "ending": ending,
            "exit_code": code,
            "reason": "",
            "stop": None,
            "next_attempt": None,
            "next_at": None,
            "ended": time.time(),
            "finished": moment_now(),
        }
        if self.unobserved:
            changes["seen"] = last_sign(self.directory, self.record, moment_now())
        if left:
            # With the start time, because a lease rests on them: a pid may be used again.
            pairs = [(pid, start_ticks(pid)) for pid in left]
            changes["followed"] = [(pid, ticks) for pid, ticks in pairs if ticks is not None]
            # Before the ending is recorded: after it, nothing else keeps others off these GPUs.
            self._mark_held()
        while not self.write(changes):
            if is_gone(self.directory.path):
                break  # there is nowhere left to record it
            time.sleep(_RETRY_WRITE_S)
        # Ledger before marker: killed in between, the next supervisor finds the run
        # live and enters it again, and a second line of one run counts once. The other
        # way round the money would be lost.
        append_run(self.directory, plan, self.record)
        self.directory.home.live_marker(self.directory.id).unlink(missing_ok=True)
        if is_gone(self.directory.path):
            return  # who removed it need not be told how it ended
        text = ending_text(ending, code) if ending else ""
        notify(self.directory, state, f"{state}: {text}" if text else str(state))
        if self.record.get("started"):
            summarize(self.directory)

    def _mark_held(self) -> None:
        """Keep the run's GPUs leased although it has ended."""
        home = self.directory.home
        with suppress(OSError):  # a full disk: the alert and the reason still say so
            home.held.mkdir(mode=0o700, exist_ok=True)
            home.held_marker(self.directory.id).touch(mode=0o600)


def last_sign(run: RunDirectory, record: RecordFields, now: Moment) -> Moment | float:
    """The last sign of life, not before its start: unix seconds where the boot's time is unknown.

    A program's end is exact by its waiter. Files have wall times: they are understood by what was
    noted by both clocks, before and after, as long as those agree.
    """
    exited = read_exit_status(run.exit)
    if exited is not None and exited.moment is not None:
        return exited.moment
    started = float(record.get("started") or 0.0)
    began = Moment(*(record.get("began") or (started,)))
    signs = [modified_at(run.path / name) for name in _SIGNS]
    # An attempt after a boot has its lines by another boot's time than it began by.
    line = _last_line(run, began) if record.get("attempt", 1) == 1 else None
    return place_signs(began, line, [sign for sign in signs if sign > 0.0], now)


def place_signs(
    began: Moment, line: Moment | None, signs: Sequence[float], now: Moment
) -> Moment | float:
    """The last of wall times (`signs`) of a run that began and was noted in `line`."""
    latest = max([began.wall, *([line.wall] if line is not None else []), *signs])
    if began.boot_ns is None:
        return latest
    if line is not None:
        # A file that is older than the line may have a later time, if the clock was set back.
        signs = [sign for sign in signs if not _is_before(sign, began, line)]
        after = max((sign - line.wall for sign in signs), default=0.0)
        if after <= _BETWEEN_LINES_S:
            return moment_after(line, max(0.0, after))
    is_later = now.boot == began.boot and now.boot_ns is not None
    found = (began, line, now if is_later else None)
    noted = [moment for moment in found if moment is not None]
    offsets = [moment.wall - (moment.boot_ns or 0) / 1e9 for moment in noted]
    is_one_clock = max(offsets) - min(offsets) <= _SAME_CLOCK_S
    if len(noted) < 2 or not is_one_clock or latest > noted[-1].wall + _SAME_CLOCK_S:
        return latest
    return moment_after(began, max(0.0, latest - began.wall))


def _is_before(sign: float, began: Moment, line: Moment) -> bool:
    """Whether a time is before a line by the clock that the run began by, and not just after it."""
    if 0.0 <= sign - line.wall <= _BETWEEN_LINES_S:
        return False
    return (began.boot_ns or 0) + (sign - began.wall) * 1e9 <= (line.boot_ns or 0)


def _last_line(run: RunDirectory, began: Moment) -> Moment | None:
    """The newest whole line of gpus.jsonl, which says both times; None where there is none."""
    *_, line = (b"", *read_tail(run.path / "gpus.jsonl", 1 << 16).split(b"\n")[:-1])
    try:
        value = json.loads(line)
        wall, up_ns = float(value["time"]), round(float(value["uptime"]) * 1e9)
    except (ValueError, TypeError, KeyError, OverflowError):
        return None
    return Moment(wall, began.boot, up_ns) if up_ns >= (began.boot_ns or 0) else None
