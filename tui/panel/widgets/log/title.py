"""Where one is in a log, in words and as a bar."""

from textual.scrollbar import ScrollBar

from runners.model.units import counted
from tui.panel.widgets.log.document import LogDocument
from tui.panel.widgets.log.viewport import Viewport
from tui.panel.widgets.log.window_reader import LogReader, LogSelection
from tui.views.format import cells_of, cut
from tui.views.format import size as bytes_text

BAR = 10_000
"""The scroll bar's length, in no unit: it shows a share of the bytes."""
_FOLLOWS = "G follows · "
_LEAST_NAME = 12
"""Cells that a log's name keeps beside what it is filtered by."""


def title_of(name: str, document: LogDocument, width: int) -> str:
    """A log's name and what is shown of it; a long name is cut, or it would hide that."""
    chosen = describe_filter(document)
    return cut(name, max(_LEAST_NAME, width - cells_of(chosen))) + chosen if chosen else name


def describe(reader: LogReader, width: int) -> str:
    """Following or paused, and how many lines; or how much is selected.

    Where `width` has no room for it without a key: what was searched for, and where one is, first.
    """
    text = _describe(reader)
    return text if cells_of(text) <= width else text.replace(_FOLLOWS, "")


def _describe(reader: LogReader) -> str:
    document = reader.document
    if reader.selection.active:
        return _describe_selection(document, reader.selection)
    if document.path is None:
        return "no log"
    return describe_search(document) + _describe_place(reader)


def describe_search(document: LogDocument) -> str:
    """`match 3 of 10 · ` while something is searched for; a + while matches are still counted."""
    search = document.search
    if search is None:
        return ""
    count = f"{search.matches.count:,}{'' if search.matches.complete else '+'}"
    if not search.matches.count:
        # Of a filter's lines, which are what was found by other words.
        what = "search: " if document.filter is not None else ""
        return f"{what}no match · " if search.matches.complete else "searching · "
    return f"match {search.current:,} of {count} · " if search.current else f"{count} matches · "


def _describe_place(reader: LogReader) -> str:
    document, following = reader.document, reader.following
    count, exact = document.line_count
    lines = f"{'' if exact else '~'}{counted(count, 'line')}"
    if following and document.filter is not None:
        return "following"
    if following:
        return f"following · {lines}" if document.size else "following · nothing written"
    at = document.index.line_at(reader.view.top)
    if document.filter is not None:
        place = f"line {at + 1:,}" if at is not None else "…"
    else:
        place = f"line {at + 1:,} of {lines}" if at is not None else lines
    return f"paused · {_news(document, reader.paused_at)}{_FOLLOWS}{place}"


def describe_filter(document: LogDocument) -> str:
    """What is shown of a log, and how much that is: filter: loss · 1,234 of 48,112 lines."""
    chosen = document.filter
    if chosen is None:
        return ""
    count, exact = document.line_count
    found = f"{chosen.lines.count:,}{'' if chosen.lines.complete else '+'}"
    going = "" if chosen.lines.complete else f" · searched {chosen.lines.searched:.0%}"
    lines = f"{'' if exact else '~'}{counted(count, 'line')}"
    return f" · {chosen.description} · {found} of {lines}{going}"


def _describe_selection(document: LogDocument, selection: LogSelection) -> str:
    low, high = selection.range or (0, 0)
    first, last = document.index.line_at(low), document.index.line_at(high)
    if first is None or last is None or document.filter is not None:
        return "selecting · y copies · w writes · Esc ends"
    return f"{counted(last - first + 1, 'line')} selected · y copies · w writes · Esc ends"


def place_bar(bar: ScrollBar, view: Viewport, size: int) -> None:
    """Show on a scroll bar which part of a log of `size` bytes is on the screen."""
    size = max(1, size)
    # Rounded, since each change of the bar paints it anew.
    share = max(BAR // 100, BAR * (view.bottom - view.top) // size // 100 * 100)
    bar.window_virtual_size = BAR
    bar.window_size = share
    at_end = view.bottom >= size
    bar.position = BAR - share if at_end else min(BAR - share, BAR * view.top // size)


def _news(document: LogDocument, paused_at: tuple[int, int]) -> str:
    (count, exact), (known, size) = document.line_count, paused_at
    if exact and known >= 0:
        return f"{counted(count - known, 'new line')} · " if count > known else ""
    return f"{bytes_text(document.size - size)} new · " if document.size > size else ""
