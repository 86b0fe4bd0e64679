"""All of one's own jobs by one `squeue`, at most every half minute, whoever needs them.

The answer is kept in the state folder, under a lock: front ends beside each other ask once. Text
with named fields is what every version since 20.11 prints alike; JSON changed its shape four times.
A job's name, which may have any character, comes last, before a mark of our own for its end. Ours
are known by their scripts: a cluster's rules, or a person, may give a job another name.
"""

import re
import time
from collections.abc import Collection, Iterator
from contextlib import suppress
from functools import lru_cache

import msgspec

from runners.host.files import closing, names_in
from runners.host.identity import user_name
from runners.host.locks import acquire
from runners.model.pending import job_is_over
from runners.slurm.client import SlurmRefused, SlurmSilent, ask, script_name
from runners.state.jobs import JobRow, JobTable, forget_table, read_table, write_table
from runners.state.layout import StateDirectory

EVERY_S = 30.0
MISSING_S = 60.0
_LONGEST_S = 300.0
_MOST_ROWS = 100_000
_LONGEST_TEXT = 1000
_LONGEST_NUMBER = 12
_LONGEST_TASKS = 4000
_FORMAT = "%A\x1f%F\x1f%K\x1f%T\x1f%r\x1f%P\x1f%N\x1f%e\x1f%l\x1f%Q\x1f%o\x1f%j\x1e"
_COLUMNS = 12
_TASKS_AT = 2
_END = "\x1e"
_STATE = re.compile(r"[A-Z][A-Z_]{1,40}")
_TASKS = re.compile(r"[0-9][0-9,:%-]*")


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
    with closing(lock):
        found = _asked(state, within_s)
        with suppress(OSError):
            write_table(state, found)
        return found


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
    scripts = frozenset(map(script_name, names_in(state.slurm)))
    jobs = read_rows(output, scripts)
    unread = max(output.count(_END), int(bool(output.strip()))) - len(jobs)
    return JobTable(now, now, jobs=(*missing, *jobs), unread=max(0, unread))


def _missing(before: JobTable, named: set[str], now: float) -> Iterator[JobRow]:
    """Jobs that had not ended when they were last named, a minute ago at most.

    One answer without them is no proof that they are gone.
    """
    for row in before.jobs:
        if row.number not in named and not job_is_over(row.state):
            seen = row.missing_since or before.answered
            if now < seen + MISSING_S:
                yield msgspec.structs.replace(row, missing_since=seen)


def read_rows(output: str, scripts: Collection[str] = ()) -> tuple[JobRow, ...]:
    """The jobs in squeue's answer; one that is not understood whole is left out.

    Those of our `scripts` have these for names.
    """
    found = []
    # States, partitions, nodes and reasons repeat: each is kept once, however many jobs there are.
    known: dict[str, str] = {}
    for line in _lines(output):
        fields = line.split("\x1f", _COLUMNS - 1)
        if len(fields) != _COLUMNS:
            continue
        if " " in line or len(line) > _LONGEST_TEXT:
            fields = [
                field.strip() if place == _TASKS_AT else _cut(field.strip())
                for place, field in enumerate(fields)
            ]
        *others, command, name = fields
        script = script_name(command)
        row = _row([*others, script if script in scripts else name], known)
        if row is not None:
            found.append(row)
    return tuple(found)


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_TEXT else f"{text[: _LONGEST_TEXT - 1]}…"


def _lines(output: str) -> Iterator[str]:
    """Line by line, without a second copy of the whole: it may be of a hundred thousand jobs."""
    begin = 0
    for _ in range(_MOST_ROWS):
        end = output.find(_END, begin)
        if end < 0:
            return
        yield output[begin:end].lstrip("\r\n")
        begin = end + 1


def _row(fields: list[str], known: dict[str, str]) -> JobRow | None:
    """The job that the fields tell of; None where its number, state or tasks are no such thing."""
    number, array, tasks, state, reason, partition, nodes, ends, limit, priority, name = fields
    is_array = tasks not in ("", "N/A")
    if is_array and (len(tasks) > _LONGEST_TASKS or not _TASKS.fullmatch(tasks)):
        return None  # a list that was cut off would name fewer tasks than wait
    if not _is_number(number) or (is_array and not _is_number(array)):
        return None
    if not _STATE.fullmatch(state):
        return None
    state, reason, partition, nodes = (
        known.setdefault(text, text) for text in (state, reason, partition, nodes)
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


def _is_number(text: str) -> bool:
    return text.isdecimal() and len(text) <= _LONGEST_NUMBER and text.isascii()


def _number(text: str) -> float | None:
    if _is_number(text):
        return float(text)
    return float(text) if re.fullmatch(r"\d{1,12}(\.\d{1,12})?", text) else None


@lru_cache(256)
def seconds_of(text: str) -> float | None:
    """`1-02:03:04`, `02:03:04` or `3:04` in seconds; None for `UNLIMITED` and the like.

    Not for `1-02:03`, which are hours and minutes in what Slurm reads, and which it never prints.
    """
    found = re.fullmatch(r"(?:(?:([0-9]{1,5})-)?([0-9]{1,3}):)?([0-9]{1,3}):([0-5][0-9])", text)
    if found is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)
