"""`rename`, `tag`, `untag`, `note`, `star`, `unstar` and `best`."""

import argparse
import sys
from collections.abc import Callable, Sequence

from runners.lifecycle.control import labels as control
from runners.model.errors import WrongInput
from runners.model.run import Labels, Run
from runners.state.layout import StateDirectory
from runners.state.runs import find_run, find_runs, read_run
from runners.watch.metrics.judging import best_metric
from tui.cli.output import do_each, echo, print_json_of_runs
from tui.views.json_values import fields_json
from tui.views.runs.run_json import best_metric_json
from tui.views.runs.run_text import judged_text


def run_rename(arguments: argparse.Namespace) -> None:
    """Give a run another name, or the one of its launch back."""
    if (arguments.name is None) != arguments.reset:
        raise WrongInput("rename it to what?", "fresnel-tui rename RUN NAME, or --reset")
    state = StateDirectory()
    run = find_run(state, arguments.run)
    control.rename(state, run, arguments.name or "")
    _print_labels(state, [run], arguments.json, is_one=True)


def run_tag(arguments: argparse.Namespace) -> None:
    """Add tags to a run, or to all runs of a group; without any, show those it has."""
    _change_all(
        arguments, lambda state, run: control.tag(state, run, arguments.tags), arguments.tags
    )


def run_untag(arguments: argparse.Namespace) -> None:
    """Take tags from a run, or from all runs of a group."""
    if bool(arguments.tags) == arguments.all:
        raise WrongInput("name the tags to take away, or --all")
    tags = None if arguments.all else arguments.tags
    _change_all(arguments, lambda state, run: control.untag(state, run, tags), True)


def run_note(arguments: argparse.Namespace) -> None:
    """Write a note on a run, clear it, or show it."""
    if arguments.text and arguments.clear:
        raise WrongInput("a text and --clear: choose one")
    state = StateDirectory()
    run = find_run(state, arguments.run)
    if arguments.text or arguments.clear:
        # A pipe or a file has as many lines as it likes.
        from_input = arguments.text == ["-"]
        text = sys.stdin.read() if from_input else " ".join(arguments.text)
        if from_input and not text.strip():
            raise WrongInput("stdin is empty: the note is unchanged", "--clear removes it")
        control.note(state, run, text)
    _print_labels(state, [run], arguments.json, is_one=True)


def run_star(arguments: argparse.Namespace) -> None:
    """Mark runs as ones to keep."""
    _change_all(arguments, lambda state, run: control.star(state, run, True), True)


def run_unstar(arguments: argparse.Namespace) -> None:
    """Take the mark away."""
    _change_all(arguments, lambda state, run: control.star(state, run, False), True)


def run_best(arguments: argparse.Namespace) -> None:
    """Say by which metric runs are judged, or show it."""
    if arguments.higher and arguments.lower:
        raise WrongInput("--higher and --lower: choose one")
    if arguments.reset and arguments.metric:
        raise WrongInput("a metric and --reset: choose one")
    if (arguments.higher or arguments.lower) and not arguments.metric:
        raise WrongInput("more or less of which metric?", "fresnel-tui best RUN METRIC --higher")
    upwards = arguments.higher if arguments.higher or arguments.lower else None

    def judge(state: StateDirectory, run: Run) -> Labels:
        return control.judge_by(state, run, arguments.metric or "", upwards)

    _change_all(arguments, judge, arguments.metric or arguments.reset)


def _change_all(
    arguments: argparse.Namespace, change: Callable[[StateDirectory, Run], Labels], changes: object
) -> None:
    state = StateDirectory()
    names = arguments.runs if "runs" in arguments else [arguments.run]
    runs = find_runs(state, names)
    if changes:
        problem = do_each(runs, lambda run: change(state, run))
        if problem is not None:
            raise problem
    _print_labels(state, runs, arguments.json, runs.is_one)


def _print_labels(state: StateDirectory, runs: Sequence[Run], as_json: bool, is_one: bool) -> None:
    now = [read_run(state, run.id) for run in runs]
    if as_json:
        print_json_of_runs([labels_json(run) for run in now], is_one)
        return
    for run in now:
        labels = run.labels
        star = "★ " if labels.starred else ""
        tags = f"  [{', '.join(labels.tags)}]" if labels.tags else ""
        echo(f"{run.id}  {star}{run.name}{tags}")
        judged = best_metric(run)
        if judged is not None:
            echo(f"  judged by {judged_text(run, judged)}")
        for line in labels.note.splitlines():
            echo(f"  {line}")


def labels_json(run: Run) -> dict[str, object]:
    """The documented JSON of what people wrote on a run."""
    return {
        "id": run.id,
        "name": run.name,
        "launched_as": run.plan.spec.name if run.plan else None,
        **fields_json(run.labels, "tags", "note", "starred"),
        "best_metric": best_metric_json(run),
    }
