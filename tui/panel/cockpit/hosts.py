"""All machines for the cockpit: rows for its table, GPUs for its pane, money for its meter."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from decimal import Decimal
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec
from textual.app import App

from runners.model.errors import sentence_of
from runners.model.gpus import UNREAD, GpuReading, GpuSnapshot
from runners.places.fleet.dispatcher import start_dispatcher
from runners.places.place import WatchedPlace
from runners.places.remote import RemoteRows, remote_gpus, remote_leases
from runners.places.run_row import RunRow
from runners.places.snapshot import PlaceSnapshot
from runners.places.ssh.kept_fetches import resume_fetches
from runners.places.ssh.node_groups import groups_stamp, list_groups
from runners.places.ssh.node_watch import start_watchers
from runners.scheduling.allocation import free_gpus, usable_gpus
from runners.state.layout import StateDirectory
from runners.state.leases import Lease
from tui.panel.cockpit.links import LinkedHosts
from tui.panel.notifications import Notification, notify_error
from tui.panel.theme.palette import small_letters
from tui.snapshot.feed import PanelSnapshot
from tui.snapshot.remote_meter import AllBudgetText, RemoteMeter, meter_text, remote_meters
from tui.views.format import dollars
from tui.views.machines.fleet_text import FleetLine, by_free, named_briefly

ALL = "*"
_METERS_HOLD_S = 0.9
_NAMED = 5
"""So many machines are named in the line at the top, each with what it costs."""


class _MachineGpus(NamedTuple):
    """A machine's GPUs and leases by their names here, made of what it showed."""

    of: PlaceSnapshot | None
    offset: float
    gpus: tuple[GpuSnapshot, ...] = ()
    leases: Mapping[str, list[Lease]] = MappingProxyType({})
    free: int = 0


class CockpitHosts:
    """What every linked machine shows, put together."""

    def __init__(self, app: App[Any], state: StateDirectory) -> None:
        self._app = app
        self._state = state
        self.links = LinkedHosts(app, state)
        self.all_budget = AllBudgetText(state)
        self._groups_stamp: object = None
        self._alerts: dict[str, str] = {}
        """Of launches over several machines, by their names."""
        # They end a launch whose other machines failed: a panel that only shows leaves that to
        # others.
        if not getattr(app, "read_only", False):
            for start in (start_watchers, resume_fetches, start_dispatcher):
                try:
                    start(state)
                except OSError as error:
                    app.call_later(notify_error, app, sentence_of(error))
        self._rows: tuple[object, RemoteRows] = (None, RemoteRows())
        self._kept: tuple[tuple[RunRow, ...], ...] = ()
        """What the rows were put together from: while it is kept, no other has its identity."""
        self._version = 0
        self._known: dict[str, bool] = {}
        """Each run that was seen, and whether it lived."""
        self._news: list[Notification] = []
        self._gpus: dict[str, _MachineGpus] = {}
        self._metered: tuple[object, float, Sequence[RemoteMeter]] = (None, 0.0, ())

    # ---- runs

    def rows(self) -> RemoteRows:
        """The runs of all machines; the same object as long as nothing changed."""
        hosts = list(self.links.hosts.values())
        rows = tuple(machine.rows for machine in hosts)
        key = [
            (machine.name, machine.is_reached, machine.hidden, id(each))
            for machine, each in zip(hosts, rows, strict=True)
        ]
        if key != self._rows[0]:
            self._kept = rows
            self._take_news(rows)
            self._rows = key, self._joined(hosts, rows)
        return self._rows[1]

    def _joined(
        self, hosts: Sequence[WatchedPlace], rows: Sequence[Sequence[RunRow]]
    ) -> RemoteRows:
        every = [row for each in rows for row in each]
        live = tuple(row for row in every if row.is_live)
        ended = tuple(row for row in every if not row.is_live)
        # The table arranges thousands of ended rows anew when this number changes.
        if ended != self._rows[1].ended:
            self._version += 1
        return RemoteRows(
            live=live,
            ended=ended,
            version=self._version,
            unreached=frozenset(machine.name for machine in hosts if not machine.is_reached),
            letters=self._letters(live),
            older=sum(machine.hidden for machine in hosts),
        )

    def load_older(self, text: str) -> None:
        """Load more of the runs that ended long ago.
        Of all machines, or of those that the filter `text` names.
        """
        named = [word[5:] for word in text.split() if word.startswith("host:")]
        for machine in self.links.hosts.values():
            if machine.hidden and (not named or any(word in machine.name for word in named)):
                if machine.older_problem:
                    notify_error(self._app, machine.older_problem)
                machine.load_older()

    def _letters(self, live: Sequence[RunRow]) -> dict[str, str]:
        """Each live run's letter for as long as it lives, a small one: A is a run of here."""
        before = self._rows[1].letters
        letters = {row.id: before[row.id] for row in live if row.id in before}
        free = (letter for letter in small_letters() if letter not in letters.values())
        for row in sorted(live, key=lambda row: row.created):
            if row.id not in letters:
                letters[row.id] = next(free)
        return letters

    def _take_news(self, rows: Sequence[Sequence[RunRow]]) -> None:
        for row in (row for each in rows for row in each):
            # Of what was dead when first seen nothing is told: it is no news.
            if self._known.get(row.id) and not row.is_live:
                ending = f"{row.state} on {row.machine}"
                text = f"{ending}: {row.remark}" if row.remark else ending
                group = f"{row.group} on {row.machine}" if row.group else ""
                self._news.append(Notification(str(row.state), row.name, text, group))
            self._known[row.id] = row.is_live

    def news(self) -> list[Notification]:
        """Runs that ended since this was asked last, and nodes that hold up others."""
        news, self._news = self._news, []
        stamp = groups_stamp(self._state)
        if stamp == self._groups_stamp:
            return news
        known, live = self._alerts, [each for each in list_groups(self._state) if not each.ended]
        self._groups_stamp, self._alerts = stamp, {group.name: group.alert for group in live}
        new = (group for group in live if group.alert not in ("", known.get(group.name)))
        return [*news, *(Notification("alert", group.name, group.alert) for group in new)]

    # ---- GPUs

    def machines(self, where: str) -> dict[str, str]:
        """The machine of each GPU that `where` shows, by UUID; this one's have none."""
        return {
            gpu.uuid: name
            for name in self.links.machines
            if where in (name, ALL)
            for gpu in self._gpus_of(name).gpus
        }

    def gpu_snapshot(self, snapshot: PanelSnapshot, where: str) -> PanelSnapshot:
        """`snapshot` with the GPUs of another machine (`*`: of all) in place of this one's."""
        if not where:
            return snapshot
        if where == ALL:
            return self._every_gpu(snapshot)
        host = self.links.hosts.get(where)
        if host is None:
            return snapshot
        found = self._gpus_of(where)
        return msgspec.structs.replace(
            snapshot,
            reading=_reading(host, found.gpus),
            leases=found.leases,
            letters=self.rows().letters,
            remote_names=self._names(),
        )

    def own_snapshot(self, snapshot: PanelSnapshot, machine: str) -> PanelSnapshot:
        """`snapshot` with the GPUs of another machine under the names that it has for them."""
        host = self.links.hosts.get(machine)
        found = host.snapshot if host is not None else None
        if found is None:
            return msgspec.structs.replace(snapshot, reading=None, leases={}, runs=())
        rows = found.runs.values()
        letters = self.rows().letters
        return msgspec.structs.replace(
            snapshot,
            reading=found.reading,
            leases=found.leases,
            runs=(),
            letters={
                row.id: letters[f"{machine}/{row.id}"]
                for row in rows
                if f"{machine}/{row.id}" in letters
            },
            remote_names={row.id: row.name for row in rows if row.is_live},
        )

    def _names(self) -> dict[str, str]:
        return {row.id: row.name for row in self.rows().live}

    def _every_gpu(self, snapshot: PanelSnapshot) -> PanelSnapshot:
        local = snapshot.reading
        gpus = list(local.gpus) if local else []
        leases = dict(snapshot.leases)
        for name in self.links.machines:
            found = self._gpus_of(name)
            gpus += found.gpus
            leases.update(found.leases)
        reading = local or GpuReading(time=time.time(), host=snapshot.host, backend="link")
        letters = {**snapshot.letters, **self.rows().letters}
        return msgspec.structs.replace(
            snapshot,
            reading=msgspec.structs.replace(reading, time=time.time(), gpus=tuple(gpus)),
            leases=leases,
            letters=letters,
            remote_names=self._names(),
        )

    def _gpus_of(self, name: str) -> _MachineGpus:
        """A machine's GPUs under their names here, made anew when it shows something new."""
        host, kept = self.links.hosts[name], self._gpus.get(name)
        shown, offset = host.snapshot, host.clock_offset
        if kept is None or kept.of is not shown or kept.offset != offset:
            kept = _MachineGpus(shown, offset)
            if shown is not None:
                gpus = tuple(remote_gpus(name, shown, offset))
                free = len(free_gpus(shown.gpus, shown.leases))
                kept = _MachineGpus(shown, offset, gpus, remote_leases(name, shown), free)
            self._gpus[name] = kept
        return kept

    def fleet(self, snapshot: PanelSnapshot) -> list[FleetLine]:
        """Every machine in a line, this one too; those with the most free GPUs first."""
        rates = {meter.name: meter.per_hour for meter in self._meters()}
        live = Counter(row.machine for row in self.rows().live)
        free = len(free_gpus(snapshot.gpus, snapshot.leases))
        own = sum(view.run.is_live for view in snapshot.runs)
        total = len(usable_gpus(snapshot.gpus))
        lines = [FleetLine("", free, total, own, snapshot.meter.per_hour)]
        for name, host in self.links.machines.items():
            found = self._gpus_of(name)
            problem = "" if host.is_reached and host.snapshot else host.status_text
            total = len(usable_gpus(found.gpus))
            line = FleetLine(name, found.free, total, live[name], rates.get(name), problem)
            lines.append(line)
        return by_free(lines)

    # ---- money

    def money(self) -> tuple[str, str, str]:
        """What the other machines cost: each by name, all together, and in brief."""
        machines = list(self.links.machines.values())
        meters = self._meters()
        if not (machines or meters):
            return "", "", ""
        rate = sum((meter.per_hour or Decimal(0) for meter in meters), Decimal(0))
        total = sum((meter.spent or Decimal(0) for meter in meters), Decimal(0))
        down = [machine.name for machine in machines if machine.is_down]
        # Rented, counted, and not set up yet.
        waited = [meter.name for meter in meters if meter.name not in self.links.hosts]
        down, count = [*down, *waited], len(machines) + len(waited)
        number = f"{count} host{'s' if count > 1 else ''}"
        about = "at least " if any(meter.is_at_least for meter in meters) else ""
        text = " ".join(
            [number]
            + ([f"{dollars(rate)}/h"] if rate else [])
            + ([f"spent {about}{dollars(total)}"] if total else [])
        )
        brief = f"+{dollars(rate)}/h" if rate else number
        if down:
            text += f", {named_briefly(down)} not reached"
            brief += " ⚠"
        named = " · ".join(map(meter_text, meters)) if len(meters) <= _NAMED else ""
        return named or text, text, brief

    def _meters(self) -> Sequence[RemoteMeter]:
        """What each costs; read again once a second, since files are read for it."""
        now, machines = time.monotonic(), list(self.links.machines.values())
        unwatched = self.links.not_set_up
        key = (*((machine.name, machine.is_down) for machine in machines), *unwatched)
        before, until, meters = self._metered
        if key != before or now >= until:
            meters = remote_meters(self._state, machines, unwatched)
            self._metered = key, now + _METERS_HOLD_S, meters
        return meters


def _reading(host: WatchedPlace, gpus: tuple[GpuSnapshot, ...]) -> GpuReading:
    """The machine's reading, as old as it came."""
    found = host.snapshot.reading if host.snapshot is not None else None
    reading = found or GpuReading(time=host.came, host=host.name, backend=UNREAD)
    problem = reading.problem if host.is_reached else host.status_text
    shown = gpus if found is not None else ()
    return msgspec.structs.replace(reading, time=host.came, gpus=shown, problem=problem)
