"""One picture of a run with the words above it, decoded and painted in a thread."""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from rich.segment import Segment
from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.geometry import Region, Size
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Static

from runners.host.clock import age
from runners.watch.pictures import RunPicture
from tui.panel.terminal.graphics import Graphics
from tui.panel.terminal.osc import send
from tui.panel.terminal.terminal_app import TerminalApp
from tui.panel.widgets.picture.painting import Painting, paint
from tui.views.format import duration, size
from tui.views.metrics.picture_album import place_text
from tui.views.metrics.picture_file import UnreadablePicture, load_picture

Load = Callable[[str], str]


class PictureCanvas(Widget):
    """Paints one picture's rows, in the middle of the room there is."""

    class Painted(Message):
        """There is another picture, or another reason for none."""

    def __init__(self, way: Graphics, worker: ThreadPoolExecutor, load: Load) -> None:
        super().__init__()
        self._way = way
        self._load = load
        self._worker = worker
        self._painting: Painting | None = None
        self._wanted: tuple[RunPicture | None, str] = None, ""
        self._shown: tuple[RunPicture | None, str, Size] | None = None
        self._notice = ""
        self.pixels: tuple[int, int] | None = None

    async def show(self, picture: RunPicture | None, notice: str) -> None:
        """Show `picture`, or `notice` where there is none; what was asked for last counts."""
        self._wanted = picture, notice
        wanted = (picture, notice, self.size)
        if wanted == self._shown:
            return
        self._shown = wanted
        painting, pixels = None, None
        if picture is not None and self.size.width > 2 and self.size.height > 1:
            try:
                # Asked for here: once the page is closed, the thread finds no app.
                colours = not self.app.no_color
                deep = self.app.console.color_system == "truecolor"
                make = partial(self._make, picture, self.size, colours, deep)
                painting, pixels = await asyncio.get_running_loop().run_in_executor(
                    self._worker, make
                )
            except UnreadablePicture as problem:
                notice = f"{picture.path.rpartition('/')[2]}: {problem}"
        # Another picture was asked for while this one was decoded, or the page was closed.
        if wanted != self._shown or not self.is_attached:
            return
        self._release()
        if painting is not None and painting.first:
            send(self.app, painting.first)
        self._painting, self._notice, self.pixels = painting, notice, pixels
        self.refresh()
        self.post_message(self.Painted())

    def on_resize(self) -> None:
        self.run_worker(self.show(*self._wanted), exclusive=True)

    def _make(
        self, picture: RunPicture, room: Size, colours: bool, deep: bool
    ) -> tuple[Painting, tuple[int, int]]:
        image, pixels = load_picture(self._load(picture.path))
        return paint(image, room.width - 1, room.height, self._way, colours, deep), pixels

    def _release(self) -> None:
        if self._painting is not None and self._painting.last:
            send(self.app, self._painting.last)
        self._painting = None

    def _draw_over(self) -> None:
        """Draw sixels over the blank cells that were just painted; Textual knows no such thing."""
        painting = self._painting
        if painting is None or not painting.sixels or not self.screen.is_current:
            return
        left, top = self._corner(painting)
        x, y = self.region.x + left, self.region.y + top
        assert isinstance(self.app, TerminalApp)
        # With the cursor saved and restored: Textual counts on where it left it.
        self.app.painter.draw_over(
            Region(x, y, painting.width, len(painting.rows)),
            f"\x1b7\x1b[{y + 1};{x + 1}H{painting.sixels}\x1b8",
        )

    def _corner(self, painting: Painting) -> tuple[int, int]:
        """The cell from which the picture goes, in the middle of the room."""
        room = self.size
        return (room.width - painting.width) // 2, (room.height - len(painting.rows)) // 2

    def on_unmount(self) -> None:
        """Free what the terminal keeps of it."""
        self._release()

    def render_line(self, y: int) -> Strip:
        """A row of the picture, or of the words that stand for it."""
        width, painting = self.size.width, self._painting
        style = self.rich_style
        if painting is None:
            text = self._notice.center(width)[:width] if y == self.size.height // 2 else ""
            return Strip([Segment(text.ljust(width), style)], width)
        left, top = self._corner(painting)
        row = painting.rows[y - top] if 0 <= y - top < len(painting.rows) else []
        if painting.sixels and y - top == len(painting.rows) - 1:
            # After the last row: blank cells that are painted later would wipe the sixels out.
            self.call_after_refresh(self._draw_over)
        left = left if row else width
        right = max(0, width - left - painting.width) if row else 0
        cells = [Segment(" " * left, style), *row, Segment(" " * right, style)]
        return Strip([segment for segment in cells if segment.text], width)


class PictureBox(Vertical):
    """A run's picture and what it is: the run, its place, the file."""

    def __init__(self, way: Graphics, worker: ThreadPoolExecutor, load: Load) -> None:
        """`load`, called in the worker, has a picture's file here before it is decoded."""
        super().__init__()
        self._canvas = PictureCanvas(way, worker, load)
        self._header: tuple[Text, RunPicture | None, str] = Text(), None, ""
        # Held, not asked for: it is written to while the page is being closed, too.
        self._caption = Static(classes="picture-words", markup=False)

    def compose(self) -> ComposeResult:
        yield self._caption
        yield self._canvas

    async def show(self, run: Text, picture: RunPicture | None, place: str, notice: str) -> None:
        """Show a run's `picture`, the one at `place` or the last before it; else `notice`."""
        self._header = run, picture, place
        await self._canvas.show(picture, notice)
        self._set_title()

    @on(PictureCanvas.Painted)
    def _set_title(self) -> None:
        run, picture, wanted = self._header
        text = run.copy()
        if picture is not None:
            place = place_text(picture.place)
            stands_in = f" (none at {wanted})" if place != wanted else ""
            text.append(f"  {place}{stands_in}", style="bold")
            text.append("\n" + describe_picture(picture, self._canvas.pixels), style="dim")
        if self._caption.content != text:
            self._caption.update(text)


def describe_picture(picture: RunPicture, pixels: tuple[int, int] | None) -> str:
    """A picture's caption, file, size in pixels and bytes, and age."""
    parts = [picture.caption] if picture.caption else []
    parts.append(picture.path.rpartition("/")[2])
    parts += [f"{pixels[0]} × {pixels[1]}"] if pixels else []
    parts.append(size(picture.bytes))
    parts.append(f"{duration(age(picture.modified, time.time()))} ago")
    return " · ".join(parts)
