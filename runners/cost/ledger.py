"""The ledger: every session and every ended run, one line each, kept when runs are pruned.

Runs are entered by their supervisor when they end, and again at pruning should that have failed;
sessions when they start, change and end. The last line of an id counts.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from runners.cost.accounting import MACHINE, Usage
from runners.cost.sessions import Session, SessionLine, load_session
from runners.cost.timeline import Timeline
from runners.host.clock import Moment
from runners.host.files import append_line, append_lines, closing, open_plain, read_tail, replace
from runners.host.identity import host_name
from runners.model.plan import AssignedGpu, is_job
from runners.model.run import Run
from runners.model.spec import Price
from runners.state.decoding import decode, decode_lines
from runners.state.layout import RunDirectory, StateDirectory
from runners.state.leases import live_run_ids
from runners.state.runs import list_run_ids, read_run

if TYPE_CHECKING:
    from runners.state.jobs import JobNote


class RunEntry(msgspec.Struct, frozen=True, tag_field="type", tag="run"):
    """An ended run, or a live one so far (`finished` None): its GPUs, its times, its price."""

    run: str
    host: str
    preset: str
    name: str
    state: str
    gpus: tuple[AssignedGpu, ...]
    price: Price | None
    began: Moment
    finished: Moment | None = None
    seen: Moment | float | None = None
    exit_code: int | None = None
    waited: float = 0.0
    """For how many seconds its job waited between two attempts."""

    @property
    def is_paid(self) -> bool:
        """Whether it is paid by itself, and by no session: the job of a cluster with a price."""
        return self.price is not None and self.price.is_paid

    @property
    def gpu_name(self) -> str:
        """The model of its GPUs, or CPU."""
        names = sorted({gpu.name for gpu in self.gpus})
        return ", ".join(names) if names else "CPU"

    @property
    def simulated(self) -> bool:
        """True when it ran on GPUs that do not exist."""
        return any(gpu.simulated for gpu in self.gpus)

    def span(self, timeline: Timeline, now: Moment) -> tuple[int, int]:
        """The nanoseconds in which it held its GPUs: to its end, last sign of life, or reboot."""
        start = timeline.place(self.began)
        end = timeline.place(self.finished or now)
        if isinstance(self.seen, Moment):
            end = min(end, timeline.place(self.seen))
        elif self.seen is not None:
            end = min(end, timeline.place_in_boot(self.seen, self.began, self.finished or now))
        if self.finished is not None and self.finished.boot != self.began.boot:
            reboot = timeline.next_boot(self.began.boot)
            end = end if reboot is None else min(end, reboot)
        return start, max(start, end)

    def holding(self, span: tuple[int, int], session: Session) -> Usage:
        """What it held, as seen from a session; on a machine without GPUs, the machine itself."""
        gpus = tuple(gpu.uuid for gpu in self.gpus)
        if not gpus and not session.has_gpus:
            gpus = (MACHINE,)
        parts = {gpu.uuid: (gpu.card, *gpu.part) for gpu in self.gpus if gpu.part != (1, 1)}
        return Usage(self.run, gpus, *span, parts)


def line_of(run: Run) -> RunEntry | None:
    """A run as the ledger would hold it; None when it never started."""
    begin = run.begin
    if begin is None or run.plan is None or run.record is None:
        return None
    ended = None if run.record.ended is None else run.record.finished or Moment(run.record.ended)
    waited = 0.0
    note = _job_of(run) if is_job(run.plan) else None
    if note is not None:
        waited = note.waited
        if note.first is not None and run.plan.price is not None and run.plan.price.is_paid:
            begin = Moment(note.first)  # it is paid for from then on
        if ended is None and note.left is not None:
            ended = Moment(note.left)  # it waits again, which costs nothing
    return RunEntry(
        run.id,
        run.plan.origin.host,
        run.preset,
        run.name,
        str(run.state),
        run.plan.gpus,
        run.plan.price,
        begin,
        ended,
        run.record.seen,
        run.exit_code,
        waited,
    )


def _job_of(run: Run) -> "JobNote | None":
    from runners.state.jobs import read_job  # clusters only

    return read_job(RunDirectory.at(run.directory))


_RECENT_BYTES = 256 << 10
_BLOCK = 64 << 10
_SESSION_BEGINS = b'{"type":"session"'
_OLDER_LINES = 50
_CLOCK_WRONG_BY_S = 5 * 3600.0

_decoder = msgspec.json.Decoder(RunEntry | SessionLine)


class Ledger:
    """The ledger of one state folder, read on; `since` (unix s): only runs that ended later."""

    def __init__(self, state: StateDirectory, since: float | None = None) -> None:
        self._state = state
        self.since = since
        self._begin()

    def _begin(self) -> None:
        self._file: tuple[int, int] = (0, 0)
        self._rest = b""
        self._offset = 0
        self.runs: dict[str, RunEntry] = {}
        self._sessions: dict[tuple[str, Moment | None], Session] = {}
        self.damaged = 0
        """Lines that cannot be read."""
        self.problem = ""

    def poll(self) -> bool:
        """Read what was appended; True when anything was. What cannot be read is a `problem`."""
        self.problem = ""
        try:
            return self._poll()
        except FileNotFoundError:
            return False
        except OSError as error:
            self.problem = f"{self._state.ledger} cannot be read: {error.strerror}"
            return False

    def _poll(self) -> bool:
        with closing(open_plain(self._state.ledger)) as descriptor:
            stat = os.fstat(descriptor)
            if (stat.st_dev, stat.st_ino) != self._file or stat.st_size < self._offset:
                self._begin()  # another file, or a shorter one
                self._file = (stat.st_dev, stat.st_ino)
            if stat.st_size == self._offset:
                return False
            if self.since is not None and not self._offset:
                self._read_back(descriptor, stat.st_size, self.since)
            while block := os.pread(descriptor, 1 << 20, self._offset):
                self._offset += len(block)
                # The last line may be half written: it waits in `_rest` for its end.
                *lines, self._rest = (self._rest + block).split(b"\n")
                for entry in self._decoded(lines):
                    self._note(entry)
        return True

    def _read_back(self, descriptor: int, size: int, since: float) -> None:
        """Read every session, and the runs from the end back to those that ended before `since`."""
        entries: list[RunEntry | SessionLine] = []
        older, end, cut = 0, size, b""
        while end > 0 and older < _OLDER_LINES:
            begin = max(0, end - _BLOCK)
            block, end = os.pread(descriptor, end - begin, begin) + cut, begin
            if not self._offset and b"\n" in block:
                # The last line may be half written, as below.
                block, _, self._rest = block.rpartition(b"\n")
                self._offset = size
            # The first one began before.
            cut, _, block = block.partition(b"\n") if begin else (b"", b"", block)
            if not self._offset:
                continue
            for entry in self._decoded(reversed(block.split(b"\n"))):
                entries.append(entry)
                if isinstance(entry, RunEntry):
                    # Lines are in the order in which runs were seen to end, by a clock that may
                    # have been hours wrong; a few may have been entered late.
                    ended = entry.finished.wall if entry.finished is not None else since
                    older = older + 1 if ended < since - _CLOCK_WRONG_BY_S else 0
        # Sessions are few and found by their first bytes; decoding all runs would take long.
        entries += self._decoded(_sessions_before(descriptor, end))
        # Oldest first again, so that of several lines of one id the last counts.
        for entry in reversed(entries):
            self._note(entry)

    def _decoded(self, lines: Iterable[bytes]) -> Iterator[RunEntry | SessionLine]:
        for line in lines:
            entry = decode(line, _decoder)
            if entry is not None:
                yield entry
            else:
                self.damaged += bool(line.strip())

    def _note(self, entry: RunEntry | SessionLine) -> None:
        if isinstance(entry, RunEntry):
            self.runs[entry.run] = entry
        else:
            # With its beginning: two rented machines may call themselves alike.
            self._sessions[entry.session.id, entry.session.began] = entry.session

    @property
    def hosts(self) -> set[str]:
        """Every machine that has a line in it."""
        sessions = {session.host for session in self._sessions.values()}
        return sessions | {line.host for line in self.runs.values()}

    def sessions(self, host: str | None = None) -> list[Session]:
        """Every session of a host (this one), oldest first; session.json replaces older lines."""
        host, found = host or host_name(), dict(self._sessions)
        current = load_session(self._state, host)
        if current is not None:
            found[current.id, current.began] = current
        # Open and not in session.json: replaced by another without an end, and not counted on.
        mine = [
            session
            for session in found.values()
            if session.host == host and (session.end is not None or session == current)
        ]
        return sorted(mine, key=lambda session: session.start.wall)


def _sessions_before(descriptor: int, end: int) -> Iterator[bytes]:
    """The lines of sessions that begin before `end`, the last one first."""
    while end > 0:
        begin = max(0, end - _BLOCK)
        # So much more as one may lie over the block's end.
        block = os.pread(descriptor, end - begin + len(_SESSION_BEGINS) - 1, begin)
        at = block.rfind(_SESSION_BEGINS)
        while at >= 0:
            yield _line_at(descriptor, begin + at)
            at = block.rfind(_SESSION_BEGINS, 0, at)
        end = begin


def _line_at(descriptor: int, offset: int) -> bytes:
    line = b""
    while b"\n" not in line and (more := os.pread(descriptor, 4096, offset + len(line))):
        line += more
    return line.partition(b"\n")[0]


def enter_lines(state: StateDirectory, lines: Iterable[RunEntry]) -> None:
    """Append lines that the ledger lost; a disk that is still full loses them once more."""
    with suppress(OSError):
        append_lines(state.ledger, map(msgspec.json.encode, lines))


def reenter_marked(state: StateDirectory) -> None:
    """Enter the runs whose supervisor could not; those that a full disk refuses stay marked."""
    from runners.model.run_ids import is_run_id  # hardly ever needed

    with suppress(OSError):
        for run_id in os.listdir(state.unlisted):  # noqa: PTH208 (names are enough)
            if not is_run_id(run_id):
                continue
            line = line_of(read_run(state, run_id))
            if line is not None:
                append_line(state.ledger, msgspec.json.encode(line))
            state.unlisted_marker(run_id).unlink(missing_ok=True)


def check_ledger(state: StateDirectory) -> None:
    """Enter every ended run that the ledger lacks, and note that nothing is lost so far."""
    ledger = Ledger(state)
    ledger.poll()
    if not ledger.problem:
        enter_lines(state, unlisted_lines(state, ledger))
        with suppress(OSError):
            replace(state.ledger_checked, state.ledger_mark().encode(), sync=False)


def unlisted_lines(state: StateDirectory, ledger: Ledger) -> list[RunEntry]:
    """Ended runs whose line the ledger lacks, as a full disk lost it; their own record is there."""
    live = set(live_run_ids(state))
    missing = set(list_run_ids(state)) - ledger.runs.keys() - live
    lines = (line_of(read_run(state, run_id)) for run_id in sorted(missing))
    return [line for line in lines if line is not None]


def recent_runs(state: StateDirectory) -> list[RunEntry]:
    """The runs in the ledger's last 256 KiB: a launch must not wait for a long history."""
    block = read_tail(state.ledger, _RECENT_BYTES)
    found: dict[str, RunEntry] = {}
    for entry in decode_lines(block.split(b"\n"), _decoder):
        if isinstance(entry, RunEntry):
            found[entry.run] = entry
    return list(found.values())


def append_missing(state: StateDirectory, runs: Iterable[Run]) -> dict[str, str]:
    """Append the ended ones of `runs` that the ledger lacks.

    Returns those that could not be entered, each with the reason.
    """
    ledger = Ledger(state)
    ledger.poll()
    refused: dict[str, str] = {}
    for run in runs:
        line = None if run.is_live or run.id in ledger.runs else line_of(run)
        try:
            if line is not None:
                append_line(state.ledger, msgspec.json.encode(line))
        except OSError as error:
            # Reported by run, not raised: pruning goes on with the others and keeps this one.
            refused[run.id] = f"cannot be entered in the ledger: {error.strerror}"
    return refused
