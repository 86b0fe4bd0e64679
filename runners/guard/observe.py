"""What the guard observes: the session's money and age, the runs and their GPUs, its commands."""

from collections.abc import Sequence
from decimal import Decimal
from itertools import islice

from msgspec.structs import replace

from runners.cost.accounting import to_decimal
from runners.cost.cost_reader import CostReader
from runners.cost.ledger import Ledger
from runners.cost.sessions import is_damaged, read_session
from runners.gpus.usage import interval_file
from runners.guard.claims import END, marker_of, read_claim
from runners.guard.idleness import (
    by_uptime,
    is_unmeasured,
    judge_idleness,
    trains_since,
    uptime_s,
)
from runners.guard.next_step import Observation
from runners.guard.rule import GuardRule, GuardState, Stage
from runners.guard.triggers import Measurements, find_problems, is_blind, triggered
from runners.host.clock import Moment
from runners.host.files import read_tail
from runners.host.identity import host_name
from runners.host.suspension import awake_between, read_suspensions, suspended_between
from runners.lifecycle.control.fetched import removed_unfetched, unfetched_runs
from runners.model.gpus import UsageInterval
from runners.model.run import Run
from runners.model.states import State
from runners.state.boundary import note_unreadable
from runners.state.codec import read_waits
from runners.state.decoding import decode_lines
from runners.state.layout import RunDirectory, StateDirectory
from runners.state.leases import home_of, live_run_ids
from runners.state.runs import read_run
from runners.watch.metrics.epoch_timing import read_epoch_timing

_TAIL_BYTES = 1 << 20
_RECENT_ENDINGS = 50


class GuardObserver:
    """Looks at one state folder repeatedly; what it cannot read is a problem, never a reason."""

    def __init__(self, state: StateDirectory) -> None:
        self.state = state
        self.costs = CostReader(state)
        self._ledger = Ledger(state)

    def observe(
        self, rule: GuardRule, before: GuardState | None, now: Moment, trouble: tuple[str, ...]
    ) -> Observation:
        """What the guard sees at `now`; `trouble` came of its last action. OSError if nothing."""
        runs = self.live_runs()
        facts = self._facts(rule, runs, now)
        stage = before.stage if before is not None and before.rule == rule.id else Stage.WATCHING
        unfetched: list[str] = []
        # Only where the answer matters: every ended run is read for it.
        if rule.destroys and stage in (Stage.STOPPING, Stage.HOLDING, Stage.ENDING):
            unfetched = [run.id for run in unfetched_runs(self.state)]
            unfetched += removed_unfetched(self.state)
        return Observation(
            now,
            triggered(rule, facts),
            (*find_problems(rule, facts), *trouble),
            tuple(run.id for run in runs),
            tuple(unfetched),
            read_claim(marker_of(self.state, rule.id, END)),
            is_blind(rule, facts),
            self._suspended_s(before, now),
        )

    def _suspended_s(self, before: GuardState | None, now: Moment) -> float:
        """Seconds in suspend since the guard's stage began."""
        if before is None or before.since is None:
            return 0.0
        return suspended_between(before.since, now, read_suspensions(self.state.suspensions))

    def live_runs(self) -> list[Run]:
        """This host's runs whose ending is not recorded; one that cannot be read counts as live."""
        runs = [read_run(self.state, run_id) for run_id in live_run_ids(self.state)]
        return [
            run
            for run in runs
            # A marker whose folder was deleted by hand must not prevent the end command.
            if home_of(run) == host_name() and self.state.run(run.id).path.is_dir()
        ]

    def _facts(self, rule: GuardRule, runs: list[Run], now: Moment) -> Measurements:
        idle, unmeasured = (None, ()) if rule.idle_s is None else self._idle(rule, runs, now)
        facts = Measurements(
            quiet_s=self._quiet_s(rule, runs, now),
            idle=idle,
            unmeasured=unmeasured,
            queued=_held_off(rule, runs, now),
        )
        if is_damaged(self.state):
            problem = f"{self.state.session} cannot be read: nothing is known of the session"
            return replace(facts, problems=(problem,))
        session = read_session(self.state)
        if session is None:
            # Without a session the machine's own boot is the best guess at when its bill began.
            return replace(facts, age_s=None if now.boot_ns is None else now.boot_ns / 1e9)
        account = self.costs.read(runs, now, whole=True).account
        return replace(
            facts,
            spent=None if account is None else to_decimal(account.total),
            rate=session.rate,
            budget=None if session.budget is None else Decimal(session.budget),
            age_s=None if account is None else account.lasted_s,
            price=session.price,
        )

    def _quiet_s(self, rule: GuardRule, runs: Sequence[Run], now: Moment) -> float | None:
        """Seconds awake in this boot since this host's last run ended, or the guard was set.

        None when the ledger cannot be read. A run that can never start does not count as a run.
        """
        if any(not self._waits_in_vain(run) for run in runs):
            return 0.0
        self._ledger.poll()
        if self._ledger.problem:
            return None
        session = read_session(self.state)
        moments = [rule.set_at, *([session.start] if session is not None else [])]
        # Other hosts share the ledger: their runs do not keep this machine busy.
        mine = (line for line in reversed(self._ledger.runs.values()) if line.host == host_name())
        endings = (line.finished for line in islice(mine, _RECENT_ENDINGS))
        moments += [moment for moment in endings if moment is not None]
        # Hours without power are not idle hours: at most this boot's count, and those in suspend
        # do not either.
        suspended = read_suspensions(self.state.suspensions)
        return min(uptime_s(now), *(awake_between(moment, now, suspended) for moment in moments))

    def _waits_in_vain(self, run: Run) -> bool:
        """True for a queued run that cannot start: impossible to grant, or the queue is drained."""
        if run.state is not State.QUEUED:
            return False
        if self.state.drain.exists():
            return True
        waits = read_waits(self.state.run(run.id))
        return waits is not None and waits.never

    def _idle(
        self, rule: GuardRule, runs: list[Run], now: Moment
    ) -> tuple[bool | None, tuple[str, ...]]:
        """Whether all that train idle their GPUs (on the CPU they work), and those not measured."""
        verdicts: list[bool | None] = []
        unmeasured: list[str] = []
        for run in runs:
            if run.state is not State.RUNNING or run.plan is None or run.begin is None:
                continue
            if not run.plan.gpus:
                return False, ()
            directory = self.state.run(run.id)
            try:
                ends = read_epoch_timing(directory.path).ends
            except Exception as error:  # one odd file: nothing is known of this run
                note_unreadable(directory.path, "events.jsonl", error)
                verdicts.append(None)
                unmeasured.append(run.id)
                continue
            first = ends[0][1] if ends else None
            warm = trains_since(run.begin, first, rule.warm_up_s, now)
            uuids = [gpu.uuid for gpu in run.plan.gpus_here]
            intervals = by_uptime(_read_intervals(directory), now)
            lasts = rule.idle_s or 0.0
            verdicts.append(judge_idleness(intervals, uuids, uptime_s(now), lasts, warm))
            if is_unmeasured(intervals, uptime_s(now), lasts, warm):
                unmeasured.append(run.id)
        # One run of which nothing is known is enough not to act.
        idle = None if not verdicts or None in verdicts else all(verdicts)
        return idle, tuple(unmeasured)


def _held_off(rule: GuardRule, runs: Sequence[Run], now: Moment) -> tuple[str, ...]:
    """Runs that wait for so long that the machine would be quiet, if no run ran beside them."""
    if rule.no_run_s is None or any(run.state is not State.QUEUED for run in runs):
        return ()
    return tuple(run.id for run in runs if now.wall - run.created >= rule.no_run_s)


def _read_intervals(run: RunDirectory) -> list[UsageInterval]:
    """The last of a run's intervals, oldest first: a MiB of them is more than half a day."""
    lines = read_tail(interval_file(run.path), _TAIL_BYTES).split(b"\n")
    return list(decode_lines(lines, UsageInterval))
