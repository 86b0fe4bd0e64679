"""`--host a,b`, `@label` and `all`: one command on several rented machines, all at once."""

import argparse
import json
import os
import subprocess
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any

from runners.host.helpers import this_program
from runners.host.identity import attendance
from runners.model.errors import ExitCode, WrongInput
from tui.cli.host_option import FOR_SEVERAL
from tui.cli.output import print_json

_AT_ONCE = 6
"""Machines asked at the same time."""

_Done = subprocess.CompletedProcess[str]


def run_on_several(arguments: argparse.Namespace, names: Sequence[str]) -> int:
    """Run a command on each machine; refuses those that are done on one at a time."""
    name = arguments.command_name
    if name not in FOR_SEVERAL or getattr(arguments, "watch", False):
        raise WrongInput(
            f"{name}{' --watch' if name in FOR_SEVERAL else ''} is done on one machine at a time",
            f"several: {', '.join(FOR_SEVERAL)}",
        )
    mine: list[str] = arguments.remote_command
    return run_each(names, lambda host: [*mine, "--host", host], arguments.json)


def run_each(names: Sequence[str], command: Callable[[str], Sequence[str]], as_json: bool) -> int:
    """Run a command for each machine, several at once; returns the worst exit code.

    Each machine's output stands below its name, as soon as it is done there. With --json one
    object, by machine. Nothing is asked: what would ask refuses without --yes.
    """
    found: dict[str, _Done] = {}
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        running = {pool.submit(_run, command(host)): host for host in names}
        for each in as_completed(running):
            found[running[each]] = done = each.result()
            if not as_json:
                text = (done.stdout + done.stderr).rstrip("\n")
                head = f"── {running[each]} ──"
                print(f"{head}\n{text}" if text else head, flush=True)
    if as_json:
        print_json({host: _document(found[host]) for host in names})
    # A command that a signal ended has a negative code, as a shell has 128 and more.
    codes = (done.returncode for done in found.values())
    return max((code if code >= 0 else 128 - code for code in codes), default=ExitCode.DONE)


def _run(command: Sequence[str]) -> _Done:
    return subprocess.run(
        this_program(*command),
        env={**os.environ, **attendance()},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )


def _document(done: _Done) -> Any:
    """What one machine answered: its JSON, which has the error too where there was one."""
    try:
        return json.loads(done.stdout)
    except (ValueError, RecursionError):
        return {"error": {"code": "failed", "message": done.stderr.strip(), "hint": None}}
