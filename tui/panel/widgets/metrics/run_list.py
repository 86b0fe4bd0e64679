"""The runs beside the charts: which ones are drawn, in which colour, and which is on top."""

from typing import ClassVar

from rich.text import Text
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from runners.model.states import SIGNS
from tui.panel.feed import PanelSnapshot
from tui.panel.theme.palette import STATE_STYLES, run_colour
from tui.panel.widgets.rows import refresh_rows, strip_of
from tui.views.run_view import RunView


class RunList(ScrollView):
    """A line per run, newest first. Space marks it, `p` pins it."""

    can_focus = True
    COMPONENT_CLASSES: ClassVar[set[str]] = {"list--cursor", "list--blurred"}
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,j", "move(1)", "Down", show=False),
        Binding("up,k", "move(-1)", "Up", show=False),
        Binding("home,g", "move(-100000)", "First", show=False),
        Binding("end,G", "move(100000)", "Last", show=False),
        Binding("space", "mark", "Mark", show=False),
    ]

    class Changed(Message):
        """Other runs are marked or pinned, or the cursor is on another one."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.marked: list[str] = []
        self.pinned: str | None = None
        self.views: tuple[RunView, ...] = ()
        self.letters: dict[str, str] = {}
        self._at: str | None = None
        self._rows: list[Text] = []

    @property
    def cursor(self) -> int:
        """The row under the cursor."""
        return next((i for i, view in enumerate(self.views) if view.run.id == self._at), 0)

    @property
    def selected(self) -> RunView | None:
        """The run under the cursor."""
        return self.views[self.cursor] if self.views else None

    def begin(self, marked: list[str], at: str | None) -> None:
        """The runs that are drawn at first."""
        self.marked, self._at = list(marked), at

    def show(self, picture: PanelSnapshot) -> None:
        """Take in a new picture; what is marked stays so."""
        self.views, self.letters = picture.runs, picture.letters
        known = {view.run.id for view in self.views}
        self.marked = [run_id for run_id in self.marked if run_id in known]
        self._repaint()

    def mark(self, run_ids: list[str]) -> None:
        """Draw exactly these runs."""
        self.marked = run_ids
        self._repaint()
        self.post_message(self.Changed())

    def action_move(self, rows: int) -> None:
        """Move the cursor by `rows`."""
        if self.views:
            at = min(len(self.views) - 1, max(0, self.cursor + rows))
            self._at = self.views[at].run.id
            self.scroll_to_region(Region(0, at, 1, 1), animate=False)
            self.refresh()
            self.post_message(self.Changed())

    def action_mark(self) -> None:
        """Draw the run under the cursor, or no longer; go on to the next."""
        view = self.selected
        if view is not None:
            run_id = view.run.id
            self.mark(
                [one for one in self.marked if one != run_id]
                if run_id in self.marked
                else [*self.marked, run_id]
            )
            self.action_move(1)

    def pin(self) -> None:
        """Draw the run under the cursor on top, or no longer."""
        view = self.selected
        if view is not None:
            self.pinned = None if self.pinned == view.run.id else view.run.id
            if self.pinned and self.pinned not in self.marked:
                self.marked = [*self.marked, self.pinned]
            self._repaint()
            self.post_message(self.Changed())

    def on_click(self, event: events.Click) -> None:
        """Mark the run that was clicked."""
        offset = event.get_content_offset(self)
        row = (offset.y if offset else -1) + round(self.scroll_offset.y)
        if 0 <= row < len(self.views):
            self._at = self.views[row].run.id
            self.action_mark()

    def on_resize(self) -> None:
        """Names take the room there is."""
        self._repaint()

    def render_line(self, y: int) -> Strip:
        """One run's line."""
        row, base = y + round(self.scroll_offset.y), None
        if row == self.cursor and self.views:
            base = self.get_component_rich_style(
                "list--cursor" if self.has_focus else "list--blurred"
            )
        return strip_of(self._rows, row, self.scrollable_content_region.width, self, base)

    def _repaint(self) -> None:
        before, self._rows = self._rows, [self._row(view) for view in self.views]
        refresh_rows(self, before, self._rows)

    def _row(self, view: RunView) -> Text:
        run = view.run
        letter = self.letters.get(run.id, " ")
        sign = "★" if run.id == self.pinned else "●" if run.id in self.marked else "○"
        colour = run_colour(letter) if run.id in self.marked else "dim"
        row = Text(no_wrap=True)
        row.append(f"{sign} {letter} ", style=f"{colour} bold" if run.id in self.marked else "dim")
        row.append(f"{SIGNS[run.state]} ", style=STATE_STYLES[run.state])
        return row.append(run.name or run.id, style="" if run.id in self.marked else "dim")
