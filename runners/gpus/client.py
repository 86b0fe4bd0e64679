"""What the sampler last wrote, and starting one; nothing here calls a driver, so nothing hangs."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import msgspec

from runners.gpus.driver_setting import parse, setting
from runners.gpus.sampler_lock import owner_of
from runners.host.clock import time_of_day
from runners.host.files import is_gone, read_tail
from runners.host.gpu_claims import claimed
from runners.host.helpers import command, marked
from runners.host.identity import host_name
from runners.host.keep_alive import KeepAlive
from runners.host.locks import is_held
from runners.host.signals import signal_process
from runners.model.gpus import UNREAD, GpuReading
from runners.state.decoding import json_decoder, read
from runners.state.layout import StateDirectory

STALE_S = 5.0
FRESH_S = 3.0
POLL_S = 0.005
TOUCH_EVERY_S = 1.0
"""Well below the shortest time that a sampler lingers, or it leaves while a panel reads."""
FIRST_DELAY_S = 2.0
LONGEST_DELAY_S = 30.0
YOUNG_S = 20.0
"""A sampler that has to be started again within this time of the last start died young."""
LOG_LIMIT = 1 << 20


_starts: dict[Path, KeepAlive] = {}
_children: dict[Path, subprocess.Popen[bytes]] = {}
_touched: dict[Path, float] = {}


json_decoder(GpuReading)


def latest(state: StateDirectory) -> GpuReading | None:
    """The newest reading of this host under this `$FRESNEL_GPUS`, however old, or None."""
    reading = read(state.gpu_reading, GpuReading)
    if reading is None or reading.host != host_name() or reading.setting not in (None, setting()):
        return None
    reading = _marked_claimed(state, reading)
    return _marked_unread(reading) if is_stale(reading) else reading


def _marked_claimed(state: StateDirectory, reading: GpuReading) -> GpuReading:
    """The reading, and which GPUs runs hold that are not of this state folder."""
    others = claimed(lambda run: state.run(run).path.exists())
    if not others:
        return reading
    gpus = tuple(
        gpu if gpu.simulated else msgspec.structs.replace(gpu, claimed=others.get(gpu.uuid))
        for gpu in reading.gpus
    )
    return msgspec.structs.replace(reading, gpus=gpus)


def _marked_unread(reading: GpuReading) -> GpuReading:
    """The reading, each GPU marked as not read: what it had is no word on what it has.

    Simulated ones have nobody else on them, whoever looks.
    """
    since = f"not read since {time_of_day(reading.time, form='%H:%M:%S')}"
    gpus = tuple(
        gpu if gpu.simulated else msgspec.structs.replace(gpu, unread=since) for gpu in reading.gpus
    )
    return msgspec.structs.replace(reading, gpus=gpus)


def announce_reader(state: StateDirectory) -> None:
    """Tell the sampler that somebody reads: it leaves when nobody does."""
    now = time.monotonic()
    if now - _touched.get(state.root, float("-inf")) < TOUCH_EVERY_S:
        return
    _touched[state.root] = now
    with suppress(OSError):
        state.sampler_wanted.touch(mode=0o600)


def age_s(reading: GpuReading) -> float:
    """Seconds between the reading and now; it may be from the future, if a clock was set back."""
    return abs(time.time() - reading.time)


def is_stale(reading: GpuReading) -> bool:
    """True when the sampler should long since have written a newer one."""
    return age_s(reading) > STALE_S


def ensure_sampler(state: StateDirectory) -> None:
    """Start a detached sampler unless one runs; one under another `$FRESNEL_GPUS` is replaced.

    Every 2 s at first, every 30 s when samplers die young. Raises WrongInput for a meaningless
    `$FRESNEL_GPUS`, OSError when the state folder cannot be written.
    """
    parse(setting())
    if state.root in _children:
        _children[state.root].poll()  # a dead child stays a zombie until it is asked for
    starts = _starts.get(state.root)
    if starts is None:
        starts = _starts[state.root] = _keep_alive(state)
    now = time.monotonic()
    owner = owner_of(state)
    if owner is not None and owner.is_alive and owner.setting != setting():
        # Another takes its place: it has lived long enough to be no reason to wait.
        if starts.pause_over(now) and owner.ticks is not None:
            signal_process(owner.pid, owner.ticks, signal.SIGTERM)
            starts.start(now)
    elif not is_held(state.sampler_lock) and starts.pause_over(now):
        starts.start(now)


def _keep_alive(state: StateDirectory) -> KeepAlive:
    return KeepAlive(
        state.sampler_lock,
        lambda: _children.update({state.root: _start(state)}),
        FIRST_DELAY_S,
        longest_s=LONGEST_DELAY_S,
        young_s=YOUNG_S,
    )


def read_gpus(state: StateDirectory, patience_s: float = 5.0) -> GpuReading:
    """A reading at most 3 s old, waited for up to `patience_s`; else the last, and its `problem`.

    Raises WrongInput for a meaningless `$FRESNEL_GPUS`; never for trouble with a driver.
    """
    deadline = time.monotonic() + patience_s
    while True:
        announce_reader(state)
        reading = latest(state)
        if reading is not None and age_s(reading) <= FRESH_S:
            return reading
        try:
            ensure_sampler(state)
        except OSError as error:
            return _excuse(reading, f"the sampler cannot be started: {error}")
        if time.monotonic() >= deadline:
            return _excuse(reading, _reason(state))
        time.sleep(POLL_S)


def main() -> None:
    """Start a sampler for the state folder on the command line: a run wants its history."""
    state = StateDirectory(Path(sys.argv[-1]))
    # It makes the folder that it needs, and one that somebody has removed must not come back.
    if not is_gone(state.root) and not is_held(state.sampler_lock):
        ensure_sampler(state)


def _start(state: StateDirectory) -> "subprocess.Popen[bytes]":
    """Start a sampler in a session of its own, so that it outlives whoever needs it first."""
    state.create()
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    log = os.open(state.sampler_log, flags, 0o600)
    try:
        if os.fstat(log).st_size > LOG_LIMIT:
            os.ftruncate(log, 0)
        return subprocess.Popen(
            command("sampler", "--state-dir", state.root),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            env=marked(os.environ, "sampler"),  # one with a run's mark would hold its lease
            start_new_session=True,
        )
    finally:
        os.close(log)


def _excuse(reading: GpuReading | None, why: str) -> GpuReading:
    if reading is None:
        return GpuReading(time.time(), host_name(), UNREAD, problem=f"No GPU reading yet: {why}")
    if not is_stale(reading):
        return reading
    since = time_of_day(reading.time, form="%H:%M:%S")
    problem = f"GPU readings stale since {since}: {why}"
    return msgspec.structs.replace(_marked_unread(reading), problem=problem)


def _reason(state: StateDirectory) -> str:
    """Why no reading comes, as far as it can be seen from outside."""
    last = read(state.gpu_reading, GpuReading)
    if last is not None and last.host != host_name() and age_s(last) <= STALE_S:
        return (
            f"host {last.host} uses this state folder too; give each host its own "
            "$FRESNEL_STATE_DIR"
        )
    owner = owner_of(state)
    if owner is not None:
        return f"the driver does not answer (sampler is process {owner.pid} on {owner.host})"
    if b"Timeout (" in read_tail(state.sampler_log, 4096):
        return "the driver did not answer, the sampler ended itself and will be started again"
    return f"the sampler does not run; see {state.sampler_log}"
