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
from runners.model.run_ids import by_names
from runners.state.layout import StateDirectory
from runners.state.runs import find_run
from tui.cli.output import echo, print_json, run_exit_code
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
        diff = combined_diff(case, treated)
        for line in diff:
            echo(line)
        if arguments.dry_run:
            if arguments.json:
                print_json({"run": run.id, "applied": arguments.apply, "diff": list(diff)})
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
        proposals = [proposal for proposal in proposals if not proposal.obstacle]
    if arguments.json:
        diagnosis = None if verdict is None else verdict_json(verdict)
        remedies = [_to_json(proposal) for proposal in proposals]
        print_json({"run": run.id, "diagnosis": diagnosis, "remedies": remedies})
        return ExitCode.DONE
    for name, text in diagnosis_pairs(verdict):
        if name != "remedies":  # they follow, each with its diff
            print(f"{name}: {text}")
    for proposal in proposals:
        _print(proposal)
    if not proposals:
        echo("no remedy is known for this; --all shows what could be tried")
    elif any(not proposal.obstacle for proposal in proposals):
        echo(f"\n`fresnel-tui remedy {run.id} --apply NAME` launches it; several go together")
    return ExitCode.DONE


def _print(proposal: Proposal) -> None:
    print(f"\n{proposal.name}: {proposal.summary}")
    if proposal.obstacle:
        print(f"    not possible: {by_names(proposal.obstacle)}")
    for line in proposal.diff:
        print(f"    {line}")
    if proposal.waits:
        print(f"    would wait: {by_names(proposal.waits)}")


def _to_json(proposal: Proposal) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(proposal)
    return {**found, "possible": not proposal.obstacle}
