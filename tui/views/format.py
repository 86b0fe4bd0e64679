"""Numbers as people read them. What is not known is a dash, never 0."""

from collections.abc import Iterable
from decimal import ROUND_HALF_UP, Decimal
from math import isfinite

from runners.model.states import State

DASH = "—"
_SPARKS = "▁▂▃▄▅▆▇█"
_GREATEST = 1e300
_PLAIN = frozenset(map(chr, (*range(32, 127), *range(160, 173), *range(174, 768)))) | frozenset(
    f"—–…≥≤×·●○▶◷◌◼✔✘■□⚠◇★←→↑↓─│░{_SPARKS}"
)
"""A set is looked through sooner than a table of widths is imported."""


def live_texts(states: Iterable[State]) -> tuple[str, str]:
    """How many live runs have what they need, and how many wait for it; empty where none does."""
    live = [state for state in states if state.is_live]
    queued = live.count(State.QUEUED)
    return f"{len(live) - queued} running", f"{queued} queued" if queued else ""


def go_on_text(count: int) -> str:
    """`1 run goes on`."""
    return f"{count:,} run goes on" if count == 1 else f"{count:,} runs go on"


def first_line(text: str) -> str:
    """The first line of a text, with … where there are more."""
    head, *more = text.splitlines() or [""]
    return f"{head} …" if more else head


def is_plain(text: str) -> bool:
    """Whether a cell of a terminal is surely enough for each letter: Latin, signs of our own."""
    return text.isascii() or not set(text) - _PLAIN


def cells_of(text: str) -> int:
    """How many cells of a terminal `text` takes: letters of some scripts, and emoji, two."""
    if is_plain(text):
        return len(text)
    from rich.cells import cell_len  # commands start without

    return cell_len(text)


def cut(text: str, width: int) -> str:
    """`text` in at most `width` cells, its end cut with an ellipsis."""
    if cells_of(text) <= width:
        return text
    left = text[: max(0, width - 1)]
    while left and cells_of(left) >= width:
        left = left[:-1]
    return left + "…"


def folded(text: str, width: int) -> list[str]:
    """`text` in lines of at most `width` cells, broken between words where that goes."""
    if is_plain(text):
        from textwrap import wrap  # few tables are wider than their terminal

        return wrap(text, width)
    lines = [""]
    for word in text.split():
        gap = " " if lines[-1] else ""
        if cells_of(lines[-1] + gap + word) <= width:
            lines[-1] += gap + word
            continue
        lines += [""] if lines[-1] else []
        for letter in word:
            # A letter of two cells has no place in one.
            if lines[-1] and cells_of(lines[-1] + letter) > width:
                lines.append("")
            lines[-1] += letter
    return lines


def fitted(text: str, width: int, right: bool = False) -> str:
    """`text` in exactly `width` cells."""
    text = cut(text, width)
    blank = " " * (width - cells_of(text))
    return blank + text if right else text + blank


def duration(seconds: float | None) -> str:
    """`4m12s`, `31h`, `2d 4h`: two parts at most."""
    if seconds is None:
        return DASH
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    if whole < 86400:
        return f"{whole // 3600}h{whole % 3600 // 60:02d}m"
    return f"{whole // 86400}d{whole % 86400 // 3600:02d}h"


def axis_time(seconds: float, decimals: int = 0) -> str:
    """Seconds as one number for an axis: `90s`, `12m`, `3.5h`; with so many `decimals` more."""
    size = abs(seconds)
    if size < 100:
        return f"{seconds:.{decimals}f}s"
    if size < 6000:
        return f"{seconds / 60:.{decimals}f}m"
    if size < 100 * 3600:
        return f"{seconds / 3600:.{decimals + 1}f}h"
    return f"{seconds / 86400:.{decimals + 1}f}d"


def size(count: int | float | None) -> str:
    """Bytes on disk in decimal units, as file systems sell them: `7.6 MB`."""
    return _scaled(count, 1000, (" B", " kB", " MB", " GB", " TB"))


def memory(count: int | float | None) -> str:
    """Bytes of memory in binary units, as GPUs have them: `191.5G` is GiB."""
    return _scaled(count, 1024, ("B", "K", "M", "G", "T"))


def _scaled(count: int | float | None, step: int, units: tuple[str, ...]) -> str:
    if count is None:
        return DASH
    value = float(count)
    for unit in units:
        text = f"{value:.0f}" if unit == units[0] or value >= 99.95 else f"{value:.1f}"
        if float(text) < step or unit == units[-1]:
            return text + unit
        value /= step
    return DASH


def three_digits(value: float) -> str:
    """A quantity with three digits that mean something, and no power of ten: `12.9`, `1,240`."""
    return f"{value:,.0f}" if value >= 99.95 else f"{value:.3g}"


def energy(watt_hours: float) -> str:
    """`<0.1 Wh` of a short run, `640 Wh`, `12.9 kWh`."""
    if watt_hours < 0.1:
        return "<0.1 Wh"
    kilo = watt_hours >= 999.5
    return f"{three_digits(watt_hours / 1000)} kWh" if kilo else f"{three_digits(watt_hours)} Wh"


def dollars(amount: Decimal | None) -> str:
    """`$0.17`; less than a cent is said to be that."""
    if amount is None:
        return DASH
    # Rounded it would be $0.00, which reads as free.
    if 0 < amount < Decimal("0.01"):
        return "<$0.01"
    # `+ 0`: Decimal has a negative zero, which nobody owes.
    return f"${amount.quantize(Decimal('0.01'), ROUND_HALF_UP) + 0:,}"


def metric(value: float | int | None) -> str:
    """A metric with four significant digits; one that is no number with the sign of trouble."""
    if value is None:
        return DASH
    if not isfinite(value):
        return f"⚠ {value}"
    if isinstance(value, int) or (float(value).is_integer() and abs(value) < 1e6):
        return f"{int(value):,}"
    return f"{value:.4g}"


def place(value: float | None) -> str:
    """A step, or what is counted instead, as it was counted: `1,234,567`, `2.5`."""
    return DASH if value is None else f"{value:,.15g}"


def percent(value: float | None) -> str:
    """A percentage without decimals."""
    return DASH if value is None else f"{value:.0f}%"


def sparkline(values: tuple[float, ...], width: int) -> str:
    """`values` in `width` cells: each the mean of its share, scaled between least and most.

    What a float can hardly hold is cut off: neither sums nor differences become infinite.
    """
    finite = [min(_GREATEST, max(-_GREATEST, value)) for value in values if value == value]
    if len(finite) < 2 or width < 1:
        return ""
    width = min(width, len(finite))
    means = []
    for i in range(width):
        share = finite[i * len(finite) // width : (i + 1) * len(finite) // width]
        means.append(sum(share) / len(share))
    low, high = min(means), max(means)
    span = (high - low) or 1.0
    return "".join(_SPARKS[round((value - low) / span * 7)] for value in means)
