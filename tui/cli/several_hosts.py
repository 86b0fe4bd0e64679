"""`--host a,b` and `--host all`: one command on several rented machines, all at once."""

import argparse
import json
import os
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from runners.host.helpers import this_program
from runners.host.identity import attendance
from runners.model.errors import ExitCode, WrongInput
from runners.places.ssh.registry import RemoteRegistry
from runners.state.layout import StateDirectory
from tui.cli.host_option import FOR_SEVERAL
from tui.cli.output import print_json

ALL = "all"
_AT_ONCE = 6
"""Machines asked at the same time."""


def names_of(registry: RemoteRegistry, text: str) -> list[str]:
    """The machines that `--host` names; one, unless it is a list or `all` of them."""
    if text == ALL and ALL not in registry.names():
        return sorted(registry.names())
    return list(dict.fromkeys(filter(None, text.split(",")))) if "," in text else [text]


def run_on_several(arguments: argparse.Namespace, names: Sequence[str]) -> int:
    """Run the command on each; its output below its machine's name, the worst exit code.

    With --json one object, by machine. Nothing is asked: what would ask refuses without --yes.
    """
    name = arguments.command_name
    if name not in FOR_SEVERAL or getattr(arguments, "watch", False):
        raise WrongInput(
            f"{name}{' --watch' if name in FOR_SEVERAL else ''} is done on one machine at a time",
            f"several: {', '.join(FOR_SEVERAL)}",
        )
    registry = RemoteRegistry(StateDirectory())
    for host in names:
        registry.find(host)
    mine: list[str] = arguments.remote_command
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        found = list(pool.map(lambda host: _run_on(host, mine), names))
    if arguments.json:
        print_json({host: _document(done) for host, done in zip(names, found, strict=True)})
    else:
        for host, done in zip(names, found, strict=True):
            text = (done.stdout + done.stderr).rstrip("\n")
            print(f"── {host} ──\n{text}" if text else f"── {host} ──")
    return max((done.returncode for done in found), default=ExitCode.DONE)


def _run_on(host: str, command: Sequence[str]) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        this_program(*command, "--host", host),
        env={**os.environ, **attendance()},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )


def _document(done: "subprocess.CompletedProcess[str]") -> Any:
    """What one machine answered: its JSON, which has the error too where there was one."""
    try:
        return json.loads(done.stdout)
    except ValueError:
        return {"error": {"code": "failed", "message": done.stderr.strip(), "hint": None}}
