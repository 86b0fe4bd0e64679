"""The cost meter: one line at the top, always there."""

from collections.abc import Callable, Sequence
from decimal import Decimal
from math import inf
from time import monotonic

from rich.cells import cell_len
from rich.text import Text
from textual.widget import Widget

from runners.cost.meter import Meter
from runners.host.clock import moment_now, time_of_day
from runners.model.states import State
from tui.panel.theme.palette import bar
from tui.snapshot.feed import PanelSnapshot
from tui.views.format import DASH, dollars, live_texts

_TITLE = " fresnel-tui"
_BRIEFEST = 7
_BAR = 10
_LATE_S = 10.0
"""What is shown is not what is now, when nothing has come for so long."""


class MeterBar(Widget):
    """What is spent and idle, how long the budget lasts, what the guard is about to do."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.snapshot: PanelSnapshot | None = None
        self.remote = "", "", ""
        """What other machines cost: by name, in all, in brief; empty where there are none."""
        self.live_remote: Sequence[State] = ()
        """The live runs of other machines, which are counted with those here."""
        self.all_budget = ""
        """What is left of the budget over all machines; empty without one."""
        self._shown = Text()
        self._came = inf

    def on_mount(self) -> None:
        """Say it where nothing newer comes, as from a file server that has fallen silent."""
        self.set_interval(_LATE_S, self._show_again)

    def _show_again(self) -> None:
        if self.snapshot is not None:
            self.show(self.snapshot)

    @property
    def read_only(self) -> bool:
        """True in a panel that only shows."""
        return getattr(self.app, "read_only", False)

    def show(self, snapshot: PanelSnapshot) -> None:
        """Take in a new snapshot; paint only when the line differs."""
        if snapshot is not self.snapshot:
            self.snapshot, self._came = snapshot, monotonic()
        if self._line() != self._shown:
            self.refresh()

    def render(self) -> Text:
        self._shown = self._line()
        return self._shown

    def _line(self) -> Text:
        """The fullest line that fits.
        What is left away goes from the least important to the most.
        """
        snapshot, width = self.snapshot, self.size.width
        if snapshot is None:
            return Text(_TITLE, style="bold")
        parts = _parts(snapshot, self.live_remote)
        named, full, short = self.remote
        if full:
            parts.append(lambda brief: _first_fitting(brief, {1: named, 3: full, 6: short}))
            is_urgent = self.all_budget.startswith("⚠")
            parts.append(lambda brief: self.all_budget if is_urgent or brief < 4 else "")
        if monotonic() > self._came + _LATE_S:
            stale = f"⚠ stale since {time_of_day(snapshot.time, form='%H:%M:%S')}"
            parts.insert(0, lambda brief: stale if brief < 5 else "⚠ stale")
        if self.read_only:
            parts.insert(0, lambda brief: "read-only" if brief < 7 else "")
        for brief in range(_BRIEFEST + 1):
            title, host = _TITLE if brief < 4 else "", f"  {snapshot.host}" if brief < 1 else ""
            shown = [text for part in parts if (text := part(brief))]
            length = cell_len(title + host) + sum(cell_len(text) + 2 for text in shown) + 1
            if length <= width:
                break
        left = Text.assemble((title, "bold"), (host, "not bold"))
        right = Text("  ").join(
            Text(text, style="bold" if text.startswith("⚠") else "") for text in shown
        )
        gap = max(1, width - left.cell_len - right.cell_len - 1)
        return Text.assemble(left, " " * gap, right, " ")


def _parts(snapshot: PanelSnapshot, remote: Sequence[State]) -> list[Callable[[int], str]]:
    """The parts in their order.
    Each gives its text for a line that is so brief (0 to 7), empty to be left away.
    """
    meter, session = snapshot.meter, snapshot.session
    guard, now = snapshot.guard, moment_now()
    urgent = mark = ""
    if guard is not None:
        from tui.views.money.guard_text import guard_mark, guard_text  # few have a guard

        urgent = guard_text(guard, now) if guard.is_urgent else ""
        mark = guard_mark(guard, now)
    rate = f"{dollars(meter.per_hour)}/h" if meter.per_hour is not None else f"{DASH}/h"
    est = " est." if meter.per_hour is not None else ""
    doubt = " ⚠ price does not fit" if meter.caveat else ""
    running, queued = live_texts([*(view.run.state for view in snapshot.runs), *remote])
    live = f"{running} · {queued}" if queued else running
    drained = {6: "⚠ draining", _BRIEFEST + 1: "⚠ drain"} if snapshot.drained else {}
    parts: list[Callable[[int], str]] = [
        lambda brief: (urgent or mark) if brief < 1 else _brief_mark(mark, brief),
        lambda brief: _first_fitting(brief, drained),
        lambda brief: rate + (est if brief < 6 else "") + doubt,
    ]
    if session is None and meter.per_hour is None and not snapshot.runs:
        # Somebody who begins has asked for no money.
        return [*parts[:2], lambda _: running]
    if session is None:
        runs = "" if meter.live_runs is None else f"runs {dollars(meter.live_runs)}"
        return [
            *parts,
            lambda _: runs,
            lambda brief: "no session" if brief < 5 else "",
            lambda brief: _first_fitting(brief, {6: live, _BRIEFEST + 1: running}),
        ]
    idle = "" if meter.idle is None else f" (idle {dollars(meter.idle)})"
    spent = f"session {dollars(meter.session)}"
    parts.append(lambda brief: _first_fitting(brief, {5: spent + idle, 7: spent}))
    if session.budget is not None and meter.budget_left is not None:
        budget = Decimal(session.budget)
        parts.append(
            lambda brief: _budget(budget, meter, snapshot.time, bar_width=_BAR if brief < 3 else 0)
        )
    parts.append(lambda brief: f"price {meter.old_price}" if meter.old_price and brief < 1 else "")
    return [*parts, lambda brief: _first_fitting(brief, {2: live, 4: running})]


def _first_fitting(brief: int, texts: dict[int, str]) -> str:
    """The text for a line that is so brief; each is for those below its key, in rising order."""
    return next((text for below, text in texts.items() if brief < below), "")


def _brief_mark(mark: str, brief: int) -> str:
    """What the guard does, shorter where there is little room: never left away."""
    return mark if brief < 4 else mark.replace("guard postponed until", "postponed")


def _budget(budget: Decimal, meter: Meter, now: float, bar_width: int) -> str:
    left = meter.budget_left or Decimal(0)
    shown = f"budget {bar(float(left / budget) if budget else 0.0, bar_width)} ".replace("  ", " ")
    if left <= 0:
        return f"{shown}used up"
    if meter.until is None:
        return f"{shown}{dollars(left)}"
    until = time_of_day(meter.until, now)
    return f"{shown}{dollars(left)}, until {until}"
