"""A GPU's row in the panel, in `gpus` and in its JSON, and the host beside it, say the same."""

import asyncio
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import NamedTuple

import msgspec
import pytest
from hypothesis import given, settings
from rich.text import Text
from textual.app import App

from runners.cost.opening import rate_caveat
from runners.gpus.client import latest
from runners.model.spec import GpuRequest
from runners.places.ssh.thinning import thinned
from runners.scheduling.allocation import Busy, Denied, allocate, obstacle
from tests.pairs.conftest import Worlds
from tests.pairs.runs import DrawnHost, hosts
from tui.agent.snapshots import place_snapshot
from tui.cli.gpus import gpu_json, gpu_row, reading_json
from tui.panel.widgets.gpu.pane import GpuPane
from tui.snapshot.feed import PanelSnapshot, SnapshotFeed
from tui.views.format import memory, percent
from tui.views.machines.gpu_detail_text import launch_facts
from tui.views.machines.gpu_text import host_text

SIZE = (150, 30)


class RecordingPane(GpuPane):
    """A GPU pane that keeps what it was last given to show."""

    texts: tuple[str, ...] = ()
    texts_above: tuple[str, ...] = ()
    titles: tuple[str, ...] = ()

    def set_rows(
        self,
        keys: Sequence[str],
        rows: Sequence[Text],
        above: Sequence[Text] = (),
        header: Text | None = None,
    ) -> None:
        """Keep the texts of the rows and of what stands above them."""
        self.texts = tuple(row.plain for row in rows)
        self.texts_above = tuple(row.plain for row in above)
        super().set_rows(keys, rows, above, header)

    def retitle(self, title: str, subtitle: str) -> None:
        """Keep what stands in the border."""
        self.titles = title, subtitle
        super().retitle(title, subtitle)


class Shown(NamedTuple):
    """What the pane shows: its rows by UUID, what stands above them, and its border's words."""

    rows: dict[str, str]
    above: str
    title: str


class PaneApp(App[None]):
    """A GPU pane alone, over the whole screen, in a thread of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.is_ready, self.may_end = Event(), Event()

    async def live(self) -> None:
        """Run until it may end."""
        async with self.run_test(size=SIZE):
            self.is_ready.set()
            await asyncio.to_thread(self.may_end.wait)

    async def show(self, snapshot: PanelSnapshot) -> Shown:
        """Show a snapshot in a new pane."""
        await self.query(RecordingPane).remove()
        pane = RecordingPane()
        await self.mount(pane)
        while not pane.size:
            await asyncio.sleep(0)
        pane.show(snapshot)
        rows = dict(zip(pane.keys, pane.texts, strict=True))
        return Shown(rows, "\n".join(pane.texts_above), " ".join(pane.titles))


@pytest.fixture(scope="module")
def app() -> Iterator[PaneApp]:
    """One application for all drawn machines: its start takes longer than what is tested."""
    pane_app = PaneApp()
    with ThreadPoolExecutor(1) as thread:
        life = thread.submit(asyncio.run, pane_app.live())
        try:
            assert pane_app.is_ready.wait(60) or life.result(0)
            yield pane_app
        finally:
            pane_app.may_end.set()
            life.result(60)


@settings(max_examples=25, deadline=None)
@given(host=hosts(adoptable=False))
def test_a_gpu_s_row_is_what_the_command_says(
    worlds: Worlds, app: PaneApp, host: DrawnHost
) -> None:
    with worlds(host) as world:
        snapshot = SnapshotFeed(world.state, read_only=True).first_snapshot(30.0)
        assert snapshot is not None
        reading = latest(world.state)
        assert reading is not None and snapshot.reading == reading
        gpus = reading_json(reading, snapshot.leases)["gpus"]
        rows = app.call_from_thread(app.show, snapshot).rows
        assert [gpu["uuid"] for gpu in gpus] == list(rows)
        for gpu, read in zip(gpus, reading.gpus, strict=True):
            row = rows[gpu["uuid"]]
            table = gpu_row(read, reading, snapshot.leases.get(read.uuid, []))
            if gpu["error"]:
                assert gpu["error"] in row and gpu["error"] == table[2]
                continue
            assert f" {percent(gpu['utilization'])} " in row and table[2] in row
            assert f" {memory(gpu['memory_used'])}/{memory(gpu['memory_total'])} " in row
            for holder in gpu["runs"]:
                letter = snapshot.letters[holder["run"]]
                assert f" {letter}:{holder['logical']}" in row
                assert f"{holder['run']} (device {holder['logical']})" in table[6]
            assert row.endswith(" free") == (table[6] == "free")
            instances = sum(other["mig_parent"] == gpu["uuid"] for other in gpus)
            assert (f"{instances} MIG" in row) == (instances > 0)
            assert ("⚠" in row) == (table[6].startswith("not free") and not instances)


@settings(max_examples=25, deadline=None)
@given(host=hosts(adoptable=False))
def test_the_host_is_what_the_command_says(worlds: Worlds, app: PaneApp, host: DrawnHost) -> None:
    with worlds(host) as world:
        snapshot = SnapshotFeed(world.state, read_only=True).first_snapshot(30.0)
        assert snapshot is not None and snapshot.reading is not None
        told = reading_json(snapshot.reading, snapshot.leases)["cpu"]
        assert told == {name: getattr(host.load, name) for name in told}
        linked = thinned(place_snapshot(snapshot)).reading
        assert linked is not None and linked.cpu.cpu_count == told["cpu_count"]
        pane = app.call_from_thread(app.show, snapshot)
        if snapshot.reading.gpus:
            assert pane.title.endswith(host_text(host.load, SIZE[0] - 4) or "")
            return
        cores = "—" if told["cpu_count"] is None else told["cpu_count"]
        assert f"{percent(told['cpu_percent'])} of {cores} cores" in pane.above
        assert f"{memory(told['memory_used'])}/{memory(told['memory_total'])}" in pane.above


@settings(max_examples=25, deadline=None)
@given(host=hosts(adoptable=False))
def test_of_gpus_that_nobody_reads_none_is_free(
    worlds: Worlds, app: PaneApp, host: DrawnHost
) -> None:
    with worlds(host) as world:
        kept = latest(world.state)
        assert kept is not None
        old = msgspec.structs.replace(kept, time=time.time() - 60)
        world.state.gpu_reading.write_bytes(msgspec.json.encode(old))
        snapshot = SnapshotFeed(world.state, read_only=True).first_snapshot(30.0)
        reading = latest(world.state)
        assert snapshot is not None and reading is not None
        rows = app.call_from_thread(app.show, snapshot).rows
        linked = thinned(place_snapshot(snapshot)).reading
        assert linked is not None
        for gpu, there in zip(reading.gpus, linked.gpus, strict=True):
            assert there.unread == gpu.unread
            assert bool(gpu.unread) == (not gpu.simulated)
            if gpu.simulated:
                continue
            leases = snapshot.leases.get(gpu.uuid, [])
            shown = gpu_json(gpu, leases)
            assert shown["unread"] == gpu.unread
            assert not rows[gpu.uuid].endswith(" free")
            assert gpu_row(gpu, reading, leases)[6] != "free"
            assert obstacle(gpu, reading.gpus, leases) is not None
            assert all(text != "free" for _, text in launch_facts(gpu, reading.gpus))
        request = GpuRequest(count=1)
        decision = allocate(request, reading, snapshot.leases)
        unread = any(gpu.unread for gpu in reading.gpus)
        assert not unread or isinstance(decision, Busy | Denied)
        unknown = not reading.gpus and reading.problem
        assert bool(rate_caveat("3", "gpu", reading)) == bool(unread or unknown)
