"""All machines on one screen: what their GPUs do, their runs, and the log of the one selected."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, ClassVar

from rich.text import Text
from textual import on
from textual.app import App, ComposeResult
from textual.binding import BindingType
from textual.screen import Screen
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from runners.host.helpers import ROOT
from runners.places.snapshot import PlaceSnapshot
from runners.places.ssh.link import RemoteRequest
from runners.state.layout import StateDirectory
from tui.panel.hotkeys import hotkey
from tui.panel.remote.actions import RunElsewhere
from tui.panel.remote.cockpit_hosts import CockpitHosts
from tui.panel.remote.lines import here_heading, host_heading, machine_time, run_line, totals
from tui.panel.remote.links import LinkedHost
from tui.panel.widgets.key_bar import KeyBar
from tui.panel.widgets.log.area import LogArea
from tui.snapshot.feed import PanelSnapshot
from tui.snapshot.place import place_snapshot
from tui.views.safe import safe_cell

_ENDED_SHOWN = 5
_HERE = ""
_NAMES, _WIDE = 22, 120
"""Cells of a run's name, and how wide a screen is that has twice as many."""
_TOUCHING = frozenset({"stop", "launch"})
_EVERY_S = 1.0
_COMMAND = "import sys; sys.path[0] = {0!r}; from tui.__main__ import main; main()"


class HostsScreen(Screen[None]):
    """Every machine, this one first."""

    DEFAULT_CSS = """
    HostsScreen {
        #totals { height: 1; background: $panel; }
        #machines { height: auto; max-height: 60%; background: $background; border: none; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        hotkey("escape,q,H", "close", "back to this machine", "Back"),
        hotkey("enter", "log", "go to the log of the run"),
        hotkey("s", "stop", "stop the run, there; again: its next step", "Stop"),
        hotkey("n", "launch", "launch on the selected machine", "Launch"),
        hotkey("f", "fetch", "bring its results here, proven by their hashes", "Fetch"),
        hotkey("m", "metrics", "its curves, on the metrics page", "Metrics"),
        hotkey("d", "details", "everything about the run"),
        hotkey("t", "retry", "try again to reach the machine"),
        hotkey("slash", "search", "search in the log", display="/"),
        hotkey("question_mark", "app.help", "all keys", "Help", display="?"),
    ]

    def __init__(
        self,
        state: StateDirectory,
        snapshot: PanelSnapshot | None,
        hosts: CockpitHosts,
        read_only: bool = False,
    ) -> None:
        super().__init__()
        self.state = state
        self.snapshot = snapshot
        self.read_only = read_only
        self._actions = hosts.actions
        self._links = hosts.links
        self.ids: list[str] = []
        self._shown = ""

    def compose(self) -> ComposeResult:
        """What all cost, the machines, the log."""
        yield Static(id="totals", markup=False)
        yield OptionList(id="machines", compact=True)
        yield LogArea(id="area")
        yield KeyBar()

    def on_mount(self) -> None:
        """Show what the links know; the first machine is selected."""
        self._links.refresh()
        self._links.listen(self.refresh_hosts)
        self.set_interval(_EVERY_S, self.refresh_hosts)
        self.refresh_hosts()
        self.query_one(OptionList).focus()

    def on_unmount(self) -> None:
        """The links stay: the cockpit shows what comes over them."""
        self._links.unlisten(self.refresh_hosts)

    def show(self, snapshot: PanelSnapshot) -> None:
        """Take in what this machine does."""
        self.snapshot = snapshot
        self.refresh_hosts()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Read-only: nothing that touches a run."""
        return not (self.read_only and action in _TOUCHING)

    # ---- what is shown

    def refresh_hosts(self) -> None:
        """Paint what is new."""
        if not self.is_mounted or not self.query(OptionList):  # a word came while it closes
            return
        rows = list(self._rows())
        machines = self.query_one(OptionList)
        ids = [row.id or "" for row in rows]
        if ids == self.ids:
            for i, row in enumerate(rows):
                if machines.get_option_at_index(i).prompt != row.prompt:
                    machines.replace_option_prompt_at_index(i, row.prompt)
        else:
            self._replace_rows(machines, rows, ids)
        snapshots = [one.snapshot for one in self._links.hosts.values() if one.snapshot]
        here = [place_snapshot(self.snapshot)] if self.snapshot is not None else []
        self.query_one("#totals", Static).update(
            Text.assemble(
                (" machines", "bold"),
                f"  {len(self._links.hosts)} rented · ",
                totals(here + snapshots),
            )
        )

    def _replace_rows(self, machines: OptionList, rows: list[Option], ids: list[str]) -> None:
        at = machines.highlighted
        selected = self.ids[at] if at is not None and at < len(self.ids) else None
        self.ids = ids
        machines.clear_options()
        machines.add_options(rows)
        if rows:
            machines.highlighted = ids.index(selected) if selected in ids else 0

    def _rows(self) -> list[Option]:
        width = self.size.width
        rows: list[Option] = []
        if self.snapshot is not None:
            here = place_snapshot(self.snapshot)
            rows.append(Option(here_heading(here, width), id=f"{_HERE}/"))
            rows += self._run_rows(_HERE, here, time.time(), False)
        for one in self._links.hosts.values():
            rows.append(Option(host_heading(one, width), id=f"{one.name}/"))
            if one.snapshot is not None:
                now, dim = machine_time(one), not one.is_reached
                rows += self._run_rows(one.name, one.snapshot, now, dim)
        for host in self._links.not_set_up:
            words = f"○ {host.name}  not set up: fresnel-tui host setup {host.name}"
            rows.append(Option(Text(words, style="yellow"), id=f"{host.name}/"))
        if not rows[1:] and not self._links.hosts:
            words = "no rented machine yet: fresnel-tui host add NAME user@address"
            rows.append(Option(Text(words, style="dim"), id="?/"))
        return rows

    def _run_rows(self, host: str, snapshot: PlaceSnapshot, now: float, dim: bool) -> list[Option]:
        runs = snapshot.newest_first
        ended = [run for run in runs if not run.is_live][:_ENDED_SHOWN]
        shown = [run for run in runs if run.is_live] + ended
        names = _NAMES if self.size.width < _WIDE else 2 * _NAMES
        return [Option(run_line(run, now, dim, names), id=f"{host}/{run.id}") for run in shown]

    @property
    def shown_text(self) -> str:
        """What stands in the list, as text."""
        return "\n".join(str(row.prompt) for row in self._rows())

    # ---- what is selected

    @property
    def _selected(self) -> tuple[str, str]:
        """The machine (empty: this one) and the run (empty: none) under the cursor."""
        at = self.query_one(OptionList).highlighted
        found = self.ids[at] if at is not None and at < len(self.ids) else "/"
        host, _, run = found.partition("/")
        return host, run

    @property
    def _host(self) -> LinkedHost | None:
        return self._links.hosts.get(self._selected[0])

    @on(OptionList.OptionHighlighted)
    def _show_log(self) -> None:
        host, run = self._selected
        name = f"{host}/{run}"
        if not run or name == self._shown:
            return
        self._shown = name
        if host == _HERE:
            path: Path = self.state.run(run).output
        else:
            path = self._links.hosts[host].open_log(run)
        area = self.query_one(LogArea)
        area.show(path, f"{host or 'here'} · {run} · output.log")
        for one in self._links.hosts.values():
            one.keep_logs(area.shown_paths)

    @on(OptionList.OptionSelected)
    def _go_to_log(self) -> None:
        self.action_log()

    def action_log(self) -> None:
        """The keys go to the log."""
        if self._selected[1]:
            self.query_one(LogArea).log_pane.focus()

    def action_close(self) -> None:
        """Out of the log, then back."""
        area = self.query_one(LogArea)
        if area.asking:
            area.close_bar()
        elif self.focused is area.log_pane:
            self.query_one(OptionList).focus()
        else:
            self.dismiss()

    def action_search(self) -> None:
        """Search in the log."""
        self.query_one(LogArea).ask("search")

    # ---- what is done there

    def _chosen(self) -> RunElsewhere | None:
        """The run under the cursor on a machine that is not this one; else that is said."""
        host, run = self._host, self._selected[1]
        if host is None or host.snapshot is None or run not in host.snapshot.runs:
            where = "runs of this machine are handled on its own screen (Esc)"
            self.notify("no run is selected" if self._selected[0] else where, timeout=4)
            return None
        return RunElsewhere(host, host.snapshot.runs[run])

    def _act(self, what: str) -> None:
        chosen = self._chosen()
        if chosen is not None:
            self._actions.act(what, [chosen])

    def action_stop(self) -> None:
        """Ask, then stop it there."""
        self._act("stop")

    def action_launch(self) -> None:
        """Choose a preset there, read its plan, launch."""
        host = self._host
        if host is None or not host.is_reached:
            self.notify("select a machine that is reached", timeout=3)
            return

        host.do(["presets", "--json"], lambda done: self._open_launch(host, done))

    def _open_launch(self, host: LinkedHost, done: RemoteRequest) -> None:
        from tui.panel.screens.host_launch import HostLaunchScreen

        try:
            presets = [str(one["name"]) for one in json.loads(done.output)]
        except (ValueError, KeyError, TypeError):
            self._actions.tell(done)
            return

        def answered(words: list[str] | None) -> None:
            if words is not None:
                self._actions.order(host, words)

        self.app.push_screen(HostLaunchScreen(host, presets), answered)

    def action_metrics(self) -> None:
        """Its metrics."""
        self._act("metrics")

    def action_details(self) -> None:
        """Everything about it."""
        self._act("details")

    def action_retry(self) -> None:
        """Reach for it now."""
        if self._host is not None:
            self._host.link.retry_now()

    def action_fetch(self) -> None:
        """Bring its results here."""
        chosen = self._chosen()
        if chosen is not None:
            host, run = chosen
            words = ["fetch", run.id, "--to", "fetched", "--host", host.name]
            self._actions.note(words)
            self.notify(f"fetching {chosen.name} into ./fetched…", markup=False)
            app = self.app  # a thread has no app of its own
            self.run_worker(lambda: self._fetch(words, app), thread=True, group="fetch")

    def _fetch(self, words: list[str], app: App[Any]) -> None:
        argv = [sys.executable, "-c", _COMMAND.format(str(ROOT)), *words]
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
        said = safe_cell(" ".join(done.stderr.split()))
        app.call_later(self._actions.say, said[-300:], bool(done.returncode), 6)
