"""Whether the body of a job sees the folder of its run as it was submitted. Standard library only.

A node may have another disk under the same path, or may not write what the login node writes. The
body says so in its log, and by its exit code: that comes through Slurm where no file does.
"""

import errno
import os
from contextlib import suppress

from runners.host.files import read_json, read_tail
from runners.host.identity import host_name
from runners.state.layout import RunDirectory
from runners.state.trust import run_permission_problem

OTHER_FOLDER = 66
"""The exit code of a body that does not see its run's folder (EX_NOINPUT of sysexits.h)."""
_MARK = " cannot use the folder that was submitted: "
_TAIL_BYTES = 16 << 10
_LONGEST_LINE = 1000


def own_number() -> str:
    """The number of the job that this process is the body of: `12`, or `12_3` of an array."""
    array, task = (os.environ.get(f"SLURM_ARRAY_{name}_ID", "") for name in ("JOB", "TASK"))
    return f"{array}_{task}" if array and task else os.environ.get("SLURM_JOB_ID", "")


def folder_problem(run: RunDirectory) -> str:
    """Why this is not the folder that was submitted, or of no use here, with the node's name.

    Empty where it is.
    """
    problem = run_permission_problem(run) or _note_problem(run) or _write_problem(run)
    node = os.environ.get("SLURMD_NODENAME") or host_name()
    shares = f"{run.home.root} has to be on a disk that it shares with the login node"
    return problem and f"node {node}{_MARK}{problem}; {shares}"


def _note_problem(run: RunDirectory) -> str:
    """Whether the folder knows of this job: its note was written before it was submitted."""
    try:
        run.job.stat()
    except OSError as error:
        return f"{run.job}: {error.strerror}"
    note = read_json(run.job)
    if note is None:
        return f"{run.job} cannot be read"
    number, own = str(note.get("id") or ""), own_number()
    # It has none yet where the answer to sbatch is still on its way, or was lost.
    return f"{run.job} is of job {number}, not {own}" if number and number != own else ""


def _write_problem(run: RunDirectory) -> str:
    """Why nothing can be written into the folder; a disk that is full is another matter."""
    probe = run.path / f".body-{host_name()}-{os.getpid()}"
    try:
        os.close(os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except OSError as error:
        is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        return "" if is_full else f"{run.path} cannot be written: {error.strerror}"
    with suppress(OSError):
        probe.unlink()
    return ""


def folder_problem_of(run: RunDirectory, job: str, code: int | None, node: str) -> str:
    """What the body of a job that has failed said of its folder, in its log or by its exit code."""
    lines = read_tail(run.home.slurm / f"{job}.log", _TAIL_BYTES).decode("utf-8", "replace")
    for line in reversed(lines.splitlines()):
        if _MARK in line:
            return f"because {line[:_LONGEST_LINE]}"
    if code != OTHER_FOLDER:
        return ""
    where = f"node {node}" if node else "its node"
    shares = f"{run.home.root} has to be on a disk that it shares with the login node"
    return f"because {where}{_MARK}{shares}"
