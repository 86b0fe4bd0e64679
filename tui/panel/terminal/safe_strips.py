"""The panel's boundary to the terminal: every line that Textual paints is made safe as it leaves.

Textual and Rich let ESC and C1 pass in the text of a widget. Each widget would have to think of it;
here it is thought of once, for whatever is painted.
"""

from rich.console import Console
from rich.segment import Segment
from textual.strip import Strip

from tui.views.safe import safe_cell

_paint = Strip.render


def install() -> None:
    """Make every strip safe from now on."""
    Strip.render = render_safely  # type: ignore[method-assign, assignment]


def render_safely(strip: Strip, console: Console) -> str:
    """The terminal's sequences for `strip`; control characters in its text take no place."""
    # One whose sequences are kept was made safe when they were made.
    if strip._render_cache is None and not all(
        text.isprintable() for text, _, _ in strip._segments
    ):
        strip = Strip([_made_safe(segment) for segment in strip._segments])
    return _paint(strip, console)


def _made_safe(segment: Segment) -> Segment:
    if segment.control or segment.text.isprintable():
        return segment
    # What is dropped had no width when the line was laid out: the columns stay where they are.
    kept = "".join(char for char in segment.text if safe_cell(char) == char)
    return Segment(kept, segment.style)
