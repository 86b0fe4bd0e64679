"""A chart as SVG text: curves of several runs over one axis, with numbers, legend and seams.

No dependency, no clock, no file: the metrics page and the report write what this returns.
"""

import html
import math
from collections.abc import Sequence
from typing import NamedTuple

from tui.views.metrics.curves import AxisName, Curve, axis_text, axis_ticks
from tui.views.metrics.scales import (
    Scale,
    distinct,
    scale_for,
    short,
    ticks,
)
from tui.views.safe import safe_cell

# Told apart with any colour vision (Okabe and Ito, "Color Universal Design", 2008), on white.
COLOURS = ("#0072B2", "#D55E00", "#007A5A", "#A0527B", "#B8860B", "#4B4B4B", "#2A9FD6")
MEAN_TEXT = "means of epochs"
_DASHES = ("", "6 3", "2 2", "8 3 2 3")
_FONT = 'font-family="system-ui, -apple-system, Segoe UI, sans-serif"'
_INK, _QUIET, _GRID = "#1b1b1b", "#5c5c5c", "#e4e4e4"
_LETTER = 6.6  # mean width of a character of 11 px
_TITLE, _LEGEND_ROW, _BELOW = 30, 17, 40


class SvgCurve(NamedTuple):
    """A run's curve, the words of its legend and, if it has one everywhere, its colour."""

    label: str
    curve: Curve
    colour: str = ""


class _Frame(NamedTuple):
    """The plot's place in pixels, and both scales."""

    left: float
    top: float
    width: float
    height: float
    x: Scale
    y: Scale

    def across(self, value: float) -> float:
        """The pixel of a place on the x axis."""
        return self.left + self.width * self.x.place(value)

    def down(self, value: float) -> float:
        """The pixel of a value."""
        return self.top + self.height * (1 - min(1.0, max(0.0, self.y.place(value))))


def chart_svg(
    title: str,
    curves: Sequence[SvgCurve],
    axis: AxisName = "step",
    log: bool = False,
    unit: str = "",
    width: int = 720,
    height: int = 300,
    low: float = -math.inf,
    high: float = math.inf,
) -> str:
    """The SVG document of one chart. `width` in pixels is that of all of it, `height` of the plot
    alone; `low` to `high` is the part of the x axis that is shown.

    Values that are not finite are left out and counted in the legend. The document is safe to be
    put into an HTML page: what comes from outside is escaped.
    """
    filled = [drawn for drawn in curves if len(drawn.curve.xs)]
    legend = [_legend(drawn) for drawn in curves]
    whole = _TITLE + height + _BELOW + _LEGEND_ROW * len(legend) + 8
    heading = _escaped(title + (f" [{unit}]" if unit else ""))
    body = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{whole}" '
        f'viewBox="0 0 {width} {whole}" role="img" aria-label="{heading}" {_FONT} font-size="11">',
        f"<title>{heading}</title>",
        f'<rect width="{width}" height="{whole}" fill="#ffffff"/>',
        f'<text x="12" y="20" font-size="14" font-weight="600" fill="{_INK}">{heading}</text>',
    ]
    parts = [_part(drawn.curve, width, low, high) for drawn in filled]
    frame = _frame(filled, parts, log, width, height, low, high)
    if frame is None:
        body.append(
            f'<text x="{width / 2:g}" y="{_TITLE + height / 2:g}" text-anchor="middle" '
            f'fill="{_QUIET}">{"only NaN or infinite values" if filled else "no values"}</text>'
        )
    else:
        body += _axes(frame, axis, log)
        for i, drawn in enumerate(filled):
            place = next(k for k, other in enumerate(curves) if other is drawn)
            body += _drawn(frame, drawn, parts[i], place)
    top = _TITLE + height + _BELOW + 10
    for i, (drawn, text) in enumerate(zip(curves, legend, strict=True)):
        y = top + _LEGEND_ROW * i
        body.append(f'<path d="M12 {y - 4}h22" {_stroke(drawn, i)} stroke-width="2.5"/>')
        body.append(f'<text x="40" y="{y}" fill="{_INK}">{text}</text>')
    return "\n".join([*body, "</svg>", ""])


def _part(curve: Curve, width: int, low: float, high: float) -> list[tuple[float, float]]:
    """The points to draw: as many as the plot has room for, no spike lost."""
    if not len(curve.xs):
        return []
    return curve.part(width, max(low, curve.xs[0]), min(high, curve.xs[-1]))


def _frame(
    filled: Sequence[SvgCurve],
    parts: Sequence[Sequence[tuple[float, float]]],
    log: bool,
    width: int,
    height: int,
    low: float,
    high: float,
) -> _Frame | None:
    """Where the plot stands; None where there is nothing to see."""
    if not filled:
        return None
    low = max(low, min(drawn.curve.xs[0] for drawn in filled))
    high = min(high, max(drawn.curve.xs[-1] for drawn in filled))
    ys = [y for part in parts for x, y in part if low <= x <= high and math.isfinite(y)]
    if not ys:
        return None
    scale = scale_for(min(ys), max(ys), log)
    numbers = distinct(_y_ticks(scale, height), short)
    left = 16 + _LETTER * max(len(text) for text in numbers)
    across = Scale(low, high) if high > low else Scale(low - 0.5, low + 0.5, constant=low)
    return _Frame(left, _TITLE, width - left - 16, height, across, scale)


def _y_ticks(scale: Scale, height: float) -> list[float]:
    return ticks(scale, max(2, int(height // 45)))


def _axes(frame: _Frame, axis: AxisName, log: bool) -> list[str]:
    right, bottom = frame.left + frame.width, frame.top + frame.height
    body = []
    marks = _y_ticks(frame.y, frame.height)
    for value, text in zip(marks, distinct(marks, short), strict=True):
        y = frame.down(value)
        body.append(f'<path d="M{frame.left:.1f} {y:.1f}H{right:.1f}" stroke="{_GRID}"/>')
        body.append(
            f'<text x="{frame.left - 6:.1f}" y="{y + 4:.1f}" text-anchor="end" '
            f'fill="{_QUIET}">{text}</text>'
        )
    most = max(2, int(frame.width // 90))
    places = axis_ticks(axis, frame.x, most)
    for value, text in zip(places, distinct(places, axis_text(axis)), strict=True):
        x = frame.across(value)
        body.append(f'<path d="M{x:.1f} {bottom:.1f}v4" stroke="{_QUIET}"/>')
        body.append(
            f'<text x="{x:.1f}" y="{bottom + 16:.1f}" text-anchor="middle" '
            f'fill="{_QUIET}">{text}</text>'
        )
    body.append(
        f'<path d="M{frame.left:.1f} {frame.top:.1f}V{bottom:.1f}H{right:.1f}" fill="none" '
        f'stroke="{_QUIET}"/>'
    )
    name = axis + (" · logarithmic" if log else "")
    body.append(
        f'<text x="{frame.left + frame.width / 2:.1f}" y="{bottom + 33:.1f}" '
        f'text-anchor="middle" fill="{_QUIET}">{name}</text>'
    )
    return body


def _drawn(
    frame: _Frame, drawn: SvgCurve, part: Sequence[tuple[float, float]], place: int
) -> list[str]:
    """A curve, its seams, and a dot where it ends."""
    points = [(frame.across(x), frame.down(y)) for x, y in part if frame.x.low <= x <= frame.x.high]
    if not points:
        return []
    colour, bottom = drawn.colour or COLOURS[place % len(COLOURS)], frame.top + frame.height
    label = _escaped(drawn.label)
    body = [
        f'<path d="M{frame.across(seam):.1f} {frame.top:.1f}V{bottom:.1f}" stroke="{colour}" '
        f'stroke-dasharray="3 4" opacity="0.6"><title>{label}: resumed</title></path>'
        for seam in drawn.curve.seams
        if frame.x.low <= seam <= frame.x.high
    ]
    if len(drawn.curve.stages) > 1:
        for x, name in drawn.curve.stages:
            if frame.x.low <= x <= frame.x.high:
                across, stage = frame.across(x), _escaped(name)
                body.append(
                    f'<path d="M{across:.1f} {frame.top:.1f}V{bottom:.1f}" stroke="{colour}" '
                    f'opacity="0.4"><title>{label}: {stage}</title></path>'
                    f'<text x="{across + 4:.1f}" y="{frame.top + 11 + 12 * place:.1f}" '
                    f'fill="{colour}">{stage}</text>'
                )
    path = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    body.append(
        f'<path d="M{path}" fill="none" {_stroke(drawn, place)} stroke-width="1.5" '
        'stroke-linejoin="round"/>'
    )
    x, y = points[-1]
    body.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{colour}"/>')
    return body


def _stroke(drawn: SvgCurve, place: int) -> str:
    """A colour, and dashes where the colours begin again."""
    dashes = _DASHES[place // len(COLOURS) % len(_DASHES)]
    colour = _escaped(drawn.colour) or COLOURS[place % len(COLOURS)]
    return f'stroke="{colour}"' + (f' stroke-dasharray="{dashes}"' if dashes else "")


def _legend(drawn: SvgCurve) -> str:
    """A run's name, its last value, its best and where that was, as XML text."""
    curve = drawn.curve
    if not len(curve.xs):
        return f"{_escaped(drawn.label)} · no values"
    parts = [_escaped(drawn.label), f"last {short(curve.ys[-1], 4)}"]
    if curve.best is not None:
        step = curve.best.step
        parts.append(
            f"best {short(curve.best.value, 4)}"
            + (f" at step {short(step, 6)}" if math.isfinite(step) else "")
        )
    if curve.lost:
        parts.append(f"{curve.lost:,} not finite")
    return " · ".join(parts)


def _escaped(text: str) -> str:
    """Words from outside as XML text or attribute: nothing that XML 1.0 does not have."""
    return html.escape(safe_cell(text).replace("\ufffe", "�").replace("\uffff", "�"))
