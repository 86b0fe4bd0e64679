"""`logs --rank` and `logs --ranks`."""

import argparse
from collections.abc import Iterator
from pathlib import Path

import msgspec

from runners.host.files import open_binary
from runners.lifecycle.control.wait import wait_until_ended
from runners.model.errors import ExitCode, NotFound
from runners.model.run import Run
from runners.state.layout import RunDirectory, StateDirectory
from runners.watch.logs.rank_logs import RankLines, has_rank_logs, is_in_output
from runners.watch.logs.rank_overview import RankOverview, log_of_rank, rank_overview
from tui.cli.output import echo, print_json, print_table, write_bytes
from tui.cli.output_blocks import OutputBlocks
from tui.cli.output_lines import OutputLines, print_lines
from tui.views.format import DASH, duration
from tui.views.health.diagnosis_text import diagnose_run
from tui.views.safe import safe_cell

_BLOCK = 1 << 20


def list_ranks(state: StateDirectory, run: Run, arguments: argparse.Namespace) -> int:
    """Print every rank: its process, its last line and how old that is, what sets it apart."""
    verdict = diagnose_run(run)
    first = verdict.rank if verdict is not None else None
    ranks = rank_overview(state.run(run.id), run.is_live, first)
    if arguments.json:
        print_json(msgspec.to_builtins(ranks))
    elif ranks:
        headings = ("rank", "pid", "now", "last line", "", "remark")
        print_table(headings, [_row(entry) for entry in ranks])
    else:
        echo(f"{run.id} has no ranks: no process and no line of it names one")
    return ExitCode.DONE


def print_rank(state: StateDirectory, run: Run, arguments: argparse.Namespace) -> int:
    """Print what one rank wrote; with -f until the run has ended. NotFound when nothing tells."""
    directory, rank = state.run(run.id), arguments.rank
    if is_in_output(directory, rank):
        sources = [_RankOutput(directory, rank, arguments.lines)]
    else:
        paths = log_of_rank(directory.path, rank)
        if not paths:
            known = ", ".join(str(entry.rank) for entry in rank_overview(directory, run.is_live))
            raise NotFound(
                f"no output of rank {rank} can be told apart in `{run.id}`",
                f"it has rank {known}" if known else "no line of its output names a rank",
            )
        sources = [_RankOutput(directory, rank, arguments.lines, path) for path in paths]

    if arguments.json:
        outputs = {source.path: source.lines() for source in sources}
        return print_lines(state, run, {"rank": rank}, outputs, arguments.follow)

    def copy() -> None:
        for source in sources:
            for block in source.new():
                write_bytes(block)

    copy()
    if arguments.follow and run.is_live:
        wait_until_ended(state, run.id, copy)
        copy()
    for source in sources:
        write_bytes(source.rest())
    return ExitCode.DONE


class _RankOutput:
    """One rank's lines as they come: out of the output, or all of a file of its own."""

    def __init__(
        self, run: RunDirectory, rank: int, last: int | None, own: Path | None = None
    ) -> None:
        self.path = path = own or run.output
        self._lines = None if own is not None else RankLines(rank, has_rank_logs(run.path))
        offset = 0 if last is None else self._offset_of_last(path, last)
        self._blocks = OutputBlocks(path, offset)

    def _offset_of_last(self, path: Path, last: int) -> int:
        """Where its last lines begin, looked for from the end in growing stretches."""
        size = path.stat().st_size if path.exists() else 0
        stretch = _BLOCK
        while last > 0:
            begin = max(0, size - stretch)
            with open_binary(path) as file:
                file.seek(begin)
                text = file.read(size - begin)
            at, missing = len(text.rstrip(b"\n")), last
            while missing and at > 0:
                start = text.rfind(b"\n", 0, at) + 1
                if self._lines is None or self._lines.accepts(text[start:at]):
                    missing -= 1
                    found = begin + start
                at = start - 1
            if not missing:
                return found
            if begin == 0:
                return 0
            stretch *= 8
        return size

    def lines(self) -> OutputLines:
        """Its lines, as text."""
        chosen = self._lines
        return (
            OutputLines(self._blocks)
            if chosen is None
            else OutputLines(self._blocks, chosen.lines_of)
        )

    def new(self) -> Iterator[bytes]:
        """What is new, whole lines where they have to be chosen."""
        for block in self._blocks.new():
            yield self._lines.take(block) if self._lines else block

    def rest(self) -> bytes:
        """A last line without an end; nothing comes after it."""
        self._blocks.close()
        return self._lines.flush() if self._lines is not None else b""


def _row(entry: RankOverview) -> tuple[str, ...]:
    age = DASH if entry.line_age_s is None else f"{duration(entry.line_age_s)} ago"
    line = safe_cell(entry.last_line[:60])
    return (str(entry.rank), str(entry.pid or DASH), entry.state or DASH, age, line, entry.remark)
