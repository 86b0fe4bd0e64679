"""What `doctor` checks of drivers, GPUs, disks, network, our own helpers and packages."""

import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from runners.doctor.checks import Check, Verdict
from runners.doctor.host_facts import HostFacts, kernel_architectures, present_folder, room_in
from runners.doctor.resources import judge_room
from runners.host.clock import local_time
from runners.host.files import is_there, read_text
from runners.host.helpers import ROOT
from runners.host.identity import kernel_time
from runners.host.procfs import HELPER_MARK, process_state, start_ticks, unreaped
from runners.model.gpus import GpuReading, Xid
from runners.model.units import counted

_HOT_C = 85.0
_HOTTEST_C = 95.0
_UNREAPED = 100
"""Each run leaves two; those that an init is about to take away are fewer."""
_SLOWING = ("thermal", "hw", "power_brake", "hot")
_ADVICE = (
    ({79}, "the GPU was lost: reboot the machine, then have its administrator check it"),
    (
        {46, 62, 64, 95, 109, 110, 119, 120, 136, 140, 143, 155, 156, 158},
        "the machine, not the run: have an administrator reset this GPU; exclude it until then",
    ),
    (
        {74, *range(144, 151)},
        "a link between GPUs: runs on several of them are in doubt; tell the administrator",
    ),
    ({54}, "power or cabling of the GPU: tell the administrator"),
    (
        {8, 11, 13, 25, 31, 32, 39, 40, 41, 60, 68, 69, 70, 71, 72, 75, 76, 77, 80, 94},
        "most likely the program that ran; launch it again",
    ),
    (
        {14, 37, 38, 43, 44, 63, 66, 67, 92, 93, 106, 107, 121, 137, 141, 152, 153, 157},
        "follows from something else, or needs nothing",
    ),
)


def check_drivers(reading: GpuReading, root: Path = Path("/")) -> Iterator[Check]:
    """Whether the kernel's GPU drivers and the libraries that are asked fit each other."""
    module = read_text(root / "proc/driver/nvidia/version")
    found = re.search(r"Kernel Module(?: for \S+)?\s+([\d.]+)", module)
    if found:
        loaded = found[1]
        if reading.driver and reading.backend == "nvml" and reading.driver != loaded:
            text = f"kernel module {loaded}, libraries {reading.driver}"
            advice = "reboot: the driver was updated while it was loaded"
            yield Check("GPU driver", "WARN", text, advice)
        elif "Driver/library version mismatch" in (reading.problem or ""):
            text = f"kernel module {loaded}, its libraries are of another version"
            advice = "live runs are safe; new ones need a reboot"
            yield Check("GPU driver", "FAIL", text, advice)
        else:
            yield Check("GPU driver", "PASS", f"NVIDIA {loaded}")
    kinds = kernel_architectures(root)
    if kinds:
        version = read_text(root / "sys/module/amdgpu/version").strip()
        rocm = read_text(root / "opt/rocm/.info/version").strip()
        text = f"amdgpu {version or 'of the kernel'}, ROCm {rocm or 'not in /opt/rocm'}"
        yield Check("GPU driver", "PASS", f"{text}, {', '.join(dict.fromkeys(kinds))}")
        yield from _check_kfd(root / "dev/kfd")


def _check_kfd(device: Path) -> Iterator[Check]:
    if not is_there(device):
        advice = "in a container: --device=/dev/kfd --device=/dev/dri"
        yield Check("GPU access", "FAIL", f"{device} is not there", advice)
    elif not os.access(device, os.R_OK | os.W_OK):
        advice = "sudo usermod -aG render,video $USER, then log in again"
        yield Check("GPU access", "FAIL", f"{device} may not be opened by you", advice)


def check_gpu_errors(reading: GpuReading, seen: Sequence[Xid]) -> Iterator[Check]:
    """Errors that the GPUs reported: the newest of each, those of ended runs, and of memory."""
    known = {(xid.code, round(xid.time)): xid for xid in seen}
    for gpu in reading.gpus:
        if gpu.xid is not None:
            known[gpu.xid.code, round(gpu.xid.time)] = gpu.xid
        if gpu.ecc_errors:
            text = f"GPU {gpu.index}: {gpu.ecc_errors:,} uncorrectable memory errors"
            advice = "exclude it (--gpu-ids), and tell the machine's administrator"
            yield Check("GPU memory errors", "WARN", text, advice)
    by_code: dict[int, list[Xid]] = {}
    for xid in known.values():
        by_code.setdefault(xid.code, []).append(xid)
    for code, events in sorted(by_code.items()):
        newest = max(events, key=lambda xid: xid.time)
        when = local_time(newest.time, "%Y-%m-%d %H:%M")
        often = f"{len(events)} times, " if len(events) > 1 else ""
        text = f"Xid {code} ({newest.meaning}), {often}last {when}"
        yield Check("GPU errors", "WARN", text, xid_advice(code))


def check_heat(reading: GpuReading) -> Iterator[Check]:
    """GPUs that are hot, or slowed down because they are."""
    for gpu in reading.gpus:
        slowed = [why for why in gpu.throttle if any(word in why.lower() for word in _SLOWING)]
        if slowed:
            text = f"GPU {gpu.index} slows itself down: {', '.join(slowed)}"
            advice = "look at fans, dust and room temperature; runs are slower than they were"
            yield Check("GPU heat", "WARN", text, advice)
        elif gpu.temperature_c is not None and gpu.temperature_c >= _HOT_C:
            verdict: Verdict = "FAIL" if gpu.temperature_c >= _HOTTEST_C else "WARN"
            text = f"GPU {gpu.index} is at {gpu.temperature_c:.0f} °C"
            yield Check("GPU heat", verdict, text, "check its cooling")


def check_disks(places: Mapping[str, Path]) -> Iterator[Check]:
    """Room and inodes where runs write: by name, each disk once."""
    seen: set[int] = set()
    for name, place in places.items():
        folder = present_folder(place)
        try:
            device, room = folder.stat().st_dev, room_in(folder)
        except OSError:
            continue
        if device in seen:
            continue
        seen.add(device)
        verdict, text = judge_room(room)
        # Runs need not write there: what is full is no more than a warning.
        advice = "" if verdict == "PASS" else "checkpoints need room: `fresnel-tui prune`"
        verdict = "PASS" if verdict == "PASS" else "WARN"
        yield Check("disks", verdict, f"{name} ({folder}): {text}", advice)


def check_network(host: HostFacts, name: str) -> Iterator[Check]:
    """What runs over several machines need: a route, and a name that is not the loopback's."""
    if not host.routed:
        text = "no default route: enough for runs on this machine alone"
        yield Check("network", "PASS", text)
        return
    own = [
        line.split()[0]
        for line in read_text(Path("/etc/hosts")).splitlines()
        if name in line.split()[1:] and not line.startswith("#")
    ]
    if own and all(address.startswith("127.") or address == "::1" for address in own):
        text = f"{name} is {own[0]} in /etc/hosts: Gloo takes the loopback for the network"
        advice = f"over several machines: GLOO_SOCKET_IFNAME={host.routed}"
        yield Check("network", "WARN", text, advice)
    else:
        yield Check("network", "PASS", f"default route by {host.routed}")


def check_helpers(state: Path, root: Path = Path("/proc")) -> Iterator[Check]:
    """Helper processes for the folder `state` that are suspended, or run on code that is gone."""
    fine = 0
    for pid, kind in _helpers(state, root):
        letter = process_state(pid)
        if letter in ("T", "t"):
            text = f"{kind} (pid {pid}) is suspended: it does nothing"
            yield Check("helpers", "WARN", text, f"kill -CONT {pid}")
        elif kind != "supervisor" and _is_outdated(pid):
            text = f"{kind} (pid {pid}) was started before this version was installed"
            yield Check("helpers", "WARN", text, f"kill {pid}: another starts when it is needed")
        else:
            fine += 1
    yield Check("helpers", "PASS", f"{counted(fine, 'helper')} work{'s' if fine == 1 else ''}")


def check_reaping() -> Iterator[Check]:
    """Whether process 1 takes away what has ended: a container's often does not."""
    ended = unreaped()
    if ended >= _UNREAPED:
        text = f"{ended} stay in the process table: process 1 does not wait for them"
        advice = "a container with a limit of processes fills up: start it with an init (--init)"
        yield Check("ended processes", "WARN", text, advice)


def check_versions(installed: Mapping[str, str], wanted: Sequence[str]) -> Iterator[Check]:
    """Versions of what we need, as they are installed; `wanted` must all be there."""
    missing = [name for name in wanted if name not in installed]
    if missing:
        text = f"not installed: {', '.join(missing)}"
        yield Check("packages", "FAIL", text, f"{sys.executable} -m pip install {missing[0]}")
    else:
        listed = ", ".join(f"{name} {installed[name]}" for name in wanted)
        yield Check("packages", "PASS", listed)


def _helpers(state: Path, root: Path) -> Iterator[tuple[int, str]]:
    """Helpers by pid and kind: their command line names our code and that state folder."""
    mark = f"{HELPER_MARK}=".encode()
    for entry in root.iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if entry.stat().st_uid != os.getuid():
                continue
            arguments = (entry / "cmdline").read_bytes()
            variables = (entry / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if os.fsencode(ROOT) not in arguments or not _names(arguments, os.fsencode(state)):
            continue
        kind = next((text for text in variables if text.startswith(mark)), b"")
        if kind and int(entry.name) != os.getpid():
            yield int(entry.name), kind[len(mark) :].decode("ascii", "replace")


def _names(arguments: bytes, folder: bytes) -> bool:
    """Whether one of a process's arguments is `folder`, or lies in it."""
    return any((word + b"/").startswith(folder + b"/") for word in arguments.split(b"\0"))


def _is_outdated(pid: int) -> bool:
    """True for a process that began before our own code was written."""
    ticks = start_ticks(pid)
    if ticks is None:
        return False
    began = kernel_time() + ticks / os.sysconf("SC_CLK_TCK")
    return began < Path(__file__).stat().st_mtime - 1.0


def xid_advice(code: int) -> str:
    """What to do about an Xid, and whether it is the machine's or most likely the program's."""
    advice = (text for codes, text in _ADVICE if code in codes)
    return next(advice, "see NVIDIA's list of XID errors")
