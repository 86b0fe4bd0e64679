"""Whether GPUs are idle although a run says that it trains: three windows in a row, warm-up aside.

One bad reading, one slow epoch's validation, or a first epoch that compiles for half an hour is not
idleness; where readings are missing, the answer is unknown. (Guards that judged by one window have
ended healthy runs: School-of-AI/LLM pull request 506.)
"""

from collections.abc import Sequence

from runners.model.gpus import UsageInterval

BELOW_PERCENT = 5.0
WINDOWS = 3
LEAST_S = 60.0
"""Readings are kept as means of 10 s: a window of fewer than two of them says nothing."""
_KNOWN = 0.8
"""A window counts when readings cover this part of it."""


def judge_idleness(
    intervals: Sequence[UsageInterval],
    uuids: Sequence[str],
    now: float,
    idle_s: float,
    trains_since: float,
) -> bool | None:
    """True when all GPUs of a run were below 5 % in each of three windows that make up `idle_s`.

    None when unknown. `intervals` are the run's own, oldest first; `trains_since` is when its
    warm-up was over (both in unix seconds).
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
