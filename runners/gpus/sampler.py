"""The sampler: reads GPUs and host every second into `gpus.json` and the history; one per state.

    python -m runners.gpus.sampler --state-dir DIR

Driver calls can block for ever; they are made here and nowhere else. A watchdog in C ends the
whole process when one reading takes longer than `$FRESNEL_SAMPLER_DEADLINE_S`; a reader then
starts another. Inside a Slurm job only its own GPUs exist, whatever else the driver shows.
"""

import faulthandler
import os
import shutil
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from runners.gpus.backends.backend import Backend
from runners.gpus.backends.detect import open_backend
from runners.gpus.driver_setting import parse, setting
from runners.gpus.host_metrics import HostMeter
from runners.gpus.sampler_lock import record_owner
from runners.gpus.usage_recorder import UsageRecorder
from runners.host.files import identity_of, modified_at, replace, stamp_of
from runners.host.identity import boot_time, host_name
from runners.host.locks import acquire, is_held
from runners.host.slurm_job import SlurmJob, slurm_job
from runners.model.errors import ExitCode, WrongInput
from runners.model.gpus import GpuReading, GpuSnapshot, Xid
from runners.state.decoding import keep_what_is_read, read
from runners.state.layout import JOB_READINGS, StateDirectory
from runners.state.leases import live_run_ids

INTERVAL_S = 1.0
DEADLINE_S = 10.0
LINGER_S = 60.0
"""How long it goes on when nobody reads and no run lives."""
OPENING_TAKES = 6
"""Deadlines that opening may take: eight GPUs without persistence mode wake for many seconds."""
TROUBLE_S = 30.0
"""A broken driver is tried anew by a fresh process: only that one loads its library again."""
LOCK_PATIENCE_S = 0.25
_KEPT_S = 86_400.0


def main(argv: list[str] | None = None) -> int:
    """Sample until nobody needs it; 0, at once when another one samples, or 2 for wrong input."""
    arguments = sys.argv[1:] if argv is None else argv
    if len(arguments) != 2 or arguments[0] != "--state-dir":
        print("usage: python -m runners.gpus.sampler --state-dir DIR", file=sys.stderr)
        return ExitCode.WRONG_INPUT
    # Not handlers of Python's: those never run while a call hangs in the driver.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    state = StateDirectory(Path(arguments[1]).absolute())
    try:
        choice = parse(setting())
        lock = acquire(state.sampler_lock, LOCK_PATIENCE_S)
    except WrongInput as error:
        print(error, file=sys.stderr)
        return ExitCode.WRONG_INPUT
    except FileNotFoundError:
        return ExitCode.DONE
    if lock is None:
        return ExitCode.DONE
    record_owner(lock, setting())
    keep_what_is_read()  # the plans of live runs, every second
    forget_jobs(state)
    deadline = _seconds("FRESNEL_SAMPLER_DEADLINE_S", DEADLINE_S)
    faulthandler.dump_traceback_later(deadline * OPENING_TAKES, exit=True)
    Sampler(state, lock, open_backend(choice, state), deadline).run()
    return ExitCode.DONE


class Sampler:
    """One backend, read again and again into one file, by the holder of `lock`."""

    def __init__(
        self, state: StateDirectory, lock: int, backend: Backend, deadline_s: float
    ) -> None:
        self._state = state
        self._lock = os.fstat(lock)
        self._backend = backend
        self._deadline_s = deadline_s
        self._linger_s = _seconds("FRESNEL_SAMPLER_LINGER_S", LINGER_S)
        self._host = HostMeter(state.root)
        self._job = slurm_job()
        self._history = UsageRecorder(state, job=self._job)
        self._xids = _last_xids(state)
        self._wanted = self._well_since = time.monotonic()
        self._wanted_mark = 0

    def run(self) -> None:
        """Read and write until nobody reads, the driver stays broken, or the folder is gone."""
        due = time.monotonic()
        while self._step():
            faulthandler.cancel_dump_traceback_later()
            due = max(due + INTERVAL_S, time.monotonic())
            time.sleep(due - time.monotonic() if due > time.monotonic() else 0)

    def _step(self) -> bool:
        """Take one reading and write it down, within the deadline; False when it was the last."""
        faulthandler.dump_traceback_later(self._deadline_s, exit=True)
        if not self._holds_lock():
            return False  # another sampler writes now
        reading = self._read()
        if not self._write(reading):
            return False
        self._history.note(reading)
        if self._is_over():
            self._history.close()
            return False
        return True

    def _read(self) -> GpuReading:
        now = time.time()
        gpus = tuple(self._with_xid(gpu) for gpu in self._backend.snapshots(now))
        problem = self._backend.problem
        if self._job is not None:
            gpus = gpus_of_job(gpus, self._job)
            problem = problem or problem_of_job(gpus, self._job)
        if self._backend.problem is None:
            self._well_since = time.monotonic()
        return GpuReading(
            time=now,
            host=host_name(),
            backend=self._backend.name,
            gpus=gpus,
            cpu=self._host.read(),
            problem=problem,
            driver=self._backend.driver,
            setting=setting(),
            job=self._job.id if self._job else "",
        )

    def _with_xid(self, gpu: GpuSnapshot) -> GpuSnapshot:
        """`gpu` with the Xid an earlier sampler saw, unless it has one: each is reported once."""
        if gpu.xid is None and gpu.uuid in self._xids:
            return msgspec.structs.replace(gpu, xid=self._xids[gpu.uuid])
        return gpu

    def _write(self, reading: GpuReading) -> bool:
        """Replace `gpus.json`; False when that is impossible or its folder gone (readers retry)."""
        target = self._state.gpu_reading
        try:
            replace(target, msgspec.json.encode(reading), sync=False)
        except FileNotFoundError:
            return False
        except OSError as error:
            print(f"{target} cannot be written: {error}", file=sys.stderr)
            return False
        return True

    def _holds_lock(self) -> bool:
        """False when the lock's file was removed or replaced: then another may sample beside us."""
        return identity_of(self._state.sampler_lock) == (self._lock.st_dev, self._lock.st_ino)

    def _is_over(self) -> bool:
        now = time.monotonic()
        if now - self._well_since > TROUBLE_S:
            return True
        mark = stamp_of(self._state.sampler_wanted)
        if mark != self._wanted_mark:
            # Only that it changed counts: the file may lie on a server with another clock.
            self._wanted, self._wanted_mark = now, mark
        return now - self._wanted > self._linger_s and not self._run_lives()

    def _run_lives(self) -> bool:
        if self._history.is_following:
            return True  # a run on several nodes has its locks on the first
        try:
            runs = [self._state.run(run_id) for run_id in live_run_ids(self._state)]
        except OSError:
            return True  # that cannot be told just now
        return any(is_held(run.run_lock) or is_held(run.supervisor_lock) for run in runs)


def _last_xids(state: StateDirectory) -> dict[str, Xid]:
    """The Xids in the last reading of this host that are of this boot, by UUID."""
    before = read(state.gpu_reading, GpuReading)
    if before is None or before.host != host_name():
        return {}
    booted = boot_time()
    return {
        gpu.uuid: gpu.xid for gpu in before.gpus if gpu.xid is not None and gpu.xid.time > booted
    }


def _seconds(variable: str, otherwise: float) -> float:
    try:
        return float(os.environ[variable])
    except (KeyError, ValueError):
        return otherwise


if __name__ == "__main__":
    sys.exit(main())


def gpus_of_job(gpus: Sequence[GpuSnapshot], job: SlurmJob) -> tuple[GpuSnapshot, ...]:
    """Those of `gpus` that `job` was given.

    Where Slurm hides the others by control groups (`ConstrainDevices`), the driver numbers those
    that are left from 0, while the job's numbers are the node's: then all that it shows are meant.
    """
    cards = [gpu for gpu in gpus if gpu.mig_parent is None]
    if all(word.isdecimal() for word in job.gpus):
        if len(cards) == len(job.gpus):
            return tuple(gpus)
        return tuple(gpu for gpu in gpus if str(gpu.index) in job.gpus)
    found = {gpu.uuid for gpu in gpus if gpu.uuid.startswith(job.gpus)}
    # A card stays beside its instances: front ends show these under it.
    parents = {gpu.mig_parent for gpu in gpus if gpu.uuid in found}
    return tuple(gpu for gpu in gpus if gpu.uuid in found or gpu.uuid in parents)


def problem_of_job(gpus: Sequence[GpuSnapshot], job: SlurmJob) -> str | None:
    """Why a job has not got the GPUs it should have; None when it has."""
    if not job.node:
        return (
            f"this shell is on no node of Slurm job {job.id}, its GPUs are there: start it by srun"
        )
    if not job.gpus:
        return f"Slurm job {job.id} was given no GPU: submit it with --gres=gpu:N"
    if not gpus:
        return f"Slurm job {job.id} has GPU {','.join(job.gpus)}, which the driver does not show"
    return None


def forget_jobs(state: StateDirectory) -> None:
    """Remove what samplers of jobs that ended a day ago have left."""
    for folder in state.host.glob(f"{JOB_READINGS}*"):
        is_old = time.time() - modified_at(folder) > _KEPT_S
        if is_old and folder != state.readings and not is_held(folder / "sampler.lock"):
            shutil.rmtree(folder, ignore_errors=True)
