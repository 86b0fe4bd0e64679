"""`up`: a machine added, set up and pushed to, and a run launched on it, by one command.

Each step is what the command of its name does, and is done only where it is needed.
"""

import argparse
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from runners.model.errors import DeniedError, WrongInput
from runners.places.ssh.host_keys import pin_key
from runners.places.ssh.panel_source import source_digest
from runners.places.ssh.push import names_file_of, plan_push
from runners.places.ssh.push_list import list_to_push
from runners.places.ssh.registry import RemoteHost, RemoteRegistry, check_new_name, parse_address
from runners.places.ssh.rental import creating, require_address
from runners.places.ssh.ssh import Ssh
from runners.state.layout import StateDirectory
from tui.cli.arguments import parse, split_command
from tui.cli.commands.launching import up_options
from tui.cli.host import check_price
from tui.cli.host_run import run_remotely
from tui.cli.host_setup import SetupWishes, set_up_machine
from tui.cli.output import echo, is_confirmed
from tui.cli.parsing import CommandParser
from tui.cli.push import prepare, send_preset
from tui.cli.pushed_command import run_pushed
from tui.views.format import size


class _Machine(NamedTuple):
    """The machine that is meant, as it is known here, and what has to be done first."""

    host: RemoteHost
    is_new: bool

    @property
    def needs_setup(self) -> bool:
        return not self.host.command or self.host.installed != source_digest()


def run_up(arguments: argparse.Namespace) -> int:
    """Say what each step will do, ask once, do what is needed; the exit code of the launch."""
    registry = RemoteRegistry(StateDirectory().create())
    launch = _launch_of(arguments)
    with creating(registry, _find(registry, arguments).host.name):
        # Looked for again: another `up` may have added it meanwhile.
        ssh = _ready(registry, _find(registry, arguments), arguments, launch)
    if arguments.preset and not arguments.no_push:
        plan = plan_push(arguments.preset, arguments.overrides, ssh.host, arguments.also)
        for problem in plan.missing:
            echo(f"⚠ {problem}: nothing is sent for it")
        shipments = prepare(ssh, plan.items, (), arguments.secrets)
        changed = [shipment for shipment in shipments if any(shipment.changes[:2])]
        total = sum(shipment.changes.bytes for shipment in changed)
        echo(f"push: {size(total)}" if changed else "push: everything is there")
        send_preset(ssh, arguments.preset, arguments.overrides, plan, changed)
    launch.host = ssh.host.name
    return run_remotely(launch) if arguments.preset else run_pushed(launch)


def _ready(
    registry: RemoteRegistry,
    machine: _Machine,
    arguments: argparse.Namespace,
    launch: argparse.Namespace,
) -> Ssh:
    """The way to the machine, which is added and set up where that is needed and agreed to."""
    try:
        if machine.is_new:
            found = pin_key(registry, machine.host, arguments.fingerprint or "")
            host = msgspec.structs.replace(machine.host, fingerprint=found)
            machine = machine._replace(host=host)
        launch.yes |= _ask(machine, arguments)
    except BaseException:
        if machine.is_new:
            shutil.rmtree(registry.folder(machine.host.name), ignore_errors=True)
        raise
    registry.save(machine.host)
    ssh = Ssh(registry, machine.host)
    if machine.needs_setup:
        wishes = SetupWishes(
            python=arguments.python or "", budget=arguments.budget or "", train=arguments.train
        )
        ssh, facts = set_up_machine(ssh, wishes)
        for name in ("python", "gpus", "session"):
            echo(f"  {name}: {facts[name]}")
    return ssh


def _launch_of(arguments: argparse.Namespace) -> argparse.Namespace:
    """The `launch` that the words behind the address describe, without those that are `up`'s own.

    WrongInput for what cannot be launched.
    """
    before, command = split_command(arguments.remote_command)
    if before[1:2] != [arguments.address]:
        raise WrongInput("the address comes first", "fresnel-tui up ADDRESS PRESET")
    own = CommandParser(prog="fresnel-tui up", allow_abbrev=False, add_help=False)
    up_options(own)
    _, rest = own.parse_known_args(before[2:])
    line = ["launch", *rest, *([] if command is None else ["--", *command])]
    launch = parse(line)
    if launch is None or (command is None and not arguments.preset):
        raise WrongInput(
            "nothing to launch: no preset and no command given",
            "fresnel-tui up ADDRESS PRESET, or fresnel-tui up ADDRESS -- COMMAND ARGS…",
        )
    launch.remote_command = line
    return launch


def _find(registry: RemoteRegistry, arguments: argparse.Namespace) -> _Machine:
    """The machine of this name or address, or a new one."""
    check_price(arguments.price)
    text, names = arguments.address, registry.names()
    if text in names:
        known = [registry.find(text)]
    else:
        address, port = parse_address(text)
        known = [host for host in registry.all() if (host.address, host.port) == (address, port)]
    if known:
        host = known[0]
        require_address(registry, host)
        if arguments.price and not host.price:
            host = msgspec.structs.replace(host, price=arguments.price)
        return _Machine(host, False)
    plain = "".join(char if char.isalnum() or char in "._-" else "-" for char in address)
    name = check_new_name(arguments.as_ or plain.rpartition("@")[2].split("@")[-1])
    if name in names:
        raise WrongInput(f"there is a host `{name}` already", "--as NAME gives this one another")
    options = tuple(arguments.ssh_option)
    price = arguments.price or ""
    return _Machine(RemoteHost(name, address, port, options, price, added=time.time()), True)


def _ask(machine: _Machine, arguments: argparse.Namespace) -> bool:
    """Where anything is new say what each step will do, and whether somebody was asked.

    DeniedError unless that one agrees.
    """
    if not (machine.is_new or machine.needs_setup):
        return False
    for name, text in _steps(machine, arguments):
        echo(f"  {name:<7} {text}")
    if arguments.yes:
        return True
    if not sys.stdin.isatty() or not is_confirmed("do this?"):
        raise DeniedError("nothing was done", "--yes does it without asking")
    return True


def _steps(machine: _Machine, arguments: argparse.Namespace) -> Sequence[tuple[str, str]]:
    host = machine.host
    where = f"{host.address}{f':{host.port}' if host.port else ''}"
    steps = []
    if machine.is_new:
        steps.append(("add", f"{where} as `{host.name}`, its key {host.fingerprint} pinned"))
    if machine.needs_setup:
        paid = f", session at {host.price} since its boot" if host.price else ", no price: no meter"
        budget = f", budget ${arguments.budget}" if arguments.budget else ""
        again = "again, another version is there" if host.command else "for your user alone"
        steps.append(("set up", f"the panel, {again}{paid}{budget}"))
    total, folders = _to_push(machine, arguments)
    steps.append(("push", f"{size(total)} at most from {folders}" if folders else "nothing"))
    command = " ".join(arguments.trailing_command or ())
    steps.append(("launch", command or arguments.preset))
    return steps


def _to_push(machine: _Machine, arguments: argparse.Namespace) -> tuple[int, str]:
    """How much lies here of what is to be pushed, in bytes, and where."""
    here = Path.cwd()
    if arguments.no_push:
        return 0, ""
    if arguments.preset:
        # Where it will lie there is not known before it is set up; here it does not matter.
        host = msgspec.structs.replace(machine.host, folder=machine.host.folder or "fresnel")
        plan = plan_push(arguments.preset, arguments.overrides, host, arguments.also)
        found = [(item.local, item.what == "program") for item in plan.items]
    else:
        is_named = arguments.push or names_file_of(here, arguments.trailing_command)
        found = [(here, True)] if is_named else []
    lists = [
        list_to_push(path, is_program=program, excludes=(), secrets=arguments.secrets)
        for path, program in found
    ]
    places = ", ".join(str(path) for path, _ in found)
    return sum(listed.bytes for listed in lists), places
