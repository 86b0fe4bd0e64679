"""What `doctor` checks of the machine's basics, from Python to the clock."""

import os
import resource
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal, NamedTuple

from runners.doctor.host_facts import HostFacts
from runners.doctor.logout import judge_logout
from runners.host.clock import local_time
from runners.host.locks import is_held
from runners.host.systemd import probe_scope
from runners.model.gpus import GpuReading
from runners.model.units import gib_text
from runners.state.layout import StateDirectory

_SMALL_SHM = 1 << 30
_FEW_FILES = 1024
_SMALLEST_TERMINAL = (80, 24)


Verdict = Literal["PASS", "WARN", "FAIL"]


class Check(NamedTuple):
    """One thing looked at: how it stands, in words, and what to do when it does not stand well."""

    name: str
    verdict: Verdict
    message: str
    advice: str = ""


def check_machine(state: StateDirectory, reading: GpuReading) -> Iterator[Check]:
    """Every check of this machine, in the order in which one thing leads to another."""
    yield check_python()
    yield check_terminal()
    yield from check_gpus(reading)
    yield check_sampler(state)
    yield check_logout()
    yield check_scope(state)
    yield check_shared_memory()
    yield check_open_files()
    yield check_clock()


def check_python() -> Check:
    """The Python this runs on."""
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info < (3, 10):  # noqa: UP036 (a checkout runs without being installed)
        return Check("Python", "FAIL", f"{version} ({sys.executable})", "use Python 3.10 or newer")
    return Check("Python", "PASS", f"{version} ({sys.executable})")


def check_terminal() -> Check:
    """Size and colour of the terminal, where there is one."""
    streams = [number for number in (1, 2, 0) if os.isatty(number)]
    if not streams:
        return Check("terminal", "PASS", "none here: commands work, the panel needs one")
    columns, lines = os.get_terminal_size(streams[0])
    kind = os.environ.get("TERM", "")
    many = os.environ.get("COLORTERM") in ("truecolor", "24bit")
    colours = "true colour" if many else "colours as TERM says"
    text = f"{columns}×{lines}, TERM={kind or 'unset'}, {colours}"
    if kind in ("", "dumb"):
        return Check("terminal", "WARN", text, "export TERM=xterm-256color, or use --no-ui")
    if columns < _SMALLEST_TERMINAL[0] or lines < _SMALLEST_TERMINAL[1]:
        return Check("terminal", "WARN", text, "the panel is made for 80×24 and more")
    return Check("terminal", "PASS", text)


def check_gpus(reading: GpuReading) -> Iterator[Check]:
    """What the sampler could read."""
    if reading.problem:
        advice = "runs on the CPU start; see sampler.log in the state folder"
        yield Check("GPUs", "WARN", reading.problem, advice)
        return
    if not reading.gpus:
        yield Check("GPUs", "PASS", "none: runs use the CPU")
        return
    driver = f", driver {reading.driver}" if reading.driver else ""
    text = f"{len(reading.gpus)} × {reading.gpus[0].name} by {reading.backend}{driver}"
    yield Check("GPUs", "PASS", text)
    advice = "nvidia-smi or rocm-smi may say more"
    for gpu in reading.gpus:
        if gpu.error:
            yield Check(f"GPU {gpu.index}", "WARN", gpu.error, advice)


def check_sampler(state: StateDirectory) -> Check:
    """Whether somebody reads the GPUs of this host."""
    if is_held(state.sampler_lock):
        return Check("sampler", "PASS", "runs")
    return Check("sampler", "WARN", "does not run", f"see {state.sampler_log}")


def check_logout() -> Check:
    """Whether logging out would end runs."""
    verdict = judge_logout()
    outcome: Verdict = "PASS" if verdict.outcome == "safe" else "WARN"
    return Check("logout", outcome, verdict.reason, verdict.advice)


def check_scope(state: StateDirectory) -> Check:
    """Whether a run gets a systemd scope of its own; tried anew, whatever was remembered."""
    probe = probe_scope(state.host / "scope.json", again=True)
    text = "works" if probe.works else f"none: {probe.why}; runs are started by setsid"
    return Check("systemd scope", "PASS", text)


def check_shared_memory(folder: Path = Path("/dev/shm")) -> Check:
    """Where DataLoader workers and NCCL pass their tensors."""
    try:
        found = os.statvfs(folder)
    except OSError as error:
        text = f"{folder}: {error.strerror}"
        return Check("shared memory", "WARN", text, "DataLoader workers will fail")
    size, free = found.f_frsize * found.f_blocks, found.f_frsize * found.f_bavail
    text = f"{folder} {gib_text(size)}, {gib_text(free)} free"
    if size < _SMALL_SHM or free < size // 10:
        advice = "docker run --shm-size=16g or --ipc=host, or num_workers 0"
        advice = f"DataLoader workers fail when it is full: {advice}"
        return Check("shared memory", "WARN", text, advice)
    return Check("shared memory", "PASS", text)


def check_open_files() -> Check:
    """How many files a run may hold open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    text = f"{_limit(soft)} (at most {_limit(hard)})"
    if soft != resource.RLIM_INFINITY and soft < _FEW_FILES:
        advice = "ulimit -n 65536 before launching: DataLoader workers need many"
        return Check("open files", "WARN", text, advice)
    return Check("open files", "PASS", text)


def check_clock(now: Callable[[], float] = time.time) -> Check:
    """Whether the clock is later than the newest of our own files can be."""
    shown = local_time(now(), "%Y-%m-%d %H:%M:%S %z")
    if now() < Path(__file__).stat().st_mtime - 60:
        text = f"{shown}: before this program was installed"
        return Check("clock", "WARN", text, "set the clock (timedatectl, ntp)")
    return Check("clock", "PASS", shown)


def check_time(host: HostFacts) -> Iterator[Check]:
    """Whether a time service keeps the clock; nothing where none says anything."""
    if host.clock_synchronized is not None:
        fine = host.clock_synchronized
        text = "kept by a time service" if fine else "no time service has set the clock"
        advice = "" if fine else "timedatectl set-ntp true"
        yield Check("time service", "PASS" if fine else "WARN", text, advice)


def _limit(count: int) -> str:
    return "unlimited" if count == resource.RLIM_INFINITY else f"{count:,}"
