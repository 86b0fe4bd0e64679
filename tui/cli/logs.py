"""`logs`, and following a run's output."""

import argparse
import os
from pathlib import Path

from runners.host.files import open_plain
from runners.host.tail import data_end
from runners.housekeeping import tend
from runners.lifecycle.control.wait import wait_until_ended
from runners.model.errors import ExitCode, NotFound
from runners.state.layout import RunDirectory, StateDirectory
from runners.state.runs import find_run
from tui.cli.output_blocks import OutputBlocks, OutputFollower
from tui.cli.output_lines import OutputLines, print_lines

_BLOCK = 1 << 20


def run_logs(arguments: argparse.Namespace) -> int:
    """Print a run's output as it was written; with -f until the run has ended."""
    state = StateDirectory()
    run = find_run(state, arguments.run)
    if arguments.ranks or arguments.rank is not None:
        from tui.cli.logs_of_rank import list_ranks, print_rank  # few ask for ranks

        tend(state)
        return (list_ranks if arguments.ranks else print_rank)(state, run, arguments)
    path = _output_of(state.run(run.id), arguments.node or 0)
    start = 0 if arguments.lines is None else last_lines_offset(path, arguments.lines)
    blocks = OutputBlocks(path, start, run.record.attempt if run.record is not None else 1)
    if arguments.json:
        return print_lines(state, run, {}, {path: OutputLines(blocks)}, arguments.follow)
    with OutputFollower(blocks) as follower:
        follower.copy()
        if arguments.follow and run.is_live:
            tend(state)
            wait_until_ended(state, run.id, follower.copy)
            follower.copy()
    return ExitCode.DONE


def _output_of(run: RunDirectory, node: int) -> Path:
    """What the program wrote on a node. NotFound for one that has written nothing."""
    path = run.of_node(node) / run.output.name
    if node and not path.exists():
        raise NotFound(f"nothing of a node {node} in `{run.id}`", "the first node is 0")
    return path


def last_lines_offset(path: Path, count: int) -> int:
    """Where the last `count` lines of a file begin, found from its end."""
    try:
        descriptor = open_plain(path)
    except OSError:
        return 0
    try:
        position = end = os.fstat(descriptor).st_size
        if count <= 0:
            return end
        # The newline that ends the last line begins no other.
        missing = count + 1 if end and os.pread(descriptor, 1, end - 1) == b"\n" else count
        while position > 0:
            begin = max(0, position - _BLOCK)
            block = os.pread(descriptor, position - begin, begin)
            if not block.strip(b"\0"):
                # A hole of gigabytes, cut by output_limit, is passed over in one step.
                position = data_end(descriptor, begin)
                continue
            at = len(block)
            while missing and (at := block.rfind(b"\n", 0, at)) >= 0:
                missing -= 1
            if not missing:
                return begin + at + 1
            position = begin
        return 0
    finally:
        os.close(descriptor)
