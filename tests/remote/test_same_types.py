"""What comes over a real link is what the machine itself shows of its runs, GPUs and money."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from runners.places.run_row import RunRow
from runners.places.snapshot import PlaceSnapshot
from runners.places.ssh.link import Link
from runners.places.ssh.protocol import LinkMessage
from runners.places.ssh.registry import RemoteRegistry
from runners.places.ssh.snapshot_updates import LAYOUT, SnapshotReader
from runners.places.ssh.ssh import Ssh
from runners.places.ssh.thinning import thin_row, thinned
from runners.state.layout import StateDirectory
from tests.process.conftest import CommandLine
from tests.remote.machines import RentedMachine
from tests.remote.test_older_runs import make_ended
from tests.support import CEILING_S, eventually
from tui.agent.snapshots import place_snapshot
from tui.snapshot.feed import SnapshotFeed

PROGRAM = """\
import json, os, time
with open(os.environ["FRESNEL_RUN_DIR"] + "/events.jsonl", "a") as file:
    for step in range(5):
        values = {"loss": 1 / (step + 1), "acc": 0.123456789 * step}
        event = {"type": "metrics", "step": step, "epoch": 1, "values": values}
        file.write(json.dumps({"time": time.time(), **event}) + "\\n")
print("told", flush=True)
while True: time.sleep(1)
"""
_MOVES = {"seconds", "eta_s", "rate", "cost", "fraction"}
"""What goes on between two moments."""


class Watcher:
    """A subscription to snapshots, as the panel's."""

    is_over = False

    def __init__(self, layout: str = LAYOUT) -> None:
        self.snapshot: PlaceSnapshot | None = None
        self.refusal = ""
        self._layout = layout
        self._reader = SnapshotReader()

    def request(self) -> dict[str, object]:
        """Everything, then what changes."""
        return {"do": "watch", "layout": self._layout}

    def take(self, frame: LinkMessage) -> int:
        """Take in what changed."""
        self.refusal = str(frame.fields.get("hint", ""))
        self.snapshot = self._reader.take(frame.fields) or self.snapshot
        return 0


@contextmanager
def watching(line: CommandLine, watcher: Watcher) -> Iterator[None]:
    """A link to `rented` on which `watcher` listens."""
    registry = RemoteRegistry(line.state)
    link = Link(Ssh(registry, registry.find("rented")))
    link.subscribe(watcher)
    link.start()
    try:
        yield
    finally:
        link.stop()


def test_rows_gpus_and_money_are_those_that_the_machine_shows(
    line: CommandLine, rented: RentedMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = StateDirectory(rented.state).create()
    ended = [make_ended(state, f"n{i}", 900.0 * (3 - i)) for i in range(3)]
    words = ("launch", "--gpus", "1", "--name", "live", "--host", "rented", "--")
    live = line.run(*words, "python3", "-c", PROGRAM).stdout.strip()
    watcher = Watcher()
    with watching(line, watcher):

        def there() -> PlaceSnapshot | None:
            found = watcher.snapshot
            known = found is not None and found.runs.keys() >= {*ended, live}
            return found if known and found.gpus and found.runs[live].metrics else None  # type: ignore[union-attr]

        shown = eventually(there)
        assert shown is not None
    with monkeypatch.context() as itself:
        for name, value in rented.environment.items():
            itself.setenv(name, value)
        feed = SnapshotFeed(StateDirectory(rented.state), read_only=True)
        panel = feed.first_snapshot(CEILING_S)
    assert panel is not None
    here = place_snapshot(panel)
    for run_id in (*ended, live):
        expected, found = thin_row(here.runs[run_id]), shown.runs[run_id]
        for name in set(RunRow.__struct_fields__) - _MOVES:
            assert getattr(found, name) == getattr(expected, name), (run_id, name)
    assert shown.runs[live].step == 4 and shown.runs[live].user
    assert shown.runs[live].metrics["acc"][0] == pytest.approx(0.493827, rel=1e-5)
    thin = thinned(here)
    assert [(gpu.uuid, gpu.name, gpu.vendor, gpu.memory_total, gpu.pci) for gpu in shown.gpus] == [
        (gpu.uuid, gpu.name, gpu.vendor, gpu.memory_total, gpu.pci) for gpu in thin.gpus
    ]
    assert {lease.run for leases in shown.leases.values() for lease in leases} == {live}
    assert shown.session == here.session
    assert (shown.meter.per_hour, shown.meter.basis) == (here.meter.per_hour, here.meter.basis)
    assert shown.runs[live].created <= time.time()


def test_a_machine_of_another_version_says_what_helps(
    line: CommandLine, rented: RentedMachine
) -> None:
    watcher = Watcher(layout="another")
    with watching(line, watcher):
        eventually(lambda: "set it up again" in watcher.refusal)
    assert watcher.snapshot is None
