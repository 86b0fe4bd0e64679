"""A widget's own style, looked up once and not for every line that is painted."""

from __future__ import annotations

from rich.style import Style
from textual.widget import Widget


class StyleOnce(Widget):
    """A widget that paints many lines in its own style."""

    _own_style: Style | None = None

    @property
    def own_style(self) -> Style:
        """Colours and background by the style sheet, worked out once.
        `rich_style` works them out from every widget around this one at each access.
        """
        if self._own_style is None:
            self._own_style = self.rich_style
        return self._own_style

    def notify_style_update(self) -> None:
        """The style sheet, the theme or the focus changed."""
        self._own_style = None
        super().notify_style_update()
