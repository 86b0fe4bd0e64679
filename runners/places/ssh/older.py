"""Runs of a machine that ended before those its snapshot tells of: loaded when they are wanted."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from runners.places.run_row import RunRow
from runners.places.snapshot import PlaceSnapshot
from runners.places.ssh.frames import OlderAnswer
from runners.places.ssh.remote_request import Asks, ask_once
from runners.places.ssh.snapshot_updates import LAYOUT, rows_of

MOST_OLDER = 200
"""Runs in one answer."""


class OlderRuns:
    """The older runs of one machine that were loaded; filled in the link's thread."""

    def __init__(self, link: Asks, changed: Callable[[], None]) -> None:
        self.runs: dict[str, RunRow] = {}
        """Made anew with every answer."""
        self.problem = ""
        self._link = link
        self._changed = changed
        self._asking = False
        self._all_here = False

    def hidden(self, snapshot: PlaceSnapshot | None) -> int:
        """How many ended runs there are still not told of."""
        if snapshot is None or self._all_here:
            return 0
        return max(0, snapshot.hidden - len(self.runs))

    def load(self, snapshot: PlaceSnapshot) -> None:
        """Ask for the newest that are not known; one page at a time."""
        ended = [run.id for run in snapshot.newest_first if not run.is_live]
        known = [*self.runs, *ended]
        if known and not self._asking and self.hidden(snapshot):
            self._asking = True
            self._ask({"before": min(known)}, self._take_page)

    def renew(self, subjects: Iterable[str]) -> None:
        """Ask again for those of `subjects` that are known: something was done to them."""
        ids = [word for word in subjects if word in self.runs]
        if ids:
            self._ask({"ids": ids}, lambda answer, _: self._take_anew(ids, answer))

    def follow(self, before: PlaceSnapshot | None, now: PlaceSnapshot) -> bool:
        """Keep what is too old for a new snapshot; whether that changed anything."""
        ended = [run.id for run in now.runs.values() if not run.is_live]
        if not self.runs or before is None or not ended:
            return False
        if before.runs and not before.runs.keys() & now.runs.keys():
            # So much ended while it was not reached: what lies between is not known here.
            self.runs, self._all_here = {}, False
            return True
        oldest = min(ended)
        gone = {
            run.id: run
            for run in before.runs.values()
            if not run.is_live and run.id not in now.runs and run.id < oldest
        }
        doubled = self.runs.keys() & now.runs.keys()
        if gone or doubled:
            kept = {run_id: run for run_id, run in self.runs.items() if run_id not in doubled}
            self.runs = {**gone, **kept}
        return bool(gone or doubled)

    def _ask(
        self, asked: Mapping[str, Any], take: Callable[[OlderAnswer | None, str], None]
    ) -> None:
        def taken(answer: OlderAnswer | None, problem: str) -> None:
            take(answer, problem)
            self._changed()

        ask_once(self._link, {"do": "older", "layout": LAYOUT, **asked}, OlderAnswer, taken)

    def _take_page(self, answer: OlderAnswer | None, problem: str) -> None:
        self._asking, self.problem = False, problem
        if answer is not None:
            self.runs = {**self.runs, **{run.id: run for run in rows_of(answer.runs)}}
            self._all_here = answer.left == 0

    def _take_anew(self, ids: Sequence[str], answer: OlderAnswer | None) -> None:
        if answer is not None:
            found = {run.id: run for run in rows_of(answer.runs)}
            kept = {key: found.get(key, run) for key, run in self.runs.items()}
            self.runs = {key: kept[key] for key in kept if key in found or key not in ids}
