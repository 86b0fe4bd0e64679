"""What the cockpit shows of other machines. Nothing, and at no cost, until there is one."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from textual.screen import Screen

from runners.model.errors import sentence_of
from runners.places.place import Place
from runners.places.run_row import RunRow
from runners.places.table import any_place
from runners.state.layout import StateDirectory
from tui.panel.notifications import notify_error, show_notification, summed_up
from tui.panel.widgets.gpu.pane import GpuPane
from tui.panel.widgets.log.area import LogArea
from tui.panel.widgets.meter import MeterBar
from tui.panel.widgets.runs import RunPane
from tui.snapshot.feed import PanelSnapshot

if TYPE_CHECKING:
    from tui.panel.cockpit.hosts import CockpitHosts

_FIRST_READING = 3
"""The snapshots before it belong to the first paint."""
_LOG_AFTER_S = 0.15
_FEW = 3
"""So many machines are shown one by one before all of them."""


class RemoteSide:
    """The cockpit's runs, GPUs, logs and money of other machines, and what keys do there."""

    def __init__(self, screen: Screen[None], state: StateDirectory) -> None:
        self._screen = screen
        self._state = state
        self._snapshot: PanelSnapshot | None = None
        self.hosts: CockpitHosts | None = None
        self._is_loading = False
        self._snapshots = 0
        self.where = ""
        """Whose GPUs are shown: empty for this machine, `*` for all."""
        self._wanted_log = ""

    # ---- beginning

    def show(self, snapshot: PanelSnapshot) -> PanelSnapshot:
        """Take in a snapshot of this machine; what the GPU pane is to show."""
        self._snapshots += 1
        self._snapshot = snapshot
        if self.hosts is not None:
            self.hosts.links.refresh()
            self._take_rows()
            self._paint()
            return self._gpus(snapshot)
        # In a thread: the modules of links take longer to load than the first screen to paint.
        if not self._is_loading and self.has_looked and any_place(self._state):
            self._is_loading = True
            self._screen.run_worker(self._load, thread=True, group="hosts")
        return snapshot

    @property
    def has_looked(self) -> bool:
        """Whether it was seen if there are other machines."""
        return self._snapshots >= _FIRST_READING

    def _load(self) -> None:
        """In a thread: the modules that links need, and the links."""
        module = import_module("tui.panel.cockpit.hosts")
        app = self._screen.app
        hosts = module.CockpitHosts(app, self._state)
        app.call_later(self._begin, hosts)

    def _begin(self, hosts: CockpitHosts) -> None:
        if self.hosts is None:
            self.hosts = hosts
            hosts.links.changed = self._changed
            self._changed()
        else:
            # A key was quicker than the thread: two sets of links would follow everything twice.
            hosts.links.stop()

    def open(self) -> CockpitHosts:
        """The hosts, loaded at once: somebody asked for them."""
        if self.hosts is None:
            from tui.panel.cockpit.hosts import CockpitHosts

            self._begin(CockpitHosts(self._screen.app, self._state))
        assert self.hosts is not None
        return self.hosts

    def stop(self) -> None:
        """End the links."""
        if self.hosts is not None:
            self.hosts.links.stop()

    # ---- showing

    def _changed(self) -> None:
        snapshot = self._snapshot
        # A link's word may come while the panel closes: then panes are gone before the screen.
        panes = self._screen.query("MeterBar, RunPane, GpuPane")
        if snapshot is not None and self.hosts is not None and len(panes) == 3:
            if self._take_rows():
                self._screen.query_one(RunPane).remote_changed()
            self._paint()
            if self.where:
                self._screen.query_one(GpuPane).show(self._gpus(snapshot))

    def _take_rows(self) -> bool:
        """Give the run table what other machines run; whether it is something new."""
        lines = self._screen.query_one(RunPane).lines
        assert self.hosts is not None
        before, lines.remote = lines.remote, self.hosts.rows()
        # By identity: `rows` gives the same object as long as nothing changed.
        return before is not lines.remote

    def _paint(self) -> None:
        assert self.hosts is not None
        meter = self._screen.query_one(MeterBar)
        meter.remote = self.hosts.money()
        meter.live_remote = [row.state for row in self.hosts.rows().live]
        meter.all_budget = self.hosts.all_budget.read()
        # Money of other machines comes between two snapshots of this one, too.
        if meter.snapshot is not None:
            meter.show(meter.snapshot)
        settings = getattr(self._screen.app, "settings", None)
        wanted = None if settings is None else settings.notices.on
        news = (notice for notice in self.hosts.news() if wanted is None or notice.kind in wanted)
        for notice in summed_up(news):
            show_notification(self._screen.app, notice)

    def _gpus(self, snapshot: PanelSnapshot) -> PanelSnapshot:
        assert self.hosts is not None
        hosts = self.hosts.links.hosts
        if self.where not in hosts and (self.where != "*" or not hosts):
            self.where = ""  # it was removed: what is shown is this machine again
        pane = self._screen.query_one(GpuPane)
        pane.where = "all machines" if self.where == "*" else self.where
        pane.machines = self.hosts.machines(self.where)
        pane.fleet = self.hosts.fleet(snapshot) if self.where == "*" else ()
        return self.hosts.gpu_snapshot(snapshot, self.where)

    @property
    def count(self) -> int:
        """Rows of runs of other machines."""
        rows = self._screen.query_one(RunPane).lines.remote
        return len(rows.live) + len(rows.ended)

    def next_machine(self) -> None:
        """The GPUs of the next machine: this one, each of the others, all together."""
        screen, snapshot = self._screen, self._snapshot
        if snapshot is None:
            return
        if self.hosts is None or not self.hosts.links.machines:
            known = any_place(self._state)
            hint = "no rented machine yet: H adds one"
            screen.notify("connecting…" if known else hint, timeout=4, markup=False)
            return
        names = list(self.hosts.links.machines)
        # All in one look where stepping through them would take long.
        places = ["", "*", *names] if len(names) > _FEW else ["", *names, "*"]
        at = places.index(self.where) if self.where in places else 0
        self.where = places[(at + 1) % len(places)]
        screen.query_one(GpuPane).show(self._gpus(snapshot))

    # ---- logs

    def log_of(self, row: RunRow) -> tuple[Path | None, str]:
        """The file that has a run's output, and the log's title.
        The file of another machine is followed from now on.
        """
        machine, _, run = row.id.rpartition("/")
        self._wanted_log = row.id
        place = self.place(machine)
        if self.hosts is not None:
            # Not at once: who passes over twenty runs looks at the last.
            self._screen.set_timer(_LOG_AFTER_S, self.follow)
        if place is None:
            return self._state.run(run).output, f"{row.name} · output.log"
        try:
            return place.log_path(run), f"{row.name} · {machine} · output.log"
        except OSError as error:  # no room here for what is there
            return None, f"{row.name} · {machine} · {sentence_of(error)}"

    def follow(self) -> None:
        """Follow the log that is selected, and those that are shown besides; no others. Another
        screen above this one follows its own.
        """
        if self.hosts is None or self._screen.app.screen is not self._screen:
            return
        try:
            self._follow(self.hosts)
        except OSError as error:
            notify_error(self._screen.app, sentence_of(error))

    def _follow(self, hosts: CockpitHosts) -> None:
        machine, _, run = self._wanted_log.rpartition("/")
        shown = self._screen.query_one(LogArea).shown_paths
        for host in hosts.links.hosts.values():
            host.place.keep_logs(shown)
        place = self.place(machine)
        if place is not None and place.log_path(run) in shown:
            place.follow(run)

    # ---- keys

    def load_older(self) -> None:
        """Load more runs that ended long ago on the machines that the filter leaves."""
        if self.hosts is not None:
            self.hosts.load_older(self._screen.query_one(RunPane).lines.choice.query.text)

    def chosen(self, row: RunRow | None) -> str:
        """The machine whose GPUs are shown, else that of the selected run; empty for this one."""
        if self.hosts is not None and self.where in self.hosts.links.hosts:
            return self.where
        return row.machine if row is not None else ""

    def place(self, machine: str) -> Place | None:
        """The machine of this name, to do something there; None for one that is not linked."""
        host = self.hosts.links.hosts.get(machine) if self.hosts is not None else None
        return None if host is None else host.place
