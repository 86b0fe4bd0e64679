"""The ranks of a run: what each is doing, when it wrote last and what, and which one stands out."""

import re
import time
from pathlib import Path

import msgspec

from runners.host.files import modified_at, read_tail
from runners.model.units import median
from runners.state.layout import RunDirectory
from runners.state.rank_processes import RankFinder, state_of
from runners.watch.logs.rank_logs import RankLines, has_rank_logs, rank_logs, tags_in

_TAIL_BYTES = 1 << 20
_STEPS_BYTES = 64 << 10
_SILENT_S = 60.0
_TIMES = 5.0
_STEP = re.compile(rb"(?i)\b(?:step|iter(?:ation)?|batch)\b[ :=#]{0,3}(\d{1,9})")


class RankOverview(msgspec.Struct, frozen=True):
    """A rank: its process while it lives, seconds since its last line, its last step, a remark."""

    rank: int
    pid: int | None = None
    state: str = ""
    line_age_s: float | None = None
    last_line: str = ""
    step: int | None = None
    log: str = ""
    remark: str = ""


def rank_overview(
    run: RunDirectory, live: bool, first_to_fail: int | None = None
) -> list[RankOverview]:
    """All ranks known of, rising; `first_to_fail` as the diagnosis of an ended run has it."""
    now = time.time()
    processes = {process.rank: process for process in RankFinder(run).find()} if live else {}
    logs = rank_logs(run.path)
    tail = read_tail(run.output, _TAIL_BYTES)
    teed = has_rank_logs(run.path)
    named = set(tags_in(tail)) | ({0} if teed and tail else set())
    known = {rank for rank in processes if rank is not None} | set(logs) | named
    found = []
    gone = "has ended" if live else ""
    for rank in sorted(known):
        process, log = processes.get(rank), logs.get(rank)
        state = state_of(process.pid) if process is not None else None
        lines = RankLines(rank, teed).lines_of(tail)
        text = b"\n".join(lines)
        if log is not None and not text:
            text = read_tail(log.newest, _STEPS_BYTES)
        found.append(
            RankOverview(
                rank,
                process.pid if process is not None else None,
                state.text if state is not None else gone,
                _age(run, log.written if log is not None else None, rank, tail, now, live),
                _last(text),
                _last_step(text[-_STEPS_BYTES:]),
                str(log.newest) if log is not None else "",
            )
        )
    return _with_remarks(found, first_to_fail)


def _age(
    run: RunDirectory, written: float | None, rank: int, tail: bytes, now: float, live: bool
) -> float | None:
    """Seconds since its last line: by its own log, or by the output where that line is the last."""
    if written is None:
        last = tail.rstrip(b"\n").rpartition(b"\n")[2]
        if not RankLines(rank, has_rank_logs(run.path)).accepts(last):
            return None
        written = modified_at(run.output)
    return max(0.0, now - written) if live and written else None


def _last(text: bytes) -> str:
    lines = text.decode("utf-8", "replace").splitlines()
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


def _last_step(text: bytes) -> int | None:
    steps = _STEP.findall(text)
    return int(steps[-1]) if steps else None


def _with_remarks(ranks: list[RankOverview], first_to_fail: int | None) -> list[RankOverview]:
    """What sets a rank apart: it failed first, its process is gone, it is silent, or behind."""
    ages = [rank.line_age_s for rank in ranks if rank.line_age_s is not None]
    steps = [rank.step for rank in ranks if rank.step is not None]
    alive = any(rank.pid is not None for rank in ranks)
    found = []
    for rank in ranks:
        remark = ""
        if rank.rank == first_to_fail:
            remark = "failed first"
        elif alive and rank.pid is None:
            remark = "has ended, while others run"
        elif _is_silent(rank.line_age_s, ages):
            remark = "silent"
        elif len(steps) > 1 and rank.step is not None and rank.step < median(steps) - 1:
            remark = f"behind: step {rank.step:,}, others {max(steps):,}"
        found.append(msgspec.structs.replace(rank, remark=remark))
    return found


def _is_silent(age: float | None, ages: list[float]) -> bool:
    if age is None or len(ages) < 2:
        return False
    return age > _SILENT_S and age > _TIMES * max(1.0, median(ages))


def log_of_rank(run: Path, rank: int) -> tuple[Path, ...]:
    """The files that hold this rank's output alone; none where only its lines in the output do."""
    found = rank_logs(run).get(rank)
    return found.paths if found is not None else ()
