"""How little is painted.
Of a screen the widgets that changed, of a line what changed in it, of a pane its border when only
its title changed, and of a new screen no half of it.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

from rich.console import RenderableType
from textual.await_complete import AwaitComplete
from textual.color import Color
from textual.content import Content
from textual.filter import LineFilter
from textual.geometry import Offset, Region
from textual.screen import Screen
from textual.strip import Strip
from textual.widget import Widget
from typing_extensions import Self

from tui.panel.terminal.textual_private import ChopsUpdate, Compositor

Result = TypeVar("Result")
ScreenKind = TypeVar("ScreenKind", bound=Screen[Any])

_KEPT_ROWS = 500


class ChangedWidgets(Compositor):
    """Of a screen of which parts changed, renders these parts alone.

    Textual's own renders every line of every widget that lies in the smallest rectangle around all
    changes, which for a row at the top and one at the bottom is the whole screen.
    """

    paints = True
    """Whether anything is painted; what changes meanwhile is painted later."""
    _touched: dict[Widget, tuple[Region, Region]] | None = None

    @property
    def visible_widgets(self) -> dict[Widget, tuple[Region, Region]]:
        """Widgets from front to back, where they are and what of them is seen.
        While a part of the screen is rendered, only those that hold some of it.
        """
        return super().visible_widgets if self._touched is None else self._touched

    def render_update(
        self,
        full: bool = False,
        screen_stack: list[Screen[Any]] | None = None,
        simplify: bool = False,
    ) -> RenderableType | None:
        """What changed, or all of it; None when nothing did, or while nothing is painted."""
        return super().render_update(full, screen_stack, simplify) if self.paints else None

    def render_partial_update(self) -> ChopsUpdate | None:
        """What changed since the last update; None when nothing did."""
        _ = self.cuts  # where widgets begin and end in each line: made of all of them
        self._touched = self._changed_widgets()
        try:
            return super().render_partial_update()
        finally:
            self._touched = None

    def _changed_widgets(self) -> dict[Widget, tuple[Region, Region]]:
        found: dict[Widget, tuple[Region, Region]] = {}
        left = list(self._dirty_regions)
        # From front to back: what is behind a widget that holds a change whole is not seen there.
        for widget, (region, clip) in self.visible_widgets.items():
            seen = region.intersection(clip)
            touched = [change for change in left if seen.overlaps(change)]
            if not touched:
                continue
            top = max(seen.y, min(change.y for change in touched))
            bottom = min(seen.bottom, max(change.bottom for change in touched))
            found[widget] = region, Region(seen.x, top, seen.width, bottom - top)
            left = [change for change in left if not seen.contains_region(change)]
            if not left:
                break
        return found


class TitledBorder(Widget):
    """A widget with text in its border; of a new text the border's lines alone are painted."""

    _titles: tuple[str, str] = ("", "")
    _sets_titles = False

    def refresh(self, *regions: Region, **what: bool) -> Self:
        """Have it painted, or parts of it."""
        return self if self._sets_titles else super().refresh(*regions, **what)

    def retitle(self, title: str, subtitle: str) -> None:
        """Words above and below; brackets in them are brackets."""
        if (title, subtitle) == self._titles:
            return
        self._titles, self._sets_titles = (title, subtitle), True
        self.border_title = Content(title) if title else None
        self.border_subtitle = Content(subtitle) if subtitle else None
        self._sets_titles = False
        self.refresh(*_border_lines(self))


def _border_lines(widget: Widget) -> Iterator[Region]:
    """The first and the last line, counted from inside the border as `refresh` does.
    None before the widget has a place.
    """
    size, inner = widget.outer_size, widget.content_offset
    if size:
        above = Region(-inner.x, -inner.y, size.width, 1)
        yield from (above, above.translate((0, size.height - 1)))


class KeptRows(Widget):
    """A widget with a border whose rows move or are many, as those of a log are.

    Textual puts the border around each row by itself, two dozen questions to the style sheet for
    each, and keeps the result by its place on the screen, where another row is soon. Here it does
    so for one row; the others get the same border, and a row seen before is the same strip, whose
    sequences for the terminal are known.
    """

    _framed: dict[int, tuple[Strip, Strip]]
    _frame_of: tuple[object, ...] = ()
    _border: tuple[Strip, Strip] | None = None

    def render_lines(self, crop: Region) -> list[Strip]:
        """The rows of a part of the widget."""
        styles, above = self.styles, self.styles.gutter.top
        # Then each cell's colour depends on what lies below it: Textual's own way.
        if self.opacity != 1 or styles.text_opacity != 1 or styles.tint.a:
            return super().render_lines(crop)
        filters = self.get_line_filters()
        colours = self.background_colors
        appearance = self.region.size, styles.border, colours, self.app.ansi_theme
        if (*appearance, *filters) != self._frame_of or len(self._framed) > _KEPT_ROWS:
            self._frame_of, self._framed, self._border = (*appearance, *filters), {}, None
        inside = range(above, above + self.content_region.height)
        width = self.region.width
        strips = [
            self._framed_row(self.render_line(y - above), y, width, filters, colours[1])
            if y in inside
            else super(KeptRows, self).render_lines(Region(0, y, width, 1))[0]
            for y in crop.line_range
        ]
        first, end = crop.column_span
        if (first, end) == (0, width):
            return strips
        return [strip.crop(first, end) for strip in strips]

    def _framed_row(
        self, content: Strip, y: int, width: int, filters: Sequence[LineFilter], background: Color
    ) -> Strip:
        kept = self._framed.get(id(content))
        # The strip is kept with its id: of one that is gone the id is given to another.
        if kept is not None and kept[0] is content:
            return kept[1]
        if self._border is None:
            framed = super().render_lines(Region(0, y, width, 1))[0]
            begin = self.styles.gutter.left
            end = begin + content.cell_length
            self._border = framed.crop(0, begin), framed.crop(end, framed.cell_length)
        else:
            row, (left, right) = content, self._border
            for line_filter in filters:
                row = row.apply_filter(line_filter, background)
            framed = Strip([*left, *row, *right], width)
        self._framed[id(content)] = content, framed
        return framed


def _hide_notices(screen: Screen[Any]) -> None:
    for notice in screen.query("Toast"):
        notice.visible = False


def _bring_notices_back(screen: Screen[Any]) -> None:
    for notice in screen.query("Toast"):
        notice.visible = True


def _text_at(screen: Screen[Any], x: int, y: int) -> tuple[Widget | None, Offset | None]:
    widget, offset = Screen.get_widget_and_offset_at(screen, x, y)
    return (widget, offset) if widget is not None and widget.parent is not None else (None, None)


def _dismiss(screen: Screen[Any], result: Any = None) -> AwaitComplete:
    # Textual closes the topmost screen, whichever that is by now.
    return Screen.dismiss(screen, result) if screen.is_active else AwaitComplete()


def panel_screen(kind: type[ScreenKind]) -> type[ScreenKind]:
    """Of a class of screens: one below another is painted only while that one is a dialog.

    Its notices are not: the dialog has them, too, elsewhere. Keys and clicks that come all at once
    end nothing, as they do with Textual 8.2: a screen closes once, and itself alone, and the mouse
    takes hold of no text of a widget that went in this moment, such as a notice.
    """
    seen = inspect.getattr_static(Screen, "is_current").fget

    def is_current(screen: Screen[Any]) -> bool:
        app = screen.app
        return bool(seen(screen)) and (app.screen is screen or app.screen.is_modal)

    kind.is_current = property(is_current)  # type: ignore[assignment,method-assign]
    kind.get_widget_and_offset_at = _text_at  # type: ignore[assignment,method-assign]
    kind.dismiss = _dismiss  # type: ignore[assignment,method-assign]
    kind.on_screen_suspend = _hide_notices  # type: ignore[attr-defined]
    kind.on_screen_resume = _bring_notices_back  # type: ignore[attr-defined]
    return kind


@panel_screen
class PaintedOnce(Screen[Result]):
    """A screen of which nothing is painted before `begin_to_paint`.

    Each step of its first layout would else paint all of it.
    """

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._compositor = self._painted = ChangedWidgets()
        self._painted.paints = False

    @property
    def paints(self) -> bool:
        """Whether anything of it is painted yet."""
        return self._painted.paints

    def begin_to_paint(self) -> None:
        """Paint now, and from now on whatever changes."""
        self._painted.paints = True
        self.refresh_bindings()
        self.refresh()
