"""From findings to what is shown: conditions hold a while, end after a while, reported once."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from runners.model.health import Condition, Finding, Health

_HOLDS_S = {
    Condition.DIVERGING: 60.0,
    Condition.SPIKES: 60.0,
    Condition.NOISY: 60.0,
    Condition.UNFINISHED: 120.0,
    Condition.DATA: 120.0,
    Condition.SLOW: 120.0,
}
"""How long a condition holds before it counts; the others are judged over a window already."""
_OVER_S = {Condition.STALL: 0.0, Condition.NOT_FINITE: 0.0}
_OVER_AFTER_S = 60.0
_REPEATED_S = 1800.0


class Verdict(NamedTuple):
    """The health to show, and the findings that are new and worth an alert."""

    health: Health
    news: tuple[Finding, ...]


class EpisodeTracker:
    """The conditions of one run over time."""

    def __init__(self, reported: Sequence[tuple[Condition, float]] = ()) -> None:
        """`reported`: conditions that were told before this process began, and when."""
        self._since: dict[Condition, float] = {}
        self._last: dict[Condition, tuple[float, Finding]] = {}
        self._holding: dict[Condition, float] = {}
        self._reported: dict[Condition, float] = dict(reported)
        self._looked = -math.inf

    def take(self, findings: Sequence[Finding], now: float, attempt: int = 1) -> Verdict:
        """Add what holds at `now`, the gravest first."""
        if (back := self._looked - now) > 0:
            self._shift(-back)  # the clock was set back: nothing lasts longer, or less, for that
        self._looked = now
        if Condition.STALL in self._holding:
            findings = [_still_stalled(finding) for finding in findings]
        for finding in findings:
            self._since.setdefault(finding.condition, now)
            self._last[finding.condition] = (now, finding)
        for condition in list(self._since):
            if now - self._last[condition][0] > 0 and condition not in self._holding:
                del self._since[condition]  # it did not hold on
        news = []
        for condition, since in self._since.items():
            if condition in self._holding or now - since < _HOLDS_S.get(condition, 0.0):
                continue
            self._holding[condition] = since
            # Once per half hour: a condition that comes and goes must not fill the notifications.
            if condition.is_trouble and now - self._reported.get(condition, 0.0) >= _REPEATED_S:
                self._reported[condition] = now
                news.append(self._last[condition][1])
        self._end(now)
        return Verdict(self._health(now, attempt), tuple(news))

    def _shift(self, by: float) -> None:
        for times in (self._since, self._holding, self._reported):
            times.update({condition: at + by for condition, at in times.items()})
        self._last = {kind: (at + by, found) for kind, (at, found) in self._last.items()}

    def _end(self, now: float) -> None:
        for condition in list(self._holding):
            seen = self._last[condition][0]
            patience = _OVER_S.get(condition, _OVER_AFTER_S) if condition.is_trouble else 0.0
            if seen < now and now - seen >= patience:
                del self._holding[condition]
                self._since.pop(condition, None)

    def _health(self, now: float, attempt: int) -> Health:
        order = list(Condition)
        holding = sorted(self._holding, key=order.index)
        if not holding:
            return Health(Condition.WARMING, "", now, now, attempt)
        first = self._last[holding[0]][1]
        also = tuple(self._last[kind][1].message for kind in holding[1:] if kind.is_trouble)
        return Health(
            first.condition,
            first.message,
            self._holding[first.condition],
            now,
            attempt,
            first.evidence,
            also,
        )


def _still_stalled(finding: Finding) -> Finding:
    """A silence once found to be a stall stays one until it is broken: use of a CPU varies."""
    if finding.condition is not Condition.SILENT:
        return finding
    return Finding(Condition.STALL, finding.message, finding.evidence)
