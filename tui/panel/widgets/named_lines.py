"""Lines with a name in front: a value that is too long goes on beside its name, not below it."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text


class NamedLines:
    """Names in at most `names` cells and their values, with texts of full width between them."""

    def __init__(self, names: int) -> None:
        self._names = names
        self._blocks: list[Text | list[tuple[str, Text]]] = []

    def add_text(self, text: Text) -> None:
        """A text that takes the whole width."""
        self._blocks.append(text)

    def add(self, name: str, value: str | Text, style: str = "") -> None:
        """A value behind its name; a name that is that of the line above is not said again."""
        if not self._blocks or isinstance(self._blocks[-1], Text):
            self._blocks.append([])
        block = self._blocks[-1]
        assert isinstance(block, list)
        block.append((name, Text(value, style) if isinstance(value, str) else value))

    def __str__(self) -> str:
        """All of it without a layout, a line each."""
        lines = []
        for block in self._blocks:
            if isinstance(block, Text):
                lines.append(block.plain)
            else:
                lines += [f"{name:<{self._names}}{value.plain}" for name, value in block]
        return "\n".join(lines)

    def __rich__(self) -> Group:
        """Every block below the one before."""
        return Group(*map(self._drawn, self._blocks))

    def _drawn(self, block: Text | list[tuple[str, Text]]) -> RenderableType:
        if isinstance(block, Text):
            return block
        table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
        table.add_column(width=self._names - 2, overflow="fold")
        table.add_column(ratio=1, overflow="fold")
        before = ""
        for name, value in block:
            table.add_row(Text(name if name != before else "", style="dim"), value)
            before = name
        return table
