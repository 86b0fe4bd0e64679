"""Saying things: words to people on stderr, data on stdout, tables that align."""

import json
import sys
from collections.abc import Sequence
from typing import Any

from runners.model.run import Run
from tui.views.run_text import describe_run
from tui.views.run_view import view_run


def say(text: str) -> None:
    """A sentence for the person at the terminal."""
    print(text, file=sys.stderr, flush=True)


def print_json(value: Any) -> None:
    """One JSON document on stdout; indented when a person is looking."""
    print(
        json.dumps(value, ensure_ascii=False, indent=2 if sys.stdout.isatty() else None), flush=True
    )


def print_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Columns aligned by their widest cell; nothing is cut off."""
    widths = [max(len(row[i]) for row in (headings, *rows)) for i in range(len(headings))]
    for row in (headings, *rows):
        print(
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        )


def print_pairs(pairs: Sequence[tuple[str, str]]) -> None:
    """Names and values, one pair a line."""
    width = max(len(name) for name, _ in pairs)
    for name, value in pairs:
        print(f"{name.ljust(width)}  {value}")


def print_summary(run: Run) -> None:
    """Print what a person wants to know of an ended run."""
    print("\n" + "─" * 78)
    print_pairs(describe_run(view_run(run, thorough=True)))
