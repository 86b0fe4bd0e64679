"""All of one's own jobs by one `squeue`, at most every half minute, whoever needs them.

The answer is kept in the state folder, under a lock: front ends beside each other ask once. Text
with named fields is what every version since 20.11 prints alike; JSON changed its shape four times.
"""

import os
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache

import msgspec

from runners.host.identity import user_name
from runners.host.locks import acquire
from runners.model.endings import job_end_of
from runners.slurm.client import SlurmRefused, SlurmSilent, ask
from runners.state.jobs import JobRow, JobTable, forget_table, read_table, write_table
from runners.state.layout import StateDirectory

EVERY_S = 30.0
MISSING_S = 60.0
_LONGEST_S = 300.0
_MOST_ROWS = 100_000
_LONGEST_TEXT = 1000
_LONGEST_NUMBER = 12
_FORMAT = "%A\x1f%F\x1f%K\x1f%j\x1f%T\x1f%r\x1f%P\x1f%N\x1f%e\x1f%l\x1f%Q"
_COLUMNS = 11


def refresh(state: StateDirectory, every_s: float = EVERY_S, within_s: float = 5.0) -> JobTable:
    """What Slurm says of one's own jobs, asked again when that is older than `every_s`.

    After failures it is asked less often, up to every five minutes.
    """
    table = read_table(state)[0]
    pause = min(every_s * 2**table.failures, max(_LONGEST_S, every_s))
    if 0 <= time.time() - table.asked < pause:
        return table
    state.slurm.mkdir(mode=0o700, exist_ok=True)
    lock = acquire(state.slurm / "asking.lock", 0.0)
    if lock is None:
        return table  # somebody else is asking
    del table  # of a hundred thousand jobs, two tables are too much memory
    try:
        found = _asked(state, within_s)
        with suppress(OSError):
            write_table(state, found)
        return found
    finally:
        os.close(lock)


def _asked(state: StateDirectory, within_s: float) -> JobTable:
    before, now = read_table(state)[0], time.time()
    forget_table(state)
    try:
        output = ask(
            *("squeue", "--noheader", "--states=all", f"--user={user_name()}"),
            f"--format={_FORMAT}",
            within_s=within_s,
        )
    except (SlurmSilent, SlurmRefused) as problem:
        failures = min(before.failures + 1, 10)
        return JobTable(now, before.answered, problem.message, failures, before.jobs)
    missing = tuple(_missing(before, {line.partition("\x1f")[0] for line in _lines(output)}, now))
    del before
    return JobTable(now, now, jobs=(*missing, *read_rows(output)))


def _missing(before: JobTable, named: set[str], now: float) -> Iterator[JobRow]:
    """Jobs that had not ended when they were last named, a minute ago at most.

    One answer without them is no proof that they are gone.
    """
    for row in before.jobs:
        if row.number not in named and job_end_of(row.state) is None:
            seen = row.missing_since or before.answered
            if now < seen + MISSING_S:
                yield msgspec.structs.replace(row, missing_since=seen)


def read_rows(output: str) -> tuple[JobRow, ...]:
    """The jobs in squeue's answer; a line that is not whole is left out."""
    found = []
    # States, partitions, nodes and reasons repeat: each is kept once, however many jobs there are.
    known: dict[str, str] = {}
    for line in _lines(output):
        fields = line.split("\x1f")
        if len(fields) != _COLUMNS:
            continue
        if " " in line or len(line) > _LONGEST_TEXT:
            fields = [field.strip()[:_LONGEST_TEXT] for field in fields]
        if fields[0].isdecimal():
            found.append(_row(fields, known))
    return tuple(found)


def _lines(output: str) -> Iterator[str]:
    """Line by line, without a second copy of the whole: it may be of a hundred thousand jobs."""
    begin = 0
    for _ in range(_MOST_ROWS):
        if begin >= len(output):
            return
        end = output.find("\n", begin)
        end = len(output) if end < 0 else end
        yield output[begin:end].rstrip("\r")
        begin = end + 1


def _row(fields: list[str], known: dict[str, str]) -> JobRow:
    number, array, tasks, name, state, reason, partition, nodes, ends, limit, priority = fields
    is_array = tasks[:1].isdecimal()
    state, reason, partition, nodes = (
        known.setdefault(text, text) for text in (state.upper(), reason, partition, nodes)
    )
    return JobRow(
        number=number,
        name=name,
        state=state,
        reason=reason,
        array=known.setdefault(array, array) if is_array else "",
        tasks=tasks if is_array else "",
        partition=partition,
        nodes=nodes,
        ends=_number(ends),
        limit_s=seconds_of(limit),
        priority=_number(priority),
    )


def _number(text: str) -> float | None:
    if text.isdecimal() and len(text) <= _LONGEST_NUMBER and text.isascii():
        return float(text)
    return float(text) if re.fullmatch(r"\d{1,12}(\.\d{1,12})?", text) else None


@lru_cache(256)
def seconds_of(text: str) -> float | None:
    """`1-02:03:04`, `02:03:04` or `3:04` in seconds; None for `UNLIMITED` and the like."""
    found = re.fullmatch(r"(?:(\d{1,5})-)?(?:(\d{1,3}):)?(\d{1,3}):(\d{1,2})", text)
    if found is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)
