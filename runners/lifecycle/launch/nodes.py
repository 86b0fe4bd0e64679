"""A program over several machines: how this one is told of the others.

Facts (torch 2.13, NCCL's socket.cc): the static rendezvous needs node rank, address and port; NCCL
takes any interface but lo and docker's, gloo the one that the host's name resolves to, which is
127.0.1.1 on many. So both are told the interface that the way to rank 0 goes by.
"""

from collections.abc import Mapping

import msgspec

from runners.model.errors import WrongInput
from runners.model.launchers import PROCESS_LAUNCHERS, traits_of
from runners.model.spec import NodePlace, RunSpec

INTERFACES = ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME")


def place_on_nodes(spec: RunSpec, nodes: NodePlace) -> RunSpec:
    """`spec` for one of several machines; WrongInput for a launcher that knows only one."""
    if not traits_of(spec.launcher).starts_processes:
        raise WrongInput(
            f"`{spec.preset}` is launched by {spec.launcher}, on one machine",
            f"several machines need the launcher {' or '.join(PROCESS_LAUNCHERS)}",
        )
    if not 0 <= nodes.rank < nodes.count:
        raise WrongInput(f"--node-rank {nodes.rank}: expected 0 to {nodes.count - 1}")
    return msgspec.structs.replace(spec, node=nodes)


def require_place(spec: RunSpec) -> None:
    """WrongInput for a spec for several machines together that does not say which this is."""
    if spec.nodes is not None and spec.node is None:
        raise WrongInput(
            f"`{spec.preset}` runs on {', '.join(spec.nodes.hosts)} together",
            f"`fresnel-tui launch {spec.preset}` starts it there; one machine's plan: --nodes "
            f"{len(spec.nodes.hosts)} --node-rank 0 --master-addr ADDRESS",
        )


def node_environment(nodes: NodePlace | None, environment: Mapping[str, str]) -> dict[str, str]:
    """The interface towards rank 0 for NCCL and gloo, where nobody has chosen one."""
    if nodes is None or all(name in environment for name in INTERFACES):
        return {}
    interface = interface_towards(nodes.address, nodes.port)
    if not interface:
        return {}
    return {name: interface for name in INTERFACES if name not in environment}


def interface_towards(address: str, port: int) -> str:
    """The network interface by which packets go to `address`; empty when there is no way."""
    import psutil  # only several machines need it

    try:
        import socket  # only runs over several machines need it

        family, kind, _, _, place = socket.getaddrinfo(address, port, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as probe:
            probe.connect(place)  # nothing is sent
            mine = probe.getsockname()[0]
    except OSError:
        return ""
    found = [
        name
        for name, addresses in psutil.net_if_addrs().items()
        if any(own.address.partition("%")[0] == mine for own in addresses)
    ]
    return found[0] if found else ""


def nodes_note(nodes: NodePlace | None, processes: int) -> tuple[str, ...]:
    """What a person should know of it before the run starts."""
    if nodes is None:
        return ()
    return (
        f"node {nodes.rank} of {nodes.count}, {processes * nodes.count} processes in all; they "
        f"meet at {nodes.address}:{nodes.port}",
    )
