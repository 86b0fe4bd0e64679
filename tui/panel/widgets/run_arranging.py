"""When the run table is arranged, at once or in a thread, and where its cursor goes then."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple

from textual.widget import Widget

from runners.places.run_row import RunRow
from tui.panel.widgets.run_lines import RunLines
from tui.views.runs.run_table import Arrangement, Arranger, TableChoice

_FEW = 500
"""So many ended runs are arranged at once; more of them in a thread."""


def changed(owner: Widget, lines: RunLines, key: str | None, change: str, by: int) -> TableChoice:
    """What a key makes of the choice, by its name in `run_choice.py`; the cursor is on `key`.

    Without a run there is nothing to arrange, which `owner` says.
    """
    from tui.panel.widgets.run_choice import CHANGES, WHY_NOT  # the first paint does without

    if not len(lines):
        owner.notify(NONE_SELECTED, timeout=4)
        return lines.choice
    choice = CHANGES[change](lines, lines.line_of(key), by)
    if choice == lines.choice and change in WHY_NOT:
        owner.notify(WHY_NOT[change], timeout=4)
    elif change == "metric":
        # Of runs with one metric the columns look as before.
        owner.notify(f"last and best of {choice.metric or 'each run as it is judged'}", timeout=2)
    return choice


NONE_SELECTED = "no run is selected"


class _Request(NamedTuple):
    """What `Arranger.arrange` takes."""

    live: list[RunRow]
    ended: tuple[RunRow, ...]
    version: int
    choice: TableChoice


class RunArranging:
    """Arranges for `owner` and hands it each table; of requests that wait, only the newest."""

    def __init__(self, owner: Widget, take: Callable[[Arrangement], None]) -> None:
        self._owner = owner
        self._take = take
        self._arranger = Arranger()
        self._waiting: _Request | None = None
        self._busy = False

    def arrange(self, lines: RunLines) -> None:
        """Have the rows arranged as they and the choice are now; nothing before a snapshot."""
        if lines.snapshot is None:
            return
        ended = lines.ended
        request = _Request(list(lines.live.values()), ended.rows, ended.version, lines.choice)
        few = len(ended.rows) < _FEW
        ready = few or self._arranger.is_ready(ended.version, request.live, lines.choice)
        if ready and not self._busy:
            self._take(self._arranger.arrange(*request))
            return
        self._waiting = request
        if not self._busy:
            self._busy = True
            self._owner.run_worker(self._in_thread(), group="arrange")

    async def _in_thread(self) -> None:
        try:
            while self._waiting is not None:
                request, self._waiting = self._waiting, None
                table = await asyncio.to_thread(self._arranger.arrange, *request)
                if self._waiting is None:
                    self._take(table)
        finally:
            self._busy = False


class CursorTarget:
    """What decides where the cursor goes when the table has other lines."""

    def __init__(self) -> None:
        self.wanted: str | None = None
        """A run that may not be in the table yet."""
        self.to_the_end = False
        """Stay on the last line while older runs are still being read."""
        self._before_filter: str | None = None

    def follow_filter(self, is_typed: bool, text: str, key: str | None) -> None:
        """The filter changed while the cursor was on `key`.

        What was found stays chosen; a filter that was given up leads back to where it began.
        """
        if is_typed:
            self._before_filter = self._before_filter or key
        elif text:
            self._before_filter = self.wanted = None
        else:
            self.wanted, self._before_filter = self._before_filter, None

    def find(self, keys: Sequence[str], current: str | None, is_whole: bool) -> str | None:
        """The key to go to among these; None: the cursor stays on the `current` one."""
        if not keys:
            return None
        if self.wanted in keys:
            wanted, self.wanted, self.to_the_end = self.wanted, None, False
            return wanted
        if self.to_the_end:
            self.to_the_end = not is_whole
            return keys[-1]
        if current in keys:
            return None
        return self._before_filter if self._before_filter in keys else keys[0]
