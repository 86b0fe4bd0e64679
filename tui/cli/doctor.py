"""`doctor`."""

import argparse

from runners.doctor.checks import Check, check_machine
from runners.doctor.state_checks import check_state
from runners.gpus.client import read_gpus
from runners.guard.rule import read_guard
from runners.host.clock import moment_now
from runners.model.errors import ExitCode
from runners.model.gpus import GpuReading
from runners.state.layout import StateDirectory
from tui.cli.output import print_json
from tui.views.guard_text import guard_text


def run_doctor(arguments: argparse.Namespace) -> int:
    """Look at everything a run depends on; exit 1 when something makes runs impossible."""
    state = StateDirectory()
    checks = list(check_state(state))
    usable = all(check.verdict != "FAIL" for check in checks)
    reading = (
        read_gpus(state)
        if usable
        else GpuReading(0.0, "", "none", problem="not read: see the state folder")
    )
    checks += check_machine(state, reading)
    checks += _check_guard(state)
    if arguments.json:
        print_json([check._asdict() for check in checks])
    else:
        for check in checks:
            _print(check)
    failed = any(check.verdict == "FAIL" for check in checks)
    return ExitCode.RUN_FAILED if failed else ExitCode.DONE


def _check_guard(state: StateDirectory) -> list[Check]:
    """The guard that is set, as a check: a warning for everything that is wrong with it."""
    view = read_guard(state)
    if view.rule is None and not view.problems:
        return []
    if not view.problems:
        return [Check("guard", "PASS", guard_text(view, moment_now()))]
    return [Check("guard", "WARN", problem) for problem in view.problems]


def _print(check: Check) -> None:
    print(f"{check.verdict}  {check.name}: {check.words}")
    if check.advice:
        print(f"      {check.advice}")
