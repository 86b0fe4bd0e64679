"""What the panel does to runs: use cases called in threads, each noted as the command that does it.

Use cases are imported when first called: the first paint does not wait for them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from textual.app import App

from runners.model.run import Run
from runners.model.spec import RunSpec
from runners.model.states import State
from runners.state.layout import StateDirectory
from tui.panel.background import in_thread
from tui.panel.command_log import CommandLog
from tui.panel.label_commands import LabelCommands
from tui.snapshot.feed import SnapshotFeed
from tui.views.format import duration

if TYPE_CHECKING:
    from runners.diagnosis.remedy.case import Case

_SLOW_S = 1.0  # a launch that takes longer waits for the sampler


class RunCommands:
    """Launch, stop, drain. What became of them is said by `app`."""

    def __init__(self, app: App[Any], state: StateDirectory, feed: SnapshotFeed) -> None:
        self.log = CommandLog()
        self._app = app
        self._state = state
        self.feed = feed
        self.labels = LabelCommands(state, self.log, self._in_thread, self._tell)

    def start(
        self,
        specs: Sequence[RunSpec],
        started: Callable[[str], None],
        judged_by: str | None = None,
    ) -> None:
        """Start runs; `started` is called with the id of the first. Those of a sweep are judged by
        the metric `judged_by` (empty: the loss) where that is not None.
        """
        self._in_thread(lambda: self._start(specs, started, judged_by))

    def _start(
        self, specs: Sequence[RunSpec], started: Callable[[str], None], judged_by: str | None
    ) -> None:
        from runners.lifecycle.control.start import start_together

        checked = any(spec.verify for spec in specs)
        words = "making the preset's checks…" if checked else "waiting for a reading of the GPUs…"
        slow = threading.Timer(_SLOW_S, self._tell, (words,))
        slow.start()
        try:
            runs = start_together(self._state, specs)
        finally:
            slow.cancel()
        if specs[0].parallel is not None:
            self._started_sweep(specs[0].group, runs, judged_by)
        else:
            for run in runs:
                self._tell(_describe_launch(run))
        for note in dict.fromkeys(note for run in runs if run.plan for note in run.plan.notes):
            self._tell(note, timeout=6)
        self._app.call_later(started, runs[0].id)

    def _started_sweep(self, group: str, runs: Sequence[Run], judged_by: str | None) -> None:
        from runners.guard.sweep_watch import watch_for_hopeless

        if judged_by is not None:
            watch_for_hopeless(self._state, group, [run.id for run in runs], judged_by)
        self._tell(f"sweep {group}: {len(runs)} runs; `=` on its line compares them", timeout=6)

    def apply_remedy(self, case: Case, name: str, started: Callable[[str], None]) -> None:
        """Launch an ended run again with a remedy; `started` is called with the new run's id."""
        from runners.diagnosis.remedy.remedies import launch_treated, treat

        self.log.note(["remedy", case.run.id, "--apply", name])

        def launch() -> None:
            run = launch_treated(treat(case, [name]))
            self._tell(_describe_launch(run))
            self._app.call_later(started, run.id)

        self._in_thread(launch)

    def stop(self, run: Run, force: bool = False) -> None:
        """Ask a run to stop; again: its next step; with `force` kill it."""
        from runners.lifecycle.control.stop import request_stop

        self.log.note(["stop", run.id, *(["--force"] if force else [])])
        self._in_thread(lambda: request_stop(self._state, run, force))

    def stop_all(self, runs: Sequence[Run], force: bool = False) -> None:
        """Ask runs to stop, all at once; `force`: SIGKILL now."""
        from runners.lifecycle.control.stop import request_stop

        self.log.note(["stop", *(["--force"] if force else []), *(run.id for run in runs)])
        self._in_thread(lambda: [request_stop(self._state, run, force) for run in runs])

    def drain(self, on: bool) -> None:
        """Let running jobs finish and no new ones start, or let the queue go on."""
        from runners.lifecycle.launch.dispatch import set_drain

        self.log.note(["drain", "on" if on else "off"])
        words = "draining: running jobs finish, no new ones start"

        def drain() -> None:
            set_drain(self._state, on)
            self._tell(words if on else "no longer draining: the queue goes on", timeout=6)

        self._in_thread(drain)

    def _in_thread(self, do: Callable[[], object]) -> None:
        in_thread(self._app, self.feed, do)

    def _tell(self, words: str, timeout: float = 4) -> None:
        self._app.call_later(lambda: self._app.notify(words, timeout=timeout, markup=False))


def _describe_launch(run: Run) -> str:
    if run.state is State.QUEUED:
        return f"{run.name} {run.reason}"
    seconds = run.plan.spec.estimate.seconds if run.plan else None
    return f"launched {run.name}" + (f", about {duration(seconds)}" if seconds else "")
