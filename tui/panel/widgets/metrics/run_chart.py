"""A small chart of one metric of one run, which stands beside its log."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from textual import on

from runners.state.layout import StateDirectory
from runners.state.runs import read_run
from tui.panel.widgets.metrics.chart_model import ChartModel, ChartPage
from tui.panel.widgets.metrics.chart_request import ChartOptions, ChartRequest, RunCurve
from tui.panel.widgets.metrics.grid import ChartGrid

_SETTLES_S = 0.15
"""Who passes over twenty runs looks at the last."""
_AGAIN_S = 5.0
"""A live run's curve is drawn anew so often: beside a log nobody reads single steps off it."""


class ChartedRun(NamedTuple):
    """The run of this machine that is drawn, and by which metric."""

    run_id: str
    metric: str
    letter: str
    colour: str


class RunChart(ChartGrid, can_focus=False, inherit_bindings=False):
    """Draws what it is given; a thread reads the curve."""

    DEFAULT_CSS = """
    RunChart { width: 50; height: 1fr; border: round $foreground 35%; }
    """

    def __init__(self, state: StateDirectory) -> None:
        super().__init__()
        self._state = state
        self._model = ChartModel()
        # One thread: it owns the series, so that nothing is locked.
        self._thread = ThreadPoolExecutor(1, "run-chart")
        self._charted: ChartedRun | None = None
        self._changed = asyncio.Event()
        self._drawn_at = 0.0

    def on_mount(self) -> None:
        """Draw what is asked for from now on."""
        self.run_worker(self._draw_on(), group="run-chart")

    def on_unmount(self) -> None:
        """Let the thread go."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def chart(self, charted: ChartedRun, is_live: bool) -> None:
        """Draw this from now on; what lives, again and again."""
        is_old = is_live and asyncio.get_running_loop().time() > self._drawn_at + _AGAIN_S
        if charted != self._charted or is_old:
            self._charted = charted
            self._changed.set()

    @on(ChartGrid.Resized)
    def _resized(self, message: ChartGrid.Resized) -> None:
        message.stop()
        self._changed.set()

    async def _draw_on(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._changed.wait()
            await asyncio.sleep(_SETTLES_S)
            # Not before the pause: runs that were passed over in it would each be drawn.
            self._changed.clear()
            charted, size = self._charted, self.size
            if charted is None or size.width < 8 or size.height < 3:
                continue
            page = await loop.run_in_executor(self._thread, self._draw, charted, *size)
            self._drawn_at = loop.time()
            # Else another run is looked at by now: this chart would be seen beside its log.
            if not self._changed.is_set():
                self.show(page, "no values")

    def _draw(self, charted: ChartedRun, width: int, height: int) -> ChartPage:
        run = read_run(self._state, charted.run_id)
        marks = (RunCurve(run, charted.letter, charted.colour),)
        while self._model.read(marks) and not self._changed.is_set():
            pass  # in pieces: somebody may look at another run meanwhile
        request = ChartRequest(marks, width, height, ChartOptions(), alone=True, focused=False)
        return self._model.draw(request._replace(follow=charted.metric))
