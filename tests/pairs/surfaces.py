"""What every surface says of one run at one moment: rows, JSON, texts, and over a link."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from runners.cost.cost_reader import costs_of
from runners.cost.run_costs import Costs
from runners.model.run import Run
from runners.places.remote import remote_row
from runners.places.run_row import RunRow
from runners.places.ssh.snapshot_updates import row_to_tree, rows_of
from runners.places.ssh.thinning import thin_row
from runners.watch.metrics.live import LiveReport
from tests.pairs.runs import World
from tui.views.runs.row_reading import row_of_ended, row_of_view
from tui.views.runs.run_details import describe_details, describe_run
from tui.views.runs.run_json import to_json
from tui.views.runs.run_view import RunView, view_run


class Answers(NamedTuple):
    """What the surfaces say of one run: `rows` by surface, texts by their names."""

    view: RunView
    json: dict[str, Any]
    rows: dict[str, RunRow]
    status: dict[str, str]
    details: dict[str, str]


def ask_all(world: World, run: Run) -> Answers:
    """Ask every surface about one run, at the world's own moment."""
    costs: Costs = costs_of(world.state, [run])
    view = view_run(run, now=world.now, thorough=True, costs=costs)
    shown = view_run(run, LiveReport(run), world.now, costs=costs)
    rows = {"panel": row_of_view(shown), "link": over_a_link(shown)}
    if not run.is_live:
        rows["list"] = row_of_ended(run, 0)
    details: dict[str, str] = {}
    for _, pairs in describe_details(view, world.state, files=False):
        details.update(pairs)
    return Answers(view, to_json(view), rows, dict(describe_run(view)), details)


def over_a_link(view: RunView) -> RunRow:
    """The row of a run as another machine's panel shows it."""
    tree = msgspec.json.decode(msgspec.json.encode(row_to_tree(thin_row(row_of_view(view)))))
    (row,) = rows_of([tree])
    return remote_row("rented", row, 0.0)
