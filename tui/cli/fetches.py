"""`fetches`: the fetches that are repeated until their runs have ended: list, stop."""

import argparse
import time
from typing import Any

from runners.host.clock import local_time
from runners.places.ssh.kept_fetches import (
    KeptFetch,
    find_fetch,
    forget_fetch,
    list_fetches,
    resume_fetches,
)
from runners.state.layout import StateDirectory
from tui.cli.output import echo, print_json, print_table
from tui.views.format import DASH, duration
from tui.views.json_values import fields_json


def run_fetches(arguments: argparse.Namespace) -> None:
    """List them, or stop one."""
    state = StateDirectory()
    if arguments.what == "stop":
        fetch = find_fetch(state, arguments.fetch)
        forget_fetch(state, fetch)
        if arguments.json:
            print_json([_json(fetch)])
        else:
            echo(f"{fetch.name} is repeated no more; what was fetched is in {fetch.to}")
        return
    resume_fetches(state)
    found = list_fetches(state)
    if arguments.json:
        print_json([_json(fetch) for fetch in found])
    elif found:
        rows = [
            (
                fetch.name,
                fetch.to,
                duration(fetch.every_s),
                local_time(fetch.last, "%d %b %H:%M") if fetch.last else DASH,
                _state(fetch),
            )
            for fetch in found
        ]
        print_table(("fetch", "to", "every", "last", "state"), rows)
    else:
        echo("none: fresnel-tui fetch RUN --host NAME --every 10m")


def _state(fetch: KeptFetch) -> str:
    if fetch.ended:
        return "all fetched"
    if fetch.problem:
        return f"{fetch.problem}; tries again"
    left = max(0.0, fetch.last + fetch.every_s - time.time())
    return f"again in {duration(left)}" if fetch.last else "fetching"


def _json(fetch: KeptFetch) -> dict[str, Any]:
    return {
        **fields_json(fetch, "name", "host", "runs", "to", "every_s", "problem"),
        "last": fetch.last or None,
        "ended": fetch.ended or None,
    }
