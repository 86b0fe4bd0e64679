"""A comparison of runs as tables of text, the same for every front end, and as JSON."""

from collections.abc import Sequence
from typing import Any

from runners.model.run_ids import by_names
from runners.watch.metrics.final import FinalMetric
from tui.views.format import DASH, dollars, duration, metric, place
from tui.views.json_values import fields_json, iso, number
from tui.views.runs.comparison import (
    Comparison,
    MetricRow,
    SeedGroup,
    Spread,
    change,
    differing,
    label_of,
    value_of,
)

MOST_COLUMNS = 4
"""More runs than these stand in rows, the best first."""

Table = tuple[str, list[tuple[str, ...]]]
"""A title, and rows, the first of which are the headings."""


def tables_of(comparison: Comparison, ids: bool = True) -> list[Table]:
    """The whole comparison as tables, few runs in columns; without `ids` where room is short."""
    seeds = _seed_table(comparison)
    if len(comparison.facts) > MOST_COLUMNS:
        return [_ranked(comparison), *seeds, *_same(comparison)]
    heads = tuple(label_of(comparison, i) for i in range(len(comparison.facts)))
    if comparison.baseline is not None:
        heads = tuple(
            f"{head} (baseline)" if i == comparison.baseline else head
            for i, head in enumerate(heads)
        )
    found: list[Table] = [("runs", [("", *heads), *_outcomes(comparison)[not ids :]])]
    for section in comparison.sections:
        if section.rows:
            marked = any(not row.differs for row in section.rows)
            rows: list[tuple[str, ...]] = [("", *heads)]
            for row in section.rows:
                mark = "≠ " if row.differs else "  "
                cells = (DASH if value is None else value for value in row.values)
                rows.append(((mark if marked else "") + row.name, *cells))
            found.append((section.title, rows))
    if comparison.metrics:
        cells_of = [_metric_cells(comparison, row) for row in comparison.metrics]
        found.append(("metrics", [("", *heads), *cells_of]))
    return [*found, *seeds]


def _same(comparison: Comparison) -> list[Table]:
    """What all runs have in common, where that was asked for too."""
    found: list[Table] = []
    for section in comparison.sections:
        rows = [(row.name, row.values[0] or DASH) for row in section.rows if not row.differs]
        if rows:
            found.append((f"{section.title}, the same in all", [("", "value"), *rows]))
    return found


def agreements(comparison: Comparison) -> list[str]:
    """In what the runs do not differ, in words, where nothing of a section does."""
    return [
        section.title
        for section in comparison.sections
        if not any(row.differs for row in section.rows)
    ]


def _outcomes(comparison: Comparison) -> list[tuple[str, ...]]:
    facts = comparison.facts
    rows = [
        ("id", *(fact.run.id for fact in facts)),
        ("state", *(f"{fact.run.state.sign} {fact.run.state}" for fact in facts)),
        ("reason", *(by_names(fact.run.reason) or DASH for fact in facts)),
        ("time", *(duration(fact.seconds) for fact in facts)),
        ("cost", *(dollars(fact.money.cost) for fact in facts)),
    ]
    return [row for row in rows if set(row[1:]) != {DASH}]


def _metric_cells(comparison: Comparison, row: MetricRow) -> tuple[str, ...]:
    base = None if comparison.baseline is None else row.values[comparison.baseline]
    return (
        row.name,
        *(
            _value_text(
                final, row.leader == i, value_of(base) if comparison.baseline != i else None
            )
            for i, final in enumerate(row.values)
        ),
    )


def _value_text(final: FinalMetric | None, leads: bool, base: float | None) -> str:
    if final is None:
        return DASH
    text = f"{metric(final.value)} at {place(final.step)}"
    if final.best is not None and final.best != final.last:
        text += f", best {metric(final.best)} at {place(final.best_step)}"
    against = change(value_of(final), base)
    return f"{text}{f' {against}' if against else ''}{' ★' if leads else ''}"


def _ranked(comparison: Comparison) -> Table:
    settings = differing(comparison)
    row = next((row for row in comparison.metrics if row.name == comparison.headline), None)
    order = ""
    if row is not None and row.higher is not None:
        order = ", most first" if row.higher else ", least first"
    title = f"by {comparison.headline}{order}" if comparison.headline else "runs"
    heads = (
        "",
        "run",
        "state",
        *(setting.name for setting in settings),
        "last",
        "at",
        "best",
        "at",
    )
    base = comparison.baseline
    based = () if base is None else ("to baseline",)
    rows: list[tuple[str, ...]] = [(*heads, *based, "time", "cost")]
    for turn, i in enumerate(comparison.ranking, 1):
        fact = comparison.facts[i]
        value = None if row is None else row.values[i]
        pinned = None if row is None or base is None else value_of(row.values[base])
        against = ("baseline" if i == base else change(value_of(value), pinned) or DASH,)
        rows.append(
            (
                str(turn),
                label_of(comparison, i),
                f"{fact.run.state.sign} {fact.run.state}",
                *(setting.values[i] or DASH for setting in settings),
                *_numbers(value),
                *(against if based else ()),
                duration(fact.seconds),
                dollars(fact.money.cost),
            )
        )
    return title, rows


def _numbers(value: FinalMetric | None) -> tuple[str, str, str, str]:
    if value is None:
        return DASH, DASH, DASH, DASH
    return metric(value.value), place(value.step), metric(value.best), place(value.best_step)


def _seed_table(comparison: Comparison) -> list[Table]:
    if not comparison.seeds:
        return []
    settings = differing(comparison)
    rows: list[tuple[str, ...]] = [("runs", "number", "metric", "last", "best")]
    for group in comparison.seeds:
        names = [name for name in group.last if name == comparison.headline] or list(group.last)[:3]
        others = [name for name in list(group.last)[:6] if name not in names]
        shown = [*names, *others] if len(comparison.seeds) == 1 else names
        for i, name in enumerate(shown):
            rows.append(
                (
                    "" if i else _group_label(group, settings),
                    "" if i else str(len(group.runs)),
                    name,
                    spread_text(group.last.get(name)),
                    spread_text(group.best.get(name)),
                )
            )
    return [("mean ± standard deviation over seeds", rows)]


def _group_label(group: SeedGroup, settings: Sequence[Any]) -> str:
    """What the runs of a group have in common, by the settings in which all runs differ."""
    common = [
        f"{row.name}={row.values[group.runs[0]]}"
        for row in settings
        if len({row.values[i] for i in group.runs}) == 1 and row.values[group.runs[0]] is not None
    ]
    return " ".join(common) or group.label


def spread_text(spread: Spread | None) -> str:
    """`0.0912 ± 0.0031`; without the deviation where there is one value alone."""
    if spread is None:
        return DASH
    mean = metric(spread.mean)
    return mean if spread.deviation is None else f"{mean} ± {spread.deviation:.2g}"


def to_json(comparison: Comparison) -> dict[str, Any]:
    """The documented JSON of a comparison."""
    facts = comparison.facts
    return {
        "runs": [
            {
                "id": fact.run.id,
                "name": fact.run.name,
                "preset": fact.run.preset,
                "state": str(fact.run.state),
                "reason": fact.run.reason or None,
                "tags": list(fact.run.labels.tags),
                "created": iso(fact.run.created),
                "seconds": None if fact.seconds is None else round(fact.seconds, 3),
                "cost_usd": number(fact.money.cost),
                "gpu_hours": number(fact.money.gpu_hours),
            }
            for fact in facts
        ],
        "baseline": None if comparison.baseline is None else facts[comparison.baseline].run.id,
        "headline": comparison.headline,
        "ranking": [facts[i].run.id for i in comparison.ranking],
        **{
            section.title: [
                {"name": row.name, "differs": row.differs, "values": list(row.values)}
                for row in section.rows
            ]
            for section in comparison.sections
        },
        "metrics": [
            {
                "name": row.name,
                "higher_is_better": row.higher,
                "best_run": None if row.leader is None else facts[row.leader].run.id,
                "values": [_final_json(final) for final in row.values],
            }
            for row in comparison.metrics
        ],
        "seeds": [_seed_json(comparison, group) for group in comparison.seeds],
    }


_FINAL = ("last", "not_finite", "step", "best", "best_step")


def _final_json(final: FinalMetric | None) -> dict[str, Any] | None:
    return None if final is None else fields_json(final, *_FINAL)


def _seed_json(comparison: Comparison, group: SeedGroup) -> dict[str, Any]:
    def spreads(found: dict[str, Spread]) -> dict[str, Any]:
        return {name: spread._asdict() for name, spread in found.items()}

    return {
        "runs": [comparison.facts[i].run.id for i in group.runs],
        "last": spreads(group.last),
        "best": spreads(group.best),
    }


def csv_rows(comparison: Comparison) -> list[list[str]]:
    """A row for each run, the best first: what it is, the settings that differ, its metrics."""
    settings = differing(comparison)
    heads = ["id", "name", "state", "seconds", "cost_usd", *(row.name for row in settings)]
    for row in comparison.metrics:
        heads += [row.name, f"{row.name}.step", f"{row.name}.best", f"{row.name}.best_step"]
    rows = [heads]
    for i in comparison.ranking:
        fact = comparison.facts[i]
        cells: list[object] = [fact.run.id, fact.run.name, fact.run.state]
        cells += [fact.seconds, number(fact.money.cost), *(row.values[i] for row in settings)]
        for row in comparison.metrics:
            found = _final_json(row.values[i]) or dict.fromkeys(_FINAL)
            cells += found.values()
        rows.append(["" if cell is None else str(cell) for cell in cells])
    return rows
