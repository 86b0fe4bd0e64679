"""The watcher: judges how this host's live runs do, panel or not. One per state folder and host.

Any run's supervisor starts it once the run has lasted a while; it leaves when no run is left. What
it finds stands in each run's `health.json`, what the run said so far in `followed.mp`; what is new
and grave is an alert and a notice. It stops a run only where the run's own preset says so
(`on_stall: {stop: true}`). It says in time, too, that the limit of a run's Slurm job comes near.
"""

import json
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from runners.guard.keeper import ensure_preemption_watch
from runners.health.episodes import EpisodeTracker
from runners.health.judge import judge
from runners.health.observer import RunObserver
from runners.health.signs import Outlook, RunSigns
from runners.health.store import read_health
from runners.host.alone import run_alone
from runners.host.files import append_event, read_tail, replace
from runners.host.identity import host_name
from runners.host.procfs import all_marks
from runners.lifecycle.control.stop import request_stop
from runners.lifecycle.supervisor.queue_wait import notify
from runners.model.endings import Ending, EndingCause
from runners.model.errors import FresnelError
from runners.model.health import Condition, Finding, Health
from runners.model.run import Run
from runners.model.states import State
from runners.model.units import duration_text
from runners.state.boundary import cannot_be_read
from runners.state.deadline import JOB_LIMIT
from runners.state.jobs import read_job
from runners.state.layout import RunDirectory, StateDirectory
from runners.state.leases import live_run_ids
from runners.state.runs import read_run
from runners.state.trust import state_permission_problem
from runners.watch.appeared import Appearing, alone_in

if TYPE_CHECKING:
    from runners.diagnosis.stacks import StackDump

LONGEST_PAUSE_S = 10.0
_SHORTEST_PAUSE_S = 0.25
_BEHIND_BYTES = 1 << 20
_BEHIND_S = 1.0
_STEPS_BEFORE_STALL = 6
_LEAVES_AFTER = 2
"""Looks at an empty list of runs after which it leaves."""
CONDITION = "time limit"
_HOUR_S = 3600.0
_TAIL_BYTES = 1 << 20


class WatchedRun:
    """One live run: what is seen of it, and how its conditions go."""

    def __init__(self, state: StateDirectory, run: Run) -> None:
        self._directory = state.run(run.id)
        self._state = state
        self._observer = RunObserver(run, self._directory, follow=True)
        self._appearing = Appearing(run)
        self._attempt = run.record.attempt if run.record else 1
        before = read_health(self._directory.path)
        known = before is not None and before.attempt == self._attempt
        reported = [(before.condition, before.since)] if before is not None and known else []
        self._episodes = EpisodeTracker(reported)
        self._reminder = LimitReminder(self._directory)
        self._dump: StackDump | None = None
        self._stopped = False
        rule = run.plan.spec.on_stall if run.plan else None
        self.pause_s = LONGEST_PAUSE_S
        if rule is not None:
            self.pause_s = max(_SHORTEST_PAUSE_S, rule.after_s / _STEPS_BEFORE_STALL)

    @property
    def next_in_s(self) -> float:
        """Seconds until the next look: soon where output comes faster than it is read."""
        is_behind = self._observer.report.unread > _BEHIND_BYTES
        return min(_BEHIND_S, self.pause_s) if is_behind else self.pause_s

    def observe(self, run: Run, now: float, marked: Sequence[int], alone: bool) -> None:
        """Look once: write what is found, say what is new, act where the preset says so.

        `alone`: no other run works in its directory.
        """
        self._observer.report.printed.add(self._appearing.poll(alone, now))
        signs = self._observer.observe(run, now, marked)
        attempt = run.record.attempt if run.record else 1
        if attempt != self._attempt:
            self._attempt, self._episodes, self._dump = attempt, EpisodeTracker(), None
        health, news = self._episodes.take(judge(signs), now, attempt)
        stalled = health.condition is Condition.STALL
        if not stalled:
            self._dump = None
        elif self._dump is None:
            from runners.diagnosis.stacks import take_stacks  # few runs ever stall

            with suppress(OSError):
                self._dump = take_stacks(self._directory, "possible stall")
        health = self._with_signs(health, signs)
        for finding in news:
            self._report(finding, health)
        if text := self._reminder.due(signs.outlook, now):
            notify(self._directory, "alert", text)
        with suppress(OSError):  # a full disk: the run goes on, and is judged again
            replace(self._directory.health, msgspec.json.encode(health), sync=False)
        self._save()
        if stalled:
            self._stop_if_configured(run, health)

    def take_end(self, run: Run, alone: bool) -> None:
        """Read what it wrote last: for its report, and for those who ask before that is made."""
        found = self._appearing.poll(alone, time.time(), last=True)
        self._observer.report.printed.add(found)
        self._observer.report.poll(run, follow=True)
        self._save()
        if found:
            from runners.watch.metrics.final_maker import add_noted  # most print what they save

            add_noted(run)

    def _save(self) -> None:
        """Keep beside the run what is known of it; on a full disk the next look tries again."""
        with suppress(OSError):
            self._observer.report.printed.save()
        with suppress(OSError):
            self._observer.report.save()

    def _with_signs(self, health: Health, signs: RunSigns) -> Health:
        """With its ETA and what each rank does, and of a stall what its stacks show."""
        health, dump = msgspec.structs.replace(health, eta_s=signs.eta_s), self._dump
        if dump is None:
            return msgspec.structs.replace(health, ranks=signs.ranks)
        shown = dump.verdict or "; ".join(f"{rank.label}: {rank.text}" for rank in dump.ranks[:4])
        return msgspec.structs.replace(
            health,
            ranks=signs.ranks,
            evidence=(*([shown] if shown else []), *health.evidence),
            absent=dump.absent,
            stacks=dump.folder,
        )

    def _report(self, finding: Finding, health: Health) -> None:
        name, shown = str(finding.condition), health
        if finding.condition is not health.condition:
            shown = Health(finding.condition, finding.message, 0.0, 0.0, evidence=finding.evidence)
        rest = shown.evidence[1:] if shown.absent else shown.evidence
        advice = finding.condition.advice
        text = "; ".join((shown.sentence, *rest[:4], *([advice] if advice else [])))
        append_event(self._directory.supervisor_events, "alert", text=text, condition=name)
        notify(self._directory, "alert", text)

    def _stop_if_configured(self, run: Run, health: Health) -> None:
        rule = run.plan.spec.on_stall if run.plan else None
        if rule is None or not rule.stop or self._stopped or self._directory.stop.exists():
            return
        self._stopped = True
        with suppress(FresnelError, OSError):
            ending = Ending(cause=EndingCause.STALL, seconds=rule.after_s, detail=health.message)
            request_stop(self._state, run, ending=ending)


class Watcher:
    """All live runs of this host."""

    def __init__(self, state: StateDirectory) -> None:
        self.state = state
        self._watched: dict[str, WatchedRun] = {}
        self._troubles: set[str] = set()

    def run(self) -> None:
        """Watch until no run is left, or the state folder is gone."""
        empty = 0
        while empty < _LEAVES_AFTER and self.state.root.is_dir():
            pause = LONGEST_PAUSE_S
            try:
                pause = self.step(time.time())
                empty = 0 if self._watched else empty + 1
            except OSError as problem:  # which runs live cannot be told just now
                self._log(str(problem))
            time.sleep(pause)

    def step(self, now: float) -> float:
        """Look at every run once; seconds until the next look."""
        seen = set()
        with suppress(OSError):  # tried again at the next look
            ensure_preemption_watch(self.state)
        marks, runs = all_marks(), self._live()
        begun = [run for run in runs.values() if run.started is not None]
        alone = alone_in(begun)
        for run_id, run in runs.items():
            if not _is_watched(run):
                continue
            seen.add(run_id)
            with self._boundary(run_id, "its files"):
                if run_id not in self._watched:
                    self._watched[run_id] = WatchedRun(self.state, run)
                watched = self._watched[run_id]
                watched.observe(run, now, marks.get(run_id, []), run_id in alone)
        for run_id in self._watched.keys() - seen:
            self._leave(run_id, self._watched.pop(run_id), begun)
        return min(
            [watched.next_in_s for watched in self._watched.values()], default=LONGEST_PAUSE_S
        )

    def _live(self) -> dict[str, Run]:
        runs: dict[str, Run] = {}
        for run_id in live_run_ids(self.state):
            with self._boundary(run_id, "its files"):
                runs[run_id] = read_run(self.state, run_id)
        return runs

    def _leave(self, run_id: str, watched: WatchedRun, begun: Sequence[Run]) -> None:
        with self._boundary(run_id, "its end"):
            if self.state.run(run_id).path.is_dir():
                run = read_run(self.state, run_id)
                others = [other for other in begun if other.id != run_id]
                watched.take_end(run, run_id in alone_in([*others, run]))

    @contextmanager
    def _boundary(self, run_id: str, what: str) -> Iterator[None]:
        """One run's files never end the watch over the others."""
        try:
            yield
        except Exception as problem:
            self._log(f"{run_id}: {cannot_be_read(what, problem)}")

    def _log(self, problem: str) -> None:
        """What it cannot read, once, into its log."""
        if problem not in self._troubles:
            self._troubles.add(problem)
            print(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {problem}", file=sys.stderr, flush=True)


def _is_watched(run: Run) -> bool:
    """A run of this host whose program runs and is not being stopped."""
    ours = run.record is not None and run.record.host in ("", host_name())
    return run.state is State.RUNNING and ours and run.started is not None


def main() -> None:
    """Detach, then watch the state folder named on the command line; leave where another does."""
    state = StateDirectory(Path(sys.argv[-1]))
    reason = state_permission_problem(state)
    if reason:
        sys.exit(f"refused: {reason}")
    run_alone(state.watcher_lock, lambda: Watcher(state).run())


class LimitReminder:
    """The reminders of a run: what was said stands in its events, for the next watcher too."""

    def __init__(self, directory: RunDirectory) -> None:
        self._directory = directory
        self._given = set(_given(directory))

    def due(self, outlook: Outlook | None, now: float) -> str:
        """What is to be said at `now` (unix seconds), noted as said from then on; empty: nothing.

        Each of the two once for each time that the job began.
        """
        note = read_job(self._directory)
        if outlook is None or outlook.deadline.limit != JOB_LIMIT:
            return ""
        left = outlook.deadline.in_s
        if note is None or note.began is None or left <= 0:
            return ""
        half = (now - note.began + left) / 2
        # Of a short limit its half is all that is said.
        moments = {"half": half, "hour": min(half, _HOUR_S)}
        due = {(name, note.began) for name, before in moments.items() if left <= before}
        if not due - self._given:
            return ""
        text = _text(outlook, self._directory.id)
        for name, began in due - self._given:
            events = self._directory.supervisor_events
            append_event(events, "alert", text=text, condition=CONDITION, limit=name, began=began)
        self._given |= due
        return text


def _text(outlook: Outlook, run: str) -> str:
    text = f"ends in {duration_text(outlook.deadline.in_s)} at {JOB_LIMIT}"
    if outlook.fraction is not None:
        text += f", {100 * outlook.fraction:.0f} % done"
    if outlook.eta_s is None or outlook.eta_s <= outlook.deadline.in_s:
        return text
    if not outlook.deadline.is_final:
        return f"{text}, and begins anew"
    more = max(1, round((outlook.eta_s - outlook.deadline.in_s) * 1.1 / 60))
    return (
        f"{text}, needs {duration_text(outlook.eta_s)} more: `fresnel-tui extend {run} {more}m` "
        "(in the panel +, an hour) raises it, where Slurm allows that"
    )


def _given(directory: RunDirectory) -> Iterator[tuple[str, float]]:
    for line in read_tail(directory.supervisor_events, _TAIL_BYTES).splitlines():
        if CONDITION.encode() in line:
            with suppress(ValueError, KeyError, TypeError):
                event = json.loads(line)
                if event["condition"] == CONDITION:
                    yield str(event["limit"]), float(event["began"])
