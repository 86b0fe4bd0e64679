"""Memory, batch, disk, ports, interfaces, outputs: what the run takes, and whether it is there."""

from collections.abc import Iterator

from runners.doctor.checks import Check, Verdict
from runners.doctor.host_facts import DiskRoom
from runners.doctor.resources import judge_room
from runners.model.scaling import FEW_EACH, LARGE_BATCH, uneven_text
from runners.model.units import counted, duration_text, gib_text
from runners.verify.facts import LaunchFacts

_INTERFACE_VARIABLES = ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME")


def check_memory(facts: LaunchFacts) -> Iterator[Check]:
    """VRAM that the run is known or expected to take against what the GPUs have."""
    for need in facts.memory:
        known = [gpu for gpu in facts.gpus if gpu.memory_total is not None]
        tight = [g for g in known if need.bytes > (g.memory_total or 0) - (g.memory_used or 0)]
        for gpu in tight[:1]:
            total, used = gpu.memory_total or 0, gpu.memory_used or 0
            verdict: Verdict = "FAIL" if need.sure and need.bytes > total else "WARN"
            others = f" (and {len(tight) - 1} more)" if len(tight) > 1 else ""
            free = f"{gib_text(total - used)} of {gib_text(total)}"
            text = f"{gib_text(need.bytes)} on each GPU {need.basis}; "
            text += f"GPU {gpu.index}{others} has {free} free"
            yield Check("GPU memory", verdict, text, "a smaller batch, accumulation, or other GPUs")
        if facts.gpus and not tight:
            least = min((gpu.memory_total or 0 for gpu in known), default=0)
            share = f" ({100 * need.bytes / least:.0f} % of it)" if least else ""
            text = f"{gib_text(need.bytes)} on each GPU{share} {need.basis}"
            yield Check("GPU memory", "PASS", text)


def check_batch(facts: LaunchFacts) -> Iterator[Check]:
    """Samples on each device and in all, against what the preset and a probe say."""
    batch = facts.batch
    if batch is None:
        return
    size = f"{batch.total:,} = {batch.each:g} on each of {batch.devices}"
    found: list[Check] = []
    if batch.each < FEW_EACH and (batch.devices > 1 or (batch.usual or 0) > batch.each):
        text = f"{size}: below {FEW_EACH} the GPUs idle and gradients get noisy"
        found.append(Check("batch", "WARN", text, "a larger batch, or fewer GPUs"))
    if batch.total > LARGE_BATCH:
        text = f"{size}: above {LARGE_BATCH:,} scaling the rate alone is not reliable"
        advice = "warm the rate up, and watch the loss of the first epochs"
        found.append(Check("batch", "WARN", text, advice))
    if batch.largest is not None and batch.each > batch.largest:
        text = f"{size}; a probe on {batch.probed_on} found that {batch.largest:g} fit"
        found.append(Check("batch", "FAIL", text, f"at most {batch.largest:g} on each"))
    if batch.each != int(batch.each):
        text = uneven_text(batch.total, batch.devices)
        scaling = facts.spec.scaling
        refuses = scaling is not None and scaling.divides
        found.append(Check("batch", "FAIL" if refuses else "WARN", text, "choose a multiple"))
    yield from found or [Check("batch", "PASS", size)]


def check_disk(facts: LaunchFacts) -> Iterator[Check]:
    """Room for the checkpoints to come."""
    disk = facts.disk
    if disk is None:
        return
    number = disk.number or 1
    need = (disk.size or 0) * number
    verdict, free = judge_room(DiskRoom(disk.free, disk.inodes), need)
    if not disk.size:  # of one that a full disk cut to nothing, too
        text = f"{free} in {disk.folder}; how large checkpoints get is unknown"
        yield Check("disk", verdict, text, "" if verdict == "PASS" else "make room")
        return
    pace = f", one every {duration_text(disk.every_s)}" if disk.every_s else ""
    what = f"{number:,} × {gib_text(disk.size)}{pace} ({disk.basis})"
    text = f"{what}; {free} in {disk.folder}"
    if verdict == "FAIL":
        fits = disk.free // disk.size
        full = f"; full after {duration_text(fits * disk.every_s)}" if disk.every_s else ""
        advice = "make room, or keep fewer: keep: {last: 3} in the preset"
        yield Check("disk", "FAIL", f"{text}{full}", advice)
    else:
        advice = "" if verdict == "PASS" else "little room will be left"
        yield Check("disk", verdict, text, advice)


def check_ports(facts: LaunchFacts) -> Iterator[Check]:
    """Whether the ports that the run will listen on are free."""
    for port in facts.ports:
        advice = "another number, or ${port}: a free one at every launch"
        if port.port is None:
            yield Check("port", "FAIL", f"{port.basis}: ports are 1 to 65535", advice)
        elif port.free:
            yield Check("port", "PASS", f"{port.port} is free ({port.basis})")
        else:
            text = f"{port.port} is in use ({port.basis})"
            yield Check("port", "FAIL", text, advice)


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
            if not any(
                present == name if exact else present.startswith(name)
                for present in host.interfaces
            )
        ]
        if len(missing) == len(names):
            text = f"{variable}={value}: this host has {', '.join(host.interfaces)}"
            route = host.routed or "its name"
            advice = f"--set environment.{variable}={route}"
            yield Check("interface", "FAIL", text, advice)
        else:
            yield Check("interface", "PASS", f"{variable}={value}")


def check_outputs(facts: LaunchFacts) -> Iterator[Check]:
    """Outputs that another run made or is making where this one writes."""
    for output in facts.outputs:
        if output.writers:
            text = f"{output.pattern}: {', '.join(output.writers)} writes there now"
            yield Check("outputs", "FAIL", text, "give this run a folder of its own")
        elif output.files and not facts.spec.resumed_from:
            newest = f"the newest {output.newest}, {duration_text(output.age_s)} old"
            text = f"{output.pattern}: {counted(output.files, 'file')} may be overwritten, {newest}"
            advice = "another folder (${run_dir} is the run's own), or move the files"
            yield Check("outputs", "WARN", text, advice)
        else:
            yield Check("outputs", "PASS", f"{output.pattern}: nothing would be overwritten")
