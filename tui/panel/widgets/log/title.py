"""Where one is in a log, in words and as a bar."""

from textual.scrollbar import ScrollBar

from runners.watch.logs.file import LogFile
from tui.panel.widgets.log.view import Viewport
from tui.panel.widgets.log.wanted import Wanted

BAR = 10_000
"""The scroll bar's length, in no unit: it shows a share of the bytes."""


def describe(
    log: LogFile | None,
    view: Viewport | None,
    following: bool,
    paused_at: tuple[int, int],
    filtered: bool = False,
) -> str:
    """Following or paused, and how many lines; `paused_at`: lines (-1: not known) and bytes at the
    pause.
    """
    if log is None or view is None:
        return "no log"
    count, exact = log.line_count
    lines = f"{'' if exact else '~'}{_lines(count)}"
    if following and filtered:
        return "following"
    if following:
        return f"following · {lines}" if log.size else "following · nothing written yet"
    at = log.index.line_at(view.top)
    if filtered:
        place = f"line {at + 1:,}" if at is not None else "…"
    else:
        place = f"line {at + 1:,} of {lines}" if at is not None else lines
    return f"paused · {_news(log, count, exact, paused_at)}G follows · {place}"


def describe_filter(log: LogFile | None, wanted: Wanted | None) -> str:
    """What is shown of a log, and how much that is: filter: loss · 1,234 of 48,112 lines."""
    if log is None or wanted is None:
        return ""
    count, exact = log.line_count
    found = f"{wanted.lines.count:,}{'' if wanted.lines.complete else '+'}"
    going = "" if wanted.lines.complete else f" · searched {wanted.lines.searched:.0%}"
    return f" · {wanted.words} · {found} of {'' if exact else '~'}{_lines(count)}{going}"


def _news(log: LogFile, count: int, exact: bool, paused_at: tuple[int, int]) -> str:
    known, size = paused_at
    if exact and known >= 0:
        return f"{_lines(count - known, 'new ')} · " if count > known else ""
    return f"{(log.size - size) / 1e6:,.1f} MB new · " if log.size > size else ""


def _lines(count: int, kind: str = "") -> str:
    return f"{count:,} {kind}line{'' if count == 1 else 's'}"


def place_bar(bar: ScrollBar, view: Viewport, log: LogFile) -> None:
    """Show on a scroll bar which part of the log is on the screen."""
    size = max(1, log.size)
    # Rounded, since each change of the bar paints it anew.
    share = max(BAR // 100, BAR * (view.bottom - view.top) // size // 100 * 100)
    bar.window_virtual_size = BAR
    bar.window_size = share
    bar.position = (
        BAR - share if view.bottom >= log.size else min(BAR - share, BAR * view.top // size)
    )
