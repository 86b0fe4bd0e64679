"""What stands in a log's place while nothing is written: why that is."""

import textwrap
from collections.abc import Sequence

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip


def explanation_line(paragraphs: Sequence[str], y: int, width: int, style: Style) -> Strip:
    """Line `y` of `paragraphs`, each wrapped to `width` cells; blank below them."""
    lines: list[str] = []
    for text in paragraphs:
        wrapped = textwrap.wrap(text, max(1, width - 1), subsequent_indent="  ")
        lines += [f" {line}" for line in wrapped] or [""]
    if y >= len(lines):
        return Strip.blank(width, style)
    return Strip([Segment(lines[y], style)]).adjust_cell_length(width, style)
