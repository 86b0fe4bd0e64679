"""The cost meter: one line at the top, always there."""

from datetime import datetime
from decimal import Decimal

from rich.text import Text
from textual.widget import Widget

from tui.feed import Picture
from tui.format import DASH, dollars, duration
from tui.palette import bar

_BAR = 8


class MeterBar(Widget):
    """What is being spent now, what was spent, and how long the budget lasts."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.picture: Picture | None = None
        self._shown = Text()

    def show(self, picture: Picture) -> None:
        """Take in a new picture; paint only when the line differs."""
        self.picture = picture
        if self._line() != self._shown:
            self.refresh()

    def render(self) -> Text:
        """The line."""
        self._shown = self._line()
        return self._shown

    def _line(self) -> Text:
        """The line, with the least important parts left away where it is narrow."""
        picture = self.picture
        left = Text(" fresnel-tui", style="bold")
        if picture is None:
            return left
        left.append(f"  {picture.host}", style="not bold")
        parts = [Text(part) for part in self._parts(picture)]
        while parts and left.cell_len + sum(part.cell_len + 3 for part in parts) > self.size.width:
            parts.pop()
        right = Text("   ").join(parts)
        gap = max(1, self.size.width - left.cell_len - right.cell_len - 1)
        return Text.assemble(left, " " * gap, right, " ")

    def _parts(self, picture: Picture) -> list[str]:
        meter, session = picture.meter, picture.session
        live = sum(view.run.is_live for view in picture.runs)
        parts = [f"{dollars(meter.per_hour)}/h est." if meter.per_hour is not None else f"{DASH}/h"]
        if meter.live_runs is not None:
            parts.append(f"runs {dollars(meter.live_runs)}")
        if session is not None:
            parts.append(f"session {dollars(meter.session)} {duration(60 * ((picture.time - session.started) // 60))}")
            if session.budget is not None and meter.budget_left is not None:
                parts.append(_budget(Decimal(session.budget), meter.budget_left, session.rate, picture.time))
        else:
            parts.append("no session")
        parts.append(f"{live} live")
        return parts


def _budget(budget: Decimal, left: Decimal, rate: Decimal, now: float) -> str:
    shown = bar(float(left / budget) if budget else 0.0, _BAR)
    if left <= 0:
        return f"budget {shown} used up"
    if not rate:
        return f"budget {shown} {dollars(left)}"
    until = datetime.fromtimestamp(now + float(left / rate) * 3600)
    return f"budget {shown} {dollars(left)}, until {until:%a %H:%M}"
