"""A sweep's plan in the launch form."""

from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from runners.lifecycle.launch.sweep import Sweep, SweepWish, sweep_of
from runners.presets.load import command_spec
from runners.state.layout import StateDirectory
from tests.command_text import starts_now
from tui.cli.specs import CommandSource
from tui.panel.screens.launch_plan_text import outcome_text, plan_lines
from tui.views.runs.form_plan import FormPlan, FormRun, form_plan


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


def test_it_says_of_all_runs_whether_they_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the form, with its first run planned in full."""
    monkeypatch.setenv("FRESNEL_GPUS", "sim:4xA100")
    wish = SweepWish(name="grid")
    sweep = sweep_of(wish, ["lr=1,2,3,4,5,6", "gpus=1"], CommandSource(["echo", "{lr}"]))
    assert sweep is not None
    plan = form_plan(StateDirectory(tmp_path).create(), sweep.specs)
    assert len(plan.runs) == 1
    short = outcome_text(plan, sweep).plain.splitlines()
    assert short[0] == "6 runs" and short[1].startswith(starts_now(4, 2))
    assert short[2].startswith("the first: ✔")
    out = StringIO()
    Console(file=out, width=100).print(plan_lines(plan, sweep, []))
    assert starts_now(4, 2) in out.getvalue()
