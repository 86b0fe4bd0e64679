"""`adopt`: jobs of one's own that were submitted by other means: listed, followed, cancelled."""

import argparse
import time

from runners.model.errors import DeniedError, ExitCode, WrongInput
from runners.model.pending import job_is_over, job_waits, pending_text
from runners.slurm.client import SlurmRefused, SlurmSilent
from runners.slurm.foreign_jobs import (
    cancel_foreign,
    find_foreign,
    foreign_jobs,
    number_of,
    output_of,
    shown_number,
)
from runners.slurm.queue import refresh
from runners.state.jobs import JobRow, JobTable
from runners.state.layout import StateDirectory
from tui.cli.logs import last_lines_offset
from tui.cli.output import agreed, echo, print_json, print_table
from tui.cli.output_blocks import OutputBlocks, OutputFollower
from tui.views.format import DASH, duration
from tui.views.json_values import fields_json, iso

_HEADINGS = ("job", "name", "state", "partition", "node", "limit", "why it waits")
_POLL_S = 0.2
_ASKED_AGAIN_S = 2.0
"""Whoever types `adopt` has often just submitted what it is about."""


def run_adopt(arguments: argparse.Namespace) -> int:
    """List them; with a number, print that one's output, or cancel it after a question."""
    state = StateDirectory().create()
    table = refresh(state, _ASKED_AGAIN_S)
    if table.problem:
        raise DeniedError(f"Slurm does not answer: {table.problem}", "`squeue --me` asks it too")
    if not arguments.job:
        if arguments.stop or arguments.follow:
            raise WrongInput("which job?", "`adopt` lists them")
        return _list(foreign_jobs(state, table), table, arguments.json)
    row = find_foreign(state, table, arguments.job)
    try:
        if arguments.stop:
            return _stop(row, arguments)
        return _show(state, row, arguments)
    except (SlurmSilent, SlurmRefused) as problem:
        raise DeniedError(f"Slurm: {problem.message}", "`squeue --me` asks it too") from None


def _list(rows: tuple[JobRow, ...], table: JobTable, as_json: bool) -> int:
    if as_json:
        print_json({"time": iso(table.answered), "jobs": [_value(row) for row in rows]})
    elif rows:
        print_table(_HEADINGS, [_cells(row) for row in rows])
    else:
        echo("no job of yours was submitted by other means")
    return ExitCode.DONE


def _value(row: JobRow) -> dict[str, object]:
    return {
        "job": shown_number(row),
        **fields_json(row, "name", "state", "partition", "nodes", "limit_s"),
        "reason": row.reason if job_waits(row.state) else None,
        "ends": iso(row.ends) if row.ends and row.state == "RUNNING" else None,
    }


def _cells(row: JobRow) -> tuple[str, ...]:
    limit = DASH if row.limit_s is None else duration(row.limit_s)
    number = shown_number(row)
    waits = pending_text(row.reason, number) if job_waits(row.state) else ""
    return number, row.name, row.state.lower(), row.partition, row.nodes or DASH, limit, waits


def _stop(row: JobRow, arguments: argparse.Namespace) -> int:
    number = row.array if row.array and arguments.job == row.array else number_of(row)
    question = f"cancel Slurm job {number} ({row.name}, {row.state.lower()})?"
    if not agreed(question, arguments.yes, "cancelling a job asks first", "--yes answers it"):
        return ExitCode.RUN_FAILED
    cancel_foreign(number)
    if arguments.json:
        print_json({"job": number, "cancelled": True})
    else:
        echo(f"Slurm was asked to cancel job {number}")
    return ExitCode.DONE


def _show(state: StateDirectory, row: JobRow, arguments: argparse.Namespace) -> int:
    path = output_of(row.number)
    if arguments.json:
        print_json(_value(row) | {"output": str(path) if path else None})
        return ExitCode.DONE
    if path is None:
        raise DeniedError(
            f"job {row.number} has no file of its output", "an interactive one has none"
        )
    start = 0 if arguments.lines is None else last_lines_offset(path, arguments.lines)
    with OutputFollower(OutputBlocks(path, start)) as follower:
        follower.copy()
        while arguments.follow and _lives(refresh(state), row.number):
            time.sleep(_POLL_S)
            follower.copy()
        follower.copy()
    return ExitCode.DONE


def _lives(table: JobTable, number: str) -> bool:
    """Whether Slurm does not say that it has ended: while it is silent, nothing is concluded."""
    row = next((row for row in table.jobs if row.number == number), None)
    if row is None or row.missing_since is not None:
        return bool(table.problem)
    return not job_is_over(row.state)
