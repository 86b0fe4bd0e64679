"""The GPUs as ROCm counts them: the nodes of the kernel's KFD, one per compute partition.

An MI300X in mode CPX is eight GPUs to a program, in DPX two, in SPX one. HIP numbers them in the
order of these nodes. Sources: the kernel's kfd_topology.c (a node's `location_id` is bus, device
and function in its low 16 bits and the partition in bits 31 to 28; kernels before 6.9 put the
partition where the function is) and AMD's notes on partitions.
"""

from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

import msgspec

from runners.host.files import names_in


class Node(msgspec.Struct, frozen=True):
    """One GPU to ROCm: HIP's `number`, its card's `address`, `memory` in bytes, the DRM minor."""

    number: int
    gpu_id: str
    address: str
    partition: int
    memory: int | None
    unique_id: int
    render: int | None


def read_nodes(root: Path, cards: Collection[str] = ()) -> list[Node]:
    """The GPU nodes visible from here, in HIP's order; `cards` are the addresses in sysfs."""
    nodes: list[Node] = []
    folder = root / "sys/class/kfd/kfd/topology/nodes"
    for name in sorted(filter(str.isdecimal, names_in(folder)), key=int):
        # A node whose GPU this container may not use hides its id; HIP does not count it.
        with suppress(OSError, ValueError, KeyError):
            gpu_id = (folder / name / "gpu_id").read_text().strip()
            # Nodes of CPUs have the id 0.
            if gpu_id != "0":
                nodes.append(_node(folder / name, len(nodes), gpu_id, cards))
    return nodes


def _node(folder: Path, number: int, gpu_id: str, cards: Collection[str]) -> Node:
    facts = {key: int(value) for key, value in _pairs(folder / "properties")}
    location = facts["location_id"]
    address, partition = _address(facts.get("domain", 0), location & 0xFFFF), location >> 28
    # An old kernel: the address names no card, but does once the function is cleared.
    if address not in cards and _address(facts.get("domain", 0), location & 0xFFF8) in cards:
        address, partition = _address(facts.get("domain", 0), location & 0xFFF8), location & 7
    return Node(
        number,
        gpu_id,
        address,
        partition,
        _memory(folder),
        facts.get("unique_id", 0),
        facts.get("drm_render_minor") or None,
    )


def _address(domain: int, location: int) -> str:
    return f"{domain:04x}:{location >> 8:02x}:{(location >> 3) & 0x1F:02x}.{location & 7:x}"


def _memory(folder: Path) -> int | None:
    """The node's own VRAM in bytes: the sum of its banks; None where none is listed."""
    sizes = []
    for bank in (folder / "mem_banks").glob("*/properties"):
        with suppress(OSError, ValueError):
            sizes += [int(value) for key, value in _pairs(bank) if key == "size_in_bytes"]
    return sum(sizes) or None


def _pairs(path: Path) -> list[tuple[str, str]]:
    lines = (line.split() for line in path.read_text().splitlines())
    return [(parts[0], parts[1]) for parts in lines if len(parts) == 2]
