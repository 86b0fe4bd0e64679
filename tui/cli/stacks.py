"""`stacks`."""

import argparse

from runners.diagnosis.stack_parts import find_py_spy
from runners.diagnosis.stacks import StackDump, newest_stacks, stack_text, take_stacks
from runners.housekeeping import tended_state
from runners.model.errors import NotFound, WrongInput
from runners.state.runs import find_run
from tui.cli.output import echo, print_json, print_table
from tui.views.health.stack_text import stacks_json


def run_stacks(arguments: argparse.Namespace) -> None:
    """Take and show the stacks of a run that runs; of one that has ended, the newest saved."""
    state = tended_state()
    run = find_run(state, arguments.run)
    directory = state.run(run.id)
    dump: StackDump | None
    if arguments.saved or not run.is_live:
        dump = newest_stacks(directory.path)
        if dump is None:
            raise NotFound(f"`{run.id}` has no saved stacks", f"looked in {directory.path}/stacks")
    else:
        dump = take_stacks(directory, "asked for")
        if not dump.ranks:
            raise WrongInput(f"`{run.id}` is {run.state}: none of its processes is training now")
    if arguments.json:
        print_json(stacks_json(dump))
    else:
        _print(dump, arguments.brief)


def _print(dump: StackDump, brief: bool) -> None:
    rows = [
        (rank.label, str(rank.pid), rank.how or "kernel only", rank.text) for rank in dump.ranks
    ]
    print_table(("rank", "pid", "by", "where"), rows)
    if dump.verdict:
        print(f"\n{dump.verdict}")
    if not brief:
        for rank in dump.ranks:
            print(f"\n── {stack_text(dump, rank).rstrip()}")
    problems = dict.fromkeys(rank.problem for rank in dump.ranks if rank.problem)
    for problem in problems:
        echo(f"no Python stacks: {problem}")
    if problems and find_py_spy() is None:
        echo("without py-spy only the kernel's view is shown, and our own trainers answer")
    echo(f"saved in {dump.folder}")
