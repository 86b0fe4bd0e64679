"""Small grammars that presets and flags share: lengths of time, sizes, ranges, money, GPU lists.

Each raises ValueError, which says what is expected. Lengths of time and amounts of memory are also
put in words here, for the core's own messages; front ends have `tui.views`.
"""

import re
from collections.abc import Iterable, Sequence

from runners.model.late_pattern import late_pattern

_UNITS = {"": 1.0, "s": 1.0, "sec": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_MOST_GPUS = 1024
_DURATION_PART = late_pattern(r"(\d+(?:\.\d+)?)\s*(d|h|min|m|sec|s|)")
_SIZE = late_pattern(r"(\d{1,18}(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?", re.IGNORECASE)
_PERCENT = late_pattern(r"(\d+(?:\.\d+)?)\s*%?(?:\s*[-–]\s*(\d+(?:\.\d+)?)\s*%?)?")
_LONGEST_S = 100 * 365 * 86_400.0
"""More than anybody waits; timers take no length without bound."""


def parse_duration(value: str | int | float) -> float:
    """Seconds in `90`, `90s`, `10m`, `1h30m`, `2d`."""
    text = str(value).strip().lower()
    position, seconds = 0, 0.0
    for match in _DURATION_PART.finditer(text):
        if match.start() != position or not match.group():
            break
        seconds += float(match.group(1)) * _UNITS[match.group(2)]
        position = match.end()
        while position < len(text) and text[position] == " ":
            position += 1
    if not text or position != len(text) or seconds > _LONGEST_S:
        raise ValueError(f"expected a length of time such as 90s, 10m or 2h, got {value!r}")
    return seconds


def parse_size(value: str | int) -> int:
    """Bytes in `20G`, `512M` (binary units, as memory has them) or a plain number."""
    match = _SIZE.fullmatch(str(value).strip())
    if match is None:
        raise ValueError(f"expected an amount of memory such as 20G, got {value!r}")
    return int(float(match[1]) * 1024 ** " KMGT".index(match[2].upper() or " "))


def parse_range(value: str | int) -> tuple[int, int | None]:
    """`500` as (500, 500), `450-500` as (450, 500), `500-` as (500, None)."""
    return _range(value, sizes=False)


def parse_size_range(value: str | int) -> tuple[int, int | None]:
    """The same of sizes, in bytes: `10K-`, `1M-2M`."""
    return _range(value, sizes=True)


def _range(value: str | int, sizes: bool) -> tuple[int, int | None]:
    low, dash, high = str(value).strip().partition("-")
    parse = parse_size if sizes else int
    try:
        least = parse(low.strip())
        most = None if dash else least
        if high.strip():
            most = parse(high.strip())
    except ValueError:
        example = "10K- or 1M-2M" if sizes else "500, 500- or 450-500"
        raise ValueError(f"expected a range such as {example}, got {value!r}") from None
    if least < 0 or (most is not None and most < least):
        raise ValueError(f"expected the smaller end first, got {value!r}")
    return least, most


def parse_percent_range(value: str | int) -> tuple[float, float | None]:
    """`60-80%` as (60, 80), `90%` as (90, None)."""
    match = _PERCENT.fullmatch(str(value).strip())
    if match is None:
        raise ValueError(f"expected a share such as 60-80% or 90%, got {value!r}")
    low, high = float(match[1]), None if match[2] is None else float(match[2])
    if low > 100 or (high is not None and not low <= high <= 100):
        raise ValueError(f"expected percent from 0 to 100, lower end first, got {value!r}")
    return low, high


def parse_dollars(value: str | int | float) -> str:
    """US dollars as decimal text, because a float of dollars would not add up exactly."""
    if not re.fullmatch(r"\d{1,12}(\.\d{1,60})?", str(value)):
        raise ValueError(f"expected US dollars such as 0.17, got {value!r}")
    return str(value)


def parse_gpu_ids(value: str | int | list[int | str]) -> tuple[str, ...]:
    """GPU indices and UUIDs in `0-6,7`, `3`, or a list of these."""
    parts = value if isinstance(value, list) else str(value).split(",")
    ids: dict[str, None] = {}
    for part in (str(part).strip() for part in parts):
        span = re.fullmatch(r"(\d+)-(\d+)", part)
        if span and int(span[1]) <= int(span[2]) < _MOST_GPUS:
            named = [str(i) for i in range(int(span[1]), int(span[2]) + 1)]
        elif re.fullmatch(r"\d+|(?:GPU|MIG|SIM|AMD)-[\w./-]+", part):
            named = [part]
        else:
            raise ValueError(f"expected GPU indices such as 0-6,7 or UUIDs, got {part!r}")
        if doubled := [name for name in named if name in ids]:
            raise ValueError(f"GPU {', '.join(doubled)} is named twice")
        ids |= dict.fromkeys(named)
    return tuple(ids)


def as_text(value: object) -> str:
    """A YAML scalar as text for the environment."""
    return str(value).lower() if isinstance(value, bool) else str(value)


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


def counted(count: int, noun: str) -> str:
    """`1 file`, `2,000 files`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def gpus_text(count: int, model: str = "") -> str:
    """`1 GPU`, `2 H100 GPUs`."""
    return counted(count, f"{model} GPU".lstrip())


def indices(numbers: Iterable[int]) -> str:
    """GPU indices in short: `0-6,7` is `0-7`, `0,2,3` is `0,2-3`."""
    spans: list[list[int]] = []
    for number in sorted(numbers):
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in spans)


def median(values: Sequence[float]) -> float:
    """The middle value, or the mean of two; `statistics` takes longer to import than this."""
    ordered, half = sorted(values), len(values) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2
