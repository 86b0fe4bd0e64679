"""A run's GPUs (use, VRAM, power, temperature) and cost as series over time."""

from collections.abc import Callable, Sequence

import msgspec

from runners.gpus.usage import interval_file
from runners.host.tail import Follower
from runners.model.gpus import GpuInterval, UsageInterval
from runners.model.run import Run
from runners.state.decoding import decode_lines
from runners.state.layout import RunDirectory
from runners.watch.metrics.series import UNKNOWN, Series

_interval = msgspec.json.Decoder(UsageInterval)
_GIB = 1 << 30
SpentSoFar = Callable[[Run], Sequence[tuple[float, float]]]
"""A run's cost by moments: unix seconds, US dollars."""


class GpuSource:
    """Series over seconds since the run's start: `device0/util` of a device, `devices/…` of all.

    Of a run on several nodes those of others than the first begin with `node1/`.
    """

    def __init__(self, run: Run, spent: SpentSoFar | None = None) -> None:
        self._spent = spent
        self.series: dict[str, Series] = {}
        gpus = run.plan.gpus if run.plan else ()
        directory = RunDirectory.at(run.directory)
        self._followers = {
            f"node{rank}/" if rank else "": Follower(interval_file(directory.of_node(rank)))
            for rank in sorted({0, *(gpu.node for gpu in gpus)})
        }
        self._logical = {gpu.uuid: gpu.logical for gpu in gpus}

    def poll(self, run: Run, limit: int = 8 << 20) -> bool:
        """Read what the sampler has written since; True while there is more."""
        start = run.started or run.created
        polled = {node: follower.poll(limit) for node, follower in self._followers.items()}
        if any(news.restarted for news in polled.values()):
            self.series.clear()
        for node, news in polled.items():
            for interval in decode_lines(news.lines, _interval):
                self._note_all(node, interval, start)
        self._note_cost(run, start)
        return any(news.more for news in polled.values())

    def _note_all(self, node: str, interval: UsageInterval, start: float) -> None:
        """Each GPU by its number inside the run, to compare runs; of several, also all together."""
        if len(interval.gpus) > 1:
            busy = [gpu.utilization for gpu in interval.gpus if gpu.utilization is not None]
            power = [gpu.power_w for gpu in interval.gpus if gpu.power_w is not None]
            memory = [gpu.memory for gpu in interval.gpus if gpu.memory is not None]
            heat = [gpu.temperature_c for gpu in interval.gpus if gpu.temperature_c is not None]
            together = GpuInterval(
                -1,
                "",
                sum(busy) / len(busy) if busy else None,
                max(memory, default=None),
                # A sum with one GPU missing would look like a drop in power.
                sum(power) if len(power) == len(interval.gpus) else None,
                max(heat, default=None),
            )
            self._note(f"{node}devices", together, interval, start)
        for gpu in interval.gpus:
            logical = self._logical.get(gpu.uuid)
            name = f"gpu{gpu.index}" if logical is None else f"device{logical}"
            self._note(node + name, gpu, interval, start)

    def _note(self, device: str, gpu: GpuInterval, interval: UsageInterval, start: float) -> None:
        readings = (
            ("util", "%", gpu.utilization),
            ("vram", "GiB", None if gpu.memory is None else gpu.memory / _GIB),
            ("power", "W", gpu.power_w),
            ("temp", "°C", gpu.temperature_c),
        )
        for name, unit, value in readings:
            if value is not None:
                series = self._named(f"{device}/{name}", unit, interval.simulated)
                series.add(interval.time - start, value, UNKNOWN, interval.time)

    def _note_cost(self, run: Run, start: float) -> None:
        points = [] if self._spent is None or run.started is None else self._spent(run)
        if not points:
            return
        series = self._named("cost", "$", False)
        # Rebuilt each time: shares of the past change when another run is found to have been there.
        series.cut(0)
        began = points[0][0]  # by the boot's own time, which a changed clock does not move
        for moment, dollars in points:
            series.add(moment - began, dollars, UNKNOWN, start + moment - began)

    def _named(self, name: str, unit: str, simulated: bool) -> Series:
        if name not in self.series:
            self.series[name] = Series(name, "gpus" if unit != "$" else "cost", unit, simulated)
        return self.series[name]
