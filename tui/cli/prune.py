"""`prune`."""

import argparse
from typing import Any

import msgspec

from runners.housekeeping import tended_state
from runners.lifecycle.control.prune import Criteria, Pruned, prune
from runners.model.errors import ExitCode, WrongInput
from runners.model.states import TERMINAL, State
from runners.model.units import counted
from tui.cli.output import echo, echo_unfetched, print_json
from tui.views.format import size

_ENDED = ", ".join(sorted(TERMINAL))


def run_prune(arguments: argparse.Namespace) -> int:
    """Remove ended runs by age, number and ending."""
    criteria = criteria_from(arguments)
    state = tended_state()
    pruned = prune(state, criteria, arguments.dry_run)
    if arguments.json:
        print_json(to_json(pruned, arguments.dry_run))
    else:
        _print(pruned, arguments.dry_run)
    return ExitCode.RUN_FAILED if pruned.failed else ExitCode.DONE


def criteria_from(arguments: argparse.Namespace) -> Criteria:
    """The criteria on the command line; WrongInput when there is none."""
    if arguments.older_than is None and arguments.keep is None and arguments.state is None:
        raise WrongInput(
            "prune what? No criterion is given",
            "--older-than 30d, --keep 100 and --state done,failed may be combined; --dry-run "
            "only shows",
        )
    if arguments.keep is not None and arguments.keep < 0:
        raise WrongInput(f"--keep {arguments.keep}: expected 0 or more")
    return Criteria(arguments.older_than, arguments.keep, _states(arguments.state))


def _states(text: str | None) -> frozenset[State]:
    names = [] if text is None else [word.strip() for word in text.split(",")]
    for word in names:
        if word not in TERMINAL:
            raise WrongInput(f"--state {text}: expected one or more of {_ENDED}, got {word!r}")
    return frozenset(State(word) for word in names)


def to_json(pruned: Pruned, dry_run: bool) -> dict[str, Any]:
    """The documented JSON: runs removed, kept and failed with reasons, bytes freed."""
    return {
        "dry_run": dry_run,
        "removed": [msgspec.to_builtins(run) for run in pruned.removed],
        "kept": [{"run": run, "reason": reason} for run, reason in pruned.left.items()],
        "failed": [{"run": run, "reason": reason} for run, reason in pruned.failed.items()],
        "bytes": pruned.bytes,
        "unfetched": pruned.unfetched,
    }


def _print(pruned: Pruned, dry_run: bool) -> None:
    for run in pruned.removed:
        print(f"{run.run}  {run.state}  {size(run.bytes)}")
    for run_id, reason in (pruned.left | pruned.failed).items():
        echo(f"{run_id} stays: {reason}")
    if pruned.leftover_bytes:
        echo(f"finished what an interrupted prune had left: {size(pruned.leftover_bytes)}")
    echo_unfetched(pruned.unfetched)
    what = counted(len(pruned.removed), "run")
    echo(
        f"would remove {what}: {size(pruned.bytes)}"
        if dry_run
        else f"removed {what}: {size(pruned.bytes)} freed"
    )
