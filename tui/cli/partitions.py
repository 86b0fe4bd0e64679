"""`gpus --slurm`: the GPUs of this machine's cluster, and one's own jobs on them."""

import time
from collections import Counter
from contextlib import suppress

import msgspec

from runners.model.errors import DeniedError, WrongInput
from runners.model.pending import job_is_active, job_waits
from runners.presets.reading.user_settings import Settings, read_settings
from runners.slurm.accounts import AccountBudget, account_budgets, proposed_keys, settings_text
from runners.slurm.client import SlurmRefused, SlurmSilent
from runners.slurm.partitions import PartitionGpus, partition_gpus
from runners.slurm.queue import refresh
from runners.state.jobs import JobTable
from runners.state.layout import StateDirectory
from tui.cli.output import echo, print_json, print_table
from tui.views.format import DASH, duration
from tui.views.json_values import iso
from tui.views.money.account_budgets import BUDGET_HEADINGS, budget_rows, budgets_json

_HEADINGS = ("partition", "model", "GPUs", "free", "used", "down", "longest", "own jobs")


def run_partitions(state: StateDirectory, watch: bool, as_json: bool) -> None:
    """Ask Slurm once and print its answer. Raises DeniedError where none comes."""
    if watch:
        raise WrongInput("--slurm with --watch: Slurm is not asked every second", "leave one out")
    try:
        found, unread = partition_gpus()
    except (SlurmSilent, SlurmRefused) as problem:
        hint = "`sinfo` shows whether it answers"
        raise DeniedError(f"Slurm says nothing of its GPUs: {problem.message}", hint) from None
    table = refresh(state)
    proposed = settings_text(proposed_keys(found))
    budgets: tuple[AccountBudget, ...] = ()
    with suppress(SlurmSilent, SlurmRefused):  # accounting is off, or does not answer
        budgets = account_budgets()
    is_set_up = read_settings().slurm != Settings().slurm
    if as_json:
        print_json(
            {
                "time": iso(time.time()),
                "partitions": [_value(row, table) for row in found],
                "unread_nodes": unread,
                "accounts": budgets_json(budgets),
                "proposed": proposed or None,
                "is_set_up": is_set_up,
            }
        )
        return
    if found:
        print_table(_HEADINGS, [_cells(row, table) for row in found])
    else:
        echo("Slurm names no GPU in any partition")
    if unread:
        echo(f"{unread} lines of sinfo are not understood: their GPUs are in none of these numbers")
    if budgets:
        print()
        print_table(BUDGET_HEADINGS, budget_rows(budgets))
    if proposed and not is_set_up:
        echo(f"settings.yaml could say once for all presets: {proposed}")
    if table.problem:
        echo(f"own jobs are not known now: {table.problem}")


def _own(row: PartitionGpus, table: JobTable) -> tuple[int, int]:
    """One's own jobs in a partition: how many run, how many wait."""
    states = Counter(job.state for job in table.jobs if row.partition in job.partition.split(","))
    starting = states.pop("CONFIGURING", 0)
    running = sum(number for state, number in states.items() if job_is_active(state))
    waiting = sum(number for state, number in states.items() if job_waits(state))
    return running, waiting + starting


def _value(row: PartitionGpus, table: JobTable) -> dict[str, object]:
    running, waiting = _own(row, table)
    shown = {**msgspec.to_builtins(row), "model": row.model or None}
    return {**shown, "own_running": running, "own_waiting": waiting}


def _cells(row: PartitionGpus, table: JobTable) -> tuple[str, ...]:
    running, waiting = _own(row, table)
    name = f"{row.partition} (default)" if row.is_default else row.partition
    numbers = (str(number) for number in (row.total, row.free, row.used, row.down))
    longest = DASH if row.limit_s is None else duration(row.limit_s)
    own = [f"{running} running"] * bool(running) + [f"{waiting} waiting"] * bool(waiting)
    return name, row.model or DASH, *numbers, longest, ", ".join(own) or DASH
