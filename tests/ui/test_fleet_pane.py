"""Twenty machines of eight GPUs in the GPU pane: a line each, unfolded where somebody asks."""

from collections.abc import Callable, Sequence

import msgspec
import pytest

from runners.model.gpus import GpuReading, GpuSnapshot
from runners.places.snapshot import PlaceSnapshot
from runners.places.table import KINDS, KindRow
from runners.state.layout import StateDirectory
from runners.state.leases import Lease
from tests.ui.fake_place import FakePlace
from tests.ui.waiting import until
from tui.panel.app import PanelApp
from tui.panel.widgets.gpu.pane import GpuPane
from tui.panel.widgets.meter import MeterBar

MACHINES, GPUS = 20, 8
DOWN = ("box-13", "box-14", "box-15", "box-16", "box-17", "box-18")


class Box(FakePlace):
    """A machine of which `held` GPUs are in use; some are not reached."""

    def __init__(self, number: int, state: StateDirectory, changed: Callable[[], None]) -> None:
        super().__init__(state.root, changed)
        self.name = f"box-{number:02}"
        gpus = tuple(GpuSnapshot(i, f"GPU-{i}", "H100", "nvidia") for i in range(GPUS))
        leases = {f"GPU-{i}": [Lease(f"GPU-{i}", "a-run", 0, "p", 0.0)] for i in range(number % 9)}
        reading = GpuReading(0.0, self.name, "nvml", gpus)
        self.snapshot = PlaceSnapshot(host=self.name, reading=reading, leases=leases)
        self.rows = ()
        if self.name in DOWN:
            self.is_reached, self.is_down = False, True
            self.status_text = "not reached since 12:04"


class Boxes:
    """Twenty of them."""

    not_set_up: Sequence[str] = ()

    def __init__(self, state: StateDirectory, changed: Callable[[], None]) -> None:
        found = [Box(number, state, changed) for number in range(MACHINES)]
        self.places = {box.name: box for box in found}

    def refresh(self) -> None:
        pass

    def stop(self) -> None:
        pass


@pytest.mark.parametrize("size", [(80, 24), (200, 60)])
async def test_machines_are_folded_sorted_by_free_gpus_and_unfolded_by_keys(
    monkeypatch: pytest.MonkeyPatch, size: tuple[int, int]
) -> None:
    monkeypatch.setitem(KINDS, "boxes", KindRow("tests.ui.test_fleet_pane:Boxes", lambda _: True))
    app = PanelApp(StateDirectory().create())
    async with app.run_test(size=size) as pilot:
        pane = app.cockpit.query_one(GpuPane)
        await until(pilot, lambda: app.cockpit.remote.hosts is not None)
        await pilot.press("h", "1")
        await until(pilot, lambda: len(pane.keys) == MACHINES + 1)
        machines = [key.removeprefix("machine:") for key in pane.keys]
        # The number of a box, modulo nine, is that of its GPUs in use.
        assert machines[:3] == ["box-00", "box-09", "box-01"]
        assert set(machines[-len(DOWN) :]) == set(DOWN)
        await pilot.press("enter")
        assert len(pane.keys) == MACHINES + 1 + GPUS
        await pilot.press("down", "left")
        assert len(pane.keys) == MACHINES + 1
        assert pane.key == "machine:box-00"
        await pilot.press("right", "down", "s")
        assert app.screen is app.cockpit, "nobody holds this GPU"


async def test_the_line_at_the_top_names_no_more_machines_than_fit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(KINDS, "boxes", KindRow("tests.ui.test_fleet_pane:Boxes", lambda _: True))
    app = PanelApp(StateDirectory().create())
    async with app.run_test(size=(80, 24)) as pilot:
        meter = app.cockpit.query_one(MeterBar)
        await until(pilot, lambda: bool(meter.remote[1]))
        together = meter.remote[1]
        assert DOWN[0] in together
        assert DOWN[-1] not in together
        assert together in meter.render().plain


def test_a_reading_counts_only_what_a_launch_could_be_given() -> None:
    from runners.scheduling.allocation import free_gpus

    gpus = [GpuSnapshot(i, f"GPU-{i}", "H100", "nvidia") for i in range(3)]
    gpus[1] = msgspec.structs.replace(gpus[1], error="lost")
    held = {"GPU-2": [Lease("GPU-2", "a-run", 0, "p", 0.0)]}
    assert [gpu.uuid for gpu in free_gpus(gpus, held)] == ["GPU-0"]
