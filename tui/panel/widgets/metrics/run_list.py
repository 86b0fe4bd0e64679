"""The runs beside the charts: which ones are drawn, in which colour, and which is on top."""

from string import ascii_lowercase
from typing import ClassVar

from rich.text import Text
from textual.binding import BindingType
from textual.message import Message

from runners.model.states import SIGNS
from tui.panel.feed import PanelSnapshot
from tui.panel.hotkeys import hotkey
from tui.panel.theme.palette import STATE_STYLES, run_colour
from tui.panel.widgets.row_list import RowList
from tui.views.run_view import RunView


class MetricRunList(RowList):
    """A line per run, newest first. Space marks it, `p` pins it."""

    BINDINGS: ClassVar[list[BindingType]] = [hotkey("space", "mark", "draw the run, or no longer")]

    class Changed(Message):
        """Other runs are marked or pinned, or the cursor is on another one."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.marked: list[str] = []
        self.pinned: str | None = None
        self.views: tuple[RunView, ...] = ()
        self.letters: dict[str, str] = {}

    @property
    def selected(self) -> RunView | None:
        """The run under the cursor."""
        return self.views[self.cursor] if self.views else None

    def begin(self, marked: list[str], at: str | None) -> None:
        """The runs that are drawn at first."""
        self.marked, self.key = list(marked), at

    def show(self, picture: PanelSnapshot) -> None:
        """Take in a new picture; what is marked stays so."""
        self.views = picture.runs
        taken = set(picture.letters.values())
        own = {run: letter for run, letter in self.letters.items() if letter not in taken}
        self.letters = own | picture.letters
        known = {view.run.id for view in self.views}
        self.marked = [run_id for run_id in self.marked if run_id in known]
        self._repaint()

    def mark(self, run_ids: list[str]) -> None:
        """Draw exactly these runs."""
        self.marked = run_ids
        self._repaint()
        self.post_message(self.Changed())

    def moved(self) -> None:
        """Say so: the details are those of the run under the cursor."""
        self.post_message(self.Changed())

    def clicked(self) -> None:
        """Mark the run."""
        self.action_mark()

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

    def on_resize(self) -> None:
        """Names take the room there is."""
        self._repaint()

    def _repaint(self) -> None:
        self._deal_letters()
        self.set_rows(
            [view.run.id for view in self.views], [self._row(view) for view in self.views]
        )

    def _deal_letters(self) -> None:
        """A small letter for each marked run that has ended: the great ones are those of live
        runs.
        """
        for run in self.marked:
            if run not in self.letters:
                free = (one for one in ascii_lowercase if one not in self.letters.values())
                self.letters[run] = next(free, "?")

    def _row(self, view: RunView) -> Text:
        run = view.run
        letter = self.letters.get(run.id, " ")
        sign = "★" if run.id == self.pinned else "●" if run.id in self.marked else "○"
        colour = run_colour(letter, self.app.current_theme) if run.id in self.marked else "dim"
        row = Text(no_wrap=True)
        row.append(f"{sign} {letter} ", style=f"{colour} bold" if run.id in self.marked else "dim")
        row.append(f"{SIGNS[run.state]} ", style=STATE_STYLES[run.state])
        return row.append(run.name or run.id, style="" if run.id in self.marked else "dim")
