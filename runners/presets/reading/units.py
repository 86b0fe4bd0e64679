"""Small grammars that presets and flags share: lengths of time, GPU lists, stop rungs."""

import re
import signal

from runners.model.spec import GpuRequest, Rung, StopRule, StopTarget

_UNITS = {"": 1.0, "s": 1.0, "sec": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_MOST_GPUS = 1024
_DURATION_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(d|h|min|m|sec|s|)")


def parse_duration(value: str | int | float) -> float:
    """Seconds in `90`, `90s`, `10m`, `1h30m`, `2d`; ValueError says what a length of time looks
    like.
    """
    text = str(value).strip().lower()
    position, seconds = 0, 0.0
    for match in _DURATION_PART.finditer(text):
        if match.start() != position or not match.group():
            break
        seconds += float(match.group(1)) * _UNITS[match.group(2)]
        position = match.end()
        while position < len(text) and text[position] == " ":
            position += 1
    if not text or position != len(text):
        raise ValueError(f"expected a length of time such as 90s, 10m or 2h, got {value!r}")
    return seconds


_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?", re.IGNORECASE)


def parse_size(value: str | int) -> int:
    """Bytes in `20G`, `512M` (binary units, as memory has them) or a plain number; ValueError
    otherwise.
    """
    match = _SIZE.fullmatch(str(value).strip())
    if match is None:
        raise ValueError(f"expected an amount of memory such as 20G, got {value!r}")
    return int(float(match[1]) * 1024 ** " KMGT".index(match[2].upper() or " "))


def parse_range(value: str | int, sizes: bool = False) -> tuple[int, int | None]:
    """`500` as (500, 500), `450-500` as (450, 500), `500-` as (500, None); with `sizes` in bytes.

    ValueError otherwise.
    """
    low, dash, high = str(value).strip().partition("-")
    try:
        parse = parse_size if sizes else int
        least = parse(low.strip())
        most = parse(high.strip()) if high.strip() else None if dash else least
    except ValueError:
        example = "10K- or 1M-2M" if sizes else "500, 500- or 450-500"
        raise ValueError(f"expected a range such as {example}, got {value!r}") from None
    if least < 0 or (most is not None and most < least):
        raise ValueError(f"expected the smaller end first, got {value!r}")
    return least, most


def parse_gpu_ids(value: str | int | list[int | str]) -> tuple[str, ...]:
    """GPU indices and UUIDs in `0-6,7`, `3`, or a list of these; ValueError on anything else."""
    parts = value if isinstance(value, list) else str(value).split(",")
    ids: list[str] = []
    for part in (str(part).strip() for part in parts):
        span = re.fullmatch(r"(\d+)-(\d+)", part)
        if span and int(span[1]) <= int(span[2]) < _MOST_GPUS:
            ids += [str(i) for i in range(int(span[1]), int(span[2]) + 1)]
        elif re.fullmatch(r"\d+|(?:GPU|MIG|SIM|AMD)-[\w./-]+", part):
            ids.append(part)
        else:
            raise ValueError(f"expected GPU indices such as 0-6,7 or UUIDs, got {part!r}")
    doubled = {i for i in ids if ids.count(i) > 1}
    if doubled:
        raise ValueError(f"GPU {', '.join(sorted(doubled))} is named twice")
    return tuple(ids)


def parse_gpu_request(value: int | str) -> GpuRequest:
    """The short forms: `2`, `all`, `0-6` (two or more indices need a dash or comma)."""
    text = str(value).strip()
    if text == "all":
        return GpuRequest(all=True)
    if re.fullmatch(r"\d+", text):
        return GpuRequest(count=int(text))
    return GpuRequest(ids=parse_gpu_ids(text))


def parse_rung(text: str) -> Rung:
    """A stop rung such as `stop-file 600s` or `SIGINT 60s`; ValueError says which rungs there
    are.
    """
    how, _, wait = text.strip().partition(" ")
    name = how.upper()
    if how == "stop-file":
        name = how
    else:
        name = name if name.startswith("SIG") else f"SIG{name}"
        if name not in signal.Signals.__members__:
            raise ValueError(f"expected stop-file or a signal such as SIGINT, got {how!r}")
    if not wait.strip() and name != "SIGKILL":
        raise ValueError(f"the rung {how!r} needs a wait, e.g. '{how} 60s'")
    return Rung(name, parse_duration(wait) if wait.strip() else 5.0)


def build_stop_rule(ladder: list[str], target: StopTarget) -> StopRule:
    """A stop rule from rung texts; SIGKILL is added as the last rung when it is missing."""
    rungs = [parse_rung(text) for text in ladder]
    for rung in rungs[:-1]:
        if rung.how == "SIGKILL":
            raise ValueError("SIGKILL must be the last rung: nothing is left to stop after it")
    if rungs[-1].how != "SIGKILL":
        rungs.append(Rung("SIGKILL", 5.0))
    return StopRule(tuple(rungs), target)
