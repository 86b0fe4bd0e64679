"""Checkpoints on disk while a run goes on: which are deleted, and when the disk will be full.

Only what this run has written is considered.
"""

import os
import re
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

from runners.host.below import leads_out
from runners.host.bounded_glob import SearchBudget, acting_budget
from runners.host.files import append_event, read_json
from runners.host.newest_file import NewestFile, matching_files
from runners.state.layout import RunDirectory
from runners.state.records import KeepFields, PlanFields

_EVERY_S = 60.0
_QUIET_S = 60.0  # a younger file may still be written, or be read by an evaluation
_WARN_WITHIN_S = 24 * 3600.0
_WATCHED_S = 600.0  # before that a pace is a guess: the first checkpoints come quickly
_FORESEEN = 6  # times as long as it was watched: what grows for ten minutes may do so for an hour
_STEPS = 4  # so often they must have grown: programs that keep the last three grow no further
_OUTLOOK_FRESH_S = 120.0
_NUMBER = re.compile(r"(\d+)(?!.*\d)")


class CheckpointKeeper:
    """Deletes what the plan's `keep` does not keep, and warns once before the disk is full."""

    def __init__(
        self, run: RunDirectory, plan: PlanFields, started: float, alert: Callable[[str], None]
    ) -> None:
        self._run = run
        self._patterns = plan["checkpoints"]
        self._keep = plan["keep"]
        self._started = started
        self._alert = alert
        self._warned = self._is_cut_said = False
        self._forecast = DiskForecast()
        self._next = 0.0

    def poll(self, now: float) -> float:
        """Look once a minute; seconds until the next look."""
        if now >= self._next:
            self._next = now + _EVERY_S
            self.check(time.time())
        return self._next - now

    def check(self, now: float) -> None:
        """Delete what is not kept; warn when the disk will be full within a day."""
        budget = acting_budget()
        found = written_since(self._patterns, self._started, str(self._run.path), budget)
        if budget.cut and not self._is_cut_said:
            self._is_cut_said = True
            self._alert(f"not all checkpoints were found, so more may be kept: {budget.cut}")
        if self._keep is not None:
            old = [file for file in found if now - file.modified > _QUIET_S]
            gone = [file for file in superfluous(found, self._keep) if file in old]
            wanted = self._needed_by_others() if gone else ""
            removed = [file.path for file in gone if file.path not in wanted and _remove(file.path)]
            if removed:
                append_event(self._run.supervisor_events, "checkpoints removed", paths=removed)
                found = [file for file in found if file.path not in removed]
        # With `keep` the number of checkpoints stays the same, so their growth says nothing.
        if not self._warned and self._keep is None:
            settled = [file for file in found if now - file.modified > _QUIET_S]
            warning = self._forecast.warning(time.monotonic(), settled, self._left_s(now))
            if warning:
                self._warned = True
                self._alert(warning)

    def _left_s(self, now: float) -> float | None:
        """Seconds until the run's last step, as far as its watcher can tell."""
        found = read_json(self._run.health) or {}
        judged, eta = found.get("time"), found.get("eta_s")
        if not isinstance(judged, (int, float)) or not isinstance(eta, (int, float)):
            return None
        return float(eta) if 0 <= now - judged <= _OUTLOOK_FRESH_S else None

    def _needed_by_others(self) -> str:
        """The plans of the other live runs as text: what one of them resumes from stays."""
        home = self._run.home
        plans = (home.run(name).plan for name in os.listdir(home.live) if name != self._run.id)
        return "\n".join(str(read_json(plan)) for plan in plans)


def written_since(
    patterns: Iterable[str], started: float, directory: str, budget: SearchBudget
) -> list[NewestFile]:
    """The whole checkpoints written since `started` (unix seconds), the oldest first.

    What only a link leads to from the run's own `directory` is not among them.
    """
    # A link is not a checkpoint: `latest` would otherwise count twice, or be deleted.
    found = [file for file in matching_files(patterns, budget) if not os.path.islink(file.path)]
    own = {
        os.path.realpath(file.path): file
        for file in found
        if file.modified >= started and not leads_out(file.path, directory)
    }
    return sorted(own.values(), key=lambda file: (file.modified, file.path))


def superfluous(found: list[NewestFile], keep: KeepFields) -> list[NewestFile]:
    """Those of `found` (oldest first) that the rule does not keep; never the newest."""
    best = [file for file in found if "best" in os.path.basename(file.path)]
    others = [file for file in found if file not in best]
    # The newest stays whatever the rule says: a restart needs it.
    kept = {*others[-keep["last"] :], *found[-1:]}
    if keep["best"]:
        kept |= {*best[-keep["best"] :]}
    for file in others:
        number = _number(file.path)
        if keep["every"] and number is not None and number % keep["every"] == 0:
            kept.add(file)
    return [file for file in found if file not in kept]


class DiskForecast:
    """When checkpoints will fill their disk, told by how much they grew while they were watched.

    Bytes that stay count: a file that is replaced, or deleted when a newer one is there, fills
    nothing.
    """

    def __init__(self) -> None:
        self._growth: list[tuple[float, int]] = []
        """Whenever there was more than ever before: the moment in seconds, and how many bytes."""

    def warning(self, at_s: float, found: Sequence[NewestFile], left_s: float | None = None) -> str:
        """When the disk of the checkpoints `found` will be full; else empty.

        That is said if it is soon, beside how long they were watched, and before the run is done,
        which takes `left_s` seconds if that is known.
        """
        total = sum(file.bytes for file in found)
        if total > (self._growth[-1][1] if self._growth else 0):
            self._growth.append((at_s, total))
        pace = self._pace(at_s)
        if not found or pace <= 0:
            return ""
        folder = os.path.dirname(found[-1].path)
        try:
            disk = os.statvfs(folder)
        except OSError:
            return ""
        free = disk.f_bavail * disk.f_frsize
        watched = at_s - self._growth[0][0]
        within = min(_WARN_WITHIN_S, _FORESEEN * watched)
        if free / pace > (within if left_s is None else min(within, left_s)):
            return ""
        return (
            f"the disk of {folder} will be full in about {free / pace / 3600:.1f} h: checkpoints "
            f"take {pace * 3600 / 1e9:.2f} GB an hour, {free / 1e9:.1f} GB are free; "
            "the preset key `keep` deletes old checkpoints"
        )

    def _pace(self, at_s: float) -> float:
        """Bytes a second; 0 while it is not known, and once nothing grows any more."""
        if len(self._growth) <= _STEPS or at_s - self._growth[0][0] < _WATCHED_S:
            return 0.0
        moments = [moment for moment, _ in self._growth]
        longest = max(after - before for before, after in pairwise(moments))
        if at_s - moments[-1] > 2 * longest:
            return 0.0
        total = self._growth[-1][1]
        # What grew in the beginning and does so no longer says nothing of the end.
        since = (self._growth[0], self._growth[len(self._growth) // 2])
        return min((total - before) / (at_s - began) for began, before in since if at_s > began)


def _number(path: str) -> int | None:
    found = _NUMBER.search(os.path.basename(path))
    return None if found is None else int(found[1])


def _remove(path: str) -> bool:
    try:
        if not os.path.isdir(path):
            os.unlink(path)
            return True
        for folder, folders, names in os.walk(path, topdown=False):
            for name in names:
                os.unlink(os.path.join(folder, name))
            for name in folders:
                inner = os.path.join(folder, name)
                # A link inside is removed itself, never what it leads to.
                (os.unlink if os.path.islink(inner) else os.rmdir)(inner)
        os.rmdir(path)
    except OSError:
        return False
    return True
