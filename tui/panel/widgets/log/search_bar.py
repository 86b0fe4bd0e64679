"""The line to type in below a log: a search, a filter, a place or a file's name."""

from __future__ import annotations

from textual.widgets import Input

PROMPTS = {
    "search": "search in the log: text, or /regex/",
    "filter": "show only lines with: text, or /regex/; empty: all",
    "goto": "go to: a line's number, or a percentage as 50%",
    "write": "write to the file: (a ! at the end overwrites)",
}
"""What may be asked for, and the words above the line."""


class SearchBar(Input):
    """A line to type in. Text between slashes is a regular expression: `/loss: nan|inf/`."""

    purpose = "search"

    def open(self, purpose: str, value: str) -> None:
        """Show up and take the keys, asking for this."""
        self.purpose = purpose
        self.border_title = PROMPTS[purpose]
        self.value = value
        self.display = True
        self.focus()

    @property
    def wanted(self) -> tuple[str, bool]:
        """The pattern, and whether it is a regular expression."""
        text = self.value
        if len(text) > 2 and text.startswith("/") and text.endswith("/"):
            return text[1:-1], True
        return text, False
