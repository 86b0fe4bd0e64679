"""What the terminal shows, what it is to show, and the least that makes one of the other.

Whatever was not sent yet can still be replaced: of a screen that changes faster than the line takes
it, only the newest is sent. Facts: VT510's manual (DECSTBM, IND, RI), xterm's ctlseqs (ECH).
"""

from __future__ import annotations

from collections import Counter
from operator import is_, ne

from rich.color import ColorSystem
from rich.style import Style
from textual.geometry import Region, Size
from textual.strip import Strip

from tui.panel.terminal.cells import (
    NO_INK,
    Ink,
    InkRun,
    Inks,
    Row,
    ScreenCell,
    cells_of,
    changed_runs,
    ink_of,
    pieces_of,
    written,
)
from tui.panel.terminal.textual_private import ChopsUpdate, LayoutUpdate
from tui.panel.theme.legible import TEXT, legible

_LEAST_SCROLLED = 3
_PLACE_BYTES = 8
_MOST_STYLES = 4096
_KEPT_STRIPS = 1000
_OVERDRAWN = ScreenCell("\x00", NO_INK)
"""A cell of a picture that was drawn over it: whatever is to stand there is something else."""


class _InksOfStyles(dict[Style | None, Inks]):
    def __init__(self, system: ColorSystem, least: float) -> None:
        super().__init__()
        self.least = least
        self._system = system

    def __missing__(self, style: Style | None) -> Inks:
        if len(self) >= _MOST_STYLES:
            self.clear()  # pictures have thousands
        better = legible(style, self.least) if style else style
        writes = draws = self._ink(better)
        if better is not style:
            draws = self._ink(style)
        inks = self[style] = draws, writes
        return inks

    def _ink(self, style: Style | None) -> Ink:
        return ink_of(Strip.render_ansi(style, self._system) if style else "")


class TerminalScreen:
    """Rows of cells: wanted, being sent, and shown."""

    def __init__(self, system: ColorSystem, erases: bool) -> None:
        """`erases`: erased cells take the background's colour, as xterm's do."""
        self._system = system
        self._inks = _InksOfStyles(system, TEXT)
        self._made: dict[int, tuple[Strip, list[ScreenCell]]] = {}
        self._erases = erases
        self._size = Size(0, 0)
        self._wanted: list[Row] = []
        self._target: list[Row] = []
        """The frame that is being sent: a later one waits for it, lest half of each be seen."""
        self._shown: list[Row] = []
        self._unsent: list[int] = []

    @property
    def least_contrast(self) -> float:
        """What words and numbers have at least between their colour and what is behind them."""
        return self._inks.least

    @least_contrast.setter
    def least_contrast(self, least: float) -> None:
        self._inks = _InksOfStyles(self._system, least)
        self._made.clear()

    @property
    def is_shown(self) -> bool:
        """Whether nothing is left to be sent."""
        self._tidy()
        return not self._unsent and all(map(is_, self._wanted, self._shown))

    @property
    def is_between_frames(self) -> bool:
        """Whether the last frame that was begun is shown."""
        self._tidy()
        return not self._unsent

    def forget(self) -> None:
        """The terminal may show anything: all is to be sent."""
        self._shown = [[None] * self._size.width for _ in self._wanted]
        self._target, self._unsent = [], []

    def overdraw(self, region: Region) -> None:
        """Something was drawn over these cells, which goes when they are written again."""
        for y in region.line_range:
            if y < len(self._wanted):
                row = self._shown[y] = self._wanted[y] = self._wanted[y][:]
                row[region.x : region.right] = [_OVERDRAWN] * len(row[region.x : region.right])

    def take(self, update: ChopsUpdate | LayoutUpdate, size: Size) -> None:
        """Take in what Textual has painted of a screen of `size`."""
        if size != self._size:
            self._size = size
            self._wanted = [[None] * size.width for _ in range(size.height)]
            self.forget()
        if isinstance(update, LayoutUpdate):
            for y, strips in enumerate(update.strips, update.region.y):
                cells = [cell for strip in strips for cell in self._cells(strip)]
                self._put(y, update.region.x, cells, update.region.right)
            return
        for y, first, last in update.spans:
            for end, (start, strip) in zip(
                update.chop_ends[y], update.chops[y].items(), strict=False
            ):
                begin, until = max(start, first), min(end, last)
                if strip is None or begin >= until:
                    continue
                self._put(y, begin, self._part(strip, begin - start, until - start), until)

    def _part(self, strip: Strip, begin: int, until: int) -> list[ScreenCell]:
        """The cells of a strip from one to before another."""
        cells = self._cells(strip)
        if begin == 0 and until >= len(cells):
            return cells
        edges = (cells[at].text for at in (begin, until) if at < len(cells))
        if all(edges):
            return cells[begin:until]
        # Of a wide character one half: Textual puts a blank there.
        return cells_of(strip.crop(begin, until), self._inks)

    def _cells(self, strip: Strip) -> list[ScreenCell]:
        """The cells of a whole strip: rows that move, and those that are alike, are the same."""
        made = self._made.get(id(strip))
        if made is None or made[0] is not strip:
            if len(self._made) >= _KEPT_STRIPS:
                self._made.clear()
            # The strip is kept with its id: of one that is gone the id is given to another.
            made = self._made[id(strip)] = strip, cells_of(strip, self._inks)
        return made[1]

    def _put(self, y: int, x: int, cells: list[ScreenCell], until: int) -> None:
        if not 0 <= y < len(self._wanted):
            return
        end = min(x + len(cells), until, self._size.width)
        if (cells := cells[: max(0, end - x)]) != self._wanted[y][x:end]:
            # Another list: the frame that is being sent keeps its own.
            row = self._wanted[y][:]
            row[x:end] = cells
            self._wanted[y] = row

    def write(self, limit: int, newest: bool) -> str:
        """About `limit` bytes of what is left to be sent, as text; "" when nothing is.

        `newest`: the frame that is being sent is dropped for the newest one.
        """
        text = ""
        self._tidy()
        if newest or not self._unsent:
            self._target = list(self._wanted)
            text = self._scroll()
            self._unsent = [y for y, row in enumerate(self._target) if row is not self._shown[y]]
        pieces: list[InkRun] = []
        size = len(text)
        while self._unsent and size < limit:
            y = self._unsent.pop(0)
            row = self._target[y]
            for run in changed_runs(self._shown[y], row):
                found = pieces_of(y, row, run, self._erases)
                pieces += found
                size += sum(len(piece.text) + _PLACE_BYTES for piece in found)
            self._shown[y] = row
        return text + written(pieces, self._size.width)

    def _tidy(self) -> None:
        # A row that was written again as it stood is no other row.
        self._unsent = [
            y
            for y in self._unsent
            if y < len(self._target) and self._target[y] is not self._shown[y]
        ]

    # ---- scrolling

    def _scroll(self) -> str:
        """Move rows that stand elsewhere already, if that leaves less to send."""
        shown = self._shown
        # Of what is not known nothing can be moved: before the first frame that is all.
        moved = [
            y
            for y, row in enumerate(self._target)
            if row is not shown[y] and shown[y] and shown[y][-1] is not None
        ]
        if len(moved) < _LEAST_SCROLLED:
            return ""
        texts = {y: _inner(self._shown[y]) for y in moved}
        places = {text: y for y, text in texts.items() if text.strip()}
        votes: Counter[int] = Counter()
        news = {y: _inner(self._target[y]) for y in moved}
        for y, text in news.items():
            if (old := places.get(text)) is not None:
                votes[old - y] += 1
        if not votes:
            return ""
        (by, count), *_ = votes.most_common(1)
        rows = [y for y, text in news.items() if texts.get(y + by) == text and text.strip()]
        if by == 0 or count < _LEAST_SCROLLED:
            return ""
        top, bottom = min(*rows, *(y + by for y in rows)), max(*rows, *(y + by for y in rows))
        band = self._shown[top : bottom + 1]
        blank: list[Row] = [[None] * self._size.width for _ in range(abs(by))]
        after = [*band[by:], *blank] if by > 0 else [*blank, *band[:by]]
        wanted = self._target[top : bottom + 1]
        if _differences(after, wanted) >= _differences(band, wanted):
            return ""
        self._shown[top : bottom + 1] = after
        region = f"\x1b[{top + 1};{bottom + 1}r"
        # A line feed at the region's last row moves it up, a reverse index at its first one down:
        # every terminal has both.
        steps = f"\x1b[{bottom + 1}H" + "\n" * by if by > 0 else f"\x1b[{top + 1}H" + "\x1bM" * -by
        return f"{region}{steps}\x1b[r"


def _inner(row: Row) -> str:
    """A row's text without its ends, where a frame and a scroll bar stand."""
    return "".join([cell.text if cell is not None else "\x01" for cell in row[1:-2]])


def _differences(shown: list[Row], wanted: list[Row]) -> int:
    return sum(
        sum(map(ne, before, after))
        for before, after in zip(shown, wanted, strict=True)
        if before is not after
    )
