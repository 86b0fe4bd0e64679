"""Everything a front end shows of a place at one moment, as values that can be sent."""

import msgspec

from runners.cost.meter import Meter
from runners.cost.sessions import Session
from runners.guard.rule import GuardView
from runners.model.gpus import GpuReading, GpuSnapshot
from runners.places.run_row import RunRow
from runners.state.leases import Lease


class PlaceSnapshot(msgspec.Struct, frozen=True):
    """A place at one moment, by its own clock. `runs` by id: those that live and the newest that
    ended; `leases` by the GPU's UUID.
    """

    host: str = ""
    runs: dict[str, RunRow] = {}
    reading: GpuReading | None = None
    leases: dict[str, list[Lease]] = {}
    session: Session | None = None
    meter: Meter = Meter(None, None, None, None, "")
    guard: GuardView | None = None
    drained: str = ""
    problem: str = ""
    hidden: int = 0
    """Older runs that are not in it."""

    @property
    def newest_first(self) -> list[RunRow]:
        """The runs, newest first."""
        return sorted(self.runs.values(), key=lambda row: row.id, reverse=True)

    @property
    def gpus(self) -> tuple[GpuSnapshot, ...]:
        """The GPUs; none before the first reading."""
        return self.reading.gpus if self.reading is not None else ()
