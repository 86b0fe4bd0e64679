"""One program on several machines ends on all of them when it fails on one, and the cause is named.

A process of its own (`watch-nodes`) on the machine that launched it, one for each launch: it needs
neither a panel nor a terminal, and takes every line up again that breaks. What it found out stands
in the launch's file.
"""

import re
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from runners.host import helpers
from runners.host.alone import run_alone
from runners.host.files import is_gone
from runners.host.locks import is_held
from runners.model.errors import NotFound
from runners.model.states import State
from runners.places.ssh.connection import RefusedThere, refuse
from runners.places.ssh.frames import EndAnswer, NodeEnding, decoded
from runners.places.ssh.link import Link, LinkState
from runners.places.ssh.node_groups import (
    NodeGroup,
    NodeRun,
    find_group,
    group_lock,
    list_groups,
    save_group,
)
from runners.places.ssh.node_launch import launch_nodes
from runners.places.ssh.node_silence import NodeView, SilenceWatch, asking
from runners.places.ssh.protocol import LinkMessage
from runners.places.ssh.registry import RemoteRegistry
from runners.places.ssh.remote_request import ask_once
from runners.places.ssh.ssh import Ssh
from runners.state.layout import StateDirectory

_GRACE_S = 5.0
"""The node that failed first may be told of a moment after those that lost their connection."""
_ALL_WITHIN_S = 600.0
"""So long for the others to end by their stop ladders: then their machines are not reached."""
_POLL_S = 0.2
_LATELY_S = 14 * 86400.0
# What is left of a program whose partner went away: in its own output (gloo, NCCL, torch's store),
# and as classes of the diagnosis.
_ECHO = re.compile(
    r"closed by peer|Connection (?:reset|refused|closed)|Broken pipe|remote process (?:exited|has)"
    r"|ncclRemoteError|ncclSystemError|Socket Timeout|recv, 0 bytes|TCPStore|heartbeat|Gloo|gloo"
    r"|DistNetworkError|DistBackendError|DistStoreError|RendezvousC\w+Error|NCCL"
)
_ECHO_CLASSES = frozenset(
    {
        "collective_timeout",
        "peer_rank_died_or_network",
        "rendezvous_unreachable",
        "rendezvous_node_missing",
    }
)


class Ended(NamedTuple):
    """What is known of a node when a cause is looked for; `is_asked`: to stop, for another."""

    node: NodeRun
    ending: NodeEnding | None
    is_asked: bool = False
    is_reached: bool = True

    @property
    def has_failed(self) -> bool:
        """Whether the others have to end for it."""
        return self.ending is not None and self.ending.state != State.DONE

    @property
    def is_silent(self) -> bool:
        """Whether nothing is known of it for want of a line."""
        return self.ending is None and not self.is_reached

    @property
    def is_echo(self) -> bool:
        """Whether it only lost its connection to another."""
        kind, reason = (self.ending.diagnosis, self.ending.reason) if self.ending else ("", "")
        return kind in _ECHO_CLASSES or _ECHO.search(reason or "") is not None

    @property
    def is_clear(self) -> bool:
        """Whether it failed, and of itself."""
        return self.has_failed and not self.is_echo

    @property
    def order(self) -> tuple[bool, float]:
        """By which of several the cause is chosen."""
        ended = self.ending.ended if self.ending is not None else None
        return not self.is_clear, float("inf") if ended is None else ended


class _Watched:
    """One node: its link, and a subscription to its ending."""

    def __init__(self, ssh: Ssh, node: NodeRun) -> None:
        self.node = node
        self.ending: NodeEnding | None = None
        self.is_asked = False
        self.link = Link(ssh, watches=False)
        self.link.subscribe(self)

    def request(self) -> dict[str, Any]:
        """How it ends."""
        return {"do": "ending", "run": self.node.run}

    def take(self, frame: LinkMessage) -> int:
        """Take in the answer; a run that is not there has ended."""
        try:
            refuse(frame)
        except RefusedThere as error:
            self.ending = NodeEnding("lost", error.message)
            return 0
        ending = decoded(frame.fields.get("answer"), NodeEnding)
        if ending.ended is not None:
            ended = ending.ended - (self.link.status.clock_offset or 0.0)
            ending = msgspec.structs.replace(ending, ended=ended)
        self.ending = ending
        return 0

    @property
    def is_over(self) -> bool:
        """Whether its ending is known."""
        return self.ending is not None

    @property
    def known(self) -> Ended:
        """What is known of it now."""
        up = self.link.status.state is LinkState.UP
        return Ended(self.node, self.ending, self.is_asked, up)

    def stop(self, reason: str) -> None:
        """Have it asked to stop, once."""
        if not self.is_asked and self.ending is None:
            self.is_asked = True
            # Repeated after a break until it was answered: there it counts once.
            asked = {"do": "end", "run": self.node.run, "reason": reason}
            ask_once(self.link, asked, EndAnswer, lambda *_: None)


class Cause(NamedTuple):
    """Which node failed first, and why, in words."""

    node: int
    text: str


def watch_nodes(state: StateDirectory, group: NodeGroup) -> NodeGroup:
    """Watch until every node has ended; end the others when one fails. Returns the launch with its
    cause and endings, as they were saved.
    """
    registry, nodes = RemoteRegistry(state), []
    try:
        nodes = [_Watched(Ssh(registry, registry.find(node.host)), node) for node in group.nodes]
    except NotFound as error:  # one was forgotten: nothing can be said of it
        group = msgspec.structs.replace(group, cause=group.cause or error.message)
    for node in nodes:
        node.link.start()
    try:
        silence = SilenceWatch()

        def goes_on() -> bool:
            _follow_silence(state, group.name, nodes, silence)
            return not (_any_failed(nodes) or _all_ended(nodes) or is_gone(state.root))

        _wait(lambda: not goes_on())
        if is_gone(state.root):
            return group
        if _any_failed(nodes):
            group = _end_all(state, group, nodes)
    finally:
        for node in nodes:
            node.link.stop(patience_s=1.0)
    return _keep(state, msgspec.structs.replace(group, ended=time.time()))


def _follow_silence(
    state: StateDirectory, name: str, nodes: Sequence[_Watched], silence: SilenceWatch
) -> None:
    """Keep in the launch's file whether a node may hold up the others; announce when one does."""
    views = [
        NodeView(
            f"node {i} on {node.node.host}",
            node.known.is_reached,
            node.ending is not None,
            asking(node.link, node.node.run),
        )
        for i, node in enumerate(nodes)
    ]
    if silence.follow(views, time.monotonic()):
        _keep(state, msgspec.structs.replace(find_group(state, name), alert=silence.text))
        if silence.text:
            helpers.spawn("notify", state.root, "", "alert", f"{name}: {silence.text}")


def _end_all(state: StateDirectory, group: NodeGroup, nodes: Sequence[_Watched]) -> NodeGroup:
    # A node that only lost its partner waits for the partner's own words.
    _wait(lambda: any(node.known.is_clear for node in nodes) or _all_ended(nodes), _GRACE_S)
    found = find_cause([node.known for node in nodes])
    asked = find_group(state, group.name).cause
    if asked:  # somebody stops them all just now
        group = msgspec.structs.replace(group, cause=asked)
    else:
        for node in nodes:
            node.stop(found.text)
        group = _keep(state, msgspec.structs.replace(group, cause=found.text))
    _wait(lambda: _all_ended(nodes), _ALL_WITHIN_S)
    if asked:
        return group
    found = find_cause([node.known for node in nodes], first=found)
    return msgspec.structs.replace(group, cause=found.text)


def _any_failed(nodes: Sequence[_Watched]) -> bool:
    return any(node.known.has_failed for node in nodes)


def _all_ended(nodes: Sequence[_Watched]) -> bool:
    return all(node.ending for node in nodes)


def _keep(state: StateDirectory, group: NodeGroup) -> NodeGroup:
    save_group(state, group)
    return group


def _wait(condition: Callable[[], object], ceiling_s: float | None = None) -> None:
    until = None if ceiling_s is None else time.monotonic() + ceiling_s
    pause = threading.Event()
    while not condition() and (until is None or time.monotonic() < until):
        pause.wait(_POLL_S)


def find_cause(nodes: Sequence[Ended], first: Cause | None = None) -> Cause:
    """The node that failed of itself, else one that lost a connection; of several the first to end.

    `first` is the cause that was named before the others were stopped for it.
    """
    failed = [
        (i, known) for i, known in enumerate(nodes) if known.has_failed and not known.is_asked
    ]
    failed = failed or [(i, known) for i, known in enumerate(nodes) if known.has_failed]
    at, known = min(failed, key=lambda pair: pair[1].order)
    if first is not None and first.node == at:
        return first
    ending = known.ending or NodeEnding("lost")
    rank = "" if ending.rank is None else f"rank {ending.rank}: "
    why = ending.reason or "no reason is known"
    text = f"node {at} on {known.node.host} {ending.state}: {rank}{why}"
    gone = [f"node {i} on {other.node.host}" for i, other in enumerate(nodes) if other.is_silent]
    if gone and known.is_echo:
        text += f"; {', '.join(gone)} is not reached: that may be the cause"
    return Cause(at, text)


def start_watcher(state: StateDirectory, group: NodeGroup) -> None:
    """Have a process of its own watch the launch, if it has not ended and none does."""
    if not group.ended and not is_held(group_lock(state, group.name)):
        helpers.spawn("watch-nodes", state.root, group.name)


def start_watchers(state: StateDirectory) -> None:
    """The same for every launch of late whose watcher was lost, with its machine or its login."""
    for group in list_groups(state):
        if time.time() - group.created < _LATELY_S:
            start_watcher(state, group)


def main() -> None:
    """Detach, then watch the launch `argv[2]` of the state folder `argv[1]`, if none does."""
    state, name = StateDirectory(Path(sys.argv[1])), sys.argv[2]
    run_alone(group_lock(state, name), lambda: _watch_if_open(state, name))


def _watch_if_open(state: StateDirectory, name: str) -> None:
    with suppress(NotFound):
        group = find_group(state, name)
        if not group.ended and not group.has_started:
            group = launch_nodes(state, group)
        if not group.ended:
            watch_nodes(state, group)
