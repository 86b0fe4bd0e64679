"""One chart as rows of text: title with values, curves, numbers on both axes."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style

from tui.panel.widgets.metrics.canvas import Canvas
from tui.panel.widgets.metrics.chart_request import ChartOptions
from tui.views.format import cut, fitted
from tui.views.metrics.curves import AxisName, Curve, axis_text, axis_ticks
from tui.views.metrics.scales import Scale, distinct, scale_for, short, stride, ticks

Row = tuple[Segment, ...]

_DIM = Style(dim=True)
_PLAIN = Style()
_BOLD = Style(bold=True)
_FOCUSED = Style(bold=True, reverse=True)
_LETTERS_EVERY = 18
_TICK_CELLS = 12
"""Of the axis below, for each number at least."""
RESUMED = "↻"
STAGE = "┆"
MEAN = "μ"
"""Behind a run's letter: its means over epochs."""


class ChartCurve(NamedTuple):
    """A run's curve in a chart: the letter and colour it wears everywhere."""

    letter: str
    colour: str
    curve: Curve
    pinned: bool = False
    live: bool = False


def draw_chart(
    title: str,
    lines: Sequence[ChartCurve],
    width: int,
    height: int,
    options: ChartOptions,
    focused: bool = False,
    unit: str = "",
    apart: bool = False,
) -> tuple[Row, ...]:
    """The chart in exactly `height` rows of `width` cells. The pinned line is drawn last, on top;
    `apart` says that its axis is not the one asked for, which is then named.
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
    low, high = least + options.low * (most - least), least + options.high * (most - least)
    parts = [line.curve.part(max(8, width * 2), low, high) for line in filled]
    ys = [y for part in parts for x, y in part if low <= x <= high and math.isfinite(y)]
    if not ys:
        return _empty(title, width, height, focused, filled)
    scale = scale_for(min(ys), max(ys), options.log)
    plot_rows = max(1, height - 2)
    labels = _labels(scale, plot_rows)
    margin = max(len(label) for label in labels.values())
    canvas = Canvas(max(4, width - margin - 1), plot_rows)
    place = _placing(canvas, low, high, scale)
    upwards = sorted(range(len(filled)), key=lambda i: filled[i].pinned)
    for at in upwards:
        canvas.draw((place(x, y) for x, y in parts[at]), at)
    for at in upwards:
        _stages(canvas, filled[at].curve, at, low, high, place)
        inside = [(x, y) for x, y in parts[at] if low <= x <= high]
        _seams(canvas, filled[at].curve, at, inside, place)
        _letter(canvas, filled[at], at, inside, place, options.lettered)
    cursor = (
        None
        if options.cursor is None
        else min(canvas.width - 1, int(options.cursor * canvas.width))
    )
    x_value = None if options.cursor is None else low + options.cursor * (high - low)
    styles = [Style.parse(f"{line.colour} bold" if line.pinned else line.colour) for line in filled]
    rows = [_title(title, filled, styles, x_value, width, focused, unit)]
    for y in range(plot_rows):
        rows.append(_plot_row(labels.get(y, ""), margin, canvas.row(y), styles, cursor))
    across = Scale(low, high) if high > low else Scale(low, low + 1.0, constant=low)
    rows.append(_x_row(across, options.axis, margin, canvas.width, x_value, apart))
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
    for i, sign in enumerate(line.letter):
        canvas.write(column - len(line.letter) + 1 + i, _cell_row(canvas, y), sign, owner)
    if not lettered:
        return
    next_at = 4 + (ord(line.letter[:1] or "A") * 5) % _LETTERS_EVERY
    for point in part:
        x, y = place(*point)
        if int(x) >> 1 >= next_at and int(x) >> 1 < column - 2:
            canvas.write(int(x) >> 1, _cell_row(canvas, y), line.letter[:1], owner)
            next_at = (int(x) >> 1) + _LETTERS_EVERY


def _seams(canvas, curve, owner, part, place) -> None:  # type: ignore[no-untyped-def]
    """A sign on the curve where a run begins that was resumed."""
    for seam in curve.seams:
        after = next((point for point in part if point[0] >= seam), None)
        if after is not None:
            x, y = place(*after)
            canvas.write(int(x) >> 1, _cell_row(canvas, y), RESUMED, owner)


def _stages(canvas, curve, owner, low, high, place) -> None:  # type: ignore[no-untyped-def]
    """A line where a stage of the training begins, its name above where there is room for it."""
    free = 0
    # A training of one stage has nothing to tell apart.
    for x, name in curve.stages if len(curve.stages) > 1 else ():
        if not low <= x <= high:
            continue
        column = int(place(x, 0.0)[0]) >> 1
        canvas.mark(column, STAGE, owner)
        if column >= free and owner < canvas.height and name.isprintable():
            for i, letter in enumerate(name[: canvas.width - column - 1]):
                canvas.write(column + 1 + i, owner, letter, owner)
            free = column + len(name) + 2


def _cell_row(canvas: Canvas, y: float) -> int:
    return min(canvas.height - 1, max(0, round(y) >> 2))


def _labels(scale: Scale, rows: int) -> dict[int, str]:
    """Round numbers, each beside its own row; a constant metric has one, beside its line."""
    if scale.constant is not None:
        return {round((rows * 4 - 1) / 2) >> 2: short(scale.constant, 6)}
    values = ticks(scale, max(2, rows // 3))
    places = [round((1 - scale.place(value)) * (rows * 4 - 1)) >> 2 for value in values]
    return dict(zip(places, distinct(values, short), strict=True))


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
    across: Scale, axis: AxisName, margin: int, width: int, cursor: float | None, apart: bool
) -> Row:
    """Round numbers, each with a mark below its place, and the cursor's own instead of some."""
    values = axis_ticks(axis, across, max(2, width // _TICK_CELLS))
    texts = distinct(values, axis_text(axis))
    row = [" "] * width
    if apart:
        _put_free(row, width - len(axis) - 2, f"({axis})")
    if cursor is not None:
        _put_mark(row, across.place(cursor), "┊", axis_text(axis)(cursor, 4))
    for value, text in zip(values, texts, strict=True):
        _put_mark(row, across.place(value), "╵", text)
    return (
        Segment(" " * margin, _DIM),
        Segment("└", _DIM),
        Segment("".join(row), _DIM),
    )


def _put_mark(row: list[str], place: float, mark: str, text: str) -> None:
    """A number behind its mark, or before it where the row ends; not over another."""
    column = min(len(row) - 1, max(0, int(place * (2 * len(row) - 1)) >> 1))
    if not _put_free(row, column, mark + text):
        _put_free(row, column - len(text), text + mark)


def _put_free(row: list[str], begin: int, text: str) -> bool:
    """Write where nothing stands yet, a blank beside it; whether it was written."""
    end = begin + len(text)
    if begin < 0 or end > len(row) or "".join(row[max(0, begin - 1) : end + 1]).strip():
        return False
    row[begin:end] = text
    return True


def _title(
    title: str,
    lines: Sequence[ChartCurve],
    styles: list[Style],
    x: float | None,
    width: int,
    focused: bool,
    unit: str,
) -> Row:
    """The name, and for each run its newest value or the one under the cursor.

    As many as there is room for, then how many more there are; where there is still room, its best
    value and the step of that.
    """
    sign = "▸" if focused else " "
    name = cut(f"{sign}{title}" + (f" [{unit}]" if unit else ""), max(6, width - 9))
    row = [Segment(name, _FOCUSED if focused else _BOLD)]
    left = width - cell_len(name)
    shown: list[tuple[int, str]] = []
    more = ""
    order = sorted(range(len(lines)), key=lambda i: not lines[i].pinned)
    for at, i in enumerate(order):
        text = _last(lines[i], x, len(lines) > 1)
        others = len(order) - at
        kept = len(f"  +{others - 1}") if others > 1 else 0
        if cell_len(text) + kept > left:
            more = f"  +{others}" if len(f"  +{others}") <= left else ""
            left -= len(more)
            break
        shown.append((i, text))
        left -= cell_len(text)
    for i, text in shown:
        best = _best(lines[i].curve) if x is None and not more else ""
        if best and cell_len(best) <= left:
            text += best
            left -= cell_len(best)
        row.append(Segment(text, styles[i]))
    row += [Segment(more, _DIM), Segment(" " * left, _PLAIN)]
    return tuple(row)


def _last(line: ChartCurve, x: float | None, several: bool) -> str:
    """A run's letter and its newest value, or the one at `x`."""
    curve = line.curve
    value = curve.at(x) if x is not None else curve.ys[-1]
    lost = ""
    if curve.lost:
        lost = f" ⚠{'NaN' if curve.ys[-1] != curve.ys[-1] else ''}"
    star = "★" if line.pinned and several else ""
    return f"  {star}{line.letter} {short(value, 4)}{lost}"


def _best(curve: Curve) -> str:
    """The best value and its step: `↓0.0123@1200`."""
    best = curve.best
    if best is None:
        return ""
    step = f"@{short(best.step, 4)}" if math.isfinite(best.step) else ""
    return f" {'↑' if best.higher else '↓'}{short(best.value, 4)}{step}"


def _empty(
    title: str, width: int, height: int, focused: bool, lines: Sequence[ChartCurve] = ()
) -> tuple[Row, ...]:
    notice = "only NaN or infinite here" if lines else "no values"
    name = cut(f"{'▸' if focused else ' '}{title}", width)
    rows = [(Segment(fitted(name, width), _FOCUSED if focused else _BOLD),)]
    for y in range(1, height):
        text = notice.center(width) if y == height // 2 else ""
        rows.append((Segment(fitted(text, width), _DIM),))
    return tuple(rows)
