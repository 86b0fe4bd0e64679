"""One chart as rows of text: title with values, curves, numbers on both axes."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style

from tui.panel.widgets.metrics.canvas import Canvas
from tui.views.curves import AxisName, Curve
from tui.views.format import axis_time
from tui.views.scales import Scale, scale_for, short, stride

Row = tuple[Segment, ...]

_DIM = Style(dim=True)
_PLAIN = Style()
_BOLD = Style(bold=True)
_FOCUSED = Style(bold=True, reverse=True)
_LETTERS_EVERY = 18


class ChartCurve(NamedTuple):
    """A run's curve in a chart: the letter and colour it wears everywhere."""

    letter: str
    colour: str
    curve: Curve
    pinned: bool = False
    live: bool = False


class ChartOptions(NamedTuple):
    """How charts are drawn: the part of the x axis (0 to 1), the cursor within that part, and
    more.
    """

    axis: AxisName = "step"
    log: bool = False
    low: float = 0.0
    high: float = 1.0
    cursor: float | None = None
    lettered: bool = False
    """Letters along the curves, for terminals without colour."""


def draw_chart(
    title: str,
    lines: Sequence[ChartCurve],
    width: int,
    height: int,
    look: ChartOptions,
    focused: bool = False,
    unit: str = "",
) -> tuple[Row, ...]:
    """The chart in exactly `height` rows of `width` cells. The pinned line is drawn last, on
    top.
    """
    filled = [line for line in lines if len(line.curve.xs)]
    if not filled:
        return _empty(title, width, height, focused)
    least = min(line.curve.xs[0] for line in filled)
    most = max(line.curve.xs[-1] for line in filled)
    if any(line.live for line in filled) and most > least:
        # The end moves on by strides, so that what is drawn already stays where it is.
        step = stride((most - least) / 32)
        most = least + math.ceil((most - least) / step) * step
    low, high = least + look.low * (most - least), least + look.high * (most - least)
    parts = [line.curve.part(max(8, width * 2), low, high) for line in filled]
    ys = [y for part in parts for x, y in part if low <= x <= high and math.isfinite(y)]
    if not ys:
        return _empty(title, width, height, focused, filled)
    scale = scale_for(min(ys), max(ys), look.log)
    plot_rows = max(1, height - 2)
    labels = _labels(scale, plot_rows)
    margin = max(len(label) for label in labels.values())
    canvas = Canvas(max(4, width - margin - 1), plot_rows)
    place = _placing(canvas, low, high, scale)
    for at in sorted(range(len(filled)), key=lambda i: filled[i].pinned):
        canvas.draw((place(x, y) for x, y in parts[at]), at)
    for at in sorted(range(len(filled)), key=lambda i: filled[i].pinned):
        _letter(
            canvas,
            filled[at],
            at,
            [(x, y) for x, y in parts[at] if low <= x <= high],
            place,
            look.lettered,
        )
    cursor = None if look.cursor is None else min(canvas.width - 1, int(look.cursor * canvas.width))
    x_value = None if look.cursor is None else low + look.cursor * (high - low)
    styles = [Style.parse(f"{line.colour} bold" if line.pinned else line.colour) for line in filled]
    rows = [_title(title, filled, styles, x_value, look.axis, width, focused, unit)]
    for y in range(plot_rows):
        rows.append(_plot_row(labels.get(y, ""), margin, canvas.row(y), styles, cursor))
    rows.append(_x_row(low, high, look.axis, margin, canvas.width, x_value))
    return tuple(rows[:height])


def _placing(canvas: Canvas, low: float, high: float, scale: Scale):  # type: ignore[no-untyped-def]
    across = (canvas.dots_wide - 1) / ((high - low) or 1.0)
    up = canvas.dots_high - 1

    def place(x: float, y: float) -> tuple[float, float]:
        return (x - low) * across, (1 - scale.place(y)) * up

    return place


def _letter(canvas, line, owner, part, place, lettered) -> None:  # type: ignore[no-untyped-def]
    """The line's letter at its end; without colours along it too, each line's at other places."""
    if not part:
        return
    x, y = place(*part[-1])
    column = min(canvas.width - 1, int(x) >> 1)
    canvas.write(column, min(canvas.height - 1, round(y) >> 2), line.letter, owner)
    if not lettered:
        return
    next_at = 4 + (ord(line.letter[:1] or "A") * 5) % _LETTERS_EVERY
    for point in part:
        x, y = place(*point)
        if int(x) >> 1 >= next_at and int(x) >> 1 < column - 2:
            canvas.write(
                int(x) >> 1, min(canvas.height - 1, max(0, round(y) >> 2)), line.letter, owner
            )
            next_at = (int(x) >> 1) + _LETTERS_EVERY


def _labels(scale: Scale, rows: int) -> dict[int, str]:
    """Numbers at the top, the bottom and, where there is room, between."""
    wanted = [0, rows - 1] if rows < 5 else [0, rows // 2, rows - 1]
    if rows >= 14:
        wanted = [0, rows // 4, rows // 2, rows * 3 // 4, rows - 1]
    spread = abs(scale.high - scale.low)
    size = max(abs(scale.high), abs(scale.low)) or 1.0
    digits = (
        3
        if scale.log or spread > size * 0.05
        else min(6, 3 + math.ceil(-math.log10(max(spread / size, 1e-4))) - 1)
    )
    return {
        y: short(scale.value(1 - (y + 0.5) / rows) if rows > 1 else scale.high, digits)
        for y in wanted
    }


def _plot_row(
    label: str, margin: int, pieces: list[tuple[str, int]], styles: list[Style], cursor: int | None
) -> Row:
    row = [Segment(f"{label:>{margin}}", _DIM), Segment("┤" if label else "│", _DIM)]
    at = 0
    for text, owner in pieces:
        style = _PLAIN if owner < 0 else styles[owner]
        if cursor is not None and at <= cursor < at + len(text):
            inside = cursor - at
            row += [
                Segment(text[:inside], style),
                Segment(
                    "┊" if text[inside] == " " else text[inside],
                    style + Style(reverse=text[inside] != " "),
                ),
                Segment(text[inside + 1 :], style),
            ]
        else:
            row.append(Segment(text, style))
        at += len(text)
    return tuple(segment for segment in row if segment.text)


def _x_row(
    low: float, high: float, axis: AxisName, margin: int, width: int, cursor: float | None
) -> Row:
    write = axis_time if axis == "time" else short
    left, right = write(low), write(high)
    middle = write((low + high) / 2) if cursor is None else f"┊{write(cursor)}"
    room = width - len(left) - len(right)
    text = (
        f"{left}{middle:^{room}}{right}"
        if room >= len(middle) + 2
        else f"{left}{right:>{max(0, width - len(left))}}"
    )
    return (
        Segment(" " * margin, _DIM),
        Segment("└", _DIM),
        Segment(text[:width].ljust(width), _DIM),
    )


def _title(
    title: str,
    lines: Sequence[ChartCurve],
    styles: list[Style],
    x: float | None,
    axis: AxisName,
    width: int,
    focused: bool,
    unit: str,
) -> Row:
    """The name, and for each run its newest value or the one under the cursor, as many as there is
    room for.
    """
    sign = "▸" if focused else " "
    name = _cut(f"{sign}{title}" + (f" [{unit}]" if unit else ""), max(6, width - 9))
    row = [Segment(name, _FOCUSED if focused else _BOLD)]
    left = width - cell_len(name)
    for i in sorted(range(len(lines)), key=lambda i: not lines[i].pinned):
        line = lines[i]
        value = line.curve.at(x) if x is not None else line.curve.ys[-1]
        lost = (
            " ⚠NaN"
            if line.curve.lost and not math.isfinite(line.curve.ys[-1])
            else " ⚠"
            if line.curve.lost
            else ""
        )
        text = (
            f"  {'★' if line.pinned and len(lines) > 1 else ''}{line.letter} "
            f"{short(value, 4)}{lost}"
        )
        if cell_len(text) > left:
            break
        row.append(Segment(text, styles[i]))
        left -= cell_len(text)
    row.append(Segment(" " * left, _PLAIN))
    return tuple(row)


def _empty(
    title: str, width: int, height: int, focused: bool, lines: Sequence[ChartCurve] = ()
) -> tuple[Row, ...]:
    words = "only NaN or infinite here" if lines else "no values"
    name = _cut(f"{'▸' if focused else ' '}{title}", width)
    rows = [(Segment(name.ljust(width), _FOCUSED if focused else _BOLD),)]
    for y in range(1, height):
        text = words.center(width) if y == height // 2 else ""
        rows.append((Segment(_cut(text, width).ljust(width), _DIM),))
    return tuple(rows)


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: max(0, width - 1)] + "…"
