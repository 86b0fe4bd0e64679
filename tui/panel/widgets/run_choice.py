"""What keys make of a table's choice: another order, another metric, groups folded."""

from collections.abc import Sequence

from tui.panel.widgets.run_lines import RunLines
from tui.views.runs.run_sort import SortKey
from tui.views.runs.run_table import FoldedGroup, Line, TableChoice


def sorted_by_next(lines: RunLines, _: Line | None, by: int) -> TableChoice:
    """Sorted by the next column, or the one before; past the last: newest first again."""
    choice = lines.choice
    column = _next(lines.sortable, choice.sort[0].column if choice.sort else None, by)
    return choice._replace(sort=() if column is None else (SortKey(column),))


def sorted_by_clicked(lines: RunLines, _: Line | None, x: int) -> TableChoice:
    """Sorted by the column whose heading is at cell `x`, if it is one."""
    return sorted_by(lines.choice, lines.column_at(x))


def sorted_by(choice: TableChoice, column: str) -> TableChoice:
    """Sorted by a column, if it is one; by the same again: the other way round."""
    if not column:
        return choice
    if choice.sort and choice.sort[0].column == column:
        return _turned(choice)
    return choice._replace(sort=(SortKey(column),))


def with_column(choice: TableChoice, column: str) -> TableChoice:
    """A metric or setting as a column, or no longer."""
    kept = tuple(each for each in choice.columns if each != column)
    return choice._replace(columns=(*kept, column) if kept == choice.columns else kept)


def turned(lines: RunLines, _: Line | None, _by: int) -> TableChoice:
    """Sorted the other way round."""
    return _turned(lines.choice)


def with_next_metric(lines: RunLines, line: Line | None, by: int) -> TableChoice:
    """`last` and `best` of another metric of the line's run; past the last: each run's own."""
    row = line.rows[0] if isinstance(line, FoldedGroup) else line
    if row is None or not row.metrics:
        return lines.choice
    return lines.choice._replace(metric=_next(sorted(row.metrics), lines.choice.metric, by))


def folded(lines: RunLines, line: Line | None, _by: int) -> TableChoice:
    """The line's group as one line, or unfolded."""
    present = lines.choice.folded
    if isinstance(line, FoldedGroup):
        return lines.choice._replace(folded=present - {line.group})
    if line is None or not line.group:
        return lines.choice
    return lines.choice._replace(folded=present | {line.group})


def all_folded(lines: RunLines, _: Line | None, _by: int) -> TableChoice:
    """Every group as one line, or, where some group is folded, none."""
    rows = () if lines.choice.folded else (*lines.live.values(), *lines.ended.rows)
    return lines.choice._replace(folded=frozenset(row.group for row in rows if row.group))


CHANGES = {
    "sort": sorted_by_next,
    "column": sorted_by_clicked,
    "turn": turned,
    "metric": with_next_metric,
    "fold": folded,
    "fold_all": all_folded,
}
"""By the name that the keys of the run table give it."""
WHY_NOT = {
    "sort": "no column is shown that can be sorted by",
    "turn": "the newest run stands first: > or O chooses another order",
    "metric": "this run has reported no metric",
    "fold": "the selected run is in no group",
    "fold_all": "no run is in a group",
}
"""Why a key changes nothing."""


def _turned(choice: TableChoice) -> TableChoice:
    if not choice.sort:
        return choice
    first, *others = choice.sort
    return choice._replace(sort=(first._replace(turned=not first.turned), *others))


def _next(names: Sequence[str], current: str | None, by: int) -> str | None:
    """The name `by` places after the current one; None stands between the last and the first."""
    ring = (None, *names)
    at = ring.index(current) if current in ring else 0
    return ring[(at + by) % len(ring)]
