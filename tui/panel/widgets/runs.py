"""The run pane: a line per run, newest first, with a cursor."""

from typing import ClassVar, NamedTuple

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.message import Message

from runners.model.states import SIGNS, State
from tui.panel.feed import PanelSnapshot
from tui.panel.hotkeys import hotkey
from tui.panel.theme.palette import STATE_STYLES, run_colour
from tui.panel.widgets.row_list import RowList
from tui.views.format import DASH, dollars, duration, indices, metric
from tui.views.health_text import health_remark
from tui.views.run_text import asks_text
from tui.views.run_view import RunView
from tui.views.sparkline import sparkline

_ROOM_FOR_ALERTS = 30


class RunPane(RowList):
    """Runs with state, GPUs, progress, loss, ETA and cost. Announces which one the cursor is on."""

    BINDINGS: ClassVar[list[BindingType]] = [
        hotkey("enter", "open", "go to the log of the run"),
        Binding("a", "screen.again", "Again"),
        Binding("m", "screen.metrics", "Metrics"),
    ]

    class Selected(Message):
        """The cursor moved to another run, or the first run appeared."""

        def __init__(self, view: RunView) -> None:
            super().__init__()
            self.view = view

    class Opened(Message):
        """Enter was pressed on a run."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.picture: PanelSnapshot | None = None

    @property
    def selected(self) -> RunView | None:
        """The run under the cursor."""
        runs = self.picture.runs if self.picture else ()
        return next((view for view in runs if view.run.id == self.key), None)

    def show(self, picture: PanelSnapshot, select: str | None = None) -> None:
        """Take in a new picture; the cursor stays on its run, or goes to the one to `select`."""
        self.picture = picture
        self._lay_out()
        if select is None and picture.runs and self.selected is None:
            select = picture.runs[0].run.id
        if select is not None:
            self.select(select)
        live = sum(view.run.is_live for view in picture.runs)
        subtitle = f"{live} live · {len(picture.runs) + picture.hidden:,} in all"
        if subtitle != self.border_subtitle:
            self.border_subtitle = subtitle

    def select(self, run_id: str) -> None:
        """Put the cursor on a run."""
        if self.put_cursor(run_id):
            self.moved()

    def moved(self) -> None:
        """Say which run it is."""
        if self.selected is not None:
            self.post_message(self.Selected(self.selected))

    def action_open(self) -> None:
        """Go to the log of the run under the cursor."""
        self.post_message(self.Opened())

    def on_resize(self) -> None:
        """Lay the columns out anew."""
        self._lay_out()

    def _lay_out(self) -> None:
        if self.picture is None:
            return
        runs = self.picture.runs
        hint = [] if runs else [Text("no runs yet: press n to launch one", style="dim")]
        self.set_rows([view.run.id for view in runs], [self._row(view) for view in runs], hint)

    def _row(self, view: RunView) -> Text:
        run = view.run
        columns = _Columns.fitting(self.scrollable_content_region.width or self.size.width)
        letter = self.picture.letters.get(run.id, " ") if self.picture else " "
        gpus = indices([gpu.index for gpu in run.plan.gpus]) if run.plan else ""
        gpus = gpus or (DASH if run.state is State.QUEUED else "cpu")
        style, now = STATE_STYLES[run.state], self.picture.time if self.picture else 0.0
        row = Text(no_wrap=True)
        row.append(f"{letter} ", style=f"{run_colour(letter, self.app.current_theme)} bold")
        row.append(
            f"{SIGNS[run.state]} {_cell(_state_word(view, columns, now), columns.state)} ",
            style=style,
        )
        if view.alerts and run.is_live:
            row.append("⚠ ", style="yellow bold").append(
                f"{_cell(run.name or run.id, columns.name - 2)} "
            )
        else:
            row.append(f"{_cell(run.name or run.id, columns.name)} ")
        row.append(f"{_cell(gpus, 5)} ")
        if columns.epoch:
            row.append(f"{_cell(_epoch(view), columns.epoch)} ")
        row.append(f"{_progress(view, columns):>{columns.progress}} ")
        if columns.quality:
            words, look = _words(view, columns, style)
            row.append(f"{_cell(words, columns.quality)} ", style=look)
            if columns.rate:
                row.append(f"{_cell(_rate(view), columns.rate)} ")
            row.append(f"{_cell(_time(view), 10)} ")
        return row.append(f"{dollars(view.money.cost):>7}")


def _words(view: RunView, columns: "_Columns", style: str) -> tuple[str, str]:
    """What matters most, and its style: why it is where it is, an alert where there is room, how
    good it is.
    """
    run = view.run
    if view.asks is not None:
        return asks_text(view), "yellow bold"
    if run.reason and run.state is not State.DONE:
        return run.reason, style
    if remark := health_remark(view.health):
        return f"⚠ {remark}", "yellow"
    if view.alerts and run.is_live and columns.quality >= _ROOM_FOR_ALERTS:
        return f"⚠ {view.alerts[-1].text}", "yellow"
    return _quality(view, columns), ""


class _Columns(NamedTuple):
    """Widths in cells; what does not fit is left away, the name takes what is left."""

    state: int
    name: int
    progress: int
    quality: int
    rate: int = 0
    epoch: int = 0

    @classmethod
    def fitting(cls, width: int) -> "_Columns":
        """The columns of a pane `width` cells wide."""
        state, progress, quality = (
            (16, 13, 30) if width >= 100 else (8, 4, 14 if width >= 62 else 0)
        )
        fixed = 2 + 2 + state + 1 + 1 + 6 + progress + 1 + (quality + 1 + 11 if quality else 0) + 7
        rate, epoch = 13 if width >= 116 else 0, 9 if width >= 126 else 0
        fixed += (rate + 1 if rate else 0) + (epoch + 1 if epoch else 0)
        return cls(state, min(28, max(6, width - fixed)), progress, quality, rate, epoch)


def _cell(text: str, width: int) -> str:
    """`text` in exactly `width` cells, its end cut with an ellipsis."""
    return text.ljust(width) if len(text) <= width else text[: width - 1] + "…"


def _state_word(view: RunView, columns: _Columns, now: float) -> str:
    """The state; while it stops, the rung it stands on and the seconds until the next."""
    stop = view.run.record.stop if view.run.record else None
    if view.run.state is not State.STOPPING or stop is None:
        return str(view.run.state)
    left = int(max(0.0, stop.until - now))
    short = f"{left}s" if left < 100 else f"{left // 60}m"
    wide = f"{stop.rung} {short} {stop.step}/{stop.steps}"
    return wide if len(wide) <= columns.state else f"stop {short}"


def _progress(view: RunView, columns: _Columns) -> str:
    progress = view.progress
    if progress.step is not None and progress.steps and columns.progress > 10:
        words = f"{progress.step:,}/{progress.steps:,}"
        if len(words) <= columns.progress:
            return words
    return DASH if progress.fraction is None else f"{progress.fraction:.0%}"


def _epoch(view: RunView) -> str:
    """`e7/300`, or the stage a run is in."""
    progress = view.progress
    if progress.phase:
        return progress.phase
    if progress.epoch is None:
        return ""
    return f"e{progress.epoch}/{progress.epochs}" if progress.epochs else f"e{progress.epoch}"


def _rate(view: RunView) -> str:
    """What a live run does per second: `41.2 images/s`."""
    progress = view.progress
    if not view.run.is_live or progress.rate is None:
        return ""
    rate = f"{progress.rate:.3g}" if progress.rate < 1000 else f"{progress.rate:,.0f}"
    return f"{rate} {progress.rate_unit}/s"


def _quality(view: RunView, columns: _Columns) -> str:
    loss = view.loss
    if loss is None or view.headline is None:
        return ""
    words = f"{view.headline.replace('_', ' ')} {metric(loss)} "
    words = words if len(words) <= columns.quality else f"{metric(loss)} "
    return words + sparkline(view.trend, max(0, columns.quality - max(12, len(words))))


def _time(view: RunView) -> str:
    if view.run.is_live and view.progress.eta_s is not None:
        return f"ETA {duration(coarse(view.progress.eta_s))}"
    seconds = view.seconds
    return duration(coarse(seconds) if view.run.is_live and seconds is not None else seconds)


def coarse(seconds: float) -> float:
    """`seconds` to the precision in which they are worth a repaint."""
    step = 60 if seconds >= 600 else 10 if seconds >= 60 else 5
    return seconds - seconds % step
