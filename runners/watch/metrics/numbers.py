"""Numbers in what programs print: taken when they are understood as a whole, else not at all."""

import math

from runners.model.late_pattern import late_pattern

NUMBER = (
    r"[-+]?(?:(?:[1-9]\d{0,2}(?:,\d{3})+|\d+)(?:\.(?!\.)\d*)?|\.\d+)(?:[eE][-+]?\d+)?"
    r"|[-+]?(?:[nN]a[nN]|NAN|INF|[iI]nf(?:inity)?)"
)
"""A number as programs print them, NaN and infinities too."""

# What may not follow a number: then it was part of something else (a size, a date, a fraction, a
# list), and no shorter piece of it is the number either.
_ENDS = r"(?![\w%/×°µ]|\.[\w.]|,\d|:\S|[-+]\d)"
_UNIT = r"(?:\s?(?:%|ms|s|dB)(?![\w/%]))"
WHOLE = rf"(?:{NUMBER})(?:(?={_UNIT})|{_ENDS})"
"""A number that ends where it seems to end; a unit that its name already implies may follow."""

_PLAIN = late_pattern(rf"({NUMBER}){_UNIT}?")
_PART = late_pattern(r"([\d.]+) ?(us|ms|s|m|h|d)\b")
_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_WRAPPED = late_pattern(r"^(?:tensor|np\.float\d+|float)\((.*?)(?:,.*)?\)$|^\[([^\[\],]*)\]$")


def number(text: str) -> float:
    """The number in `text`; NaN when there is none, or none that a float can hold."""
    try:
        return float(text.replace(",", ""))
    except (ValueError, OverflowError):
        return math.nan


def as_float(value: float) -> float:
    """A number of JSON as a float; NaN when it is a whole number that none can hold."""
    try:
        return float(value)
    except OverflowError:
        return math.nan


def whole_number(text: str) -> float | None:
    """The number that `text` is, with or without a unit; None when it is anything else."""
    text = text.strip().strip("'\"")
    found = _PLAIN.fullmatch(text)
    if found is None:
        wrapped = _WRAPPED.match(text)
        found = _PLAIN.fullmatch((wrapped[1] or wrapped[2] or "").strip()) if wrapped else None
    return None if found is None else number(found[1])


def seconds(text: str) -> float | None:
    """`34:38:24`, `00:58` or `1 day, 0:00:48` as seconds; None for anything else."""
    days, _, clock = text.rpartition(",")
    parts = clock.strip().split(":")
    if not all(part.replace(".", "", 1).isdecimal() for part in parts) or len(parts) > 3:
        return None
    count = days.partition(" ")[0] or "0"
    if not count.isdecimal():
        return None
    total = 0.0
    for part in parts:
        total = total * 60 + float(part)
    return total + 86400 * float(count)


def seconds_of_parts(text: str) -> float | None:
    """`1m 19s` or `39 s, 300.7 ms` as seconds; None where nothing of it is a time."""
    parts = _PART.findall(text)
    total = sum(number(value) * _SECONDS[unit] for value, unit in parts)
    return total if parts and math.isfinite(total) else None
