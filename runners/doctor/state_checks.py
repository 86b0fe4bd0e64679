"""What `doctor` checks in the state folder: whose it is, room, locks, leftovers of ended runs."""

import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

from runners.doctor.checks import Check
from runners.doctor.host_facts import room_in
from runners.doctor.resources import judge_room
from runners.host.files import names_in
from runners.host.mounts import NETWORK, filesystem_of
from runners.host.ownership import permission_problem
from runners.host.procfs import (
    all_marks,
    holders_of,
    is_mounted,
    process_state,
    start_ticks,
)
from runners.model.errors import FresnelError
from runners.state.codec import read_record
from runners.state.layout import StateDirectory
from runners.state.runs import pause_text, read_run


def check_state(state: StateDirectory) -> Iterator[Check]:
    """Every check of the state folder; nothing further where it cannot be used."""
    folder = check_folder(state)
    yield folder
    if folder.verdict == "FAIL":
        return
    yield check_room(state.root)
    yield check_filesystem(state.root)
    yield check_locks(state.root)
    yield from check_run_folders(state)
    yield check_containment()
    yield from check_supervisors(state)
    yield from check_leftovers(state)
    yield from check_future(state)


def check_folder(state: StateDirectory) -> Check:
    """Whether the folder is there, ours alone, and can be written."""
    try:
        state.create()
        probe = state.root / f".doctor.{os.getpid()}"
        probe.touch(mode=0o600)
        probe.unlink()
    except FresnelError as error:
        return Check("state folder", "FAIL", error.message, error.hint)
    except OSError as error:
        advice = "name a folder that you may write in $FRESNEL_STATE_DIR"
        text = f"{error.filename or state.root}: {error.strerror}"
        return Check("state folder", "FAIL", text, advice)
    mode = state.root.stat().st_mode & 0o777
    if mode & 0o077:
        text = f"{state.root} holds other things too, and others may look into it (mode {mode:04o})"
        return Check("state folder", "WARN", text, "give it a folder of its own, or chmod 700 it")
    return Check("state folder", "PASS", str(state.root))


def check_room(root: Path) -> Check:
    """How much the disk of the state folder still takes."""
    verdict, text = judge_room(room_in(root))
    advice = "`fresnel-tui prune --older-than 30d` removes ended runs"
    return Check("disk", verdict, text, "" if verdict == "PASS" else f"make room: {advice}")


def check_filesystem(root: Path) -> Check:
    """Whether locks may have to cross a network."""
    kind = filesystem_of(root)
    if NETWORK.match(kind):
        advice = "a local folder in $FRESNEL_STATE_DIR is faster, and its locks are more reliable"
        return Check("file system", "WARN", f"{kind}: a network file system", advice)
    return Check("file system", "PASS", kind or "unknown")


def check_locks(root: Path) -> Check:
    """Whether a second opener of a locked file is really kept out: everything here rests on it."""
    path = root / f".locks.{os.getpid()}"
    first = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    second = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.flock(first, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.flock(second, fcntl.LOCK_EX | fcntl.LOCK_NB)
        text = "a locked file was locked twice"
    except BlockingIOError:
        return Check("locks", "PASS", "hold")
    except OSError as error:
        text = f"flock: {error.strerror}"
    finally:
        os.close(first)
        os.close(second)
        path.unlink()
    return Check("locks", "FAIL", text, "put the state folder on a local disk")


def check_run_folders(state: StateDirectory) -> Iterator[Check]:
    """Live runs that cannot be stopped or adopted because others may write their folders."""
    reasons = [permission_problem(state.run(marker.name).path) for marker in state.live.iterdir()]
    advice = "it is neither adopted nor stopped: look inside, then chmod 700 it"
    for reason in filter(None, reasons):
        yield Check("run folder", "WARN", reason, advice)


def check_leftovers(state: StateDirectory) -> Iterator[Check]:
    """Processes of ended runs: by mark, by the run's lock, or known to its supervisor to stay."""
    ended = set(names_in(state.runs)).difference(names_in(state.live))
    left = {run: pids for run, pids in all_marks().items() if run in ended}
    for run_id in names_in(state.held):
        run = state.run(run_id)
        record = read_record(run)
        followed = record.followed if record else ()
        pids = [pid for pid, ticks in followed if start_ticks(pid) == ticks]
        pids += sorted(holders_of(run.run_lock, run.output))
        if pids:
            left[run_id] = sorted({*left.get(run_id, ()), *pids})
    for run_id, pids in left.items():
        text = f"{run_id} has ended, but pid {', '.join(map(str, pids))} is alive"
        advice = f"kill {' '.join(map(str, pids))}, if it is not meant to be there"
        yield Check("left over", "WARN", text, advice)
    if not left:
        yield Check("left over", "PASS", "no process of an ended run")


def check_supervisors(state: StateDirectory) -> Iterator[Check]:
    """Supervisors that somebody has suspended: their runs can be neither stopped nor recorded."""
    for run_id in names_in(state.live):
        record = read_record(state.run(run_id))
        pid = record.supervisor_pid if record else None
        if pid is not None and process_state(pid) in ("T", "t"):
            text = f"the supervisor of {run_id} (pid {pid}) is suspended: the run cannot be stopped"
            yield Check("supervisor", "WARN", text, f"kill -CONT {pid}")
        run = read_run(state, run_id)
        if run.pause is not None:
            text = f"{run_id}: {pause_text(run.pause, run_id)}"
            yield Check("paused", "WARN", text, f"`fresnel-tui continue {run_id}`")


def check_containment() -> Check:
    """How surely everything that a run starts is found again."""
    if not is_mounted():
        text = "/proc is not mounted: a run's processes can be neither found nor stopped"
        return Check("processes", "FAIL", text, "mount -t proc proc /proc")
    return Check(
        "processes",
        "PASS",
        "runs are followed by mark, descent, lock, output and systemd scope; what another daemon "
        "starts for them (docker, systemd-run, ssh) is out of reach, and its GPUs count as "
        "somebody else's",
    )


def check_future(state: StateDirectory) -> Iterator[Check]:
    """Folders that are newer than now: the clock was set back, and ages are wrong."""
    latest = max(place.stat().st_mtime for place in (state.root, state.runs, state.live))
    if latest > time.time() + 60:
        text = f"the state folder was written {latest - time.time():,.0f} s from now"
        advice = "the clock was set back; ages and costs are off until it catches up"
        yield Check("clock and files", "WARN", text, advice)
