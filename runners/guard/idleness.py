"""Whether GPUs are idle although a run says that it trains: three windows in a row, warm-up aside.

One bad reading, one slow epoch's validation, or a first epoch that compiles for half an hour is not
idleness; where readings are missing, the answer is unknown. (Guards that judged by one window have
ended healthy runs: School-of-AI/LLM pull request 506.)
"""

from collections.abc import Iterable, Sequence

import msgspec

from runners.host.clock import Moment, seconds_between
from runners.model.gpus import UsageInterval

BELOW_PERCENT = 5.0
WINDOWS = 3
LEAST_S = 60.0
"""Readings are kept as means of 10 s: a window of fewer than two of them says nothing."""
_KNOWN = 0.8
"""A window counts when readings cover this part of it."""
_SAME_BOOT_S = 60.0


def judge_idleness(
    intervals: Sequence[UsageInterval],
    uuids: Sequence[str],
    now: float,
    idle_s: float,
    trains_since: float,
) -> bool | None:
    """True when all GPUs of a run were below 5 % in each of three windows that make up `idle_s`.

    None when unknown. `intervals` are the run's own, oldest first; `trains_since` is when its
    warm-up was over (all by one clock, in seconds: the boot's, which nobody sets).
    """
    if not uuids or now - idle_s < trains_since:
        return None
    length = idle_s / WINDOWS
    for i in range(WINDOWS):
        end = now - i * length
        window = [interval for interval in intervals if end - length < interval.time <= end]
        for uuid in uuids:
            # Weighted by length: intervals of old history are merged and longer than new ones.
            mean = _mean(window, uuid, length)
            if mean is None:
                return None
            if mean >= BELOW_PERCENT:
                return False
    return True


def by_uptime(intervals: Iterable[UsageInterval], now: Moment) -> list[UsageInterval]:
    """The intervals of this boot, oldest first, `time` replaced by the boot's own seconds."""
    shift = now.wall - uptime_s(now)
    found: list[UsageInterval] = []
    for interval in intervals:
        # A line without it was written by something else than a sampler: placed by the clock.
        time = interval.time - shift if interval.uptime is None else interval.uptime
        if found and time < found[-1].time - _SAME_BOOT_S:
            found.clear()
        found.append(msgspec.structs.replace(interval, time=time))
    return found


def trains_since(begin: Moment, first_epoch: float | None, warm_up_s: float, now: Moment) -> float:
    """When a run's warm-up was over, in seconds of this boot, whatever happened to the clock.

    It ends with the first epoch (unix s, by the clock as it was then), at the latest after
    `warm_up_s`.
    """
    began = uptime_s(now) - min(seconds_between(begin, now), uptime_s(now))
    latest = began + warm_up_s
    if first_epoch is None:
        return latest
    # By the clock at the run's begin, and by the clock now: one that was set in between makes two.
    places = (began + first_epoch - begin.wall, uptime_s(now) - (now.wall - first_epoch))
    possible = [place for place in places if place <= uptime_s(now)]
    return min(latest, max(possible, default=latest))


def uptime_s(now: Moment) -> float:
    """Seconds since this boot; the wall clock's where the kernel counts none."""
    return now.wall if now.boot_ns is None else now.boot_ns / 1e9


def is_unmeasured(
    intervals: Sequence[UsageInterval], now: float, idle_s: float, trains_since: float
) -> bool:
    """True when a run has trained for the whole time, and no use of any GPU is known."""
    if now - idle_s < trains_since:
        return False
    return not any(
        gpu.utilization is not None
        for interval in intervals
        if interval.time > now - idle_s
        for gpu in interval.gpus
    )


def _mean(window: Sequence[UsageInterval], uuid: str, length: float) -> float | None:
    """The mean percent of one GPU over a window; None when too little of it is known."""
    total = seconds = 0.0
    for interval in window:
        for gpu in interval.gpus:
            if gpu.uuid == uuid and gpu.utilization is not None:
                total += gpu.utilization * interval.seconds
                seconds += interval.seconds
    return total / seconds if seconds >= _KNOWN * length else None
