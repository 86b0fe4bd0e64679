"""Comparing runs: an argv taken apart, what differs, who is best, means over seeds."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from runners.cost.run_costs import RunCost
from runners.model.plan import AssignedGpu
from runners.model.program import NodePlace
from runners.model.run import Labels
from runners.model.states import State
from runners.model.wrappers import STDBUF
from runners.state.layout import StateDirectory
from runners.watch.metrics.final import FinalMetric
from runners.watch.metrics.final_maker import make_final
from tests.support import make_plan, make_run
from tui.cli.monitor import _row
from tui.panel.screens.compare import draw_comparison
from tui.panel.widgets.metrics.settings_pane import describe, draw_details
from tui.views.runs.comparison import change, compare, differing
from tui.views.runs.comparison_text import csv_rows, spread_text, tables_of, to_json
from tui.views.runs.plan_text import gpu_numbers
from tui.views.runs.queue_text import _holder_line
from tui.views.runs.run_details import describe_details
from tui.views.runs.run_facts import RunFacts
from tui.views.runs.run_settings import (
    argv_settings,
    as_text,
    launched_settings,
    same,
    settings_of,
    started_with,
)
from tui.views.runs.run_view import view_run


@pytest.mark.parametrize(
    ("line", "settings"),
    [
        ("python train.py --lr 3e-4 --amp", {"lr": "3e-4", "amp": "yes"}),
        ("python train.py --lr=3e-4 --name=a=b", {"lr": "3e-4", "name": "a=b"}),
        ("python t.py --betas 0.9 0.99 --shift -3", {"betas": "0.9 0.99", "shift": "-3"}),
        ("python t.py -b 32 optim.lr=0.1 +new=1", {"b": "32", "optim.lr": "0.1", "new": "1"}),
        ("torchrun --nproc-per-node=2 t.py --lr 1", {"nproc-per-node": "2", "lr": "1"}),
    ],
)
def test_a_command_line_is_taken_apart(line: str, settings: dict[str, str]) -> None:
    found = argv_settings(line.split())
    assert found == argv_settings([*STDBUF, *line.split()]), "a plan puts it before a program"
    command = found.pop("command")
    assert found == settings and command.split()[0] == line.split()[0]


def test_settings_in_a_shell_s_line_are_found_behind_what_a_plan_puts_before_it() -> None:
    plan = make_plan(argv=[*STDBUF, "sh", "-c", "python train.py --lr 3e-4 | tee log"])
    run = make_run(State.DONE, plan=plan)
    found = settings_of(run, {})
    assert started_with(run)["lr"] == found["lr"] == "3e-4"
    assert found["command"].startswith("python train.py")


@pytest.mark.parametrize("flag", ["--opt=lr=3e-4", "--opt lr=3e-4", "t=1 --set lr=3e-4 bs=2"])
def test_a_setting_inside_a_flag_s_value_is_found_by_its_name(flag: str) -> None:
    run = make_run(State.DONE, plan=make_plan(argv=["python", "t.py", *flag.split()]))
    assert started_with(run)["lr"] == "3e-4"


def test_what_is_compared_and_what_is_searched_are_the_same_settings() -> None:
    plan = make_plan(argv=["python", "t.py", "5", "--lr", "3e-4"])
    spec = msgspec.structs.replace(plan.spec, swept={"lr": "3e-4", "depth": "5"})
    run = make_run(State.DONE, plan=msgspec.structs.replace(plan, spec=spec))
    compared = launched_settings(run)
    del compared["command"]
    assert compared == started_with(run) == {"lr": "3e-4", "depth": "5"}


def test_the_same_number_spelled_otherwise_is_no_difference() -> None:
    assert same("3e-4", "0.0003") and same(None, None) and same("a", "a")
    assert not same("3e-4", "3e-5") and not same("1", None) and not same("1", "one")


def metric(last: float, best: float | None = None, step: float = 9) -> FinalMetric:
    return FinalMetric(last, 10, 10, best=last if best is None else best, best_step=step)


def fact(name: str, loss: float, psnr: float = 20.0, **settings: str) -> RunFacts:
    run = make_run(State.DONE, id=f"20261120-101500-{name}-7f3a", name=name)
    return RunFacts(
        run,
        {"command": "python train.py", **settings},
        {},
        {"commit": "abc"},
        {"python": "3.11"},
        {"host": "box"},
        {"loss": metric(loss), "psnr": metric(psnr)},
        headline="loss",
        seconds=60.0,
        money=RunCost(),
    )


def rows(found: Any, section: int) -> dict[str, tuple[str | None, ...]]:
    return {row.name: row.values for row in found.sections[section].rows}


def test_only_what_differs_is_shown_and_the_best_is_marked() -> None:
    found = compare([fact("a", 0.5, 21.0, lr="1e-3", wd="0"), fact("b", 0.3, 20.0, lr="3e-3")])
    assert rows(found, 0) == {"lr": ("1e-3", "3e-3"), "wd": ("0", None)}
    assert [rows(found, i) for i in (1, 2, 3)] == [{}, {}, {}]
    leaders = {row.name: row.leader for row in found.metrics}
    assert leaders == {"loss": 1, "psnr": 0}, "less loss, more psnr"
    assert found.ranking == (1, 0)
    everything = compare(found.facts, everything=True)
    assert "command" in rows(everything, 0) and len(differing(everything)) == 2


def test_runs_that_differ_in_their_seeds_are_one_row_of_means() -> None:
    runs = [
        fact(f"r{lr}{seed}", loss, lr=lr, seed=seed)
        for lr, seed, loss in (
            ("1", "0", 0.5), ("1", "1", 0.7), ("2", "0", 0.2), ("2", "1", 0.4), ("2", "2", 0.3),
        )
    ]  # fmt: skip
    found = compare([*runs, fact("alone", 0.9, lr="3", seed="0")])
    assert [group.runs for group in found.seeds] == [(0, 1), (2, 3, 4)]
    spread = found.seeds[1].last["loss"]
    assert (round(spread.mean, 6), round(spread.deviation or 0, 6), spread.runs) == (0.3, 0.1, 3)
    assert spread_text(spread) == "0.3 ± 0.1"
    title, table = tables_of(found)[-1]
    assert "seeds" in title and [row[:2] for row in table[1:]] == [("lr=1", "2"), ("lr=2", "3")]
    assert not compare([fact("x", 1, lr="1"), fact("y", 2, lr="1")]).seeds, "no seed, no mean"


def test_on_a_narrow_screen_names_are_shortened_and_numbers_are_not() -> None:
    long = "vit-base-patch16-cosine-warmup-augmented-"
    runs = [
        fact(long + end, loss, data=f"/data/imagenet/a/long/path/{end}")
        for end, loss in (("trial", 0.123456), ("retry", 0.2))
    ]
    text = draw_comparison(compare(runs), 76).plain
    assert max(map(len, text.splitlines())) <= 76 and long not in text
    assert "nted-trial" in text and "nted-retry" in text, "names keep the end that differs"
    assert text.count("0.1235 at ") == 1 and "/trial" in text
    wide = draw_comparison(compare(runs), 400).plain
    assert long + "trial" in wide and "/data/imagenet/a/long/path/retry" in wide


def test_a_baseline_is_named_or_tagged_and_the_others_are_measured_by_it() -> None:
    facts = [fact("a", 0.5), fact("b", 0.4), fact("c", 0.6)]
    labelled = msgspec.structs.replace(facts[1].run, labels=Labels(tags=("baseline",)))
    with_tag = [facts[0], msgspec.structs.replace(facts[1], run=labelled), facts[2]]
    assert compare(with_tag).baseline == 1
    named = compare(facts, baseline=facts[0].run.id)
    assert named.baseline == 0
    text = "\n".join(" ".join(row) for _, table in tables_of(named) for row in table)
    assert "a (baseline)" in text and "-20.0%" in text and "+20.0%" in text
    assert change(1.0, 0.0) == "" and change(None, 1.0) == ""


def test_many_runs_stand_in_rows_and_csv_has_one_for_each() -> None:
    found = compare([fact(f"r{i}", 1 - i / 10, lr=str(i)) for i in range(6)])
    title, table = tables_of(found)[0]
    assert "by loss" in title and [row[1] for row in table[1:]][:2] == ["r5", "r4"]
    csv = csv_rows(found)
    assert len(csv) == 7 and csv[0][:2] == ["id", "name"] and csv[1][1] == "r5"
    assert to_json(found)["ranking"][0].endswith("r5-7f3a")


def test_the_json_of_a_comparison_names_a_value_that_is_no_number() -> None:
    both = compare(
        [facts_with(1, final_loss(float("nan")), {}), facts_with(2, final_loss(0.7), {})]
    )
    (loss,) = to_json(both)["metrics"]
    found = [(one["last"], one["not_finite"]) for one in loss["values"]]
    assert found == [(None, "nan"), (0.7, None)]


def test_no_run_leads_by_less_than_what_was_printed() -> None:
    def written(name: str, loss: float, decimals: int) -> RunFacts:
        value = FinalMetric(loss, 10, 10, best=loss, best_step=9, decimals=decimals)
        return msgspec.structs.replace(fact(name, loss), metrics={"loss": value})

    others = written("c", 0.3, 4)
    found = [
        compare([written("a", 0.05, 4), written("b", 0.05, 4), others]),
        compare([written("a", 0.044, 3), written("b", 0.0441, 4), others]),
        compare([written("a", 0.044, 3), written("b", 0.0446, 4), others]),
        compare([written("a", 0.5, 2), written("b", 0.46, 2)]),
    ]
    assert [comparison.metrics[0].leader for comparison in found] == [None, None, 0, 1]


def test_how_exactly_values_were_written_is_kept(tmp_path: Path) -> None:
    lines = "".join(f"step {i}/9 | loss: {i / 8:.2f} | acc: {i}\n" for i in range(1, 9))
    (tmp_path / "output.log").write_text(lines)
    final = make_final(make_run(State.DONE, directory=str(tmp_path), ended=2000.0))
    assert final.metrics["loss"].decimals == 2


def final_loss(last: float, step: float = 1_234_567) -> FinalMetric:
    odd = None if last == last else "nan"
    return FinalMetric(None if odd else last, step, 9, best=0.5, best_step=7.0, not_finite=odd)


def facts_with(number: int, final: FinalMetric, settings: dict[str, str]) -> RunFacts:
    run = msgspec.structs.replace(make_run(), id=f"20261120-10150{number}-demo-7f3{number}")
    return RunFacts(run, settings, {}, {}, {}, {}, {"loss": final}, "loss")


def test_a_last_loss_that_is_no_number_is_no_unknown_one_and_no_step_is_rounded() -> None:
    both = compare(
        [facts_with(1, final_loss(float("nan")), {}), facts_with(2, final_loss(0.7), {})]
    )
    cells = dict(tables_of(both))["metrics"][1]
    assert cells[1].startswith("⚠ nan at 1,234,567") and cells[2].startswith("0.7 at 1,234,567")


def test_seeds_near_the_greatest_float_are_compared() -> None:
    runs = [facts_with(i, final_loss(1.7e308), {"seed": str(i)}) for i in (1, 2)]
    (group,) = compare(runs).seeds
    assert group.last == {}


def test_settings_that_differ_in_their_seventh_digit_differ() -> None:
    assert not same(as_text(0.1234567), as_text(0.1234568))


def test_a_link_that_leads_nowhere_hides_no_file_of_a_run(tmp_path: Path) -> None:
    (tmp_path / "newest.ckpt").symlink_to("gone.ckpt")
    for name in ("a", "b", "c"):
        (tmp_path / name).write_text("x")
    view = view_run(make_run(State.DONE, directory=str(tmp_path)))
    found = dict(describe_details(view, StateDirectory(tmp_path)))["Files"]
    assert [name for name, _ in found][1:] == ["a", "b", "c"]


def test_a_setting_spelled_otherwise_is_no_other_one_beside_the_curves() -> None:
    def marked(value: str) -> bool:
        sections = [("Settings", {"lr": "3e-4"})]
        return "≠" in draw_details("A", sections, [{"lr": value}], 40).plain

    assert not marked("0.0003") and marked("0.0004")


def test_gpus_of_several_nodes_are_numbered_alike_everywhere() -> None:
    gpus = tuple(
        AssignedGpu(i, f"GPU-{node}-{i}", "H100", i, node=node) for node in (0, 1) for i in range(4)
    )
    plan = make_plan(gpus=gpus)
    place = NodePlace(2, 0, "a", 1, by_slurm=True)
    plan = msgspec.structs.replace(plan, spec=msgspec.structs.replace(plan.spec, node=place))
    view = view_run(make_run(plan=plan))
    numbers = "0-3 on each of 2 nodes"
    assert gpu_numbers(plan) == numbers
    details = dict(describe_details(view, StateDirectory()))["GPUs and cost"]
    assert dict(details)["GPUs"].startswith(numbers)
    assert dict(describe(view, {}, []))["Environment"]["GPUs"] == numbers
    assert _row(view)[2] == numbers
    assert numbers in _holder_line(view)
