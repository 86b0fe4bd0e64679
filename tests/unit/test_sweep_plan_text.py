"""A sweep's plan in the launch form."""

from io import StringIO

from rich.console import Console

from runners.lifecycle.launch.sweep import Sweep
from runners.presets.load import command_spec
from tui.panel.screens.launch_plan_text import plan_lines
from tui.views.runs.form_plan import FormPlan, FormRun


def test_all_of_it_stands_in_one_column() -> None:
    specs = [command_spec(["true"]) for _ in range(6)]
    sweep = Sweep(specs, ["one of its values is the default"])
    plan = FormPlan([FormRun([("GPUs", "1 H100"), ("price", "$1.99/h")], True)])
    out = StringIO()
    lines = plan_lines(plan, sweep, [("values", "not set → seed=0..5")])
    Console(file=out, width=60).print(lines)
    rows = {row.split()[0]: row for row in out.getvalue().splitlines() if row[:1].isalpha()}
    starts = {
        name: len(row) - len(row[len(name) :].lstrip())
        for name, row in rows.items()
        if name in ("changed", "sweep", "note", "GPUs", "price")
    }
    assert len(starts) == 5 and len(set(starts.values())) == 1, (starts, out.getvalue())
