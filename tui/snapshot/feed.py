"""The feed: takes snapshots of everything the panel shows. A thread reads, widgets draw."""

import asyncio
import os
import time
from collections.abc import AsyncGenerator, Collection
from concurrent.futures import CancelledError, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from threading import Event
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import msgspec

from runners.cost.cost_reader import CostReader
from runners.cost.meter import Meter, read_meter
from runners.cost.run_costs import Costs
from runners.cost.sessions import Session
from runners.gpus.client import announce_reader, ensure_sampler, latest
from runners.guard.reserved import disk_is_full
from runners.guard.rule import GuardView, read_guard
from runners.host.clock import moment_now
from runners.host.files import is_gone
from runners.host.identity import host_name
from runners.model.errors import FresnelError, sentence_of
from runners.model.gpus import UNREAD, GpuReading, GpuSnapshot
from runners.model.plan import is_job
from runners.model.run import Run
from runners.model.states import State
from runners.state.decoding import SETTLED_S, keep_what_is_read
from runners.state.labels_file import labels_stamp, with_labels
from runners.state.layout import StateDirectory
from runners.state.leases import Lease, held_leases, live_run_ids
from runners.state.live_letters import live_letters
from runners.state.runs import list_run_ids, list_runs, read_run
from runners.watch.metrics.live import LiveReport
from tui.views.runs.ended_index import EndedIndex, EndedRows
from tui.views.runs.run_view import RunView, view_run

if TYPE_CHECKING:
    from runners.state.job_status import WaitingJobs

_SHOWN_ENDED = 100
_FIRST_LIVE = 100  # of those that wait
_FIRST_SHOWN = 16  # rows of a first screen; what ended before follows at once
_EVERY_S = 1.0
_FIRST_WITHIN_S = 0.05
_PAINTED_S = 0.2  # by then the first screen stands; what it does not show is read afterwards
_ADOPT_EVERY = 3
_OVERRUNS_EVERY = 30
_VERIFY_EVERY = 120
_READ_FOR_S = 0.25  # at a time, of rows that no kept file has: snapshots go on meanwhile
_AT_ONCE_S = 0.01
_POLL_MS = 150  # between looks for runs that come or end: each costs an idle panel processor time
_COSTS_EVERY_S = 30.0
_REPORT_WITHIN_S = 60.0  # of its end a helper has written a run's last report, or died


class PanelSnapshot(msgspec.Struct, frozen=True):
    """Everything the panel shows at one moment; `letters` are those of live runs in every pane.

    `runs` are the live ones and the newest that ended, in full; `ended` are the rows of all
    that ended.
    """

    time: float
    host: str
    runs: tuple[RunView, ...]
    letters: dict[str, str]
    reading: GpuReading | None
    leases: dict[str, list[Lease]]
    session: Session | None
    meter: Meter
    hidden: int
    problem: str = ""
    guard: GuardView | None = None
    drained: str = ""
    """Since when nothing may start, in words; empty when things may."""
    ended: EndedRows = EndedRows()
    remote_names: dict[str, str] = {}
    """What live runs of other machines are called, by their ids, where their GPUs are shown."""

    @property
    def gpus(self) -> tuple[GpuSnapshot, ...]:
        """The GPUs of its reading; none before there is one."""
        return self.reading.gpus if self.reading is not None else ()

    def name_of(self, run_id: str) -> str:
        """What a run is called; empty of one that is not known."""
        names = (view.run.name for view in self.runs if view.run.id == run_id)
        return next(names, "") or self.remote_names.get(run_id, "")


@runtime_checkable
class ShowsSnapshots(Protocol):
    """A screen that is kept current: it is handed every new snapshot while it is on top."""

    def show(self, snapshot: PanelSnapshot) -> None:
        """Take in a new snapshot; called once the screen is mounted."""


class SnapshotFeed:
    """Takes snapshots: once a second, and at once when a state or the list of runs changes."""

    def __init__(self, state: StateDirectory, read_only: bool = False) -> None:
        keep_what_is_read()  # the same files every second
        self.state = state
        self.read_only = read_only
        self._reports: dict[str, LiveReport] = {}
        self._ended: dict[str, RunView] = {}
        self._waiting: dict[str, RunView] = {}
        self._waiting_jobs: WaitingJobs | None = None
        self._labels_stamp = 0
        self._relabelled = False
        self._costs = CostReader(state)
        self._turn = 0
        self._ids_of: tuple[int, list[str]] = (-1, [])
        self._index = EndedIndex(state, may_write=not read_only)
        self._unread = True
        self._costs_wanted = False
        self._costs_of: tuple[int, float] = (-1, 0.0)
        self._was_there = not is_gone(state.root)
        self._hurry = asyncio.Event()
        self._stop = Event()
        # The first snapshot is taken while the terminal is still being set up.
        self._reader = ThreadPoolExecutor(1, "feed")
        self._last: PanelSnapshot | None = None
        self._next = self._reader.submit(self._take)

    def first_snapshot(self, within_s: float = _FIRST_WITHIN_S) -> PanelSnapshot | None:
        """The first snapshot, to paint the first screen once; None when reading takes long."""
        try:
            return self._next.result(within_s)
        except (FutureTimeout, CancelledError):
            return None

    def refresh_now(self) -> None:
        """Take the next snapshot now: something was just done."""
        self._hurry.set()

    def look_up_costs(self) -> None:
        """Have the cost of every ended run looked up, and again when one more has ended."""
        self._costs_wanted = True

    async def snapshots(self) -> AsyncGenerator[PanelSnapshot, None]:
        """A snapshot whenever there is something new; the next is taken once this one is used.

        To be closed by `aclosing`: it has a thread and a task.
        """
        notices: asyncio.Future[None] | None = None
        try:
            while True:
                yield await asyncio.wrap_future(self._next)
                try:
                    await asyncio.wait_for(self._hurry.wait(), self._pause(notices is not None))
                except asyncio.TimeoutError:  # a class of its own before Python 3.11
                    pass
                self._hurry.clear()
                self._next = self._reader.submit(self._take)
                notices = notices or asyncio.ensure_future(
                    asyncio.to_thread(self._take_notice, asyncio.get_running_loop())
                )
        finally:
            self._stop.set()
            self._reader.shutdown(wait=False, cancel_futures=True)
            if notices is not None:
                await asyncio.gather(notices, return_exceptions=True)

    def _pause(self, is_painted: bool) -> float:
        if not is_painted:
            return _PAINTED_S
        return _AT_ONCE_S if self._unread else _EVERY_S

    def _take_notice(self, loop: asyncio.AbstractEventLoop) -> None:
        """Hurry when runs come or end; without notices a snapshot comes once a second anyway."""
        # Not `awatch`: what that waits with loads OpenSSL, for longer than a snapshot takes.
        from watchfiles import watch

        folders = [folder for folder in (self.state.live, self.state.runs) if folder.is_dir()]
        found = watch(
            *folders,
            recursive=False,
            debounce=200,
            step=_POLL_MS,
            stop_event=self._stop,
            raise_interrupt=False,
        )
        try:
            for _ in found:
                loop.call_soon_threadsafe(self._hurry.set)
        except (OSError, RuntimeError):  # the second one: the loop has ended
            return

    def _take(self) -> PanelSnapshot:
        """Read everything once; a problem becomes a line in the snapshot, never an exception.

        Where nothing can be read, as of a file server that was away, it is what was shown before.
        """
        try:
            self._last = self._read_all()
        except OSError as error:
            if self._last is None:
                raise
            problem = sentence_of(error)
            reading = self._reading(problem)
            self._last = msgspec.structs.replace(self._last, problem=problem, reading=reading)
        return self._last

    def _read_all(self) -> PanelSnapshot:
        problem = self.missing()
        try:
            # One that somebody has removed must not come back by a sampler's start.
            if not problem and (not self.read_only or os.access(self.state.root, os.W_OK)):
                ensure_sampler(self.state)  # reading GPUs touches nobody's run
            # From the second snapshot on: the first screen does not wait for it.
            if not problem and not self.read_only and self._turn % _ADOPT_EVERY == 1:
                from runners.housekeeping import tend

                tend(self.state)
        except (FresnelError, OSError) as error:
            problem = sentence_of(error)
        if not problem and disk_is_full(self.state.root):
            problem = f"the disk of {self.state.root} is full: what happens is not recorded"
        self._turn += 1
        announce_reader(self.state)
        now = time.time()
        ids = self._run_ids()
        self._take_in_labels()
        later = self._read_later()
        runs = self._list_runs(ids, later)
        costs = self._costs.read(runs, moment_now(), whole=True, ids=ids, unbegun=later)
        self._forget_all_but({run.id for run in runs})
        views = self._views(runs, now, costs)
        # The first two are waited for by the first screen, which shows nothing of long ago.
        if self._turn > 2:
            verify = self._turn % _VERIFY_EVERY == 0 or self._relabelled
            self._relabelled = False
            live = live_run_ids(self.state)
            self._unread = self._index.refresh(ids, live, verify, _READ_FOR_S)
            if self._costs_wanted and not self._unread:
                self._look_up_costs(now)
        if self._turn % _OVERRUNS_EVERY == 0:
            from runners.housekeeping import find_overruns

            find_overruns(self.state, ((view.run, view.money) for view in views))
        return PanelSnapshot(
            time=now,
            host=host_name(),
            runs=tuple(reversed(views)),
            letters=self._letters(runs, later),
            reading=self._reading(problem),
            leases=held_leases(self.state, later),
            session=costs.session,
            meter=read_meter(runs, costs),
            hidden=len(ids) - len(runs),
            problem=problem,
            guard=read_guard(self.state),
            drained=self.state.drained_since(),
            ended=self._index.ended,
        )

    def missing(self) -> str:
        """What to say where the state folder has been there, and is no longer."""
        if not self._was_there or not is_gone(self.state.root):
            return ""
        return f"the state folder {self.state.root} is gone: removed, or its disk is not mounted"

    def _reading(self, problem: str) -> GpuReading | None:
        """The newest reading of the GPUs, with what keeps a newer one from coming."""
        reading = latest(self.state)
        if not problem or (reading is not None and reading.problem):
            return reading
        if reading is None:
            return GpuReading(0.0, host_name(), UNREAD, problem=problem)
        return msgspec.structs.replace(reading, problem=problem)

    def _letters(self, runs: list[Run], later: Collection[str]) -> dict[str, str]:
        live = [run.id for run in runs if run.is_live]
        return live_letters(self.state, (*live, *later), may_write=not self.read_only)

    def _may_keep(self, run: Run) -> bool:
        if self._waiting_jobs is None:
            from runners.state.job_status import WaitingJobs  # clusters only

            self._waiting_jobs = WaitingJobs(self.state)
        return self._waiting_jobs.keep(run)

    def _read_later(self) -> Collection[str]:
        """Runs that have never begun, but for the newest: the first screen does not wait for all.

        They cost nothing, and hold nothing that others would have to know of.
        """
        if self._turn > 1:
            return ()
        live = live_run_ids(self.state)
        if len(live) <= _FIRST_LIVE:
            return ()
        runs = str(self.state.runs)
        # Of thousands, before anything is painted.
        has_begun = os.path.exists
        unbegun = [run for run in live if not has_begun(f"{runs}/{run}/state.json")]
        return set(sorted(unbegun)[:-_FIRST_LIVE])

    def _look_up_costs(self, now: float) -> None:
        try:
            size = self.state.ledger.stat().st_size
        except OSError:
            return
        if size != self._costs_of[0] and now - self._costs_of[1] > _COSTS_EVERY_S:
            from tui.views.money.ended_costs import (
                ended_costs,  # only where somebody looks that far back
            )

            self._costs_of = (size, now)
            self._index.take_costs(ended_costs(self.state))

    def _run_ids(self) -> list[str]:
        """All ids, listed anew only when the folder changed: there may be tens of thousands."""
        try:
            changed = self.state.runs.stat().st_mtime_ns
        except OSError:
            changed = 0
        if changed != self._ids_of[0]:
            # One more may come in the same tick of the file system's clock: not to be missed.
            settled = abs(time.time() - changed / 1e9) > SETTLED_S
            self._ids_of = (changed if settled else -1, list_run_ids(self.state))
        return self._ids_of[1]

    def _take_in_labels(self) -> None:
        """Read the labels of the ended runs again when any changed: nothing else of them does."""
        stamp = labels_stamp(self.state)
        if stamp == self._labels_stamp:
            return
        self._labels_stamp, self._relabelled = stamp, True
        judged_anew: list[str] = []
        for run_id, view in self._ended.items():
            labels = read_run(self.state, run_id).labels
            if labels.best != view.run.labels.best:
                judged_anew.append(run_id)
            elif labels != view.run.labels:
                self._ended[run_id] = msgspec.structs.replace(
                    view, run=with_labels(view.run, labels)
                )
        for run_id in judged_anew:
            del self._ended[run_id]

    def _ended_among(self, ids: list[str]) -> int:
        live = set(live_run_ids(self.state))
        return sum(run_id not in live for run_id in ids)

    def _list_runs(self, ids: list[str], later: Collection[str]) -> list[Run]:
        same = self._waiting_jobs.unchanged() if self._waiting_jobs is not None else set()
        self._waiting = {k: v for k, v in self._waiting.items() if k in same}
        return list_runs(
            self.state,
            _SHOWN_ENDED if self._turn > 1 else self._ended_among(ids[-_FIRST_SHOWN:]),
            {k: v.run for kept in (self._ended, self._waiting) for k, v in kept.items()},
            ids,
            later,
        )

    def _forget_all_but(self, shown: set[str]) -> None:
        """Keep nothing of runs that newer ones have replaced: a panel stays open for days."""
        for kept in (self._ended, self._reports):
            for run in kept.keys() - shown:
                del kept[run]

    def _views(self, runs: list[Run], now: float, costs: Costs) -> list[RunView]:
        views = []
        for run in runs:
            store = self._ended if run.id in self._ended else self._waiting
            kept = store.get(run.id)
            if kept is not None:
                # Only its money may still change: a session's price is corrected afterwards.
                money = costs.of(run)
                if money != kept.money:
                    kept = store[run.id] = msgspec.structs.replace(kept, money=money)
                views.append(kept)
                continue
            report = self._reports.get(run.id) or self._reports.setdefault(run.id, LiveReport(run))
            view = view_run(run, report, now, brief=self._turn == 1, costs=costs)
            views.append(view)
            if _is_settled(view, now):
                self._ended[run.id] = view
                self._reports.pop(run.id, None)
            elif run.state is State.QUEUED and is_job(run.plan) and self._may_keep(run):
                self._waiting[run.id] = view
        return views


def _is_settled(view: RunView, now: float) -> bool:
    """Whether what has ended stays as it is, and need not be read again."""
    run = view.run
    if run.state.is_live or run.record is None or run.record.state.is_live:
        return False
    awaits_report = run.started is not None and not view.is_final
    return not awaits_report or now - (run.ended or 0.0) > _REPORT_WITHIN_S
