"""One program over several rented machines: `launch PRESET --hosts a,b`."""

import argparse
import itertools
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import msgspec

from runners.cost.all_machines import refuse_over_budget
from runners.model.errors import DeniedError, ExitCode, FresnelError, WrongInput
from runners.places.fleet.asking import PlanAnswer
from runners.places.ssh.connection import AgentConnection, LineLost
from runners.places.ssh.frames import Hello, ListeningFrame, ReachAnswer
from runners.places.ssh.node_groups import NodeGroup, NodeRun, add_group, find_group, new_name
from runners.places.ssh.node_watch import start_watcher
from runners.places.ssh.protocol import new_request_name
from runners.places.ssh.pushed_files import pushed_overrides
from runners.places.ssh.registry import RemoteRegistry
from runners.places.ssh.remote_command import output_over
from runners.places.ssh.ssh import RemoteTrouble, Ssh, Trouble
from runners.state.layout import StateDirectory
from tui.cli.arguments import split_command
from tui.cli.given_variables import refuse_secrets
from tui.cli.nodes import nodes_json, wait_for_nodes
from tui.cli.output import echo, print_json

_START_POLL_S = 0.05
_SEEN_TO_EVERY = 20
# How many words follow each.
_OWN_OPTIONS = dict.fromkeys(
    ("--hosts", "--name", "--master-addr", "--master-port", "--node-addresses"), 1
)


def launch_on_hosts(arguments: argparse.Namespace) -> int:
    """Launch on all, or on none; print the group's name."""
    refuse_secrets(arguments)
    state = StateDirectory().create()
    registry = RemoteRegistry(state)
    refuse_over_budget(state, registry.names())
    names = [name for name in arguments.hosts.split(",") if name]
    if len(set(names)) < 2 or len(set(names)) != len(names):
        raise WrongInput(f"--hosts {arguments.hosts}: expected two names or more, each once")
    machines = [Ssh(registry, registry.find(name)) for name in names]
    what = arguments.preset or Path((arguments.trailing_command or [""])[0]).name
    if not what:
        raise WrongInput("--hosts: name a preset, or give a command after --")
    name = arguments.name or new_name(what)
    with ExitStack() as stack:
        lines = []
        for ssh in machines:
            lines.append(stack.enter_context(AgentConnection(ssh)))
            lines[-1].begin()
        # First of all: a closed port shows up here at once, and in NCCL after ten minutes of
        # silence.
        addresses, port = _meet(machines, lines, arguments.master_port, arguments.master_addr)
        echo(f"{names[0]} is reached at {addresses[0]}:{port} by all, and reaches all")
        before, command = split_command(_node_arguments(arguments.remote_command))
        nodes = []
        for rank, ssh in enumerate(machines):
            place = ["--nodes", str(len(machines)), "--node-rank", str(rank), "--name", name]
            place += ["--master-addr", addresses[0], "--master-port", str(port)]
            place += ["--node-addresses", ",".join(addresses)]
            if arguments.preset:
                place += pushed_overrides(registry, ssh.host, arguments.preset, arguments.overrides)
            arguments_there = (*before[1:], *place, *(["--", *command] if command else []))
            nodes.append(NodeRun(ssh.host.name, "", new_request_name(), arguments_there))
        _check_plans(machines, lines, [list(node.command) for node in nodes])
    # Before the first of them starts: whoever dies from here on leaves none alone.
    group = NodeGroup(name, what, time.time(), addresses[0], port, tuple(nodes))
    add_group(state, group)
    group = _await_start(state, group)
    if arguments.wait or arguments.follow:
        return wait_for_nodes(state, group, arguments.json)
    if arguments.json:
        print_json(nodes_json(group))
    else:
        print(group.name)
        for rank, node in enumerate(group.nodes):
            echo(f"  node {rank}: {node.run} on {node.host}")
        echo("when one fails, the others are ended; `fresnel-tui nodes status` says which and why")
    return ExitCode.DONE


def _await_start(state: StateDirectory, group: NodeGroup) -> NodeGroup:
    """Have all nodes started by a process of its own; DeniedError when one was refused."""
    try:
        for turn in itertools.count():
            if turn % _SEEN_TO_EVERY == 0:
                start_watcher(state, group)
            group = find_group(state, group.name)
            if group.has_started:
                return group
            if group.ended:
                break
            time.sleep(_START_POLL_S)
    except KeyboardInterrupt:
        echo(f"the launch goes on: fresnel-tui nodes stop {group.name} ends it")
        raise
    raise DeniedError(group.cause, "nothing runs on any machine")


def _meet(
    machines: Sequence[Ssh],
    lines: Sequence[AgentConnection],
    port: int | None,
    wanted: str | None,
) -> tuple[list[str], int]:
    """Every machine's address and the port at the first one; tried both ways, as NCCL connects.

    Without a `port` the first one chooses a free one.
    """
    try:
        _compare(machines, [line.ask({"do": "hello"}, Hello) for line in lines])
        found = [_reach(machines[0], lines[0], machines[1:], lines[1:], port or 0, wanted)]
        for i in range(1, len(lines)):
            found.append(_reach(machines[i], lines[i], machines[:1], lines[:1], port or 0, None))
    except LineLost as error:
        raise RemoteTrouble(Trouble.NOT_REACHED, str(error)) from None
    return [address for address, _ in found], found[0][1]


def _compare(machines: Sequence[Ssh], hellos: Sequence[Hello]) -> None:
    for what, found in (
        ("the panel", [hello.version for hello in hellos]),
        ("the panel's source", [hello.installed for hello in hellos]),
    ):
        if len(set(found)) > 1:
            each = ", ".join(
                f"{ssh.host.name} {value or 'unknown'}"
                for ssh, value in zip(machines, found, strict=True)
            )
            raise DeniedError(f"{what} differs: {each}", "fresnel-tui host setup on each of them")


def _reach(
    target: Ssh,
    target_line: AgentConnection,
    others: Sequence[Ssh],
    lines: Sequence[AgentConnection],
    port: int,
    wanted: str | None,
) -> tuple[str, int]:
    """An address of `target` that all others reach, and the port: 0 asks for a free one."""
    target_line.send({"do": "listen", "id": 7, "port": port})
    addresses, port = _addresses(target_line)
    try:
        candidates = [wanted] if wanted else addresses
        for other, line in zip(others, lines, strict=True):
            asked = {"do": "reach", "addresses": candidates, "port": port}
            found = line.ask(asked, ReachAnswer)
            if found.reached not in candidates:
                raise DeniedError(
                    f"{other.host.name} does not reach {target.host.name} at port {port}: "
                    f"{found.why}",
                    "a firewall, or another network: --master-addr and --master-port name others",
                )
            candidates = [found.reached]
        return candidates[0], port
    finally:
        target_line.send({"do": "cancel", "id": 7})
        target_line.ask({"do": "hello"}, Hello)  # answered when nobody listens there any more


def _addresses(line: AgentConnection) -> tuple[list[str], int]:
    """Where a machine that was asked to listen does."""
    for message in line.answers(7):
        found = line.understood(message.fields, ListeningFrame)
        if found.listening and found.port:
            return found.listening, found.port
    raise LineLost("it does not listen")


def _node_arguments(argv: Sequence[str]) -> list[str]:
    """The launch's words without those that are meant for us."""
    kept: list[str] = []
    skip = 0
    before, command = split_command(argv)
    for word in before:
        flag, equals, _ = word.partition("=")
        if skip:
            skip -= 1
        elif flag in _OWN_OPTIONS:
            skip = 0 if equals else _OWN_OPTIONS[flag]
        elif word not in ("--wait", "--follow", "--json", "--no-queue"):
            kept.append(word)
    return [*kept, *(["--", *command] if command else [])]


def _check_plans(
    machines: Sequence[Ssh], lines: Sequence[AgentConnection], commands: Sequence[Sequence[str]]
) -> None:
    """Refuse before anything starts where one machine would; compare what would run."""
    versions: dict[str, str] = {}
    for ssh, line, command in zip(machines, lines, commands, strict=True):
        done = output_over(line, ssh, ["plan", "--json", *command], keep=False)
        try:
            plan = msgspec.json.decode(done.output, type=PlanAnswer)
        except (ValueError, RecursionError):
            problem = done.errors.decode("utf-8", "replace").strip()[-2000:]
            raise FresnelError(f"{ssh.host.name}: {problem}") from None
        if plan.error is not None:
            raise WrongInput(f"{ssh.host.name}: {plan.error.message}", "nothing was started")
        refused = plan.denied or plan.waits
        if refused:
            raise DeniedError(f"{ssh.host.name}: {refused}", "nothing was started on any machine")
        # Compared, and only told: other builds of one version often work together.
        versions[ssh.host.name] = (plan.provenance.torch or "") if plan.provenance else ""
    known = {version for version in versions.values() if version}
    if len(known) > 1:
        each = ", ".join(f"{name} {version}" for name, version in versions.items())
        echo(f"⚠ torch differs: {each}")
