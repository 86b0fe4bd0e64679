"""`nodes`: launches over several rented machines: list, status, stop, wait."""

import argparse
import itertools
import json
import time
from typing import Any, NamedTuple

import msgspec

from runners.host.identity import user_name
from runners.model.errors import ExitCode, FresnelError
from runners.places.ssh.node_groups import NodeGroup, NodeRun, find_group, list_groups, save_group
from runners.places.ssh.node_watch import start_watcher
from runners.places.ssh.registry import RemoteRegistry
from runners.places.ssh.remote_command import remote_output
from runners.places.ssh.ssh import Ssh
from runners.state.layout import StateDirectory
from tui.cli.output import echo, print_json, print_table
from tui.views.format import DASH
from tui.views.json_values import fields_json

_POLL_S = 0.5
_SEEN_TO_EVERY = 20


class _RunStatus(msgspec.Struct, frozen=True):
    """What `status --json` says of a node's run, as far as it is shown."""

    state: str
    reason: str | None = None


class _Status(NamedTuple):
    """The same, and all that was said."""

    run: _RunStatus
    value: dict[str, Any]


def run_nodes(arguments: argparse.Namespace) -> int:
    """`nodes`: list, status, stop, wait."""
    state = StateDirectory()
    registry = RemoteRegistry(state)
    if arguments.what == "list":
        groups = list_groups(state)
        if arguments.json:
            print_json([nodes_json(group) for group in groups])
        elif groups:
            rows = [
                (group.name, group.preset, ", ".join(node.host for node in group.nodes))
                for group in groups
            ]
            print_table(("launch", "preset", "machines"), rows)
        else:
            echo("none yet: fresnel-tui launch PRESET --hosts a,b")
        return ExitCode.DONE
    group = find_group(state, arguments.group)
    if arguments.what == "stop":
        problems = _stop(state, group, arguments.force)
        if arguments.json:
            print_json({**nodes_json(find_group(state, group.name)), "problems": problems})
        return ExitCode.RUN_FAILED if problems else ExitCode.DONE
    if arguments.what == "wait":
        return wait_for_nodes(state, group, arguments.json)
    start_watcher(state, group)
    _show(group, _statuses(registry, group), arguments.json)
    if group.cause:
        echo(group.cause)
    if group.alert:
        echo(f"⚠ {group.alert}")
    return ExitCode.DONE


def _statuses(registry: RemoteRegistry, group: NodeGroup) -> list[_Status | None]:
    """Every node's status; None for a machine that is not reached, whose run may well go on."""
    found: list[_Status | None] = []
    for node in group.nodes:
        try:
            if not node.run:
                found.append(None)
                continue
            ssh = Ssh(registry, registry.find(node.host))
            done = remote_output(ssh, ["status", node.run, "--json"], keep=False)
            run = msgspec.json.decode(done.output, type=_RunStatus)
            found.append(_Status(run, json.loads(done.output)))
        except (FresnelError, ValueError, RecursionError):
            found.append(None)
    return found


def _show(group: NodeGroup, statuses: list[_Status | None], as_json: bool) -> None:
    if as_json:
        values = [None if status is None else status.value for status in statuses]
        print_json({**nodes_json(group), "runs": values})
        return
    rows = [
        (
            str(rank),
            node.host,
            node.run or DASH,
            status.run.state if status else _without_status(group, node),
            (status.run.reason or DASH) if status else DASH,
        )
        for rank, (node, status) in enumerate(zip(group.nodes, statuses, strict=True))
    ]
    print_table(("node", "machine", "run", "state", "reason"), rows)


def _without_status(group: NodeGroup, node: NodeRun) -> str:
    if node.run:
        return "not reached"
    return "not started" if group.ended else "starting"


def _stop(state: StateDirectory, group: NodeGroup, force: bool) -> dict[str, str]:
    """Every node by its ladder, the one where they meet last; why machines did not, by name."""
    word, registry = ["kill"] if force else ["stop"], RemoteRegistry(state)
    if not group.ended and not group.cause:
        # So that the watcher asks none of them a second time, which would be the next step.
        save_group(state, msgspec.structs.replace(group, cause=f"stopped by {user_name()}"))
    problems = {}
    # The others wait for the first: stopped before them, it would leave them hanging.
    for node in reversed(group.nodes):
        if not node.run:  # whoever starts them sees that they are to stop
            continue
        try:
            done = remote_output(Ssh(registry, registry.find(node.host)), [*word, node.run])
            answer = done.errors.decode("utf-8", "replace").strip() or "asked to stop"
            if done.exit_code:
                raise FresnelError(answer)
            echo(f"{node.host}: {answer}")
        except FresnelError as error:
            problems[node.host] = str(error)
            echo(f"⚠ {node.host}: {error}")
    return problems


def wait_for_nodes(state: StateDirectory, group: NodeGroup, as_json: bool) -> int:
    """Until all have ended; when one fails, the others are stopped, and it is named."""
    shown, alert, turns = "", "", itertools.count()
    while True:
        group = find_group(state, group.name)
        if group.alert != alert:
            alert = group.alert
            echo(f"⚠ {alert}" if alert else "all nodes are reached, or go on, again")
        if group.cause != shown:
            shown = group.cause
            echo(shown)
        if group.ended:
            break
        if next(turns) % _SEEN_TO_EVERY == 0:
            start_watcher(state, group)
        time.sleep(_POLL_S)
    _show(group, _statuses(RemoteRegistry(state), group), as_json)
    return ExitCode.RUN_FAILED if group.cause else ExitCode.DONE


def nodes_json(group: NodeGroup) -> dict[str, Any]:
    """A launch in JSON, without what its nodes are doing now."""
    return {
        **fields_json(group, "name", "preset", "address", "port", "cause", "alert"),
        "nodes": [fields_json(node, "host", "run") for node in group.nodes],
    }
