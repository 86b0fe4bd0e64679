"""The main screen: meter, GPUs, runs, and the live log of the selected run."""

from pathlib import Path
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.screen import Screen
from textual.widgets import Footer

from runners.model.run import Run
from tui.panel.feed import PanelSnapshot
from tui.panel.widgets.gpu.pane import GpuPane
from tui.panel.widgets.log.area import LogArea
from tui.panel.widgets.log.pane import LogPane
from tui.panel.widgets.meter import MeterBar
from tui.panel.widgets.runs import RunPane
from tui.views.run_view import RunView


class CockpitScreen(Screen[None]):
    """Everything at a glance: is it running, how far, how well, on what, for how much."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("n", "app.launch", "Launch"),
        Binding("a", "app.again", "Again", show=False),
        Binding("s", "app.stop", "Stop"),
        Binding("slash", "search", "Search", key_display="/"),
        Binding("ampersand", "filter", "Filter", key_display="&", show=False),
        Binding("vertical_line", "split", "Two logs", key_display="|", show=False),
        Binding("1", "focus_pane('gpus')", "GPUs", show=False),
        Binding("2", "focus_pane('runs')", "Runs", show=False),
        Binding("3,l", "focus_pane('log')", "Log", show=False),
        Binding("z", "zoom", "Zoom", show=False),
        Binding("m", "metrics", "Metrics", show=False),
        Binding("escape", "back", "Back", show=False),
        Binding("p", "app.postpone", "Postpone", show=False),
        Binding("c", "app.commands", "Commands", show=False),
        Binding("M", "app.mouse", "Mouse", show=False),
        Binding("question_mark", "app.help", "Help", key_display="?"),
        Binding("q", "app.quit", "Quit"),
    ]

    def __init__(self, selected: str | None = None) -> None:
        super().__init__()
        self._wanted = selected
        self._shown: str | None = None
        self._height = 0
        self._problem = ""

    def compose(self) -> ComposeResult:
        """Meter, two panes, log, search line, keys."""
        yield MeterBar(id="meter")
        with Horizontal(id="upper"):
            yield GpuPane(id="gpus")
            yield RunPane(id="runs")
        yield LogArea(id="area")
        yield Footer(show_command_palette=True)

    def on_mount(self) -> None:
        """The run list has the keys first."""
        self.query_one("#runs").border_title = "Runs"
        self.query_one(RunPane).focus()

    def show(self, picture: PanelSnapshot) -> None:
        """Hand a new picture to every pane."""
        self.query_one(MeterBar).show(picture)
        if picture.problem and picture.problem != self._problem:
            self.notify(picture.problem, severity="error", timeout=10, markup=False)
        self._problem = picture.problem
        runs = self.query_one(RunPane)
        height = self._upper_height(picture)
        if height != self._height:
            self._height = height
            self.query_one("#upper").styles.height = height
        self.query_one(GpuPane).show(picture)
        if self._wanted is not None and any(view.run.id == self._wanted for view in picture.runs):
            runs.picture = picture
            runs.select(self._wanted)
            self._wanted = None
        runs.show(picture)

    def select_when_present(self, run_id: str) -> None:
        """Select this run as soon as a picture has it."""
        self._wanted = run_id

    @property
    def selected_run(self) -> Run | None:
        """The run under the cursor."""
        view = self.query_one(RunPane).selected
        return view.run if view else None

    def _upper_height(self, picture: PanelSnapshot) -> int:
        """Rows for GPUs and runs: what they need, and never more than half of the screen."""
        reading = picture.reading
        gpus = max(4, len(reading.gpus) if reading else 0) + (
            1 if reading and reading.problem else 0
        )
        wanted = max(gpus, min(len(picture.runs), 8 if self.size.height < 40 else 14)) + 2
        return max(6, min(wanted, self.size.height // 2))

    @on(RunPane.Selected)
    def _select(self, message: RunPane.Selected) -> None:
        self._show_log(message.view)

    def _show_log(self, view: RunView) -> None:
        run = view.run
        if self._shown != run.id:
            self._shown = run.id
            self.area.show(Path(run.directory) / "output.log", f"{run.name or run.id} · output.log")

    @on(RunPane.Opened)
    def _open(self) -> None:
        self.area.log_pane.focus()

    def action_focus_pane(self, name: str) -> None:
        """Give a pane the keys."""
        self._unzoom()
        self.set_focus(
            self.query_one(f"#{name}")
        )  # at once: the next key may be one for the focused pane

    @property
    def area(self) -> LogArea:
        """The logs."""
        return self.query_one(LogArea)

    def action_zoom(self) -> None:
        """The focused pane on the whole screen, and back."""
        if self.maximized is not None:
            self._unzoom()
        elif isinstance(self.focused, LogPane):
            # With the line to type in, which searching and filtering need there too.
            self.area.show_only(self.focused)
            self.maximize(self.area, container=False)
        elif self.focused is not None:
            self.maximize(self.focused, container=False)

    def _unzoom(self) -> None:
        if self.maximized is not None:
            self.area.show_only(None)
            self.minimize()

    def action_back(self) -> None:
        """Leave what is open: the line to type in, the zoom, then the log."""
        if self.area.asking:
            self.area.close_bar()
        elif self.maximized is not None:
            self._unzoom()
        else:
            self.query_one(RunPane).focus()

    def action_metrics(self) -> None:
        """The curves of the selected run, on a page of their own."""
        from tui.panel.screens.metrics import MetricsScreen

        run = self.selected_run
        self.app.push_screen(MetricsScreen([run.id] if run else [], run.id if run else None))

    def action_search(self) -> None:
        """Open the search line."""
        self.area.ask("search")

    def action_filter(self) -> None:
        """Open the line to type a filter in."""
        self.area.ask("filter")

    async def action_split(self) -> None:
        """Pin the log beside the next one, or close it."""
        self._unzoom()
        await self.area.toggle_split()
