"""`host setup`: the panel on a rented machine, for its user alone, and what to do next."""

import argparse
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from runners.cost.machines import read_account
from runners.model.errors import ExitCode, FresnelError
from runners.places.ssh.registry import RemoteRegistry
from runners.places.ssh.remote_command import remote_output
from runners.places.ssh.rental import creating, require_address
from runners.places.ssh.setup import (
    FoundMachine,
    FoundPython,
    choose_python,
    inspect_machine,
    install,
)
from runners.places.ssh.ssh import Ssh
from runners.state.layout import StateDirectory
from tui.cli.host_run import remote_json
from tui.cli.output import echo, print_json, print_pairs
from tui.views.format import DASH, size
from tui.views.json_values import iso

_MUCH_BYTES = 2_000_000_000
_OF_TORCH = ("gpus_seen_by_torch", "torch")


class _Session(msgspec.Struct, frozen=True):
    """What `session status --json` says, as far as it matters here."""

    session_started: str | float | None = None


class SetupWishes(NamedTuple):
    """What may be chosen of a set-up; empty where it is found out."""

    python: str = ""
    folder: str = ""
    budget: str = ""
    train: bool = False
    torch_index: str = ""


def set_up(arguments: argparse.Namespace) -> int:
    """Look, install, start the session; safe to do again."""
    registry = RemoteRegistry(StateDirectory().create())
    wishes = SetupWishes(
        arguments.python or "",
        arguments.folder or "",
        arguments.budget or "",
        arguments.train,
        arguments.torch_index,
    )
    found = registry.find(arguments.name)
    require_address(registry, found)
    with creating(registry, found.name):
        ssh, facts = set_up_machine(Ssh(registry, found), wishes)
    host = ssh.host
    if arguments.json:
        print_json(facts)
        return ExitCode.DONE
    print_setup(facts)
    echo(
        f"next: fresnel-tui push PRESET --host {host.name}, then fresnel-tui launch PRESET --host "
        f"{host.name}\na guard there stops what is forgotten: fresnel-tui guard set --max-age 8h "
        f"--no-run 30m --host {host.name}"
    )
    return ExitCode.DONE


def print_setup(facts: Mapping[str, object]) -> None:
    """Print what a set-up came to, a fact a line."""
    shown = {name: value for name, value in facts.items() if name not in _OF_TORCH}
    print_pairs([(name.replace("_", " "), str(value)) for name, value in shown.items()])


def set_up_machine(ssh: Ssh, wishes: SetupWishes) -> tuple[Ssh, dict[str, object]]:
    """Install the panel there and start its session; how it is reached now, and what was found."""
    echo(f"checking {ssh.host.name}…")
    wanted = wishes.python or ssh.host.python
    found = inspect_machine(ssh, wanted)
    if not wishes.python and all(candidate.path != wanted for candidate in found.pythons):
        wanted = ""  # the one chosen before is gone
    python = choose_python(found, wanted)
    if found.free_bytes is not None and found.free_bytes < _MUCH_BYTES:
        echo(f"⚠ only {size(found.free_bytes)} are free in {found.home}")
    host, used, lingers = install(
        ssh, found, python, wishes.folder, wishes.train, wishes.torch_index, echo
    )
    ssh.registry.save(host)
    ssh = Ssh(ssh.registry, host)
    facts: dict[str, object] = {
        "machine": f"{found.user}@{host.address.rpartition('@')[2]}, {found.system}",
        "panel": host.command,
        "python": f"{used.path} ({'.'.join(map(str, used.version))})",
        "gpus": gpus_text(found, used),
        "folder": host.folder,
        "copies_by": "rsync" if host.has_rsync else "over the link: no rsync there",
        "at_logout": _logout_text(lingers, host.name),
        "session": _session(ssh, wishes.budget),
    }
    if found.has_slurm:
        facts["slurm"] = _slurm_text(ssh)
    return ssh, {**facts, "gpus_seen_by_torch": used.gpus, "torch": used.torch or None}


def gpus_text(found: FoundMachine, used: FoundPython) -> str:
    """What the system has, and what torch sees of it."""
    if not used.torch:
        seen = f"no torch in it{f': {used.gpu}' if used.gpu else ''}"
    elif used.gpus:
        seen = f"torch {used.torch} sees {used.gpus}: {used.gpu}"
    else:
        seen = f"torch {used.torch} sees none"
    if found.gpus and found.gpus != used.gpus:
        seen = f"⚠ {seen}"
        if not used.torch:
            seen += "; choose an image with PyTorch, --python one that has it, or --train"
    present = f"{found.gpus} {found.vendor.upper()}" if found.gpus else "none"
    return f"{present}; {seen}"


class _Cluster(msgspec.Struct, frozen=True):
    """What `gpus --slurm --json` says, as far as it matters here."""

    proposed: str | None = None
    is_set_up: bool = False


def _slurm_text(ssh: Ssh) -> str:
    """What its settings could say of its Slurm, as that itself was asked."""
    try:
        cluster = remote_json(ssh, ["gpus", "--slurm"], _Cluster)
    except FresnelError as problem:
        return f"{DASH} ({problem.message})"
    if cluster.is_set_up:
        return "its settings.yaml says what jobs ask for"
    return f"{cluster.proposed or DASH}  (for its settings.yaml: once for all presets)"


def _logout_text(lingers: bool | None, host: str) -> str:
    if lingers is None:
        return "runs go on (no systemd)"
    if lingers:
        return "runs go on"
    doctor = f"fresnel-tui doctor --host {host}"
    return f"lingering is off and was refused: {doctor} says whether runs go on"


def _session(ssh: Ssh, budget: str) -> str:
    """Start the machine's billing period, if it has a price and none is open.

    Since its boot; of one that was created from here, since its creation, with that one's budget.
    """
    if remote_json(ssh, ["session", "status"], _Session).session_started:
        return "goes on"
    if not ssh.host.price:
        return f"{DASH} (no --price was given at `host add`)"
    account, since = read_account(ssh.registry.state, ssh.host.name), "boot"
    if account is not None and account.is_created and account.session is not None:
        since = iso(account.session.started) or since
        budget = budget or account.session.budget or ""
    command = ["session", "start", "--price", ssh.host.price]
    command += ["--budget", budget] if budget else []
    done = remote_output(ssh, [*command, "--since", since])
    if done.exit_code == ExitCode.WRONG_INPUT and since != "boot":
        # By a clock there that is behind, it was created in the future.
        since = "boot"
        done = remote_output(ssh, [*command, "--since", since])
    if done.exit_code != ExitCode.DONE:
        problem = done.errors.decode("utf-8", "replace").strip()
        raise FresnelError(f"the session could not be started: {problem}")
    began = "its boot" if since == "boot" else since
    return f"{ssh.host.price}, since {began}{f', budget ${budget}' if budget else ''}"
