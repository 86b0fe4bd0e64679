"""The panel's boundary to the terminal: whatever text is painted is made safe as it leaves.

Textual and Rich let ESC and C1 pass in the text of a widget. Each widget would have to think of it;
here it is thought of once, for whatever is painted.
"""

from tui.views.safe import safe_cell


def made_safe(text: str) -> str:
    """The text of a line without control characters, which take no place in it."""
    if text.isprintable():
        return text
    # What is dropped had no width when the line was laid out: the columns stay where they are.
    return "".join(char for char in text if safe_cell(char) == char)
