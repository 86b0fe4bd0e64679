"""The runs beside the charts: which ones are drawn, in which colour, and which is on top."""

from collections.abc import Collection, Iterable, Sequence
from itertools import islice
from typing import ClassVar

from rich.text import Text
from textual.binding import BindingType
from textual.message import Message
from textual.theme import Theme

from tui.panel.screen_keys import CURVE_KEYS
from tui.panel.theme.palette import run_colour, run_colours, small_letters
from tui.panel.widgets.metrics.chart_request import RunCurve
from tui.panel.widgets.row_list import RowList
from tui.snapshot.feed import PanelSnapshot
from tui.views.runs.run_view import RunView

LIST_WIDTH = 27
"""Cells, its border included, as screens.tcss has it."""
_MOST_ENDED = 12


class MetricRunList(RowList):
    """A line per run, newest first. Space marks it, `p` pins it."""

    BINDINGS: ClassVar[list[BindingType]] = CURVE_KEYS

    class Changed(Message):
        """Other runs are marked or pinned, or the cursor is on another one."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.marked: list[str] = []
        self.pinned: str | None = None
        self.views: tuple[RunView, ...] = ()
        self.letters: dict[str, str] = {}
        """What stands for each live run and each that is drawn."""
        self._living: dict[str, str] = {}
        self._also: tuple[RunView, ...] = ()

    @property
    def selected(self) -> RunView | None:
        """The run under the cursor."""
        return self.views[self.cursor] if self.views else None

    @property
    def curves(self) -> tuple[RunCurve, ...]:
        """The runs that are drawn, each with its letter and its colour."""
        runs = {view.run.id: view.run for view in self.views}
        letters, theme = self.letters, self.app.current_theme
        return tuple(
            RunCurve(
                runs[run],
                letters.get(run, "?"),
                run_colour(letters.get(run, "A"), theme),
                run == self.pinned,
            )
            for run in self.marked
            if run in runs
        )

    def begin(self, marked: Sequence[RunView]) -> None:
        """The runs that are drawn at first; one that ended long ago stands in no snapshot."""
        self._also = tuple(marked)
        self.marked = [view.run.id for view in marked]
        self.key = self.marked[0] if marked else None

    def show(self, snapshot: PanelSnapshot) -> None:
        """Take in a new snapshot; what is marked stays so."""
        known = {view.run.id for view in snapshot.runs}
        older = [view for view in self._also if view.run.id not in known]
        # What the page was opened with is found without a search among hundreds, as it stood there.
        opened = {view.run.id: place for place, view in enumerate(self._also)}
        self.views = tuple(
            sorted((*snapshot.runs, *older), key=lambda view: opened.get(view.run.id, len(opened)))
        )
        self._living = snapshot.letters
        known.update(view.run.id for view in older)
        self.marked = [run_id for run_id in self.marked if run_id in known]
        self._repaint()

    def _give_letters(self) -> None:
        """Letters for the runs, for as long as this page is open.
        A live run has its own letter; one that ended keeps that while no other has it, else it gets
        a small one.
        """
        taken = set(self._living.values())
        kept = {run: letter for run, letter in self.letters.items() if letter not in taken}
        self.letters = {**kept, **self._living}
        for run_id in self.marked:
            if run_id not in self.letters:
                drawn = [self.letters[run] for run in self.marked if run in self.letters]
                taken = set(self.letters.values())
                self.letters[run_id] = small_letter(taken, drawn, self.app.current_theme)

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
                [run for run in self.marked if run != run_id]
                if run_id in self.marked
                else [*self.marked, run_id]
            )
            self.action_move(1)

    def mark_more(self) -> bool:
        """Draw more runs, step by step.
        First all live ones; when they are drawn, ended ones of the preset under the cursor; when
        those are, only the run under the cursor. False: there is only that one.
        """
        selected = self.selected
        if selected is None:
            return False
        live = [view.run.id for view in self.views if view.run.is_live]
        ended = [
            view.run.id
            for view in self.views
            if not view.run.is_live and view.run.preset == selected.run.preset
        ]
        for more in (live, ended[:_MOST_ENDED]):
            every = [*self.marked, *(run for run in more if run not in self.marked)]
            if every != self.marked:
                self.mark(every)
                return True
        if self.marked == [selected.run.id]:
            return False
        self.mark([selected.run.id])
        return True

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
        self._repaint()

    def _repaint(self) -> None:
        self._give_letters()
        self.set_rows(
            [view.run.id for view in self.views], [self._row(view) for view in self.views]
        )

    def _row(self, view: RunView) -> Text:
        run = view.run
        letter = self.letters.get(run.id, " ")
        sign = "●" if run.id in self.marked else "○"
        if run.id == self.pinned:
            sign = "★"
        colour = run_colour(letter, self.app.current_theme) if run.id in self.marked else "dim"
        row = Text(no_wrap=True)
        row.append(
            f"{sign} {letter:<2}", style=f"{colour} bold" if run.id in self.marked else "dim"
        )
        row.append(f"{run.state.sign} ", style=run.state.style)
        return row.append(run.name or run.id, style="" if run.id in self.marked else "dim")


def small_letter(taken: Collection[str], drawn: Iterable[str], theme: Theme) -> str:
    """The first of a, b … z, a2, b2 … that is free, if there is one in a colour of its own.

    That is a colour which none of those `drawn` has.
    """
    untaken = (letter for letter in small_letters() if letter not in taken)
    free = list(islice(untaken, len(run_colours(theme))))
    seen = {run_colour(letter, theme) for letter in drawn}
    return next((letter for letter in free if run_colour(letter, theme) not in seen), free[0])
