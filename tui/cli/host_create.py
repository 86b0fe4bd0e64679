"""`host create`: a machine rented by a command of its user's, waited for, and set up.

Every step is written down before it is done, so that an interrupted creation goes on, and nothing
is rented that is not known here.
"""

import argparse
import sys
import time

import msgspec

from runners.cost.machines import open_account
from runners.cost.prices import choose_price
from runners.cost.sessions import parse_budget
from runners.model.errors import DeniedError, FresnelError, NotFound, WrongInput
from runners.places.ssh.host_keys import pin_key
from runners.places.ssh.registry import (
    RemoteHost,
    RemoteRegistry,
    check_new_name,
    parse_address,
)
from runners.places.ssh.rental import (
    CreationStage,
    Rental,
    ask_address,
    creating,
    read_rental,
    run_create,
    write_rental,
)
from runners.places.ssh.ssh import RemoteTrouble, Ssh, Trouble
from runners.state.layout import StateDirectory
from tui.cli.host_setup import SetupWishes, print_setup, set_up_machine
from tui.cli.output import echo, is_confirmed, print_json

_ASKS_EVERY_S = 3.0
_LATER = (Trouble.NOT_REACHED, Trouble.LOGIN)
"""What a machine answers that is booting: its sshd is not there yet, or not your key."""


def create_host(arguments: argparse.Namespace) -> None:
    """Rent a machine, or go on with one that was; wait for it, and set it up."""
    registry = RemoteRegistry(StateDirectory().create())
    name = check_new_name(arguments.name)
    with creating(registry, name):
        try:
            ssh = _rent(registry, name, arguments)
            ssh, facts = _finish(ssh, time.monotonic() + arguments.within)
        except (FresnelError, KeyboardInterrupt):
            if name in registry.names() and read_rental(registry, name) is not None:
                echo(
                    f"⚠ {name} may be billed: `fresnel-tui host create {name}` goes on, "
                    f"`fresnel-tui host end {name}` ends it"
                )
            raise
    if arguments.json:
        print_json(facts)
    else:
        print_setup(facts)
        echo(f"next: fresnel-tui up {name} PRESET; fresnel-tui host end {name} ends the bill")


def _rent(registry: RemoteRegistry, name: str, arguments: argparse.Namespace) -> Ssh:
    """Run the create command, where that has not been done for this machine."""
    if name not in registry.names():
        host, rental = _new(arguments)
        _ask(host, rental, arguments.yes)
        _record(registry, host, rental)
    else:
        host = registry.find(name)
        known = read_rental(registry, name)
        if known is None:
            raise WrongInput(f"{name} was added, not created", "another name is needed")
        if host.command:
            raise WrongInput(f"{name} is created and set up", f"`fresnel-tui host setup {name}`")
        if not arguments.again:
            if not host.address and known.stage is not CreationStage.DONE:
                echo(f"the create command {_ending(known)}; asking for its address")
            return Ssh(registry, host)
        if host.address:
            raise WrongInput(f"{name} has an address: {host.address}", "without --again it goes on")
        rental = msgspec.structs.replace(known, stage=CreationStage.STARTED, exit_code=None)
        _ask(host, rental, arguments.yes)
    echo(f"this runs here: {rental.create_command}")
    if run_create(registry, host, rental, sys.stderr.fileno()) is CreationStage.FAILED:
        echo("⚠ the create command failed; its machine may be there all the same: asking")
    return Ssh(registry, host)


def _new(arguments: argparse.Namespace) -> tuple[RemoteHost, Rental]:
    if not (arguments.create_command and arguments.address_command):
        raise NotFound(
            f"no host `{arguments.name}`",
            "--create-command and --address-command say how one is rented, and found",
        )
    if arguments.price:
        choose_price(arguments.price, "session")
    parse_budget(arguments.budget)
    parse_address(f"{arguments.user}@machine")
    gpus = arguments.gpus if arguments.gpus is not None else 1
    if gpus < 1:
        raise WrongInput(f"--gpus {gpus}: expected 1 or more")
    host = RemoteHost(
        name=arguments.name,
        address="",
        options=tuple(arguments.ssh_option),
        price=arguments.price or "",
        end_command=arguments.end_command or "",
        added=time.time(),
    )
    rental = Rental(
        arguments.create_command,
        arguments.address_command,
        host.added,
        arguments.user,
        gpus,
        arguments.budget or "",
        arguments.python or "",
        arguments.train,
    )
    return host, rental


def _record(registry: RemoteRegistry, host: RemoteHost, rental: Rental) -> None:
    """Write down all that is known, before anything is rented."""
    write_rental(registry, host.name, rental)
    if host.price:
        open_account(
            registry.state, host.name, host.price, rental.gpus, rental.began, rental.budget
        )
    # What makes it a machine of ours comes last, and before the command.
    registry.save(host)


def _ask(host: RemoteHost, rental: Rental, is_agreed: bool) -> None:
    """Say what will be rented, at which price, and how it ends; DeniedError unless agreed to."""
    echo(f"  create  {rental.create_command}")
    echo(f"  price   {host.price or 'none given: what it costs is not counted'}")
    echo(f"  end     {host.end_command or '⚠ no --end-command: `host end` cannot destroy it'}")
    if is_agreed:
        return
    if not sys.stdin.isatty() or not is_confirmed(f"rent {host.name}?"):
        raise DeniedError("nothing was rented", "--yes does not ask")


def _finish(ssh: Ssh, until: float) -> tuple[Ssh, dict[str, object]]:
    """Wait for its address and its ssh, then set it up."""
    registry, name = ssh.registry, ssh.host.name
    rental = read_rental(registry, name)
    assert rental is not None
    if not ssh.host.address:
        address, port = _wait_for_address(ssh, rental, until)
        ssh = _save(ssh, msgspec.structs.replace(ssh.host, address=address, port=port))
        echo(f"{name} is at {address}{f':{port}' if port else ''}")
    if not ssh.host.fingerprint:
        ssh = _wait_for_ssh(ssh, until)
    wishes = SetupWishes(python=rental.python, budget=rental.budget, train=rental.train)
    return set_up_machine(ssh, wishes)


def _wait_for_address(ssh: Ssh, rental: Rental, until: float) -> tuple[str, int | None]:
    """What the address command prints at last; NotFound when it never does."""
    echo("waiting for its address…")
    while True:
        found = ask_address(ssh.registry, ssh.host, rental, sys.stderr.fileno())
        if found is not None:
            return found
        if time.monotonic() >= until or rental.stage is CreationStage.FAILED:
            break
        time.sleep(_ASKS_EVERY_S)
    raise NotFound(
        f"{ssh.host.name} has no address: the create command {_ending(rental)}",
        "look at the provider whether it is there; --again runs the create command again",
    )


def _wait_for_ssh(ssh: Ssh, until: float) -> Ssh:
    """Pin its key and log in, as soon as that goes; RemoteTrouble when it never does."""
    echo("waiting for its ssh…")
    pinned = ""
    while True:
        try:
            pinned = pinned or pin_key(ssh.registry, ssh.host)
            ssh.run("exec true", sharing="never")
            break
        except RemoteTrouble as error:
            if error.kind not in _LATER or time.monotonic() >= until:
                raise
        time.sleep(_ASKS_EVERY_S)
    echo(f"{ssh.host.name}: host key {pinned}, pinned; another one will be refused from now on")
    return _save(ssh, msgspec.structs.replace(ssh.host, fingerprint=pinned))


def _save(ssh: Ssh, host: RemoteHost) -> Ssh:
    ssh.registry.save(host)
    return Ssh(ssh.registry, host)


def _ending(rental: Rental) -> str:
    """What is known of the create command, in words."""
    if rental.stage is CreationStage.FAILED:
        return f"failed with exit code {rental.exit_code}"
    if rental.stage is CreationStage.DONE:
        return "has succeeded"
    return "was interrupted: whether it rented anything is not known"
