"""Lengths of time and amounts of memory in the core's own messages; front ends have `tui.views`."""

from collections.abc import Sequence


def duration_text(seconds: float) -> str:
    """`9m05s`, `8h00m`: a length of time, rounded up to the second."""
    # Upwards: a wait of half a second is not `0s`, and nothing ends before the time that was shown.
    whole = int(seconds + 0.999)
    hours, rest = divmod(whole, 3600)
    minutes, seconds_left = divmod(rest, 60)
    if hours:
        return f"{hours}h{minutes:02d}m"
    return f"{minutes}m{seconds_left:02d}s" if minutes else f"{seconds_left}s"


def gib_text(count: int) -> str:
    """`79.2 GiB`, of so many bytes."""
    return f"{count / (1 << 30):,.1f} GiB"


def gpus_text(count: int, model: str = "") -> str:
    """`1 GPU`, `2 H100 GPUs`."""
    kind = f" {model}" if model else ""
    return f"{count}{kind} GPU{'' if count == 1 else 's'}"


def median(values: Sequence[float]) -> float:
    """The middle value, or the mean of two; `statistics` takes longer to import than this."""
    ordered, half = sorted(values), len(values) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2
