"""Watches for the provider's notice that it takes this machine away, and acts on it in time.

One process per state folder and host, only where the settings allow the metadata service to be
asked (`metadata: true`), while runs live or a session is open. Every live run is asked to stop by
its ladder, shortened to the time that is left; what is not fetched is named.
"""

import sys
import time
from contextlib import suppress
from pathlib import Path

import msgspec

from runners.cost.cloud import allowed_base, find_instance
from runners.cost.cloud_notices import PROVIDERS, CloudNotice, Unanswered, ask_notice
from runners.cost.preemption import Preemption, read_preemption, write_preemption
from runners.cost.sessions import read_session
from runners.host import helpers
from runners.host.alone import run_alone
from runners.host.clock import Moment, moment_after, moment_now, seconds_between
from runners.host.files import append_event
from runners.host.identity import host_name
from runners.lifecycle.control.fetched import removed_unfetched, unfetched_runs
from runners.lifecycle.control.stop import request_stop
from runners.model.endings import Ending, EndingCause
from runners.model.errors import FresnelError
from runners.model.masking import mask_text
from runners.model.run import Run
from runners.state.layout import StateDirectory, settings_file
from runners.state.leases import home_of, live_run_ids
from runners.state.runs import read_run
from runners.state.trust import state_permission_problem

EVERY_S = 5.0
"""As often as AWS recommends; the other two leave 30 s."""
_LONGEST_S = 20.0
_LONGEST_UNKNOWN_S = 300.0
_LEAVES_AFTER = 3
_LEAST_S = 10.0
"""A run gets so long even where the machine should be gone: nobody knows to the second."""
_RESERVED_S = 5.0
_RESERVED_PART = 0.2
"""Of the time that is left, for recording how the runs ended."""


class PreemptionWatch:
    """Asks again and again, seldom where nobody answers; keeps what is announced."""

    def __init__(self, state: StateDirectory) -> None:
        self.state = state
        self._provider = ""
        self._pause_s = EVERY_S
        self._hurried: dict[str, Moment] = {}
        """By run: the deadline that it was given."""

    def run(self) -> None:
        """Watch while there is something to be lost, and asking is allowed."""
        idle = 0
        while idle < _LEAVES_AFTER and self.state.root.is_dir():
            base = allowed_base()
            pause = EVERY_S
            try:
                idle = 0 if base and has_something_to_lose(self.state) else idle + 1
                pause = self.step(base) if base else EVERY_S
            except OSError as error:  # which runs live cannot be told just now
                _log(str(error))
            time.sleep(pause)

    def step(self, base: str) -> float:
        """Ask once, and act; seconds until the next time."""
        if not self._provider:
            found = find_instance()
            if found is None:
                return self._back_off(_LONGEST_UNKNOWN_S)
            self._provider, self._pause_s = found.provider, EVERY_S
        if self._provider not in PROVIDERS:
            return _LONGEST_UNKNOWN_S  # this one announces nothing
        now = moment_now()
        try:
            notice = ask_notice(self._provider, base, now.wall)
        except Unanswered:
            # Out of reach: what was announced before goes on.
            self._act(read_preemption(self.state), now)
            return self._back_off(_LONGEST_S)
        self._pause_s = EVERY_S
        self._act(self._take(notice, now), now)
        return EVERY_S

    def _back_off(self, longest_s: float) -> float:
        pause, self._pause_s = self._pause_s, min(longest_s, 2 * self._pause_s)
        return pause

    def _take(self, notice: CloudNotice | None, now: Moment) -> Preemption | None:
        """Write down what is announced now; None when nothing is, or no longer."""
        before = read_preemption(self.state)
        if notice is None:
            if before is not None:
                self.state.preemption.unlink(missing_ok=True)
                self._announce(f"{before.provider}: {before.action} is no longer announced")
            return None
        ends = None if notice.left_s is None else moment_after(now, notice.left_s)
        if before is None or before.action != notice.action:
            before = Preemption(
                self._provider, notice.action, now, ends, notice.ends_bill, unfetched=self._left()
            )
        # The first answer counts where no moment is given: it is not put off by asking again.
        elif before.ends is not None and ends is not None:
            ends = min(before.ends, ends, key=lambda moment: moment.boot_ns or 0)
        # Every run is read for it: again only while they end.
        left = before.unfetched if ends is None else self._left(before.unfetched)
        found = msgspec.structs.replace(before, ends=ends, last_seen=now, unfetched=left)
        with suppress(OSError):  # a full disk: the runs are stopped all the same
            write_preemption(self.state, found)
        return found

    def _act(self, found: Preemption | None, now: Moment) -> None:
        if found is None:
            return
        if found.ends is not None:
            self._stop_runs(found, now)
        if not found.announced:
            with suppress(OSError):
                write_preemption(self.state, msgspec.structs.replace(found, announced=True))
            self._announce(found.describe(now))

    def _stop_runs(self, found: Preemption, now: Moment) -> None:
        """Ask every live run to stop in the time that is left, each once."""
        assert found.ends is not None
        left = max(_LEAST_S, seconds_between(now, found.ends))
        deadline = moment_after(now, left - min(_RESERVED_S, _RESERVED_PART * left))
        ending = Ending(cause=EndingCause.PREEMPTED, detail=found.describe(now).partition(";")[0])
        for run_id in live_run_ids(self.state):
            if run_id in self._hurried:
                continue
            try:
                run = read_run(self.state, run_id)
                if home_of(run) != host_name() or _waits_for_machine(run):
                    continue
                request_stop(self.state, run, ending=ending, deadline=deadline)
                self._hurried[run_id] = deadline
            except (FresnelError, OSError) as error:
                _log(f"{run_id} cannot be stopped: {error}")

    def _left(self, known: tuple[str, ...] = ()) -> tuple[str, ...]:
        """What is not fetched."""
        try:
            runs = [run.id for run in unfetched_runs(self.state)]
            return (*runs, *removed_unfetched(self.state))
        except OSError:
            return known

    def _announce(self, text: str) -> None:
        append_event(self.state.host / "notices.jsonl", "preempted", text=text)
        _log(text)
        if settings_file().is_file():
            with suppress(OSError):
                helpers.spawn("notify", self.state.root, "", "preempted", mask_text(text))


def _waits_for_machine(run: Run) -> bool:
    """True for one that goes on after a boot, and has nothing that could be stopped before it."""
    survives = run.plan is not None and run.plan.spec.restart.boot
    return survives and run.state.is_unstarted


def has_something_to_lose(state: StateDirectory) -> bool:
    """Whether runs live on this host, or a session is open."""
    return bool(live_run_ids(state)) or read_session(state) is not None


def _log(text: str) -> None:
    with suppress(OSError):
        print(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {text}", file=sys.stderr, flush=True)


def main() -> None:
    """Detach, then watch the state folder named on the command line; leave where another does."""
    state = StateDirectory(Path(sys.argv[-1]))
    reason = state_permission_problem(state)
    if reason:
        sys.exit(f"refused: {reason}")
    run_alone(state.preemption_lock, lambda: PreemptionWatch(state).run())
