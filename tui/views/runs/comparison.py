"""Runs compared: what differs, metrics side by side, means over seeds. Pure: reads nothing."""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from statistics import fmean, stdev
from typing import NamedTuple

from runners.watch.metrics.final import FinalMetric
from runners.watch.metrics.judging import best_metric, higher_of_all, ordered
from tui.views.runs.run_facts import RunFacts
from tui.views.runs.run_settings import same

_SEED = re.compile(r"(.*[._/-])?(seed|rng)([._/-].*)?", re.IGNORECASE)


class DifferenceRow(NamedTuple):
    """One setting, with a value for each run; None where a run has none."""

    name: str
    values: tuple[str | None, ...]
    differs: bool


class Section(NamedTuple):
    """Settings, code, environment or machine: the rows that differ, or all."""

    title: str
    rows: tuple[DifferenceRow, ...]


class MetricRow(NamedTuple):
    """One metric's values in each run; `higher` None where unknown.

    `leader` is the best run; None where no run is better than all others by what was printed.
    """

    name: str
    higher: bool | None
    values: tuple[FinalMetric | None, ...]
    leader: int | None


class Spread(NamedTuple):
    """Mean and sample standard deviation of a metric over `runs` runs; no deviation of one."""

    mean: float
    deviation: float | None
    runs: int


class SeedGroup(NamedTuple):
    """Runs (indices) that differ in their seeds only, with the spread of each metric."""

    runs: tuple[int, ...]
    label: str
    last: dict[str, Spread]
    best: dict[str, Spread]


class Comparison(NamedTuple):
    """Several runs beside each other; `ranking` and `baseline` are indices, the best first."""

    facts: tuple[RunFacts, ...]
    sections: tuple[Section, ...]
    metrics: tuple[MetricRow, ...]
    seeds: tuple[SeedGroup, ...]
    headline: str | None
    ranking: tuple[int, ...]
    baseline: int | None = None


def compare(
    facts: Sequence[RunFacts],
    baseline: str | None = None,
    headline: str | None = None,
    everything: bool = False,
    pinned: Sequence[str] = (),
) -> Comparison:
    """Compare runs. `baseline` is a run's id (else the newest tagged `baseline`), `headline` the
    metric to rank by (else the one that tells most of them in one number); `everything` keeps the
    rows in which they agree. `pinned` are metrics that their user wants before others.
    """
    sections = tuple(
        _section(title, [take(fact) for fact in facts], everything)
        for title, take in _sources(facts)
    )
    metrics = _metric_rows(facts, pinned)
    chosen = headline if headline is not None else _common_headline(facts)
    pinned = [fact.run.id for fact in facts if "baseline" in fact.run.labels.tags]
    # Ids sort by time: the greatest is the newest.
    wanted = baseline or (max(pinned) if pinned else None)
    ids = [fact.run.id for fact in facts]
    return Comparison(
        tuple(facts),
        sections,
        metrics,
        _seed_groups(facts, metrics),
        chosen,
        _ranking(facts, metrics, chosen),
        ids.index(wanted) if wanted in ids else None,
    )


def value_of(metric: FinalMetric | None) -> float | None:
    """What a metric is ranked by: its best value, or the last where nobody says what is better."""
    if metric is None:
        return None
    return metric.last if metric.best is None else metric.best


def change(value: float | None, base: float | None) -> str:
    """By how much `value` differs from `base`: `-12.5%`; empty where that cannot be said."""
    if value is None or base is None or not base or value == base:
        return ""
    return f"{(value - base) / abs(base):+.1%}"


def differing(comparison: Comparison) -> list[DifferenceRow]:
    """The settings in which the runs differ."""
    return [row for row in comparison.sections[0].rows if row.differs]


def label_of(comparison: Comparison, index: int) -> str:
    """A run's name, with the last part of its id where others have the same name."""
    run = comparison.facts[index].run
    names = [fact.run.name for fact in comparison.facts]
    short = run.id.rpartition("-")[2]
    # Runs of one sweep or preset often share a name.
    return run.name if run.name and names.count(run.name) == 1 else f"{run.name} {short}".strip()


def _sources(facts: Sequence[RunFacts]) -> list[tuple[str, Callable[[RunFacts], dict[str, str]]]]:
    # What programs state counts only where all do: one that failed early stated nothing.
    all_state = all(fact.stated for fact in facts)

    def settings(fact: RunFacts) -> dict[str, str]:
        return _merged(fact.settings, fact.stated) if all_state else fact.settings

    return [
        ("settings", settings),
        ("code", lambda fact: fact.code),
        ("environment", lambda fact: fact.environment),
        ("machine", lambda fact: fact.machine),
    ]


def _merged(settings: dict[str, str], stated: dict[str, str]) -> dict[str, str]:
    """What the program states, and of its command line what it does not state itself."""
    known = {name.replace("-", "_") for name in stated}
    mine = {name: value for name, value in settings.items() if name.replace("-", "_") not in known}
    return {**mine, **stated}


def _section(title: str, values: Sequence[dict[str, str]], everything: bool) -> Section:
    names = dict.fromkeys(name for known in values for name in known)
    rows = []
    for name in names:
        cells = tuple(known.get(name) for known in values)
        differs = any(not same(cells[0], cell) for cell in cells[1:])
        if differs or everything:
            rows.append(DifferenceRow(name, cells, differs))
    return Section(title, tuple(rows))


def _metric_rows(facts: Sequence[RunFacts], pinned: Sequence[str]) -> tuple[MetricRow, ...]:
    names = dict.fromkeys(name for fact in facts for name in fact.metrics)
    rows = []
    for name in ordered(names, [fact.run for fact in facts], pinned):
        higher = higher_of_all([fact.run for fact in facts], name)
        values = tuple(fact.metrics.get(name) for fact in facts)
        order = _ordered(values, higher)
        # The only one that has it is no better than others.
        leads = len(order) > 1 and not _ties(values[order[0]], values[order[1]])
        rows.append(MetricRow(name, higher, values, order[0] if leads else None))
    return tuple(rows)


def _ordered(values: Sequence[FinalMetric | None], higher: bool | None) -> list[int]:
    """Indices of the runs that have the metric, the best first; none where that is unknown."""
    if higher is None:
        return []
    known = [(value, i) for i, final in enumerate(values) if (value := value_of(final)) is not None]
    return [i for _, i in sorted(known, key=lambda pair: -pair[0] if higher else pair[0])]


def _ties(first: FinalMetric | None, second: FinalMetric | None) -> bool:
    """Whether two values are equal as far as the less exactly written one goes."""
    best, next_best = value_of(first), value_of(second)
    if first is None or second is None or best is None or next_best is None:
        return False
    known = [final.decimals for final in (first, second) if final.decimals is not None]
    digits = min(known, default=None)
    return best == next_best or (
        digits is not None and round(best, digits) == round(next_best, digits)
    )


def _common_headline(facts: Sequence[RunFacts]) -> str | None:
    judged = [(best_metric(fact.run), fact.headline) for fact in facts]
    names = (headline if best is None else best.metric for best, headline in judged)
    counted = Counter(name for name in names if name is not None)
    return counted.most_common(1)[0][0] if counted else None


def _ranking(
    facts: Sequence[RunFacts], metrics: Sequence[MetricRow], headline: str | None
) -> tuple[int, ...]:
    row = next((row for row in metrics if row.name == headline), None)
    order = [] if row is None else _ordered(row.values, row.higher)
    return (*order, *(i for i in range(len(facts)) if i not in order))


def _seed_groups(facts: Sequence[RunFacts], metrics: Sequence[MetricRow]) -> tuple[SeedGroup, ...]:
    """Runs with the same settings but for their seeds, on the same code; only those of several."""
    groups: dict[tuple[object, ...], list[int]] = {}
    for i, fact in enumerate(facts):
        settings = _merged(fact.settings, fact.stated)
        kept = sorted((k, v) for k, v in settings.items() if not _SEED.fullmatch(k))
        if any(_SEED.fullmatch(name) for name in settings):
            groups.setdefault((*kept, *sorted(fact.code.items())), []).append(i)
    found = []
    for members in groups.values():
        if len(members) > 1:
            last = _spreads(metrics, members, lambda final: final.last)
            best = _spreads(metrics, members, lambda final: final.best)
            names = Counter(facts[i].run.name for i in members)
            found.append(SeedGroup(tuple(members), names.most_common(1)[0][0], last, best))
    return tuple(found)


def _spreads(
    rows: Iterable[MetricRow], members: Iterable[int], take: Callable[[FinalMetric], float | None]
) -> dict[str, Spread]:
    """The spread of each metric that any of the `members` has a finite value of."""
    found = {}
    for row in rows:
        known = (take(final) for i in members if (final := row.values[i]) is not None)
        values = [value for value in known if value is not None and math.isfinite(value)]
        if values:
            with suppress(OverflowError):  # near the greatest float: no other holds their mean
                deviation = stdev(values) if len(values) > 1 else None
                found[row.name] = Spread(fmean(values), deviation, len(values))
    return found
