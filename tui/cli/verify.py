"""`verify`: check a preset, a group or a command before it is launched."""

import argparse
import sys
from typing import Any

from runners.model.declared_checks import CHECK_GROUPS
from runners.model.errors import ExitCode, WrongInput
from runners.presets.reading.diagnostics import nearest
from runners.state.layout import StateDirectory
from runners.verify.verify import Verification, verify
from tui.cli.output import print_json, say
from tui.cli.specs import specs_from
from tui.views.health.verification_text import counts_text


def run_verify(arguments: argparse.Namespace) -> int:
    """Print PASS, WARN and FAIL with what to do; exit 1 when something fails."""
    specs = specs_from(arguments)
    for group in arguments.only or ():
        if group not in CHECK_GROUPS:
            known = f"the groups are {', '.join(CHECK_GROUPS)}"
            raise WrongInput(f"--only {group}: no such checks{nearest(group, CHECK_GROUPS)}", known)
    found = verify(StateDirectory().create(), specs, arguments.only or ())
    if arguments.json:
        print_json({"passed": not _failed(found), "runs": [_to_json(one) for one in found]})
    else:
        for i, one in enumerate(found):
            if len(found) > 1:
                print(f"{'' if i == 0 else chr(10)}{one.name}:")  # a group: whose they are
            _print(one, arguments.brief)
        sys.stdout.flush()
        say(counts_text(*found))
    return ExitCode.RUN_FAILED if _failed(found) else ExitCode.DONE


def _failed(found: list[Verification]) -> bool:
    return any(one.failures for one in found)


def _print(one: Verification, brief: bool) -> None:
    if brief and not one.failures and not one.warnings:
        print(f"PASS  {len(one.checks)} checks")
    for _, check in one.checks:
        if brief and check.verdict == "PASS":
            continue
        print(f"{check.verdict}  {check.name}: {check.words}")
        if check.advice and check.verdict != "PASS":
            print(f"      {check.advice}")


def _to_json(one: Verification) -> dict[str, Any]:
    return {
        "preset": one.preset,
        "name": one.name,
        "failures": len(one.failures),
        "warnings": len(one.warnings),
        "checks": [{"group": group, **check._asdict()} for group, check in one.checks],
    }
