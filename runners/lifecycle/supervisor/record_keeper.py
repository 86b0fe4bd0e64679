"""What a supervisor records of its run: `state.json`, and its ending wherever one is kept."""

import os
import time
from collections.abc import Callable, Sequence

from runners.host.clock import Moment, moment_now
from runners.host.files import append_event, is_gone, write_json
from runners.host.identity import boot_id, host_name
from runners.host.procfs import start_ticks
from runners.lifecycle.supervisor.kept_environment import forget_all, place_of
from runners.lifecycle.supervisor.last_sign import last_sign
from runners.lifecycle.supervisor.ledger_entry import append_run
from runners.lifecycle.supervisor.queue_wait import notify, summarize
from runners.model.endings import Ending, ending_text
from runners.model.states import State, check_transition
from runners.state.layout import RunDirectory
from runners.state.records import PlanFields, RecordFields

_RETRY_WRITE_S = 2.0


def _nothing() -> None:
    pass


class RecordKeeper:
    """The record of one run as its supervisor last wrote it; nobody else writes it."""

    def __init__(self, directory: RunDirectory, record: RecordFields) -> None:
        self.directory = directory
        self.record = record
        self._kept_in = place_of(directory)
        self.check: Callable[[], None] = _nothing
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
        try:
            home.held.mkdir(mode=0o700, exist_ok=True)
            home.held_marker(self.directory.id).touch(mode=0o600)
        except OSError:
            pass  # a full disk: the alert and the reason still say so
