"""The pictures of a run, leafed through by epoch; those of a second run beside them."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal
from textual.screen import Screen
from textual.widgets import Static

from runners.model.run import Run
from runners.watch.pictures import NEWEST, PicturePlace, RunPicture
from tui.panel.hotkeys import HintLine
from tui.panel.screen_keys import PICTURES_KEYS
from tui.panel.screens.dialogs import SCREEN_STYLES
from tui.panel.terminal.graphics import terminal_graphics
from tui.panel.terminal.repainting import panel_screen
from tui.panel.theme.palette import run_colour
from tui.panel.widgets.picture.box import PictureBox
from tui.panel.widgets.picture.picture_source import PictureSource
from tui.snapshot.feed import PanelSnapshot
from tui.views.metrics.picture_album import PictureAlbum, place_text
from tui.views.runs.run_view import RunView

_SEARCH_EVERY_S = 3.0
_MOST_LOOKED_AT = 50


@panel_screen
class PicturesScreen(Screen[None]):
    """One or two runs' pictures; a thread finds, decodes and paints them."""

    CSS_PATH = SCREEN_STYLES
    BINDINGS: ClassVar[list[BindingType]] = PICTURES_KEYS

    def __init__(
        self, snapshot: PanelSnapshot, runs: Sequence[RunView], source: PictureSource
    ) -> None:
        """`runs`: one or two; one that ended long ago is in no snapshot."""
        super().__init__()
        self._snapshot = snapshot
        self._first = tuple(runs[:2])
        self._runs = [view.run.id for view in self._first]
        self._source = source
        self._found: dict[str, list[RunPicture]] = {}
        self._series = ""
        self._place: PicturePlace | None = None
        self._worker = ThreadPoolExecutor(1, "pictures")
        self._changed = asyncio.Event()
        # Held, not asked for: it is written to while the page is being closed, too.
        self._title_line = Static(id="pictures-line", markup=False)

    def compose(self) -> ComposeResult:
        way = terminal_graphics(self.app)
        yield self._title_line
        with Horizontal(id="pictures-body"):
            yield PictureBox(way, self._worker, self._source.load)
            yield PictureBox(way, self._worker, self._source.load)
        yield HintLine(PICTURES_KEYS)

    def on_mount(self) -> None:
        self.run_worker(self._search(), exclusive=True, group="pictures-look")
        self.run_worker(self._draw(), exclusive=True, group="pictures-draw")

    def on_unmount(self) -> None:
        self._worker.shutdown(wait=False, cancel_futures=True)

    def show(self, snapshot: PanelSnapshot) -> None:
        """Take in a new snapshot: runs that ended, or were deleted."""
        self._snapshot = snapshot

    def action_leaf(self, by: int) -> None:
        """Go to an earlier or later place in the run."""
        places = self._album.places(self._series)
        if places:
            at = places.index(self._place) if self._place in places else len(places) - 1
            self._place = places[max(0, min(len(places) - 1, at + by))]
            self._changed.set()

    def action_series(self, by: int) -> None:
        """Go to what else there is to see."""
        names = self._album.series
        if names:
            at = names.index(self._series) if self._series in names else 0
            self._series = names[(at + by) % len(names)]
            self._changed.set()

    def action_beside(self) -> None:
        """Put the next run of the list that has pictures beside the first one."""
        # The thread may wait for a machine, and keys are not to wait with it.
        self.run_worker(self._find_beside(), exclusive=True, group="pictures-beside")

    async def _find_beside(self) -> None:
        views = [view for view in self._snapshot.runs if view.run.id != self._runs[0]]
        ids = [view.run.id for view in views]
        at = ids.index(self._runs[1]) + 1 if self._runs[1:] and self._runs[1] in ids else 0
        loop = asyncio.get_running_loop()
        for view in views[at : at + _MOST_LOOKED_AT]:
            await loop.run_in_executor(self._worker, self._find, view.run)
            if self._found[view.run.id]:
                self._runs = [self._runs[0], view.run.id]
                break
        else:
            self._runs = self._runs[:1]
            self.notify("no other run has pictures", timeout=3)
        self._changed.set()

    @property
    def _views(self) -> list[RunView]:
        known = {view.run.id: view for view in (*self._first, *self._snapshot.runs)}
        return [known[run] for run in self._runs if run in known]

    @property
    def _album(self) -> PictureAlbum:
        return PictureAlbum([self._found.get(run, []) for run in self._runs])

    def _find(self, run: Run) -> None:
        self._found[run.id] = self._source.find(run)

    async def _search(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            before = dict(self._found)
            for view in self._views:
                await loop.run_in_executor(self._worker, self._find, view.run)
            if self._found != before:
                self._changed.set()
            await asyncio.sleep(_SEARCH_EVERY_S)

    async def _draw(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            album = self._album
            if self._series not in album.series:
                self._series = album.series[0] if album.series else ""
            places = album.places(self._series)
            # The newest is followed until somebody leafs.
            place = self._place
            if place not in places:
                place = places[-1] if places else NEWEST
            self._show_line(album, places, place)
            boxes = list(self.query(PictureBox))
            for i, box in enumerate(boxes):
                box.display = i == 0 or i < len(self._runs)
            for i, (box, view) in enumerate(zip(boxes, self._views, strict=False)):
                picture = album.at(i, self._series, place)
                empty = "no picture here" if places else "no pictures yet"
                if picture:
                    empty = ""
                await box.show(self._title_of(view), picture, place_text(place), empty)

    def _show_line(
        self, album: PictureAlbum, places: list[PicturePlace], place: PicturePlace
    ) -> None:
        line = "Pictures"
        if places:
            at, of = album.series.index(self._series) + 1, len(album.series)
            line += f" · {self._series}" + (f" ({at} of {of}, ↑ ↓)" if of > 1 else "")
            line += f" · {place_text(place)} ({places.index(place) + 1} of {len(places)}, ← →)"
        self._title_line.update(Text(f" {line}"))

    def _title_of(self, view: RunView) -> Text:
        letter = self._snapshot.letters.get(view.run.id, "")
        colour = run_colour(letter, self.app.current_theme)
        title = f"{letter} {view.run.name or view.run.id}".strip()
        return Text(title, style=colour, no_wrap=True)
