"""All machines for the cockpit: rows for its table, GPUs for its pane, money for its meter."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Sequence
from decimal import Decimal
from string import ascii_lowercase
from typing import Any

import msgspec
from textual.app import App

from runners.model.gpus import GpuReading, GpuSnapshot, HostSnapshot
from runners.places.ssh.link import LinkState
from runners.places.ssh.node_watch import start_watchers
from runners.places.ssh.snapshot import RemoteGpu, RemoteRun
from runners.state.layout import StateDirectory
from runners.state.leases import Lease
from tui.panel.command_log import CommandLog
from tui.panel.notifications import Notification
from tui.panel.remote.actions import RemoteActions, RunElsewhere
from tui.panel.remote.links import LinkedHost, LinkedHosts
from tui.snapshot.feed import PanelSnapshot
from tui.views.format import dollars
from tui.views.machines.remote_text import link_text
from tui.views.runs.remote_rows import RowsElsewhere
from tui.views.runs.run_row import RunRow

ALL = "*"


class CockpitHosts:
    """What every linked machine shows, put together."""

    def __init__(self, app: App[Any], state: StateDirectory, log: CommandLog) -> None:
        self.links = LinkedHosts(app, state)
        if not getattr(app, "read_only", False):
            start_watchers(state)
        self.actions = RemoteActions(app, state, log, lambda: self.rows().letters)
        self._rows: tuple[object, RowsElsewhere] = (None, RowsElsewhere())
        self._kept: tuple[tuple[RunRow, ...], ...] = ()
        """What the rows were put together from: while it is kept, no other has its identity."""
        self._version = 0
        self._known: dict[str, bool] = {}
        """Each run that was seen, and whether it lived."""
        self._news: list[Notification] = []

    # ---- runs

    def rows(self) -> RowsElsewhere:
        """The runs of all machines; the same object as long as nothing changed."""
        hosts = list(self.links.hosts.values())
        rows = tuple(one.rows for one in hosts)
        key = [
            (one.name, one.is_reached, one.hidden, id(each))
            for one, each in zip(hosts, rows, strict=True)
        ]
        if key != self._rows[0]:
            self._kept = rows
            self._take_news(rows)
            self._rows = key, self._joined(hosts, rows)
        return self._rows[1]

    def _joined(
        self, hosts: Sequence[LinkedHost], rows: Sequence[Sequence[RunRow]]
    ) -> RowsElsewhere:
        every = [row for each in rows for row in each]
        live = tuple(row for row in every if row.is_live)
        ended = tuple(row for row in every if not row.is_live)
        if ended != self._rows[1].ended:
            self._version += 1
        return RowsElsewhere(
            live=live,
            ended=ended,
            version=self._version,
            unreached=frozenset(one.name for one in hosts if not one.is_reached),
            letters=self._letters(live),
            older=sum(one.hidden for one in hosts),
        )

    def load_older(self, text: str) -> None:
        """Load more of the runs that ended long ago: of all machines, or of those that the filter
        `text` names.
        """
        named = [word[5:] for word in text.split() if word.startswith("host:")]
        for one in self.links.hosts.values():
            if one.hidden and (not named or any(word in one.name for word in named)):
                if one.older.problem:
                    words = f"{one.name}: {one.older.problem}; fresnel-tui host setup {one.name}"
                    self.actions.say(words, bad=True, seconds=8)
                one.load_older()

    def _letters(self, live: Sequence[RunRow]) -> dict[str, str]:
        """Each live run's letter for as long as it lives, a small one: A is a run of here."""
        before = self._rows[1].letters
        letters = {row.id: before[row.id] for row in live if row.id in before}
        free = (letter for letter in _letters() if letter not in letters.values())
        for row in sorted(live, key=lambda row: row.created):
            if row.id not in letters:
                letters[row.id] = next(free)
        return letters

    def _take_news(self, rows: Sequence[Sequence[RunRow]]) -> None:
        for row in (row for each in rows for row in each):
            if self._known.get(row.id) and not row.is_live:
                words = f"{row.state} on {row.machine}"
                text = f"{words}: {row.remark}" if row.remark else words
                self._news.append(Notification(str(row.state), row.name, text))
            self._known[row.id] = row.is_live

    def news(self) -> list[Notification]:
        """Runs that ended since this was asked last."""
        news, self._news = self._news, []
        return news

    def act(self, what: str, rows: Sequence[RunRow]) -> None:
        """Do to runs of one machine what a key does."""
        host = self.links.hosts.get(rows[0].machine)
        if host is None or host.snapshot is None:
            return
        wanted = [row.id.rpartition("/")[2] for row in rows]
        if what == "stop_group":
            first = host.run(wanted[0])
            group = first.group if first is not None else ""
            if not group:
                self.actions.say("the selected run is in no group")
                return
            runs = host.snapshot.runs.values()
            wanted = [run.id for run in runs if run.group == group and run.live]
        found = [host.run(run) for run in wanted]
        chosen = [RunElsewhere(host, run) for run in found if run is not None]
        if not host.is_reached:
            self.actions.say(f"{host.name} is {link_text(host.status)}", bad=True, seconds=8)
        elif chosen:
            self.actions.act(what, chosen)

    # ---- GPUs

    def machines(self, where: str) -> dict[str, str]:
        """The machine of each GPU that `where` shows, by UUID; this one's have none."""
        return {
            f"{one.name}/{uuid}": one.name
            for one in self.links.hosts.values()
            if one.snapshot is not None and where in (one.name, ALL)
            for uuid in one.snapshot.gpus
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
        told = host.snapshot
        gpus = [_gpu(host.name, uuid, gpu) for uuid, gpu in (told.gpus if told else {}).items()]
        problem = None if host.is_reached else link_text(host.status)
        if problem is None and told is not None:
            problem = told.gpu_problem
        reading = GpuReading(
            time=time.time(),
            host=host.name,
            backend="link",
            gpus=tuple(gpus),
            cpu=_machine(host),
            problem=problem,
        )
        return msgspec.structs.replace(
            snapshot,
            reading=reading,
            leases=_leases(host),
            letters=self.rows().letters,
        )

    def _every_gpu(self, snapshot: PanelSnapshot) -> PanelSnapshot:
        here = snapshot.reading
        gpus = list(here.gpus) if here else []
        leases = dict(snapshot.leases)
        down = []
        for host in self.links.hosts.values():
            told = host.snapshot.gpus if host.snapshot else {}
            gpus += [_gpu(host.name, uuid, gpu) for uuid, gpu in told.items()]
            leases.update(_leases(host))
            if not host.is_reached:
                down.append(host.name)
        problem = f"{', '.join(down)}: not reached" if down else None
        reading = here or GpuReading(time=time.time(), host=snapshot.host, backend="link")
        reading = msgspec.structs.replace(
            reading, time=time.time(), gpus=tuple(gpus), problem=problem or reading.problem
        )
        letters = {**snapshot.letters, **self.rows().letters}
        return msgspec.structs.replace(snapshot, reading=reading, leases=leases, letters=letters)

    # ---- money

    def money(self) -> tuple[str, str]:
        """What the other machines cost, in full and in brief; who is not reached."""
        hosts = list(self.links.hosts.values())
        if not hosts:
            return "", ""
        rates = [_amount(one, "per_hour") for one in hosts]
        spent = [_amount(one, "spent") for one in hosts]
        rate, total = sum(filter(None, rates), Decimal(0)), sum(filter(None, spent), Decimal(0))
        down = [one.name for one in hosts if one.status.state is LinkState.DOWN]
        words = f"{len(hosts)} host{'s' if len(hosts) > 1 else ''}"
        full = [words] + ([f"{dollars(rate)}/h"] if rate else [])
        full += [f"spent {dollars(total)}"] if total else []
        text = " ".join(full)
        brief = f"+{dollars(rate)}/h" if rate else words
        if down:
            text += f", {', '.join(down)} not reached"
            brief += " ⚠"
        return text, brief


def _letters() -> Iterator[str]:
    """`a` to `z`, then `a2` and so on."""
    for turn in itertools.count(1):
        yield from (f"{letter}{turn if turn > 1 else ''}" for letter in ascii_lowercase)


def _amount(host: LinkedHost, field: str) -> Decimal | None:
    value = getattr(host.snapshot, field) if host.snapshot is not None else None
    return None if value is None else Decimal(value)


def _gpu(machine: str, uuid: str, gpu: RemoteGpu) -> GpuSnapshot:
    amd = "AMD" in gpu.name or "MI" in gpu.name
    kind = "amd" if amd else "nvidia"
    return GpuSnapshot(
        index=gpu.index,
        uuid=f"{machine}/{uuid}",
        name=gpu.name,
        vendor=f"simulated-{kind}" if gpu.simulated else kind,  # type: ignore[arg-type]
        utilization=gpu.utilization,
        memory_used=gpu.memory_used,
        memory_total=gpu.memory_total,
        temperature_c=gpu.temperature_c,
        power_w=gpu.power_w,
        error=gpu.error,
    )


def _leases(host: LinkedHost) -> dict[str, list[Lease]]:
    found: dict[str, list[Lease]] = {}
    if host.snapshot is None:
        return found
    for uuid, gpu in host.snapshot.gpus.items():
        for run in gpu.runs:
            known: RemoteRun | None = host.snapshot.runs.get(run)
            logical = (
                sorted(known.gpus).index(gpu.index) if known and gpu.index in known.gpus else 0
            )
            name = known.preset if known else ""
            key = f"{host.name}/{uuid}"
            found.setdefault(key, []).append(Lease(key, f"{host.name}/{run}", logical, name))
    return found


def _machine(host: LinkedHost) -> HostSnapshot:
    told = host.snapshot
    if told is None:
        return HostSnapshot()
    return HostSnapshot(
        cpu_percent=told.cpu_percent,
        memory_used=told.memory_used,
        memory_total=told.memory_total,
        disk_free=told.disk_free,
    )
