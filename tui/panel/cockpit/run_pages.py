"""What opens above the cockpit for the chosen runs, on whichever machine they are.

Each screen is imported when it is first opened: the first paint does not wait for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from runners.host.clock import local_time
from runners.host.files import replace
from runners.model.errors import sentence_of
from runners.places.actions import JudgeRuns
from runners.places.place import Place
from runners.places.run_row import RunRow
from runners.watch.metrics.judging import JudgeByMetric
from tui.panel.cockpit.cockpit_parts import CockpitParts
from tui.panel.cockpit.side_chart import SideChart
from tui.panel.notifications import notify_error
from tui.panel.places import PlaceOfRuns
from tui.panel.terminal.osc import copy_text
from tui.panel.widgets.runs import RunPane
from tui.snapshot.questions import Question
from tui.views.runs.run_view import RunView

if TYPE_CHECKING:
    from tui.panel.cockpit.launcher import Launcher
    from tui.views.health.stack_text import SavedStacks

_MOST_CURVES = 32
_NONE = "no run is selected"


class RunPages:
    """Details, metrics, pictures, stacks, comparison, launch form: opened by name."""

    def __init__(self, parts: CockpitParts, places: PlaceOfRuns) -> None:
        self._parts = parts
        self._places = places
        self.chart = SideChart(parts)
        """The selected run's, beside its log."""
        self._pages: dict[str, Callable[[list[RunRow]], None]] = {
            "details": self.details,
            "stacks": self.stacks,
            "copy_command": self.copy_command,
            "metrics": self.metrics,
            "pictures": self.pictures,
            "compare": self.compare,
            "chart": lambda rows: self.chart.toggle(),
            "sort": self.sort,
            "views": self.views,
        }

    def open(self, name: str) -> None:
        """Open a page for the chosen runs."""
        rows = self._pane.chosen
        if not rows and name != "views":
            self._notify(_NONE)
            return
        try:
            self._pages[name](rows)
        except OSError as error:  # where what another machine sends is kept
            notify_error(self._parts.app, sentence_of(error))

    @property
    def names(self) -> frozenset[str]:
        """What can be opened."""
        return frozenset(self._pages)

    @property
    def _pane(self) -> RunPane:
        return self._parts.pane

    def _notify(self, text: str, seconds: float = 4) -> None:
        self._parts.screen.notify(text, timeout=seconds, markup=False)

    # ---- reading about a run

    def details(self, rows: Sequence[RunRow]) -> None:
        """Everything about the run under the cursor."""
        from tui.panel.screens.run_detail import RunDetailScreen
        from tui.views.runs.run_details import RunDetails

        row = self._pane.selected_row or rows[0]
        places = self._places
        read = partial(places.ask, places.of(row), Question.DETAILS, [row.run_id], RunDetails)

        def closed(then: str | None) -> None:
            if then == "log":
                if row.id in self._pane.keys:
                    self._pane.select(row.id)
                self._parts.area.log_pane.focus()

        self._parts.app.push_screen(RunDetailScreen(read), closed)

    def copy_command(self, rows: Sequence[RunRow]) -> None:
        """Hand the selected run's command to the terminal's clipboard."""
        from tui.views.runs.run_text import command_of

        def copy(view: RunView) -> None:
            if view.run.plan is None:
                self._notify("its plan is lost")
            else:
                copy_text(self._parts.app, command_of(view.run.plan))

        self._places.view(self._pane.selected_row or rows[0], copy)

    def stacks(self, rows: Sequence[RunRow]) -> None:
        """Where every rank is, in the place of the output; again: the output."""
        from tui.views.health.stack_text import SavedStacks

        row = self._pane.selected_row or rows[0]
        place, area = self._places.of(row), self._parts.area
        output = place.log_path(row.run_id)
        shown = area.log_pane.reader.document.path
        if shown is not None and shown != output and output.parent in shown.parents:
            area.show(*self._parts.remote.log_of(row))  # followed again, wherever it is
            return
        then = partial(self._show_stacks, row, place)
        self._places.ask(place, Question.STACKS, [row.run_id], SavedStacks, then)

    def _show_stacks(self, row: RunRow, place: Place, stacks: SavedStacks) -> None:
        path, area, selected = Path(stacks.path), self._parts.area, self._pane.selected_row
        if selected is not None and selected.id != row.id:
            return  # whoever asked looks at another run by now
        if place.name:
            try:
                path = place.log_path(row.run_id).with_name("stacks.txt")
                replace(path, stacks.text.encode("utf-8", "replace"), sync=False)
            except OSError as error:
                notify_error(self._parts.app, sentence_of(error))
                return
        moment = stacks.time - place.clock_offset
        at = local_time(moment, "%H:%M:%S")
        area.show(path, f"{row.name} · stacks of {at} · T: the output again")
        area.log_pane.action_go_start()
        if stacks.verdict:
            self._notify(stacks.verdict, 8)

    # ---- the table

    def sort(self, rows: Sequence[RunRow]) -> None:
        """Choose order and columns, of the table's and of the run's own metrics and settings."""
        from tui.panel.screens.dialogs import if_answered
        from tui.panel.screens.table_choice import SortScreen
        from tui.panel.widgets.run_choice import sorted_by, with_column
        from tui.views.runs.run_sort import SETTING, SORTABLE

        lines, row = self._pane.lines, rows[0]
        columns = dict.fromkeys((*lines.sortable, *SORTABLE))
        metrics = [f"{kind}:{name}" for name in sorted(row.metrics) for kind in ("last", "best")]
        settings = [SETTING + name for name in sorted(row.settings)]
        shown, order = lines.choice.columns, lines.choice.sort
        every = dict.fromkeys((*columns, *metrics, *settings, *shown))

        def toggle(column: str) -> bool:
            self._pane.choose(with_column(lines.choice, column))
            is_shown = column in lines.choice.columns
            if is_shown and column not in {cell.column.key for cell in lines.cells}:
                self._notify(f"{column} has no room here: z makes the table wider")
            return is_shown

        judge = lines.choice.metric or row.headline
        screen = SortScreen(tuple(every), order[0] if order else None, shown, toggle, judge)
        sort = if_answered(lambda column: self._pane.choose(sorted_by(lines.choice, column)))
        self._parts.app.push_screen(screen, sort)

    def views(self, rows: Sequence[RunRow]) -> None:
        """Show a saved view of the table, or save the present one."""
        from tui.panel.screens.dialogs import if_answered
        from tui.panel.screens.table_choice import SavedView, ViewsScreen, sort_text

        def present(name: str) -> SavedView:
            choice = self._pane.lines.choice
            sort = sort_text(choice.sort)
            return SavedView(name, choice.query.text, sort, choice.metric, choice.columns)

        def apply(view: SavedView) -> None:
            self._pane.apply_view(view.filter, view.shown(self._pane.lines.choice))

        self._parts.app.push_screen(ViewsScreen(self._parts.state, present), if_answered(apply))

    # ---- several runs

    def metrics(self, rows: Sequence[RunRow]) -> None:
        """The curves of the marked runs, else of the selected one, on a page of their own."""
        machines = {row.machine for row in rows}
        if len(machines) > 1:
            self._notify("the chosen runs are on several machines: choose runs of one")
        elif machines != {""}:
            self._remote_metrics(rows[:_MOST_CURVES])
        else:
            from tui.panel.screens.metrics import MetricsScreen

            parts = self._parts
            views = [view for row in rows[:_MOST_CURVES] if (view := self._parts.view_of(row.id))]
            screen = MetricsScreen(parts.state, parts.snapshot, views, judge=self._judging)
            parts.app.push_screen(screen)

    def _remote_metrics(self, rows: Sequence[RunRow]) -> None:
        """The curves of runs of one machine, beside those of this one."""
        from runners.places.ssh.machine import LinkedHost
        from tui.panel.screens.metrics import MetricsScreen
        from tui.panel.widgets.metrics.curve_source import HostCurves

        parts, hosts = self._parts, self._parts.remote.open()
        host = hosts.links.hosts.get(rows[0].machine)
        if not isinstance(host, LinkedHost):
            notify_error(parts.app, f"curves of {rows[0].machine} cannot be followed")
            return
        found = [host.run(row.run_id) for row in rows]
        source = HostCurves(host, lambda: hosts.rows().letters)
        marked = [source.view(run) for run in found if run is not None]
        screen = MetricsScreen(parts.state, parts.snapshot, marked, source, self._judging)
        parts.app.push_screen(screen)

    @property
    def _judging(self) -> JudgeByMetric | None:
        return None if self._parts.read_only else self._judge

    def _judge(self, runs: Sequence[str], metric: str, upwards: bool | None) -> None:
        """Have runs judged by a metric, each where it lives; ids as this panel knows them."""
        by_machine: dict[str, list[str]] = {}
        for run in runs:
            machine, _, run_id = run.rpartition("/")
            by_machine.setdefault(machine, []).append(run_id)
        for machine, ids in by_machine.items():
            action = JudgeRuns(tuple(ids), metric, upwards)
            self._parts.commands.act(self._places.named(machine), action)

    def compare(self, rows: Sequence[RunRow]) -> None:
        """What differs between the marked runs, or those of the group, and which is best."""
        from tui.panel.screens.compare import CompareScreen
        from tui.views.metrics.pinned_charts import pinned_charts
        from tui.views.runs.run_facts import ComparedRuns

        if len(rows) < 2:
            self._notify("mark two runs or more with Space to compare them")
            return
        screen = CompareScreen(len(rows), pinned_charts(self._parts.state))
        self._parts.app.push_screen(screen)
        places = self._places
        for place, runs in places.grouped(rows):
            places.ask(place, Question.COMPARISON, runs, ComparedRuns, screen.take, screen.fail)

    def pictures(self, rows: Sequence[RunRow]) -> None:
        """The pictures of the selected run, or of two marked ones, on a page of their own."""
        from tui.views.metrics.picture_file import MISSING, has_pillow

        if not has_pillow():
            self._notify(MISSING, 8)
            return
        wanted, views = list(rows[:2]), dict[str, RunView]()

        def come(row: RunRow, view: RunView) -> None:
            views[row.id] = view
            # Each comes from its own machine, in whichever order.
            if len(views) == len(wanted):
                self._open_pictures(wanted, views)

        for row in wanted:
            self._places.view(row, partial(come, row))

    def _open_pictures(self, rows: Sequence[RunRow], views: dict[str, RunView]) -> None:
        from tui.panel.screens.pictures import PicturesScreen
        from tui.panel.widgets.picture.picture_source import PictureSource

        snapshot = self._parts.snapshot
        if snapshot is not None:
            source = PictureSource(self._places)
            shown = [_named_by_row(row, views[row.id]) for row in rows]
            self._parts.app.push_screen(PicturesScreen(snapshot, shown, source))

    # ---- launching

    def launch(self, how: str, row: RunRow | None = None) -> None:
        """Open the launch form.
        It is `new`, or filled in to launch a run `again`, or to `resume` it: the selected one, if
        no other is given.
        """
        row = None if how == "new" else row or self._pane.selected_row
        if row is None and how != "new":
            self._notify(_NONE)
        elif row is None:
            self._launcher.open()
        else:
            self._launcher.open_again(row, resume=how == "resume")

    @property
    def _launcher(self) -> Launcher:
        from tui.panel.cockpit.launcher import Launcher

        return Launcher(self._parts, self._places)


def _named_by_row(row: RunRow, view: RunView) -> RunView:
    """The run under the id of its row, which tells its machine."""
    run = msgspec.structs.replace(view.run, id=row.id)
    return msgspec.structs.replace(view, run=run)
