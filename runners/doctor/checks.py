"""What `doctor` checks of what this program runs on: Python, terminal, GPUs, scopes."""

import os
import sys
from collections.abc import Iterator
from typing import Literal, NamedTuple

from runners.host.locks import is_held
from runners.host.systemd import probe_scope
from runners.model.gpus import GpuReading
from runners.state.layout import StateDirectory

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
    yield check_scope(state)


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


def check_scope(state: StateDirectory) -> Check:
    """Whether a run gets a systemd scope of its own; tried anew, whatever was remembered."""
    probe = probe_scope(state.host / "scope.json", again=True)
    text = "works" if probe.works else f"none: {probe.why}; runs are started by setsid"
    return Check("systemd scope", "PASS", text)
