"""Starting one program on several machines: on all of them, or on none.

Done by the process that watches the launch, from the launch's file: whoever asked for it may go
away at any moment, and a watcher that was killed is followed by another that asks the same again,
by the same names.
"""

import time

import msgspec

from runners.host.files import is_gone
from runners.model.errors import FresnelError
from runners.model.run_ids import is_run_id
from runners.places.ssh.node_groups import NodeGroup, NodeRun, find_group, save_group
from runners.places.ssh.registry import RemoteRegistry
from runners.places.ssh.remote_command import launch_once, remote_output, withdraw
from runners.places.ssh.ssh import RemoteTrouble, Ssh
from runners.state.layout import StateDirectory

_LATE_S = 600.0
"""A launch that was broken off so long ago is undone, not finished: nobody waits for it."""
_UNDO_PAUSES_S = (1.0, 5.0, 20.0, 60.0)


def launch_nodes(state: StateDirectory, group: NodeGroup) -> NodeGroup:
    """Start every node that has not started; the launch as it was saved, ended when one cannot."""
    is_late = time.time() - group.created > _LATE_S
    for rank, node in enumerate(group.nodes):
        if node.run:
            continue
        problem, run = group.cause, ""
        if is_late and not problem:
            problem = "the launch was broken off before all nodes had started"
        if not problem:
            run, problem = _launch(state, node)
        # As it is now: somebody may have asked all of them to stop.
        group = find_group(state, group.name)
        if problem:
            return _undo(state, msgspec.structs.replace(group, cause=group.cause or problem))
        nodes = [*group.nodes]
        nodes[rank] = msgspec.structs.replace(node, run=run)
        group = msgspec.structs.replace(group, nodes=tuple(nodes))
        save_group(state, group)
    # Asked to stop while the last one started: nobody has asked that one.
    return _undo(state, group) if group.cause else group


def _launch(state: StateDirectory, node: NodeRun) -> tuple[str, str]:
    """A node's run, or why it did not start."""
    try:
        registry = RemoteRegistry(state)
        ssh = Ssh(registry, registry.find(node.host))
        done = launch_once(ssh, ["launch", "--no-queue", *node.command], node.request)
    except FresnelError as error:
        return "", str(error)
    run = done.output.decode("utf-8", "replace").strip()
    if done.exit_code:
        return "", f"{node.host}: {done.errors.decode('utf-8', 'replace').strip()}"
    if not is_run_id(run):
        return "", f"{node.host}: an answer that is not a run: {run[:80]!r}"
    return run, ""


def _undo(state: StateDirectory, group: NodeGroup) -> NodeGroup:
    """Kill what has started; a machine that is not reached is asked until it is."""
    save_group(state, group)
    left, pauses = list(group.nodes), list(_UNDO_PAUSES_S)
    while not is_gone(state.root):
        left = [node for node in left if not _is_undone(state, node)]
        if not left:
            break
        time.sleep(pauses.pop(0) if len(pauses) > 1 else pauses[0])
    group = msgspec.structs.replace(find_group(state, group.name), ended=time.time())
    save_group(state, group)
    return group


def _is_undone(state: StateDirectory, node: NodeRun) -> bool:
    """Have a node killed; False when its machine was not reached."""
    registry = RemoteRegistry(state)
    try:
        ssh = Ssh(registry, registry.find(node.host))
        runs = [node.run] if node.run else withdraw(ssh, node.request)
        for run in runs:
            # Killed, not stopped: a rank that waits for the others has nothing to save.
            remote_output(ssh, ["kill", run])
    except RemoteTrouble:
        return False
    except FresnelError:
        pass  # a machine that was removed here, or that refuses: there is nothing more to ask
    return True
