"""`service`: what brings runs, queue, guard and session back after a boot; classic units."""

import argparse
import os
import shutil
import subprocess

from runners.host.files import replace
from runners.host.identity import is_booted, user_name
from runners.host.systemd import lingers
from runners.housekeeping import tend
from runners.lifecycle.launch.planner import plan_runs
from runners.lifecycle.launch.service_unit import NAME, boot_unit, run_unit, unit_folder
from runners.model.errors import DeniedError, ExitCode, FresnelError, NotFound, WrongInput
from runners.model.kept_secrets import MASK
from runners.model.states import State
from runners.presets.catalogue import resolve_runs
from runners.state.layout import StateDirectory
from runners.state.runs import list_runs
from tui.cli.output import echo, print_json, print_pairs

_PATIENCE_S = 20.0


def run_service(arguments: argparse.Namespace) -> int:
    """Install, show, remove or be the service; or print a classic unit for a preset."""
    actions = {"install": _install, "status": _status, "remove": _remove, "boot": _boot}
    if arguments.what == "unit":
        return _print_unit(arguments)
    return actions[arguments.what](arguments)


def _install(arguments: argparse.Namespace) -> int:
    system = bool(arguments.system)
    state = StateDirectory().create()
    folder = unit_folder(system)
    if system and os.geteuid() != 0:
        raise DeniedError(f"{folder} belongs to the system", "sudo, or service install --user")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / NAME
    replace(path, boot_unit(state.root, user_name() if system else None).encode())
    path.chmod(0o644)
    echo(f"wrote {path}")
    for command in (["daemon-reload"], ["enable", NAME]) if is_booted() else ():
        done = _call(system, command)
        if done.returncode:
            raise FresnelError(
                f"systemctl {' '.join(command)}: {done.stderr.strip() or done.returncode}",
                "the unit is written; enable it by hand, or see journalctl",
            )
    if arguments.json:
        print_json({"unit": str(path), "systemd": is_booted()})
    if not is_booted():
        echo(f"systemd does not run this machine: {NAME} is installed, but nothing will start it")
        return ExitCode.RUN_FAILED
    if not system and not lingers():
        echo(
            "your systemd starts at your first login, not at boot: "
            "`loginctl enable-linger` changes that"
        )
    return ExitCode.DONE


def _status(arguments: argparse.Namespace) -> int:
    found = [
        (name, unit_folder(system) / NAME)
        for name, system in (("user", False), ("system", True))
        if (unit_folder(system) / NAME).exists()
    ]
    enabled = {
        name: _ask(name == "system", ["is-enabled", NAME]) if is_booted() else "no systemd here"
        for name, _ in found
    }
    if arguments.json:
        print_json([{"for": name, "unit": str(path), "is": enabled[name]} for name, path in found])
    elif found:
        print_pairs([(name, f"{path} ({enabled[name]})") for name, path in found])
    else:
        echo("not installed: fresnel-tui service install")
    return ExitCode.DONE if found else ExitCode.NOT_FOUND


def _remove(arguments: argparse.Namespace) -> int:
    system = bool(arguments.system)
    path = unit_folder(system) / NAME
    if not path.exists():
        raise NotFound(f"there is no {path}")
    # As `systemctl disable` does, also where no systemd of this user answers.
    for link in [*path.parent.glob(f"*.wants/{NAME}"), path]:
        link.unlink()
    if is_booted():
        _ask(system, ["daemon-reload"])
    if arguments.json:
        print_json({"removed": str(path)})
    echo(f"removed {path}; runs, queue and guard go on until the next boot")
    return ExitCode.DONE


def _boot(arguments: argparse.Namespace) -> int:
    """What the unit runs: adopting queues again what waited, and starts again what survives."""
    state = StateDirectory().create()
    before = _queued(state)
    adopted = tend(state)
    queued = sorted(_queued(state) - before)
    if arguments.json:
        print_json({"adopted": adopted, "queued": queued})
    for what, runs in (("taken over", adopted), ("queued again", queued)):
        echo(f"after boot: {len(runs)} runs {what}{': ' if runs else ''}{', '.join(runs)}")
    return ExitCode.DONE


def _queued(state: StateDirectory) -> set[str]:
    """The runs that wait, by their ids."""
    return {run.id for run in list_runs(state) if run.state is State.QUEUED}


def _print_unit(arguments: argparse.Namespace) -> int:
    if arguments.preset is None:
        raise WrongInput("service unit: which preset?", "fresnel-tui service unit PRESET")
    specs = resolve_runs(arguments.preset, arguments.overrides, "")
    units = []
    for run in plan_runs(StateDirectory(), specs):
        plan = run.plan
        hidden = [name for name, value in plan.environment.items() if value == MASK]
        shown = {name: value for name, value in plan.environment.items() if name not in hidden}
        # The folder of a run that never was: what the program writes there would be lost.
        units.append(run_unit(plan, shown, user_name() if arguments.system else None))
        if not arguments.json:
            print(units[-1], end="")
        if any(MASK in word for word in plan.argv):
            echo(f"the command has secrets, {MASK} here: put them in before you install the unit")
        for name in hidden:
            echo(f"{name} is a secret: put it into a file of yours with EnvironmentFile=")
    if arguments.json:
        print_json({"units": units})
    echo(
        "systemd owns such a run: no queue, no cost meter, no panel; the GPUs stay as planned here"
    )
    return ExitCode.DONE


def _ask(system: bool, arguments: list[str]) -> str:
    try:
        return _call(system, arguments).stdout.strip() or "unknown"
    except FresnelError:
        return "unknown"


def _call(system: bool, arguments: list[str]) -> "subprocess.CompletedProcess[str]":
    tool = shutil.which("systemctl")
    if tool is None:
        raise FresnelError("there is no systemctl here", "this machine does not run systemd")
    command = [tool, *([] if system else ["--user"]), *arguments]
    try:
        return subprocess.run(
            command, capture_output=True, text=True, timeout=_PATIENCE_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise FresnelError(f"{' '.join(command)} did not answer") from None
