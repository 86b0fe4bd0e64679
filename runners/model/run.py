"""A run as front ends see it: what is recorded on disk, and the status derived from it."""

import msgspec

from runners.host.clock import Moment, elapsed
from runners.model.endings import Ending, EndingCause
from runners.model.metric_rule import BestMetric
from runners.model.plan import LaunchPlan
from runners.model.states import State

_LONGEST_S = 1e9


class Labels(msgspec.Struct, frozen=True):
    """What people add to a run, as in labels.json.

    `name` replaces the one of the launch unless it is empty.
    """

    name: str = ""
    tags: tuple[str, ...] = ()
    note: str = ""
    starred: bool = False
    best: BestMetric | None = None
    """What the run is judged by, in place of what its preset says."""


NO_LABELS = Labels()


class StopProgress(msgspec.Struct, frozen=True):
    """How far a stop is: the rung, its place on the ladder, and when the next comes (unix s)."""

    rung: str
    step: int
    steps: int
    until: float
    asked_by: str = ""
    asked_at: float = 0.0


class RunRecord(msgspec.Struct, frozen=True):
    """What the supervisor writes to state.json. `reason` is said of a live run, `ending` of others.

    `began` and `finished` are `started` and `ended` with the boot's own time. `seen` is the last
    sign of life of a run whose end nobody saw (unix seconds where nothing else is known). Between
    two attempts, `next_attempt` is the number of the coming one and `next_at` when it is due (unix
    seconds). `followed` are the run's processes without its mark, by pid and start in clock ticks
    since boot; `cgroup` is the control group of the run's own systemd scope, when it has one.
    """

    state: State
    reason: str = ""
    attempt: int = 1
    host: str = ""
    boot_id: str = ""
    supervisor_pid: int | None = None
    waiter_pid: int | None = None
    # The pid alone may be in use again by the time somebody reads it; with
    # its start it is one process.
    waiter_ticks: int | None = None
    leader_pid: int | None = None
    started: float | None = None
    ended: float | None = None
    exit_code: int | None = None
    stop: StopProgress | None = None
    began: Moment | None = None
    finished: Moment | None = None
    seen: Moment | float | None = None
    next_attempt: int | None = None
    next_at: float | None = None
    followed: tuple[tuple[int, int], ...] = ()
    cgroup: str = ""
    ending: Ending | None = None


class StopIntent(msgspec.Struct):
    """The durable request to stop a run: stop.json. Each of the `requests` moves one rung further.

    `ending` is what will be recorded of the run, as far as it is known when the stop is asked for.
    """

    time: float
    by: str
    requests: int = 1
    force: bool = False
    ending: Ending = msgspec.field(default_factory=lambda: Ending(cause=EndingCause.STOPPED))
    deadline: Moment | None = None
    """When its machine will be gone: by then every rung has had its part of the time."""


class Pause(msgspec.Struct, frozen=True):
    """Who paused a run, and when (unix seconds); nobody of us where `by` is empty: pause.json.

    `switches` is how often its program had been scheduled by then: more, and it has run since.
    """

    by: str = ""
    time: float = 0.0
    switches: int | None = None


class QueueStatus(msgspec.Struct, frozen=True):
    """Why a queued run waits, in words, and its place in the queue (from 1).

    `never` when it can never be granted what it asks for.
    """

    reason: str
    place: int
    time: float
    never: bool = False


class Checkpoint(msgspec.Struct, frozen=True):
    """A checkpoint file seen on disk: size in bytes, modification time in unix seconds."""

    path: str
    bytes: int
    modified: float


class Progress(msgspec.Struct, frozen=True):
    """How far a run is, by its own events or output; unknown is None.

    `rate` is its recent pace per second in `rate_unit`: samples, images …, or steps where no more
    is known. `counted` says what `step` and `steps` count.
    """

    epoch: int | None = None
    epochs: int | None = None
    step: int | None = None
    steps: int | None = None
    fraction: float | None = None
    eta_s: float | None = None
    phase: str | None = None
    rate: float | None = None
    rate_unit: str = ""
    counted: str = "steps"


class Run(msgspec.Struct, frozen=True):
    """One run as it is now; times in unix seconds. `ending` is how it ended, `reason` in words."""

    id: str
    preset: str
    name: str
    state: State
    reason: str
    directory: str
    created: float
    plan: LaunchPlan | None = None
    record: RunRecord | None = None
    ending: Ending | None = None
    pause: Pause | None = None
    """Set while its program is stopped by SIGSTOP."""
    labels: Labels = NO_LABELS
    """What people added to it; `name` is the one they gave it, else that of its launch."""
    problem: str = ""
    """What of its records cannot be read, with the file; empty when all can."""

    @property
    def is_live(self) -> bool:
        """True while the run may still change."""
        return self.state.is_live

    @property
    def totals(self) -> tuple[int | None, int | None]:
        """How many epochs and steps its preset says it has; None where it does not say."""
        return (self.plan.total_epochs, self.plan.total_steps) if self.plan else (None, None)

    @property
    def started(self) -> float | None:
        """When its program started, or None."""
        return self.record.started if self.record else None

    @property
    def ended(self) -> float | None:
        """When its ending was recorded, or None."""
        return self.record.ended if self.record else None

    @property
    def exit_code(self) -> int | None:
        """Its program's exit status; None while it runs or when unknown."""
        # While a run lives, the recorded code is that of its attempt before.
        return self.record.exit_code if self.record and not self.is_live else None

    @property
    def begin(self) -> Moment | None:
        """When its program started, or None."""
        record = self.record
        if record is None or record.started is None:
            return None
        return record.began or Moment(record.started)

    @property
    def end(self) -> Moment | None:
        """When it ended, as far as anybody saw; None while it is live."""
        record = self.record
        if record is None or record.ended is None:
            return None
        if isinstance(record.seen, Moment):
            return record.seen
        if record.seen is not None:
            # Nobody saw the end: the run is charged up to its last sign of life,
            # not until it was found dead.
            return _before(record.finished, max(0.0, record.ended - record.seen), record.began) or (
                Moment(min(record.seen, record.ended))
            )
        return record.finished or Moment(record.ended)

    def unreadable(self, problem: str) -> "Run":
        """What is left of it where its own values raise: no plan, no record, and why."""
        problem = "; ".join(text for text in (self.problem, problem) if text)
        nothing = dict.fromkeys(("plan", "record", "ending", "pause"))
        return msgspec.structs.replace(self, **nothing, labels=NO_LABELS, problem=problem)

    def seconds(self, now: Moment | float) -> float | None:
        """How long it has run, or ran, in seconds; None when it never started, or is not known.

        By the boot's own time when `now` is a Moment.
        """
        begin = self.begin
        if begin is None:
            return None
        return elapsed(begin, self.end or (now if isinstance(now, Moment) else Moment(now)))


def _before(moment: Moment | None, seconds: float, began: Moment | None) -> Moment | None:
    """So long before a moment, but not before `began`; None unless both are of one boot."""
    if moment is None or moment.boot_ns is None or began is None or began.boot_ns is None:
        return None
    if not began.boot or began.boot != moment.boot:
        return None
    boot_ns = max(began.boot_ns, moment.boot_ns - int(min(seconds, _LONGEST_S) * 1e9))
    return Moment(moment.wall - seconds, moment.boot, boot_ns)
