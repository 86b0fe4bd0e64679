"""`delete` and `undelete`."""

import argparse
import time
from typing import Any

from runners.host.clock import age
from runners.housekeeping import tended_state
from runners.lifecycle.control.trash import (
    KEPT_S,
    DeletedRun,
    delete,
    empty_trash,
    list_deleted,
    undelete,
)
from runners.model.errors import ExitCode, WrongInput
from runners.model.run import Run
from runners.model.units import counted
from runners.state.layout import StateDirectory
from runners.state.runs import find_runs
from tui.cli.output import echo, echo_unfetched, print_json, print_table
from tui.views.format import duration
from tui.views.json_values import iso


def run_delete(arguments: argparse.Namespace) -> int:
    """Move ended runs to the trash; exit 1 when one had to stay."""
    state = tended_state()
    deletion = delete(state, find_runs(state, arguments.runs))
    gone = {run.id for run in deletion.deleted}
    if arguments.forever:
        empty_trash(state, [run for run in list_deleted(state) if run.id in gone])
    if arguments.json:
        kept = [{"run": run, "reason": reason} for run, reason in deletion.kept.items()]
        print_json(
            {
                "deleted": sorted(gone),
                "kept": kept,
                "forever": arguments.forever,
                "unfetched": deletion.unfetched,
            }
        )
    else:
        for run in deletion.deleted:
            print(run.id)
        for run_id, reason in deletion.kept.items():
            echo(f"{run_id} stays: {reason}")
        echo_unfetched(deletion.unfetched)
        _print_deleted(deletion.deleted, arguments.forever)
    return ExitCode.RUN_FAILED if deletion.kept else ExitCode.DONE


def _print_deleted(runs: list[Run], forever: bool) -> None:
    if not runs:
        return
    what = runs[0].id if len(runs) == 1 else f"{len(runs):,} runs"
    if forever:
        echo(f"{what}: gone for good")
        return
    names = " ".join(run.id for run in runs[:4]) + (" …" if len(runs) > 4 else "")
    kept = duration(KEPT_S)
    echo(f"{what} deleted, kept for {kept}: `fresnel-tui undelete {names}` restores")


def run_undelete(arguments: argparse.Namespace) -> None:
    """Bring deleted runs back; without a name, list them."""
    state = StateDirectory()
    if arguments.empty:
        if arguments.runs:
            raise WrongInput("--empty takes no run: it removes all deleted runs for good")
        gone = empty_trash(state, list_deleted(state))
        if arguments.json:
            print_json({"removed": [run.id for run in gone]})
        else:
            echo(f"{counted(len(gone), 'deleted run')} gone for good")
        return
    if not arguments.runs:
        _list(list_deleted(state), arguments.json)
        return
    runs = undelete(state, arguments.runs)
    if arguments.json:
        print_json({"restored": [run.id for run in runs]})
    else:
        for run in runs:
            print(run.id)


def _list(deleted: list[DeletedRun], as_json: bool) -> None:
    if as_json:
        print_json([_to_json(run) for run in deleted])
    elif deleted:
        now = time.time()
        rows = [
            (
                run.id,
                run.name,
                str(run.state),
                f"{duration(age(run.deleted, now))} ago by {run.by}",
                f"in {duration(max(0.0, run.until - now))}",
            )
            for run in deleted
        ]
        print_table(("run", "name", "state", "deleted", "gone for good"), rows)
    else:
        echo("no deleted runs")


def _to_json(run: DeletedRun) -> dict[str, Any]:
    return {
        "id": run.id,
        "name": run.name,
        "state": str(run.state),
        "deleted_by": run.by,
        "deleted": iso(run.deleted),
        "until": iso(run.until),
    }
