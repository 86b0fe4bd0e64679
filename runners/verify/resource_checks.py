"""Memory, batch, disk, ports, interfaces, outputs: what the run takes, and whether it is there."""

from collections.abc import Iterator

from runners.doctor.checks import Check, Verdict
from runners.model.quantities import duration_text, gib_text
from runners.verify.facts import LaunchFacts

FEW_EACH = 4
"""Samples on a device below which GPUs idle and gradients get noisy (users' guides)."""
LARGE_BATCH = 1024
"""Samples in all above which scaling the learning rate alone is not to be trusted (guides)."""
_ROOM_LEFT = 2 << 30
"""Bytes that should stay free beside the checkpoints: logs, events, the system."""
_INTERFACE_VARIABLES = ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME")


def check_memory(facts: LaunchFacts) -> Iterator[Check]:
    """VRAM that the run is known or expected to take against what the GPUs have."""
    for need in facts.memory:
        tight = [
            gpu
            for gpu in facts.gpus
            if gpu.memory_total is not None
            and need.bytes > gpu.memory_total - (0 if gpu.memory_used is None else gpu.memory_used)
        ]
        for gpu in tight[:1]:
            total, used = gpu.memory_total or 0, gpu.memory_used or 0
            verdict: Verdict = "FAIL" if need.sure and need.bytes > total else "WARN"
            others = f" (and {len(tight) - 1} more)" if len(tight) > 1 else ""
            words = (
                f"{gib_text(need.bytes)} on each GPU {need.basis}; GPU {gpu.index}{others} has "
                f"{gib_text(total - used)} of {gib_text(total)} free"
            )
            advice = "a smaller batch, accumulation, or other GPUs"
            yield Check("GPU memory", verdict, words, advice)
        if facts.gpus and not tight:
            yield Check("GPU memory", "PASS", f"{gib_text(need.bytes)} on each GPU {need.basis}")


def check_batch(facts: LaunchFacts) -> Iterator[Check]:
    """Samples on each device and in all, against what the preset and a probe say."""
    batch = facts.batch
    if batch is None:
        return
    words = f"{batch.total:,} = {batch.each:g} on each of {batch.devices}"
    fine = True
    if batch.each < FEW_EACH and (batch.devices > 1 or (batch.usual or 0) > batch.each):
        fine = False
        yield Check(
            "batch",
            "WARN",
            f"{words}: below {FEW_EACH} the GPUs idle and gradients get noisy",
            "a larger batch, or fewer GPUs",
        )
    if batch.total > LARGE_BATCH:
        fine = False
        advice = "warm the rate up, and watch the loss of the first epochs"
        text = f"{words}: above {LARGE_BATCH:,} no scaling of the rate alone is to be trusted"
        yield Check("batch", "WARN", text, advice)
    if batch.largest is not None and batch.each > batch.largest:
        fine = False
        text = f"{words}; a probe on {batch.probed_on} found that {batch.largest:g} fit"
        yield Check("batch", "FAIL", text, f"at most {batch.largest:g} on each")
    if batch.each != int(batch.each):
        fine = False
        text = f"{batch.total:,} does not divide by {batch.devices} devices"
        yield Check("batch", "WARN", text, "choose a multiple")
    if fine:
        yield Check("batch", "PASS", words)


def check_disk(facts: LaunchFacts) -> Iterator[Check]:
    """Room for the checkpoints to come."""
    disk = facts.disk
    if disk is None:
        return
    if disk.size is None:
        verdict: Verdict = "WARN" if disk.free < _ROOM_LEFT else "PASS"
        words = f"{gib_text(disk.free)} free in {disk.folder}; how large checkpoints get is unknown"
        yield Check("disk", verdict, words, "make room" if verdict == "WARN" else "")
        return
    number = disk.number or 1
    need = disk.size * number
    pace = f", one every {duration_text(disk.every_s)}" if disk.every_s else ""
    what = f"{number:,} × {gib_text(disk.size)}{pace} ({disk.basis})"
    words = f"{what}; {gib_text(disk.free)} free in {disk.folder}"
    if need > disk.free:
        fits = disk.free // disk.size
        full = f"; full after {duration_text(fits * disk.every_s)}" if disk.every_s else ""
        yield Check(
            "disk",
            "FAIL",
            f"{words}{full}",
            "make room, or keep fewer: keep: {last: 3} in the preset",
        )
    elif need + _ROOM_LEFT > disk.free:
        yield Check("disk", "WARN", words, "little room will be left")
    else:
        yield Check("disk", "PASS", words)


def check_ports(facts: LaunchFacts) -> Iterator[Check]:
    """Whether the ports that the run will listen on are free."""
    for one in facts.ports:
        if one.free:
            yield Check("port", "PASS", f"{one.port} is free ({one.basis})")
        else:
            words = f"{one.port} is in use ({one.basis})"
            advice = "another number, or ${port}: a free one at every launch"
            yield Check("port", "FAIL", words, advice)


def check_interfaces(facts: LaunchFacts) -> Iterator[Check]:
    """Whether the network interfaces named in the environment exist."""
    host = facts.host
    for variable in _INTERFACE_VARIABLES:
        value = facts.environment.get(variable, "")
        if not value or value.startswith("^") or host is None or not host.interfaces:
            continue
        exact = value.startswith("=")
        names = [name.partition(":")[0] for name in value.lstrip("=").split(",") if name]
        missing = [
            name
            for name in names
            if not any(one == name if exact else one.startswith(name) for one in host.interfaces)
        ]
        if len(missing) == len(names):
            words = f"{variable}={value}: this host has {', '.join(host.interfaces)}"
            route = host.routed or "its name"
            advice = f"--set environment.{variable}={route}"
            yield Check("interface", "FAIL", words, advice)
        else:
            yield Check("interface", "PASS", f"{variable}={value}")


def check_outputs(facts: LaunchFacts) -> Iterator[Check]:
    """Outputs that another run made or is making where this one writes."""
    for one in facts.outputs:
        if one.writers:
            words = f"{one.pattern}: {', '.join(one.writers)} writes there now"
            yield Check("outputs", "FAIL", words, "give this run a folder of its own")
        elif one.files and not facts.spec.resumed_from:
            words = (
                f"{one.pattern}: {one.files:,} files are there, the newest {one.newest}, "
                f"{duration_text(one.age_s)} old: they may be overwritten"
            )
            advice = "another folder (${run_dir} is the run's own), or move them away"
            yield Check("outputs", "WARN", words, advice)
        else:
            yield Check("outputs", "PASS", f"{one.pattern}: nothing is in the way")
