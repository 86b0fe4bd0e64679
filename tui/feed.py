"""The feed: turns what changes on disk into messages for the panel. Threads read, widgets draw."""

import asyncio
import time
from pathlib import Path

import msgspec
from textual.message import Message

from runners.cost.meter import Meter, read_meter
from runners.cost.sessions import Session, read_session
from runners.host.identity import host_name
from runners.lifecycle.control import adopt_orphans
from runners.lifecycle.store import list_run_ids, list_runs
from runners.model.errors import FresnelError
from runners.model.gpus import GpuReading
from runners.model.paths import StateDirectory
from runners.model.states import is_terminal
from runners.placement.leases import Lease, held_leases, live_run_ids
from runners.placement.reading import ensure_sampler, latest
from runners.watch.events import EventStream
from tui.overview import Overview, look_at

_SHOWN_ENDED = 100
_EVERY_S = 1.0
_LOOK_S = 0.2
_ADOPT_EVERY = 3


class Picture(msgspec.Struct, frozen=True):
    """Everything the panel shows at one moment; `letters` gives each run the letter it wears in every pane."""

    time: float
    host: str
    runs: tuple[Overview, ...]
    letters: dict[str, str]
    reading: GpuReading | None
    leases: dict[str, list[Lease]]
    session: Session | None
    meter: Meter
    hidden: int
    problem: str = ""


class PictureTaken(Message):
    """A new picture is there."""

    def __init__(self, picture: Picture) -> None:
        super().__init__()
        self.picture = picture


class Feed:
    """Takes pictures: once a second, and at once when a run's state or the list of runs changes."""

    def __init__(self, state: StateDirectory) -> None:
        self.state = state
        self._events: dict[str, EventStream] = {}
        self._ended: dict[str, Overview] = {}
        self._turn = 0
        self._signature: tuple[object, ...] = ()
        self._hurry = asyncio.Event()

    def hurry(self) -> None:
        """Take the next picture now: something was just done."""
        self._hurry.set()

    async def pictures(self, post: "asyncio.Queue[Picture]") -> None:
        """Put a picture into `post` whenever there is something new to see; runs until cancelled."""
        while True:
            await post.put(await asyncio.to_thread(self.take))
            due = time.monotonic() + _EVERY_S
            while time.monotonic() < due and not self._hurry.is_set():
                try:
                    await asyncio.wait_for(self._hurry.wait(), _LOOK_S)
                except TimeoutError:
                    if self._look() != self._signature:
                        break
            self._hurry.clear()

    def take(self) -> Picture:
        """Read everything once; a problem becomes a line in the picture, never an exception."""
        self._signature = self._look()
        problem = ""
        try:
            ensure_sampler(self.state)
            if self._turn % _ADOPT_EVERY == 0:
                adopt_orphans(self.state)
        except (FresnelError, OSError) as error:
            problem = str(error)
        self._turn += 1
        now = time.time()
        ids = list_run_ids(self.state)
        views = self._views(now)
        runs = [view.run for view in views]
        session = read_session(self.state)
        shown = {run.id for run in runs}
        return Picture(
            time=now,
            host=host_name(),
            runs=tuple(reversed(views)),
            letters={run_id: chr(65 + i % 26) for i, run_id in enumerate(ids) if run_id in shown},
            reading=latest(self.state),
            leases=held_leases(self.state),
            session=session,
            meter=read_meter(runs, session, now),
            hidden=len(ids) - len(runs),
            problem=problem,
        )

    def _views(self, now: float) -> list[Overview]:
        views = []
        for run in list_runs(self.state, _SHOWN_ENDED, known={k: v.run for k, v in self._ended.items()}):
            kept = self._ended.get(run.id)
            if kept is not None:
                views.append(kept)
                continue
            events = self._events.setdefault(run.id, EventStream(Path(run.directory) / "events.jsonl"))
            view = look_at(run, events, now)
            views.append(view)
            if is_terminal(run.state) and run.record is not None and is_terminal(run.record.state):
                # What has ended stays as it is: read once.
                self._ended[run.id] = view
                self._events.pop(run.id, None)
        return views

    def _look(self) -> tuple[object, ...]:
        """A cheap sign that something changed: times of the folders and of live runs' state files."""
        live = live_run_ids(self.state)
        paths = [self.state.runs, self.state.session, *(self.state.run(run_id).state for run_id in live)]
        return (tuple(live), *(_changed_at(path) for path in paths))


def _changed_at(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0
