"""What is seen of a live run at one moment, as numbers: all that a judgement rests on."""

import msgspec

from runners.model.health import RankSign
from runners.state.deadline import Deadline


class GpuSign(msgspec.Struct, frozen=True):
    """One GPU of the run: mean percent and watts of the last minute, and of the run before it."""

    index: int
    utilization: float | None = None
    power_w: float | None = None
    usual_utilization: float | None = None
    usual_power_w: float | None = None


class BaselineSign(msgspec.Struct, frozen=True):
    """A held-out metric and its plain baseline: how often worse in a row, how often measured."""

    name: str
    value: float
    plain: float
    below: int
    measured: int


class Outlook(msgspec.Struct, frozen=True):
    """When a limit ends a run, how long it would take, and the part of it that is done."""

    deadline: Deadline
    eta_s: float | None
    fraction: float | None


class RunSigns(msgspec.Struct, frozen=True):
    """A live run at `now` (unix seconds, as every time here); None is what is not known.

    `gap_s` is the longest silence that the run has broken by itself since its first step. Paces
    are seconds per step. `loader_percent` is the mean of the loaders in percent of one core;
    `data_wait_share` the part of its time that the program itself says it waits for data.
    """

    now: float
    started: float
    output_at: float | None = None
    event_at: float | None = None
    saved_at: float | None = None
    stepped: bool = False
    gap_s: float | None = None
    pace_s: float | None = None
    usual_pace_s: float | None = None
    counted: str = "step"
    shortfalls: tuple[str, ...] = ()
    outlook: Outlook | None = None
    eta_s: float | None = None
    losses_not_finite: int = 0
    loss_name: str = "loss"
    diverges: str = ""
    flat: str = ""
    spikes: str = ""
    noisy: str = ""
    data_wait_share: float | None = None
    baseline: BaselineSign | None = None
    gpus: tuple[GpuSign, ...] = ()
    ranks: tuple[RankSign, ...] = ()
    expected_ranks: int = 1
    loaders: int = 0
    loader_percent: float | None = None
    cpu_percent: float | None = None
    usual_cpu_percent: float | None = None
    stall_after_s: float | None = None
    waits_for_input: bool = False
    paused: bool = False

    @property
    def quiet_s(self) -> float:
        """Seconds since its last sign of life: its start, an output, an event, a checkpoint."""
        signs = (self.started, self.output_at, self.event_at, self.saved_at)
        return max(0.0, self.now - max(sign for sign in signs if sign is not None))
