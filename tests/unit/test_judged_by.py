"""What a run is judged by: its preset's word, its user's, and every surface that goes by it."""

import json
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from runners.cost.run_costs import RunCost
from runners.guard.hopeless import _SweepWatcher
from runners.guard.sweep_watch import SweepWatch
from runners.lifecycle.launch.sampler_study import _result
from runners.lifecycle.launch.sweep import SweepWish, sweep_of
from runners.model.metric_rule import BestMetric
from runners.model.run import RunRecord
from runners.model.sampler_search import Search
from runners.model.spec import RunSpec
from runners.model.states import State
from runners.places.actions import JudgeRuns, commands_of
from runners.places.here import carry_out
from runners.places.run_row import RunRow
from runners.presets.load import load_preset
from runners.state.layout import StateDirectory
from runners.state.runs import read_run
from runners.watch.metrics.final_maker import keep_final
from runners.watch.metrics.judging import best_metric, higher, next_judging, ordered
from tests.support import make_plan, make_run
from tui.views.runs.comparison import compare
from tui.views.runs.row_reading import row_of_ended, row_of_view
from tui.views.runs.run_facts import facts_of
from tui.views.runs.run_json import to_json
from tui.views.runs.run_sort import parse_sort, sort_rows
from tui.views.runs.run_view import view_run

WOBBLES = (3.0, 9.0, 5.0)
"""Values of a metric of whose name nobody knows whether more is better."""


@pytest.fixture
def state(tmp_path: Path) -> StateDirectory:
    return StateDirectory(tmp_path / "state").create()


def ended(
    state: StateDirectory,
    best: BestMetric | None = None,
    wobbles: Sequence[float] = WOBBLES,
    number: int = 1,
) -> str:
    """A finished run that reports a loss and a wobble; its id."""
    run = state.run(f"20261120-10150{number}-demo-7f3a")
    run.path.mkdir(parents=True)
    plan = make_plan(run.id, directory=str(run.path), best=best)
    run.plan.write_bytes(msgspec.json.encode(plan))
    with run.events.open("w") as out:
        for step, wobble in enumerate(wobbles, 1):
            values = {"loss": 1 / step, "wobble": wobble}
            out.write(json.dumps({"time": step, "type": "metrics", "step": step, "values": values}))
            out.write("\n")
    record = RunRecord(State.DONE, started=1000.0, ended=2000.0)
    run.state.write_bytes(msgspec.json.encode(record))
    return run.id


def row(state: StateDirectory, run: str) -> RunRow:
    """The row of a run from its folder, which is also that of its view."""
    found = read_run(state, run)
    made, viewed = row_of_ended(found, 0), row_of_view(view_run(found))
    assert (made.best_value, made.judge) == (viewed.best_value, viewed.judge)
    return made


def test_a_metric_of_unknown_direction_has_no_best_until_somebody_says(
    state: StateDirectory,
) -> None:
    run = ended(state)
    keep_final(read_run(state, run))
    assert row(state, run).metric("wobble")[1] is None
    for upwards, best in ((True, 9.0), (False, 3.0)):
        carry_out(state, JudgeRuns((run,), "wobble", upwards))
        found = read_run(state, run)
        assert row(state, run).best_value == row(state, run).metric("wobble")[1] == best
        told = to_json(view_run(found))
        assert told["best"]["wobble"]["value"] == best
        assert told["best_metric"] == {"metric": "wobble", "higher": upwards}
        assert keep_final(found).metrics["wobble"].best == best
        (_, wobble) = compare([facts_of(state, found, RunCost())]).metrics
        assert wobble.higher is upwards or wobble.name == "loss"
    carry_out(state, JudgeRuns((run,)))
    told = to_json(view_run(read_run(state, run)))
    assert told["best_metric"] is None and "wobble" not in told["best"]
    assert row(state, run).judge == "loss"


def test_what_the_user_says_stands_before_what_the_preset_says(state: StateDirectory) -> None:
    run = ended(state, BestMetric("wobble", True))
    keep_final(read_run(state, run))
    assert row(state, run).best_value == 9.0
    carry_out(state, JudgeRuns((run,), "wobble", False))
    assert row(state, run).best_value == 3.0
    carry_out(state, JudgeRuns((run,)))
    assert row(state, run).best_value == 9.0


def test_runs_are_sorted_and_compared_by_what_they_are_judged_by(state: StateDirectory) -> None:
    best = BestMetric("wobble", True)
    runs = [ended(state, best, (1.0, top, 2.0), at) for at, top in enumerate((4.0, 8.0, 6.0), 1)]
    rows = [row(state, run) for run in runs]
    for text in ("best", "best:wobble"):
        assert [found.id for found in sort_rows(rows, parse_sort(text))] == [
            runs[at] for at in (1, 2, 0)
        ]
    found = [facts_of(state, read_run(state, run), RunCost()) for run in runs]
    comparison = compare(found)
    assert (comparison.headline, comparison.ranking) == ("wobble", (1, 2, 0))


def test_a_sampler_and_the_median_rule_go_by_it(state: StateDirectory) -> None:
    class Source:
        open_ended = True

        def specs(self, overrides: list[str], name: str) -> list[RunSpec]:
            return [RunSpec("demo", "demo", "command", best=BestMetric("wobble", True))]

        def takes_several(self, key: str) -> bool:
            return True

    wish = SweepWish(samples=4, sampler="tpe")
    sweep = sweep_of(wish, ["lr=1e-4..1e-2"], Source())
    assert sweep is not None
    search = sweep.specs[0].search
    assert search is not None and (search.metric, search.higher) == ("wobble", True)
    named = sweep_of(wish._replace(sampler="tpe:psnr"), ["lr=1..2"], Source())
    assert named is not None and named.specs[0].best == BestMetric("psnr", True)
    run = ended(state, BestMetric("wobble", True))
    assert _result(read_run(state, run), Search("tpe", (), 4, metric="wobble", higher=True)) == 9.0
    watcher = _SweepWatcher(state, SweepWatch("g", (run,), ""))
    watcher.step()
    assert watcher._headline() == "wobble" and watcher._higher("wobble") is True


def test_the_key_goes_round_the_known_direction_first(state: StateDirectory) -> None:
    for metric, first in (("val/loss", False), ("wobble", True)):
        run, seen = make_run(State.DONE), []
        for _ in range(3):
            name, upwards = next_judging(run, metric)
            seen.append((name, upwards))
            best = BestMetric(name, upwards) if name else None
            run = msgspec.structs.replace(
                run, labels=msgspec.structs.replace(run.labels, best=best)
            )
        assert seen == [(metric, first), (metric, not first), ("", None)]
        assert best_metric(run) is None and higher(run, "wobble") is None


def test_a_preset_says_it_in_short_or_in_long(tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    for text, expected in (
        ("best: val_psnr", BestMetric("val_psnr")),
        ("best: {metric: reward_gap, higher: false}", BestMetric("reward_gap", False)),
    ):
        file.write_text(f"launcher: command\ncommand: ['true']\n{text}\n")
        assert load_preset(file).best == expected


def test_the_command_that_does_the_same_is_told() -> None:
    assert list(commands_of(JudgeRuns(("a",), "-x", False))) == [
        ["best", "a", "--lower", "--", "-x"]
    ]
    assert list(commands_of(JudgeRuns(("a",)))) == [["best", "a", "--reset"]]


def test_what_says_most_comes_first_and_what_never_changes_last() -> None:
    """A page of charts is filled from the front."""
    names = [
        *("baseline_psr_l1", "data_wait_share", "val/baseline_psnr", "grad_norm", "psnr_baseline"),
        *("val/psr_l2", "loss", "val/psnr", "lr"),
    ]
    assert ordered(names, [make_run(State.DONE)], pinned=["lr"]) == [
        *("val/psnr", "loss", "lr", "val/psr_l2", "data_wait_share", "grad_norm"),
        *("baseline_psr_l1", "psnr_baseline", "val/baseline_psnr"),
    ]
