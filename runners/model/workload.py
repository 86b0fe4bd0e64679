"""How memory and time of a run follow its batch and its devices, by what is known of another run.

On a device, a step takes as long for fewer samples as for the known number, which leave it idle;
more of them take longer in proportion. So both guides' tables come out: at 8 devices a batch of 8
is no faster than on one, 64 is eight times as fast, and so is 128.
"""

from collections.abc import Sequence
from typing import NamedTuple

from runners.model.scaling import batch_of, usual_batch
from runners.model.spec import RunSpec

_PARTS = ("accumulate", "accumulation_steps", "gradient_accumulation_steps")


class Workload(NamedTuple):
    """On how many devices a run computes, and how many samples each of them holds at once."""

    devices: int
    each: float


def workload_of(spec: RunSpec, devices: int) -> Workload | None:
    """The workload of `spec`; None where its preset says nothing of its batch."""
    batch = batch_of(spec, devices)
    if batch is None or spec.scaling is None:
        return None
    # A batch of all devices is cut into parts; a batch of each is what one part holds.
    parts = max(1, _parts(spec)) if spec.scaling.per == "global" else 1
    return Workload(batch.devices, batch.each / parts)


def usual_workload(spec: RunSpec) -> Workload | None:
    """The workload that the preset's own numbers are for; None where it is not known."""
    batch = usual_batch(spec, spec.usual_devices) if spec.usual_devices else None
    return None if batch is None else Workload(batch.devices, batch.each)


def time_factor(now: Workload, known: Workload) -> float:
    """How many times as long the same samples take as with the known workload."""
    return (known.devices * known.each) / (now.devices * min(now.each, known.each))


def fitted_pace(now: Workload, known: Sequence[tuple[Workload, float]]) -> float | None:
    """Seconds of an epoch, by epochs of other workloads; None where nothing is known.

    With two batches or more, a step is a fixed time and one for each sample, by least squares;
    with one, `time_factor`.
    """
    points = [(1 / work.each, seconds * work.devices) for work, seconds in known]
    if not points:
        return None
    line = _line(points)
    if line is None:
        paces = sorted(seconds * time_factor(now, work) for work, seconds in known)
        return paces[len(paces) // 2]
    fixed, per_sample = line
    return (fixed / now.each + per_sample) / now.devices


def fitted_memory(each: float, known: Sequence[tuple[float, int]], slope: int | None) -> int | None:
    """Bytes on a device that holds `each` samples, by what runs with other numbers took.

    With one number the `slope` (bytes a sample) says the rest; None where nothing does.
    """
    line = _line(known)
    if line is not None:
        return round(line[0] * each + line[1])
    if not known:
        return None
    samples, peak = max(known)
    if samples != each and slope is None:
        return None
    return round(peak + (slope or 0) * (each - samples))


def expected_memory(spec: RunSpec, devices: int) -> int | None:
    """Bytes on each device by what the preset says of its own batch and of a sample."""
    memory, slope = spec.expect.memory, spec.expect.memory_per_sample
    now, usual = workload_of(spec, devices), usual_workload(spec)
    if memory is None or slope is None or now is None or usual is None:
        return memory
    return max(0, round(memory + slope * (now.each - usual.each)))


def _line(points: Sequence[tuple[float, float]]) -> tuple[float, float] | None:
    """Slope and intercept by least squares; None below two places, or where either is negative."""
    mean_x = sum(x for x, _ in points) / max(1, len(points))
    mean_y = sum(y for _, y in points) / max(1, len(points))
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    if len({x for x, _ in points}) < 2 or not spread:
        return None
    slope = sum((x - mean_x) * (y - mean_y) for x, y in points) / spread
    intercept = mean_y - slope * mean_x
    return (slope, intercept) if slope >= 0 and intercept >= 0 else None


def _parts(spec: RunSpec) -> int:
    found = (spec.count_in(part.name) for part in spec.parameters if part.name in _PARTS)
    return next(filter(None, found), 1)
