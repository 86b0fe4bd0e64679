"""What is known of an ended run, gathered with bounded reading: its logs are never read whole."""

import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from runners.diagnosis.awaited_run import Awaited, find_awaited
from runners.diagnosis.full_disk import find_full_disk
from runners.host.files import closing, modified_at, open_plain, read_json
from runners.host.identity import boot_id, kernel_time
from runners.host.procfs import memory_kills
from runners.host.slurm_job import job_memory_kills, slurm_job
from runners.model.endings import Ending
from runners.model.gpus import RunUsage, Xid
from runners.model.run import Run
from runners.model.states import State
from runners.state.decoding import read
from runners.state.layout import RANK_LOGS
from runners.state.rank_processes import processes_of

HEAD_BYTES = 128 << 10
TAIL_BYTES = 1 << 20
_RANK_LOG_BYTES = 128 << 10
_MOST_FILES = 256
_KERNEL = re.compile(r"oom-kill:|ut of memory: Kill|invoked oom-killer")
_RANK_FOLDER = re.compile(r"\d{1,5}")


class LogPart(msgspec.Struct, frozen=True):
    """A stretch of a log: where it begins in its file (bytes), and whose it is, if one rank's."""

    name: str
    data: bytes
    start: int = 0
    rank: int | None = None


class RankError(msgspec.Struct, frozen=True):
    """What one rank wrote into its TORCHELASTIC_ERROR_FILE; time in unix seconds."""

    message: str
    time: float
    rank: int | None = None
    path: str = ""


class Evidence(msgspec.Struct, frozen=True):
    """Everything a verdict may rest on; `exit_code` is the shell's (128 + signal) or negative.

    `oom_kills` are those the run's control group counted, None when it cannot be known.
    `full_disk` is where the file system is mounted that was full as it ended.
    """

    state: State = State.FAILED
    ending: Ending | None = None
    exit_code: int | None = None
    oom_kills: int | None = None
    kernel: tuple[str, ...] = ()
    xids: tuple[Xid, ...] = ()
    errors: tuple[RankError, ...] = ()
    logs: tuple[LogPart, ...] = ()
    pids: frozenset[int] = frozenset()
    processes: int = 0
    awaited: Awaited | None = None
    full_disk: str = ""
    argv: tuple[str, ...] = ()


def gather_evidence(run: Run) -> Evidence:
    """Gather what is known of an ended run from its directory and, where permitted, the kernel."""
    folder = Path(run.directory)
    record, ending = run.record, run.ending
    # Recorded at the end: once the run's last process is gone, so is its control group.
    kills = ending.get("memory_kills") if ending else None
    if kills is None and record:
        kills = memory_kills(record.cgroup)
        job = slurm_job()
        if job is not None and run.plan is not None and run.plan.origin.job == job.id:
            kills = job_memory_kills(job.id)
    pids = {pid for pid, _ in record.followed} if record else set()
    if record and record.leader_pid:
        pids.add(record.leader_pid)
    begun = modified_at(folder / "leader")  # what an earlier attempt left explains none of this one
    return Evidence(
        state=run.state,
        ending=ending,
        exit_code=run.exit_code,
        oom_kills=kills,
        kernel=tuple(_kernel_lines(run)),
        xids=_xids(folder, run),
        errors=tuple(sorted(_error_files(folder, begun), key=lambda error: error.time)),
        logs=(*_rank_logs(folder, begun), *read_log(folder / "output.log")),
        pids=frozenset(pids),
        processes=processes_of(run) or 0,
        awaited=find_awaited(run),
        full_disk=find_full_disk(run),
        argv=run.plan.argv if run.plan is not None else (),
    )


def read_log(path: Path, rank: int | None = None, tail: int = TAIL_BYTES) -> tuple[LogPart, ...]:
    """The start and the end of a log, or all of a short one; nothing when there is none."""
    try:
        with closing(open_plain(path)) as descriptor:
            size = os.fstat(descriptor).st_size
            spans = [(size, 0)]
            if size > HEAD_BYTES + tail:
                spans = [(HEAD_BYTES, 0), (tail, size - tail)]
            parts = [
                LogPart(path.name, os.pread(descriptor, count, at), at, rank) for count, at in spans
            ]
    except OSError:
        return ()
    return tuple(part for part in parts if part.data)


def _rank_logs(folder: Path, begun: float) -> Iterator[LogPart]:
    """Logs that torchrun's --log-dir kept of each rank: …/attempt_0/3/stderr.log."""
    found = [path for path in _walk(folder) if path.name in ("stderr.log", "stdout.log")]
    for path in sorted(found, key=modified_at):
        if _RANK_FOLDER.fullmatch(path.parent.name) and modified_at(path) >= begun:
            yield from read_log(path, int(path.parent.name), _RANK_LOG_BYTES)


def _error_files(folder: Path, begun: float) -> Iterator[RankError]:
    """Error files, as torch.distributed.elastic writes them: {"message": {"message", "extraInfo"}}.

    Also the form in which `message` is the text itself.
    """
    for path in _walk(folder):
        if not path.name.endswith("error.json") or modified_at(path) < begun:
            continue
        content = read_json(path) or {}
        message: Any = content.get("message", "")
        extra: Any = message.get("extraInfo", {}) if isinstance(message, dict) else {}
        text = message.get("message", "") if isinstance(message, dict) else message
        stamp = extra.get("timestamp") if isinstance(extra, dict) else None
        try:
            moment = float(stamp)  # type: ignore[arg-type]
        except (TypeError, ValueError, OverflowError):
            moment = modified_at(path)
        name = path.parent.name
        rank = int(name) if _RANK_FOLDER.fullmatch(name) else None
        if isinstance(text, str) and text:
            yield RankError(text, moment, rank, str(path))


def _walk(folder: Path) -> Iterator[Path]:
    """Such files in the run's folder, a few levels deep and not more than a few hundred."""
    seen = 0
    for place, folders, names in os.walk(folder):
        depth = len(Path(place).relative_to(folder).parts)
        # Its ranks' first: beside them may be thousands of folders of the program's own.
        folders[:] = sorted(folders, key=lambda name: (name != RANK_LOGS, name))
        del folders[len(folders) if depth < 5 else 0 :]
        seen += 1
        for name in names:
            if name.endswith(("error.json", "stderr.log", "stdout.log")):
                seen += 1
                yield Path(place) / name
        if seen > _MOST_FILES * 4:
            return


def _xids(folder: Path, run: Run) -> tuple[Xid, ...]:
    """Xid errors of the run's GPUs between its start and a minute after its end."""
    usage = read(folder / "usage.json", RunUsage)
    if usage is None or run.started is None:
        return ()
    until = (run.ended or time.time()) + 60.0
    found = [xid for use in usage.gpus for xid in use.xids if run.started <= xid.time <= until]
    return tuple(sorted(found, key=lambda xid: xid.time))


def _kernel_lines(run: Run) -> Iterator[str]:
    """The kernel's records of its memory killer in the run's time; none where they may not be read.

    Record form: `priority,sequence,microseconds since boot,flags;text` (kernel: ABI dev-kmsg).
    """
    if run.started is None or (run.record and run.record.boot_id != boot_id()):
        return
    try:
        descriptor = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return
    since, until = run.started - kernel_time(), (run.ended or time.time()) - kernel_time() + 5.0
    try:
        while True:
            try:
                record = os.read(descriptor, 8192)
            except BrokenPipeError:  # records were overwritten meanwhile: the next read goes on
                continue
            head, _, text = record.decode("utf-8", "replace").partition(";")
            seconds = float(head.split(",")[2]) / 1e6
            if since - 1.0 <= seconds <= until and _KERNEL.search(text):
                yield text.partition("\n")[0]
    except (OSError, ValueError, IndexError):
        return
    finally:
        os.close(descriptor)
