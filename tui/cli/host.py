"""`host`: the rented machines: add, list, remove, connect, test. The rest has files of its own."""

import argparse
import os
import signal
import subprocess
import time
from importlib import import_module

import msgspec

from runners.cost.machines import close_account
from runners.cost.prices import is_amount, list_prices
from runners.host.locks import is_held
from runners.model.errors import DeniedError, ExitCode, WrongInput
from runners.places.ssh.accounts import rented_names
from runners.places.ssh.connection_steps import ConnectionStep, ConnectionTest
from runners.places.ssh.groups import check_labels, labelled, machines_named, names_several
from runners.places.ssh.host_keys import pin_key
from runners.places.ssh.panel_source import source_digest
from runners.places.ssh.registry import (
    RemoteHost,
    RemoteRegistry,
    address_text,
    check_new_name,
    parse_address,
)
from runners.places.ssh.rental import (
    CreationStage,
    creation_lock,
    read_rental,
    refuse_while_created,
    require_address,
)
from runners.places.ssh.ssh import RemoteTrouble, Ssh, Trouble
from runners.state.layout import StateDirectory
from tui.cli import host_ways
from tui.cli.output import echo, print_json, print_pairs, print_table
from tui.cli.several_hosts import run_each
from tui.views.format import DASH
from tui.views.json_values import fields_json

_ELSEWHERE = {
    "budget": "host_budget:run_budget",
    "create": "host_create:create_host",
    "end": "host_end:end_host",
    "clean": "host_clean:clean_host",
}
"""FILE:FUNCTION of `tui.cli`, imported on use: they need much."""


def run_host(arguments: argparse.Namespace) -> int | None:
    """One of the words behind `host`."""
    what = arguments.what
    if what in _ELSEWHERE:
        file, _, function = _ELSEWHERE[what].partition(":")
        code: int | None = getattr(import_module(f"tui.cli.{file}"), function)(arguments)
        return code
    own = {"list": _list, "add": _add, "setup": _set_up, "label": _label, "unlabel": _label}
    if what in own:
        return own[what](arguments)
    registry = RemoteRegistry(StateDirectory())
    host = registry.find(arguments.name)
    if what != "remove":
        require_address(registry, host)
    return {
        "remove": _remove,
        "connect": _connect,
        "test": _test,
        "shell": host_ways.open_shell,
        "forward": host_ways.forward_ports,
        "ssh-config": host_ways.print_configuration,
    }[what](arguments, Ssh(registry, host))


def _add(arguments: argparse.Namespace) -> None:
    """Pin the key, and remember the rest."""
    name = check_new_name(arguments.name)
    registry = RemoteRegistry(StateDirectory().create())
    before = registry.find(name) if name in registry.names() else None
    address, port = parse_address(arguments.address or name)
    options = tuple(arguments.ssh_option)
    if before is not None and not arguments.address:  # the same way there as before
        address, port, options = before.address, before.port, options or before.options
    if before is not None and not arguments.replace:
        raise WrongInput(
            f"there is a host `{name}` already: {address_text(before)}",
            "--replace pins its new key; `fresnel-tui host remove` forgets it",
        )
    check_price(arguments.price)
    host = RemoteHost(
        name=name,
        address=address,
        port=port,
        options=options,
        price=arguments.price or (before.price if before else ""),
        end_command=arguments.end_command or (before.end_command if before else ""),
        added=time.time(),
        labels=check_labels(arguments.label) or (before.labels if before else ()),
    )
    found = pin_key(registry, host, arguments.fingerprint or "")
    host = msgspec.structs.replace(host, fingerprint=found)
    registry.save(host)
    Ssh(registry, host).disconnect()
    if arguments.json:
        print_json(host_json(registry, host))
    else:
        echo(f"{name}: {address_text(host)}, host key {found}, pinned")
        echo("  compare it with what the provider shows; another key will be refused from now on")
        echo(f"next: fresnel-tui host setup {name}")


def check_price(price: str | None) -> None:
    """WrongInput for what is neither the name of a price nor an amount."""
    known = {entry.name for entry in list_prices()}
    if price and price not in known and not is_amount(price):
        raise WrongInput(f"--price {price}: no such price", "`presets/prices.yaml` has the names")


def host_json(registry: RemoteRegistry, host: RemoteHost) -> dict[str, object]:
    """A machine in JSON."""
    return {
        **fields_json(host, "name", "port", "price", "folder", "interactive", "labels"),
        "address": host.address,
        "fingerprint": host.fingerprint,
        "set_up": bool(host.command),
        "current": host.installed == source_digest() if host.command else None,
        "connected": Ssh(registry, host).is_connected(),
        "creation": _creation(registry, host) or None,
    }


def _creation(registry: RemoteRegistry, host: RemoteHost) -> str:
    """How far the creation of a machine has come that is not set up; empty for any other."""
    rental = read_rental(registry, host.name)
    if rental is None or host.command:
        return ""
    if not host.address and rental.stage is not CreationStage.DONE:
        is_running = is_held(creation_lock(registry, host.name))
        return "creating" if is_running else f"create command {rental.stage.value}, no address"
    return "waiting for ssh" if host.address else "no address yet"


def _set_up(arguments: argparse.Namespace) -> int:
    """Set up one machine, or several at once."""
    registry, name = RemoteRegistry(StateDirectory()), arguments.name
    if not names_several(registry, name):
        from tui.cli.host_setup import set_up

        return set_up(arguments)
    given: list[str] = arguments.remote_command
    at = given.index(name)
    return run_each(
        machines_named(registry, name),
        lambda host: [*given[:at], host, *given[at + 1 :]],
        arguments.json,
    )


def _label(arguments: argparse.Namespace) -> None:
    """Give labels to machines, or take them away."""
    registry = RemoteRegistry(StateDirectory())
    labels = check_labels(arguments.labels)
    hosts = [registry.find(name) for name in machines_named(registry, arguments.name)]
    for host in hosts:
        kept = tuple(label for label in host.labels if label not in labels)
        mine = kept if arguments.what == "unlabel" else (*kept, *labels)
        registry.save(msgspec.structs.replace(host, labels=mine))
    if arguments.json:
        print_json([host_json(registry, registry.find(host.name)) for host in hosts])
    for label in () if arguments.json else labels:
        names = ", ".join(labelled(registry).get(label, ())) or "no host"
        echo(f"@{label}: {names}")


def _list(arguments: argparse.Namespace) -> None:
    registry = RemoteRegistry(StateDirectory())
    hosts = registry.all()
    if arguments.json:
        print_json([host_json(registry, host) for host in hosts])
        return
    if not hosts:
        echo("no hosts yet: `fresnel-tui host add NAME user@address` adds a rented machine")
        return
    rows = []
    for host in hosts:
        if creation := _creation(registry, host):
            panel = f"{creation}: host create {host.name}"
        elif not host.command:
            panel = f"not set up: host setup {host.name}"
        elif host.installed and host.installed != source_digest():
            panel = f"another version: host setup {host.name}"
        else:
            panel = "set up"
        address = address_text(host) or DASH
        labels = " ".join(f"@{label}" for label in host.labels) or DASH
        rows.append((host.name, address, host.price or DASH, labels, panel, host.fingerprint))
    print_table(("host", "address", "price", "labels", "panel there", "host key"), rows)


def _remove(arguments: argparse.Namespace, ssh: Ssh) -> None:
    """Forget a machine here, and count no further; nothing is touched there."""
    state = ssh.registry.state
    refuse_while_created(ssh.registry, ssh.host.name)
    is_rented = read_rental(ssh.registry, ssh.host.name) is not None
    if is_rented and not arguments.anyway:
        raise DeniedError(
            f"{ssh.host.name} was created by `host create`: it may be billed still",
            f"`fresnel-tui host end {ssh.host.name}` ends it; --anyway only forgets it",
        )
    # One that never had an address was counted in case it is there: somebody says that it is not.
    if ssh.host.address or not is_rented:
        close_account(state, ssh.host.name, rented_names(state), is_gone=False)
    ssh.disconnect()
    ssh.registry.forget(ssh.host.name)
    if arguments.json:
        print_json({"host": ssh.host.name, "removed": True})
    echo(f"{ssh.host.name} is forgotten, with its key; the machine was not touched")


def _connect(arguments: argparse.Namespace, ssh: Ssh) -> None:
    """Log in at this terminal, once, for everything that follows."""
    if ssh.is_connected():
        echo(f"{ssh.host.name} is connected already")
    else:
        _log_in(ssh)
    if arguments.json:
        print_json({"host": ssh.host.name, "connected": True})


def _log_in(ssh: Ssh) -> None:
    extra = ("ForkAfterAuthentication=yes", "SessionType=none")
    argv = [*ssh.command("open", batch=False, extra=extra), "--", ssh.host.address]
    # The connection stays when this terminal is closed: so must the ssh of a jump host on its way.
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        code = subprocess.run(argv, check=False).returncode
    finally:
        signal.signal(signal.SIGHUP, before)
    if code or not ssh.is_connected():
        raise RemoteTrouble(Trouble.LOGIN, f"{ssh.host.name}: no connection was opened")
    ssh.registry.save(msgspec.structs.replace(ssh.host, interactive=True))
    echo(
        f"{ssh.host.name} is connected until the connection is lost, or you run: "
        f"ssh -S {ssh.control_path} -O exit {ssh.host.address}"
    )


def _test(arguments: argparse.Namespace, ssh: Ssh) -> int:
    """Look at the way there step by step; the first that fails decides."""
    test, steps = ConnectionTest(ssh), []
    for step in test.steps():
        steps.append(step)
        if not arguments.json:
            _show_step(step)
    if arguments.json:
        found = {
            "host": ssh.host.name,
            "ok": test.trouble is None,
            "steps": [msgspec.to_builtins(step) for step in steps],
            "agent": msgspec.to_builtins(test.hello) if test.hello else None,
            "clock_offset_s": test.clock_offset,
        }
        if test.trouble is not None:
            found["problem"] = test.trouble.message
        print_json(found)
        if test.trouble is not None:  # the one document has it
            echo(test.trouble.message)
            return test.trouble.exit_code
    if test.trouble is not None:
        raise test.trouble
    return ExitCode.DONE


def _show_step(step: ConnectionStep) -> None:
    sign = "✖"
    if step.ok:
        sign = "⚠" if step.remedy else "✔"
    print_pairs([(f"{sign} {step.step:8}", step.text)])
    if step.ok and step.remedy:  # that of a failure is its hint
        print_pairs([(" " * 10, step.remedy)])


def local_place(path: str) -> str:
    """A path here with the name of this machine, for a note over there."""
    return f"{os.uname().nodename}:{path}"
