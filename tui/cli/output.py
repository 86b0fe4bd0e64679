"""Saying things: words to people on stderr, data on stdout, tables that align."""

import json
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from itertools import zip_longest
from typing import Any, TextIO

from runners.model.errors import DeniedError, ExitCode, FresnelError
from runners.model.run import Run
from runners.model.states import State
from tui.views.format import DASH, cells_of, fitted, folded, is_plain
from tui.views.safe import OUTPUT, safe_cell, safe_json

_LEAST_COLUMN = 9
"""Cells that a column keeps, however narrow the terminal is."""


def echo(text: str) -> None:
    """A sentence for the person at the terminal."""
    print(text, file=sys.stderr, flush=True)


def do_each(runs: Iterable[Run], act: Callable[[Run], object]) -> FresnelError | None:
    """Do it to every run: one where it cannot be done keeps no other from it. The first problem is
    for the command's end, others are said.
    """
    first: FresnelError | None = None
    for run in runs:
        try:
            act(run)
        except FresnelError as error:
            if first is not None:
                echo(f"fresnel-tui: {error}")
            first = first or error
    return first


def is_confirmed(question: str) -> bool:
    """Ask the person at the terminal; anything but y or yes is no."""
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def agreed(question: str, yes: bool, refusal: str, hint: str) -> bool:
    """Whether it may be done: by --yes, or by the person who is asked.

    DeniedError with the `refusal` where there is nobody to ask.
    """
    if not yes and not sys.stdin.isatty():
        raise DeniedError(refusal, hint)
    return yes or is_confirmed(question)


def run_exit_code(run: Run) -> ExitCode:
    """0 when the run did what it was started for, 1 otherwise."""
    return ExitCode.DONE if run.state is State.DONE else ExitCode.RUN_FAILED


def write_bytes(data: bytes, stream: Any = None) -> None:
    """Write to stdout, or `stream`, as it stands. Raises OSError, which names the output."""
    buffer = (stream or sys.stdout).buffer
    try:
        buffer.write(data)
        buffer.flush()
    except OSError as error:
        raise OSError(error.errno, error.strerror, OUTPUT) from None


def print_json(value: Any) -> None:
    """One JSON document on stdout; indented when a person is looking."""
    text = json.dumps(value, ensure_ascii=False, indent=2 if sys.stdout.isatty() else None)
    print(safe_json(text), flush=True)


def print_json_of_runs(values: Sequence[Any], is_one: bool) -> None:
    """A document about runs: an object where one run was named, else a list, of however many.

    A group, several names and `--all` mean a list, also where that is of one run or of none.
    """
    print_json(values[0] if is_one else list(values))


def terminal_width() -> int:
    """The cells of a line where stdout is a terminal; else 0."""
    return os.get_terminal_size(sys.stdout.fileno()).columns if sys.stdout.isatty() else 0


def print_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Columns aligned by their widest cell; nothing is cut off.

    On a terminal that is narrower the widest are folded, each within itself.
    """
    columns = [_safe_cells(cells) for cells in zip(headings, *rows, strict=True)]
    widths = [_width(cells) for cells in columns]
    room, narrow = terminal_width(), None
    if room and sum(widths) + 2 * (len(widths) - 1) > room:
        # What says nothing of any row gives way first.
        columns = [column for column in columns if set(column[1:]) - {"", DASH}] or columns
        widths = [_width(cells) for cells in columns]
        narrow = _narrowed(widths, room, 2) or _narrowed(widths, room, 1)
    gap = "  " if narrow is None or sum(narrow) + 2 * (len(narrow) - 1) <= room else " "
    line = gap.join(f"{{:<{width}}}" for width in narrow or widths).format
    # Nearly always each letter takes a cell, which all at once say sooner than each.
    are_plain = all(is_plain("".join(cells)) for cells in columns)
    lines = []
    for row in zip(*columns, strict=True):
        for part in (row,) if narrow is None else _folded(row, narrow):
            if are_plain or is_plain("".join(part)):
                lines.append(line(*part).rstrip())
            else:
                lines.append(gap.join(map(fitted, part, narrow or widths)).rstrip())
    print("\n".join(lines))


def _width(cells: Sequence[str]) -> int:
    return max(map(len if is_plain("".join(cells)) else cells_of, cells))


def _narrowed(widths: Sequence[int], room: int, gap: int) -> list[int] | None:
    """Less for the widest columns, so that all fit into `room` cells; None where none do."""
    over, narrow = sum(widths) + gap * (len(widths) - 1) - room, list(widths)
    if over > sum(max(0, width - _LEAST_COLUMN) for width in widths):
        return None
    for _ in range(over):
        narrow[narrow.index(max(narrow))] -= 1
    return narrow


def _folded(row: Sequence[str], widths: Sequence[int]) -> Iterable[Sequence[str]]:
    return zip_longest(*map(folded, row, widths), fillvalue="")


def _safe_cells(cells: Sequence[str]) -> Sequence[str]:
    # Nearly always nothing has to be changed, which all at once say sooner than each.
    return cells if "".join(cells).isprintable() else [safe_cell(cell) for cell in cells]


def print_pairs(pairs: Sequence[tuple[str, str]], width: int = 0) -> None:
    """Names and values, one pair a line; names in `width` cells, or as many as they need."""
    shown = [(safe_cell(name), safe_cell(value)) for name, value in pairs]
    width = width or _name_width(shown)
    for name, value in shown:
        print(f"{fitted(name, width)}  {value}")


def _name_width(pairs: Iterable[tuple[str, str]]) -> int:
    return max(cells_of(safe_cell(name)) for name, _ in pairs)


def print_details(sections: Sequence[tuple[str, Sequence[tuple[str, str]]]]) -> None:
    """Sections of names and values, one pair a line, an empty line between two sections."""
    width = max(_name_width(pairs) for _, pairs in sections)
    for i, (_, pairs) in enumerate(sections):
        if i:
            print()
        print_pairs(pairs, width)


def print_summary(run: Run) -> None:
    """Print what a person wants to know of an ended run."""
    from tui.views.runs.run_details import describe_run  # most commands say nothing of a run
    from tui.views.runs.run_view import view_run

    print("\n" + "─" * 78)
    print_pairs(describe_run(view_run(run, thorough=True)))


def control(text: str, stream: TextIO | None = None) -> None:
    """Send our own sequences to the terminal (stdout, or `stream`), past what makes text safe."""
    stream = stream or sys.stdout
    getattr(stream, "control", stream.write)(text)


def echo_unfetched(runs: list[str]) -> None:
    """Say of removed runs that nobody has fetched what they still hold back."""
    if runs:
        shown = " ".join(runs[:4]) + (" …" if len(runs) > 4 else "")
        echo(
            f"not fetched: {shown}; a guard that deletes the machine waits for "
            f"`fresnel-tui fetched --give-up {shown}`"
        )
