"""`verify`: check a preset, a group or a command before it is launched."""

import argparse
import sys
from typing import Any

from runners.model.declared_checks import CHECK_GROUPS
from runners.model.errors import ExitCode, WrongInput
from runners.model.suggestions import nearest_hint
from runners.state.layout import StateDirectory
from runners.verify.verify import Verification, verify
from tui.cli.output import echo, print_json
from tui.cli.specs import specs_from
from tui.views.health.verification_text import counts_text


def run_verify(arguments: argparse.Namespace) -> int:
    """Print PASS, WARN and FAIL with what to do; exit 1 when something fails."""
    specs = specs_from(arguments)
    for group in arguments.only or ():
        if group not in CHECK_GROUPS:
            known = f"the groups are {', '.join(CHECK_GROUPS)}"
            raise WrongInput(
                f"--only {group}: no such checks{nearest_hint(group, CHECK_GROUPS)}", known
            )
    found = verify(StateDirectory().create(), specs, arguments.only or ())
    if arguments.json:
        print_json({"passed": not _failed(found), "runs": [_to_json(result) for result in found]})
    else:
        for i, result in enumerate(found):
            if len(found) > 1:
                print(f"{'' if i == 0 else chr(10)}{result.name}:")  # a group: whose they are
            _print(result, arguments.brief)
        sys.stdout.flush()
        echo(counts_text(*found))
    return ExitCode.RUN_FAILED if _failed(found) else ExitCode.DONE


def _failed(found: list[Verification]) -> bool:
    return any(result.failures for result in found)


def _print(result: Verification, brief: bool) -> None:
    if brief and not result.failures and not result.warnings:
        print(f"PASS  {len(result.checks)} checks")
    for _, check in result.checks:
        if brief and check.verdict == "PASS":
            continue
        print(f"{check.verdict}  {check.name}: {check.message}")
        if check.advice and check.verdict != "PASS":
            print(f"      {check.advice}")


def _to_json(result: Verification) -> dict[str, Any]:
    return {
        "preset": result.preset,
        "name": result.name,
        "failures": len(result.failures),
        "warnings": len(result.warnings),
        "checks": [{"group": group, **check._asdict()} for group, check in result.checks],
    }
