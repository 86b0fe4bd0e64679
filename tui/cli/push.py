"""`push`: what a preset needs, taken to a rented machine."""

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from runners.model.errors import ExitCode, FresnelError
from runners.model.units import counted
from runners.places.ssh.groups import machines_named, names_several
from runners.places.ssh.panel_source import source_digest
from runners.places.ssh.push import (
    PushChanges,
    PushItem,
    PushPlan,
    find_changes,
    plan_push,
    send_changes,
)
from runners.places.ssh.push_list import PushList, list_to_push
from runners.places.ssh.pushed_files import (
    PushedFolder,
    PushedPreset,
    note_pushed,
    note_pushed_folder,
    read_pushed_folder,
)
from runners.places.ssh.registry import RemoteHost, RemoteRegistry
from runners.places.ssh.rsync import make_copier
from runners.places.ssh.ssh import Ssh
from runners.state.layout import StateDirectory
from tui.cli.copy_progress import progress_line
from tui.cli.host_option import take_host
from tui.cli.output import echo, print_json, print_table
from tui.cli.several_hosts import run_each
from tui.views.format import size

_NAMES_SHOWN = 5


class Shipment(NamedTuple):
    """One item: its files here, what was pushed of it before, and what differs there now."""

    item: PushItem
    listed: PushList
    pushed: PushedFolder
    changes: PushChanges


def run_push(arguments: argparse.Namespace) -> int:
    """Say what goes, with sizes; send it; remember where it lies there."""
    registry = RemoteRegistry(StateDirectory())
    if names_several(registry, arguments.host):
        given, name = take_host(arguments.remote_command)
        names = machines_named(registry, name)
        return run_each(names, lambda host: [*given, "--host", host], arguments.json)
    host = registry.find(arguments.host)
    if not host.folder:
        raise FresnelError(
            f"{host.name} is not set up", f"`fresnel-tui host setup {host.name}` does it"
        )
    plan = plan_push(arguments.preset, arguments.overrides, host, arguments.also)
    for problem in plan.missing:
        echo(f"⚠ {problem}: nothing is sent for it")
    if host.installed and host.installed != source_digest():
        echo(f"⚠ the panel on {host.name} is another version: host setup {host.name} updates it")
    ssh = Ssh(registry, host)
    shipments = prepare(ssh, plan.items, arguments.exclude, arguments.secrets)
    if not arguments.json:
        _show(shipments)
    if not arguments.dry_run:
        send_preset(ssh, arguments.preset, arguments.overrides, plan, shipments)
    if arguments.json:
        items = [_to_json(shipment) for shipment in shipments]
        print_json({"sent": not arguments.dry_run, "items": items, "missing": list(plan.missing)})
    elif arguments.dry_run:
        echo("nothing was sent: that was a dry run")
    else:
        echo(f"next: fresnel-tui launch {arguments.preset} --host {host.name}")
    return ExitCode.DONE


def send_preset(
    ssh: Ssh,
    preset: str,
    overrides: Sequence[str],
    plan: PushPlan,
    shipments: Sequence[Shipment],
) -> None:
    """Send what a preset needs, and remember by which overrides it finds that there."""
    send_all(ssh, shipments)
    named = {**_given(overrides), **plan.overrides}
    name = Path(preset).stem if "/" in preset else preset
    note_pushed(ssh.registry, ssh.host, PushedPreset(name, time.time(), named))


def _given(overrides: Sequence[str]) -> dict[str, str]:
    pairs = (override.partition("=") for override in overrides)
    return {key.removeprefix("parameters."): value for key, _, value in pairs}


def prepare(
    ssh: Ssh, items: Sequence[PushItem], excludes: Sequence[str] = (), secrets: bool = False
) -> list[Shipment]:
    """List the files of items, compare them with what is there, and say what stays here."""
    return [_prepare(ssh, item, excludes, secrets) for item in items]


def _prepare(ssh: Ssh, item: PushItem, excludes: Sequence[str], secrets: bool) -> Shipment:
    listed = list_to_push(
        item.local, is_program=item.what == "program", excludes=excludes, secrets=secrets
    )
    remote = item.remote if item.local.is_dir() else str(Path(item.remote).parent)
    pushed = read_pushed_folder(ssh.registry, ssh.host, listed.root, remote)
    changes = find_changes(ssh, listed, pushed)
    _warn(item, Shipment(item, listed, pushed, changes), ssh.host)
    return Shipment(item, listed, pushed, changes)


def _warn(item: PushItem, shipment: Shipment, host: RemoteHost) -> None:
    listed, changes = shipment.listed, shipment.changes
    if listed.secrets:
        names = _some(listed.secrets)
        echo(f"⚠ {item.local}: not sent, a secret by its name: {names}; --secrets sends it")
    if listed.left_out:
        echo(f"⚠ {item.local}: not sent: {_some(listed.left_out)}")
    if changes.altered:
        echo(f"⚠ {item.local}: kept on {host.name}, changed there: {_some(changes.altered)}")
    if not listed.files and shipment.pushed.files and item.local.is_dir():
        echo(f"⚠ {item.local}: no file of it is pushed, nothing is deleted on {host.name}")


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:_NAMES_SHOWN]) + (", …" if len(names) > _NAMES_SHOWN else "")


def _to_json(shipment: Shipment) -> dict[str, object]:
    item, changes = shipment.item, shipment.changes
    return {
        "what": item.what,
        "local": str(item.local),
        "remote": item.remote,
        "files": len(changes.to_send),
        "bytes": changes.bytes,
        "bytes_in_all": shipment.listed.bytes,
        "deleted": len(changes.to_delete),
    }


def _show(shipments: Sequence[Shipment]) -> None:
    if not shipments:
        echo("nothing is needed there")
        return
    rows = [
        (
            item.what,
            str(item.local),
            item.remote,
            f"{len(changes.to_send):,}",
            size(changes.bytes),
            f"{len(changes.to_delete):,}",
        )
        for item, _, _, changes in shipments
    ]
    print_table(("what", "from here", "to there", "files", "to send", "to delete there"), rows)
    count = sum(len(shipment.changes.to_send) for shipment in shipments)
    total = sum(shipment.changes.bytes for shipment in shipments)
    whole = sum(shipment.listed.bytes for shipment in shipments)
    echo(f"to send: {counted(count, 'file')}, {size(total)} of {size(whole)}")


def send_all(ssh: Ssh, shipments: Sequence[Shipment]) -> None:
    """Send and delete what differs, and remember it."""
    copier = make_copier(ssh, echo)
    for i, (item, listed, pushed, changes) in enumerate(shipments, 1):
        label = f"{i}/{len(shipments)} {item.what}"
        began = time.monotonic()
        if changes.to_send:
            echo(f"{label}: {counted(len(changes.to_send), 'file')}, {size(changes.bytes)}…")
        with progress_line(copier, item.what):
            # Read again: another item may have come from the same folder meanwhile.
            pushed = read_pushed_folder(ssh.registry, ssh.host, listed.root, pushed.remote)
            pushed = send_changes(ssh, copier, listed, changes, pushed)
        note_pushed_folder(ssh.registry, ssh.host, listed.root, pushed)
        seconds = max(time.monotonic() - began, 0.001)
        if changes.to_send:
            echo(f"{label}: sent, {size(changes.bytes / seconds)}/s")
        if changes.to_delete:
            echo(f"{label}: {len(changes.to_delete):,} deleted there, as they were deleted here")
