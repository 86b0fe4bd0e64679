"""`remedy`: what can be done about an ended run, as diffs of its plan; applied when asked."""

import argparse
from typing import Any

import msgspec

from runners.diagnosis.remedy.remedies import (
    FUNCTIONS,
    Proposal,
    combined_diff,
    launch_treated,
    open_case,
    propose,
    treat,
)
from runners.diagnosis.verdict import to_json as verdict_json
from runners.housekeeping import tend
from runners.lifecycle.control.wait import wait_until_ended
from runners.model.errors import ExitCode
from runners.state.layout import StateDirectory
from runners.state.runs import find_run
from tui.cli.output import print_json, run_exit_code, say
from tui.views.health.diagnosis_text import diagnose_run, diagnosis_pairs
from tui.views.runs.run_json import to_json
from tui.views.runs.run_view import view_run


def run_remedy(arguments: argparse.Namespace) -> int:
    """Show the remedies of a run with their diffs, or launch it again with those applied."""
    state = StateDirectory().create()
    tend(state)
    run = find_run(state, arguments.run)
    verdict = diagnose_run(run)
    case = open_case(state, run, verdict)
    if arguments.apply:
        treated = treat(case, arguments.apply)
        for line in combined_diff(case, treated):
            say(line)
        if arguments.dry_run:
            return ExitCode.DONE
        started = launch_treated(treated)
        if arguments.wait:
            started = wait_until_ended(state, started.id)
        if arguments.json:
            print_json(to_json(view_run(started, thorough=True)))
        else:
            print(started.id, flush=True)
        return run_exit_code(started) if arguments.wait else ExitCode.DONE
    proposals = propose(case, list(FUNCTIONS) if arguments.all else ())
    if arguments.all:
        proposals = [one for one in proposals if not one.obstacle]
    if arguments.json:
        diagnosis = None if verdict is None else verdict_json(verdict)
        remedies = [_to_json(one) for one in proposals]
        print_json({"run": run.id, "diagnosis": diagnosis, "remedies": remedies})
        return ExitCode.DONE
    for name, words in diagnosis_pairs(verdict):
        if name != "remedies":  # they follow, each with its diff
            print(f"{name}: {words}")
    for one in proposals:
        _print(one)
    if not proposals:
        say("no remedy is known for this; --all shows what could be tried")
    elif any(not one.obstacle for one in proposals):
        say(f"\nfresnel-tui remedy {run.id} --apply NAME launches it; several go together")
    return ExitCode.DONE


def _print(one: Proposal) -> None:
    print(f"\n{one.name}: {one.words}")
    if one.obstacle:
        print(f"    not possible: {one.obstacle}")
    for line in one.diff:
        print(f"    {line}")
    if one.waits:
        print(f"    would wait: {one.waits}")


def _to_json(one: Proposal) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(one)
    return {**found, "possible": not one.obstacle}
