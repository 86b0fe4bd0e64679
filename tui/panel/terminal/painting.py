"""How little is painted: of a line what changed in it, of a pane its border when only its title
changed, and of a new screen no half of it.
"""

from __future__ import annotations

from typing import TypeVar

from rich.console import Console
from rich.control import Control
from textual._compositor import ChopsUpdate
from textual.content import Content
from textual.geometry import Region
from textual.screen import Screen
from textual.widget import Widget

Result = TypeVar("Result")


class ChangedCells(ChopsUpdate):
    """An update that sends the changed cells of a line and not all that stand before them."""

    @classmethod
    def of(cls, update: ChopsUpdate) -> ChangedCells:
        """The same update."""
        return cls(update.chops, update.spans, update.chop_ends)

    def render_segments(self, console: Console) -> str:
        """The terminal's sequences."""
        sent: list[str] = []
        for y, first, last in self.spans:
            for end, (start, strip) in zip(self.chop_ends[y], self.chops[y].items(), strict=False):
                begin, until = max(start, first), min(end, last)
                if strip is None or begin >= until:
                    continue
                if (begin, until) != (start, end):
                    strip = strip.crop(begin - start, until - start)
                sent += [Control.move_to(begin, y).segment.text, strip.render(console)]
        return "".join(sent)


class TitledBorder(Widget):
    """A widget with words in its border: when these change, its border's lines are painted and
    not all of it.
    """

    _titles: tuple[str, str] = ("", "")

    def retitle(self, title: str, subtitle: str) -> None:
        """Words above and below; brackets in them are brackets."""
        if (title, subtitle) == self._titles:
            return
        self._titles = title, subtitle
        self._border_title = Content(title) if title else None
        self._border_subtitle = Content(subtitle) if subtitle else None
        size, inner = self.outer_size, self.content_offset
        if size:
            above = Region(-inner.x, -inner.y, size.width, 1)
            self.refresh(above, above.translate((0, size.height - 1)))


class PaintedOnce(Screen[Result]):
    """A screen of which nothing is painted before `begin_to_paint`.

    Each step of its first layout would else paint all of it.
    """

    _paints = False

    def begin_to_paint(self) -> None:
        """Paint now, and from now on whatever changes."""
        self._paints = True
        self.refresh()

    def _compositor_refresh(self) -> None:
        if self._paints:
            super()._compositor_refresh()
        else:
            self._dirty_widgets.clear()
