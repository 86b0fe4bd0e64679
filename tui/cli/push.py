"""`push`: what a preset needs, taken to a rented machine."""

import argparse
import time
from pathlib import Path

from runners.model.errors import ExitCode, FresnelError
from runners.places.ssh.copier_choice import make_copier
from runners.places.ssh.copying import Copied, Copier
from runners.places.ssh.panel_source import source_digest
from runners.places.ssh.push import EXCLUDES, SECRETS, PushItem, find_secrets, plan_push
from runners.places.ssh.pushed import PushedPreset, note_pushed
from runners.places.ssh.registry import RemoteRegistry
from runners.places.ssh.ssh import Ssh
from runners.state.layout import StateDirectory
from tui.cli.copy_progress import progress_line
from tui.cli.output import echo, print_json, print_table
from tui.views.format import size


def run_push(arguments: argparse.Namespace) -> int:
    """Say what goes, with sizes; send it; remember where it lies there."""
    registry = RemoteRegistry(StateDirectory())
    host = registry.find(arguments.host)
    if not host.folder:
        raise FresnelError(
            f"{host.name} is not set up", f"`fresnel-tui host setup {host.name}` does it"
        )
    plan = plan_push(arguments.preset, arguments.overrides, host, arguments.also)
    for problem in plan.missing:
        echo(f"⚠ {problem}: nothing is sent for it")
    if host.installed and host.installed != source_digest():
        echo(f"⚠ the panel on {host.name} is another one: host setup {host.name} renews it")
    if not arguments.secrets:
        _warn_of_secrets(plan.items, arguments)
    copier = make_copier(Ssh(registry, host), echo)
    counted = []
    for item in plan.items:
        counted.append(copier.send(item.local, item.remote, _excludes(item, arguments), dry=True))
    if not arguments.json:
        _show(plan.items, counted)
    if not arguments.dry_run:
        _send_all(copier, plan.items, counted, arguments)
        overrides = {**_given(arguments.overrides), **plan.overrides}
        name = Path(arguments.preset).stem if "/" in arguments.preset else arguments.preset
        note_pushed(registry, host, PushedPreset(name, time.time(), overrides))
    if arguments.json:
        values = [
            {
                "what": item.what,
                "local": str(item.local),
                "remote": item.remote,
                "files": copied.files,
                "bytes": copied.bytes,
                "bytes_in_all": copied.all_bytes,
            }
            for item, copied in zip(plan.items, counted, strict=True)
        ]
        print_json({"sent": not arguments.dry_run, "items": values, "missing": list(plan.missing)})
    elif arguments.dry_run:
        echo("nothing was sent: that was a dry run")
    else:
        echo(f"next: fresnel-tui launch {arguments.preset} --host {host.name}")
    return ExitCode.DONE


def _given(overrides: list[str]) -> dict[str, str]:
    pairs = (override.partition("=") for override in overrides)
    return {key.removeprefix("parameters."): value for key, _, value in pairs}


def _excludes(item: PushItem, arguments: argparse.Namespace) -> list[str]:
    secrets = () if arguments.secrets else SECRETS
    return [*_asked_excludes(item, arguments), *secrets]


def _asked_excludes(item: PushItem, arguments: argparse.Namespace) -> list[str]:
    return [*arguments.exclude, *(EXCLUDES if item.what == "program" else ())]


def _warn_of_secrets(items: tuple[PushItem, ...], arguments: argparse.Namespace) -> None:
    """Name what stays here because it is called as secrets are."""
    for item in items:
        found = find_secrets(item.local, _asked_excludes(item, arguments))
        if found:
            names = ", ".join(found[:5]) + (", …" if len(found) > 5 else "")
            echo(f"⚠ {item.local}: not sent, a secret by its name: {names}; --secrets sends it")


def _show(items: tuple[PushItem, ...], counted: list[Copied]) -> None:
    rows = [
        (item.what, str(item.local), item.remote, f"{copied.files:,}", size(copied.bytes))
        for item, copied in zip(items, counted, strict=True)
    ]
    if rows:
        print_table(("what", "from here", "to there", "files", "to send"), rows)
    total, whole = (
        sum(copied.bytes for copied in counted),
        sum(copied.all_bytes for copied in counted),
    )
    echo(f"to send: {size(total)} of {size(whole)}" if rows else "nothing is needed there")


def _send_all(
    copier: Copier,
    items: tuple[PushItem, ...],
    counted: list[Copied],
    arguments: argparse.Namespace,
) -> None:
    for i, (item, copied) in enumerate(zip(items, counted, strict=True), 1):
        if not copied.files:
            continue
        began = time.monotonic()
        echo(f"{i}/{len(items)} {item.what}: {copied.files:,} files, {size(copied.bytes)}…")
        with progress_line(copier, item.what):
            done = copier.send(item.local, item.remote, _excludes(item, arguments))
        seconds = max(time.monotonic() - began, 0.001)
        echo(f"{i}/{len(items)} {item.what}: sent, {size(done.bytes / seconds)}/s")
