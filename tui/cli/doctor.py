"""`doctor`."""

import argparse
import os
from collections.abc import Mapping
from pathlib import Path
from shutil import which
from tempfile import gettempdir

from runners.doctor.checks import Check, check_machine
from runners.doctor.host_facts import HostFacts, read_host
from runners.doctor.machine_checks import (
    check_disks,
    check_drivers,
    check_gpu_errors,
    check_heat,
    check_helpers,
    check_network,
    check_reaping,
    check_versions,
)
from runners.doctor.resources import check_host, judge_rccl
from runners.doctor.state_checks import check_state
from runners.gpus.client import read_gpus
from runners.gpus.usage import read_usage
from runners.guard.rule import read_guard
from runners.host.clock import moment_now
from runners.host.identity import host_name
from runners.lifecycle.launch.interpreter import replaced_python
from runners.model.errors import ExitCode
from runners.model.gpus import GpuReading, Xid
from runners.state.layout import StateDirectory
from runners.state.runs import list_run_ids
from runners.verify.facts import concerns
from runners.verify.program_checks import judge_cudnn
from runners.verify.program_facts import ask_interpreter
from tui.cli.output import print_json
from tui.views.money.guard_text import guard_text, nothing_text

_PATIENCE_S = 60.0
_PACKAGES = ("textual", "msgspec", "psutil", "PyYAML", "watchfiles")
_LOOK_BACK = 200
"""So many of the newest runs are asked for errors of their GPUs."""


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
    checks += check_more(state, reading, read_host())
    checks += check_torch(reading, os.environ)
    checks += _check_guard(state)
    if arguments.json:
        print_json([check._asdict() for check in checks])
    else:
        for check in checks:
            _print(check)
    failed = any(check.verdict == "FAIL" for check in checks)
    return ExitCode.RUN_FAILED if failed else ExitCode.DONE


def check_more(state: StateDirectory, reading: GpuReading, host: HostFacts) -> list[Check]:
    """The machine for runs, drivers, GPUs, disks, network, our own helpers and packages."""
    has_several = len(reading.gpus) > 1 and concerns("RCCL", reading.gpus)
    return [
        *check_host(host),
        *(judge_rccl(host) if has_several else ()),
        *check_drivers(reading),
        *check_gpu_errors(reading, _seen_xids(state)),
        *check_heat(reading),
        *_check_disks(),
        *check_network(host, host_name()),
        *check_helpers(state.root),
        *check_reaping(),
        *check_versions(_installed(), _PACKAGES),
    ]


def _check_disks() -> list[Check]:
    try:
        temporary = Path(gettempdir())
    except OSError:
        advice = "name a folder that you may write in $TMPDIR: programs need one"
        missing = Check("disks", "WARN", "no folder for temporary files can be written", advice)
        return [*check_disks({"here": Path.cwd()}), missing]
    return list(check_disks({"here": Path.cwd(), "temporary files": temporary}))


def check_torch(reading: GpuReading, environment: Mapping[str, str]) -> list[Check]:
    """What is known of the cuDNN of the PyTorch that `python` has here, asked in that Python."""
    if not concerns("driver", reading.gpus):
        return []
    path = environment.get("PATH")
    named = replaced_python("python", {})
    python = which(named, path=path) or which("python3", path=path)
    if python is None:
        return []
    # No imports but torch's own: where there is none, there is nothing to say.
    found = ask_interpreter([python], Path.cwd(), environment, ["torch"], _PATIENCE_S)
    return [] if found is None or found.torch is None else list(judge_cudnn(found.torch))


def _seen_xids(state: StateDirectory) -> list[Xid]:
    """GPU errors of the newest runs, as the sampler wrote them down."""
    newest = list_run_ids(state)[-_LOOK_BACK:] if state.runs.is_dir() else []
    return [xid for run in newest for use in read_usage(state.run(run).path) for xid in use.xids]


def _installed() -> dict[str, str]:
    from importlib.metadata import PackageNotFoundError, version

    found = {}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _check_guard(state: StateDirectory) -> list[Check]:
    """The guard that is set, as a check: a warning for everything that is wrong with it."""
    view = read_guard(state)
    if view.rule is None and not view.problems:
        return []
    if nothing := nothing_text(view, state.guard / "guard.log"):
        return [Check("guard", "WARN", nothing, "`fresnel-tui guard` starts it where it can")]
    if not view.problems:
        kept = f"; started again by {view.keeper.describe()}" if view.keeper is not None else ""
        return [Check("guard", "PASS", guard_text(view, moment_now()) + kept)]
    return [Check("guard", "WARN", problem) for problem in view.problems]


def _print(check: Check) -> None:
    print(f"{check.verdict}  {check.name}: {check.message}")
    if check.advice:
        print(f"      {check.advice}")
