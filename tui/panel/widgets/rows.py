"""Rows of text in a pane, painted one by one: over SSH, what did not change is not sent again."""

from collections.abc import Sequence

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.strip import Strip


def refresh_rows(pane: ScrollView, before: Sequence[Text], rows: Sequence[Text]) -> None:
    """Have `pane` paint those of `rows` that differ from `before`, or all when their number
    changed.
    """
    height = max(1, len(rows))
    if pane.virtual_size.height != height:
        pane.virtual_size = Size(pane.size.width, height)
    if len(before) != len(rows):
        pane.refresh()
        return
    top, width = round(pane.scroll_offset.y), pane.scrollable_content_region.width
    for y, (old, new) in enumerate(zip(before, rows, strict=True)):
        if old != new:
            start, end = changed_cells(old, new, width)
            pane.refresh(Region(start, y - top, end - start, 1))


def changed_cells(old: Text, new: Text, width: int) -> tuple[int, int]:
    """Where two rows differ, as cells from and to; the whole row when their styles or lengths
    do.
    """
    a, b = old.plain, new.plain
    if old.spans != new.spans or len(a) != len(b) or cell_len(b) != len(b):
        return 0, width
    differing = [i for i, (left, right) in enumerate(zip(a, b, strict=True)) if left != right]
    return min(differing[0], width - 1), min(differing[-1] + 1, width)


def strip_of(
    rows: Sequence[Text], y: int, width: int, pane: ScrollView, base: Style | None = None
) -> Strip:
    """Row `y` as a strip of `width` cells, its end cut with an ellipsis; blank below the last."""
    style = pane.rich_style if base is None else base
    if y >= len(rows):
        return Strip.blank(width, style)
    text = rows[y].copy()
    text.truncate(width, overflow="ellipsis", pad=True)
    segments = [
        Segment(s.text, style + (s.style or Style()))
        for s in text.render(pane.app.console)
        if s.text
    ]
    # Neighbours of one style as one: each has its colours sent, though they are the same.
    return Strip(segments).simplify().adjust_cell_length(width, style)
