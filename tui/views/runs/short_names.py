"""Names of runs in little room: what they share is left out, what differs in them is kept."""

from collections.abc import Iterable, Sequence

from runners.model.late_pattern import late_pattern

_PARTS = late_pattern(r"(?<!\d[eE])-|_")
"""Between the parts of a run's name; 1e-3 is one."""
_NUMBER = late_pattern(r"^([^\W\d]+)(-?\d.*)$")
_LEAST_APART = 8
"""Cells that have room for both ends of a name."""


def short_names(names: Iterable[str], width: int) -> dict[str, str]:
    """Each name in at most `width` cells; what it shares with others is left out first."""
    every = sorted(set(names))
    shown = {}
    for at, name in enumerate(every):
        if len(name) <= width:
            shown[name] = name
            continue
        beside = [every[i] for i in (at - 1, at + 1) if 0 <= i < len(every)]
        alike = max((_common(name, other) for other in beside), default=0)
        shown[name] = _shortened(name, alike, width)
    return _distinguished(shown, width)


def last_parts(names: Iterable[str], width: int) -> dict[str, str]:
    """The names of one group in at most `width` cells: how they end, or the values that differ."""
    every = sorted(set(names))
    ends = {name: name if len(name) <= width else f"…{name[1 - width :]}" for name in every}
    for shown in (ends, values_of(every)):
        fits = all(len(short) <= width for short in shown.values())
        if shown and fits and len(set(shown.values())) == len(every):
            return shown
    return short_names(every, width)


def values_of(names: Sequence[str]) -> dict[str, str]:
    """Of names as `vit-lr1e-3-wd0.1-seed0` what differs: `1e-3 0`. Empty where they are not alike
    in their parts.
    """
    parts = [_PARTS.split(name) for name in names]
    if len({len(each) for each in parts}) > 1:
        return {}
    differing = [_numbers(column) for column in zip(*parts, strict=True) if len(set(column)) > 1]
    rows = zip(names, zip(*differing, strict=True), strict=True) if differing else ()
    return {name: " ".join(values) for name, values in rows}


def _numbers(parts: Sequence[str]) -> list[str]:
    """Numbers without the word that stands before each of them; other parts as they are."""
    numbers = [_NUMBER.sub(r"\2", part) for part in parts]
    stems = {part[: len(part) - len(number)] for part, number in zip(parts, numbers, strict=True)}
    return numbers if len(stems) == 1 else list(parts)


def _distinguished(shown: dict[str, str], width: int) -> dict[str, str]:
    """Names that were shortened alike, shortened again to what differs in them."""
    alike: dict[str, list[str]] = {}
    for name, short in shown.items():
        alike.setdefault(short, []).append(name)
    for names in alike.values():
        if len(names) > 1 and width >= _LEAST_APART:
            begin = _common(names[0], names[-1])  # sorted: the first and the last differ most
            for name in names:
                rest, end = name[begin:], width // 4
                fits = len(rest) < width
                shown[name] = f"…{rest}" if fits else f"…{rest[: width - 2 - end]}…{rest[-end:]}"
    return shown


def _common(a: str, b: str) -> int:
    """How many letters the two begin with alike."""
    pairs = zip(a, b, strict=False)
    return next((i for i, (x, y) in enumerate(pairs) if x != y), min(len(a), len(b)))


def _shortened(name: str, alike: int, width: int) -> str:
    """`name` in `width` cells, with what stands from its `alike`-th letter on."""
    if alike < width - 2:  # where it differs is seen anyway
        return name[: width - 1] + "…"
    head = max(1, width // 3)
    tail = width - head - 1
    start = min(max(head, alike - 1), len(name) - tail)
    rest = name[start : start + tail]
    if start + tail < len(name):
        rest = rest[:-1] + "…"
    return f"{name[:head]}…{rest}"
