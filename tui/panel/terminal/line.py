"""How much the line to the terminal takes: judged by the terminal's answers to what was painted.

A kernel's or ssh's buffers take far more than a slow line carries, and what waits in them a key's
effect waits behind. So each piece of a frame ends with a question that every terminal answers
(DSR 6, VT100: where the cursor is), and not more is under way than the line carries in its own
delay and a little. The rate is that of the deliveries, as in BBR (Cardwell et al., 2016).
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

QUESTION: Final = "\x1b[6n"
SLOW_RATE: Final = 200_000
"""Bytes per second below which a line is slow."""
_QUEUE_S: Final = 0.05
"""What may wait before the line beyond what is on it."""
_LEAST: Final = 512
_FIRST: Final = 64 * 1024
"""Bytes under way before the first answer, and the most at any time in one piece."""
_MUTE_S: Final = 2.0
"""A terminal that has not answered after so long never will."""
_LOST_S: Final = 5.0
_GAIN: Final = 0.3
_CONFIRMED_S: Final = 10.0
"""After so long the delay is measured anew, with nothing else under way."""
_EFFECT_S: Final = 1.0
"""So long after a key it is not: what the key does is being sent."""


class _Sent(NamedTuple):
    total: int
    at: float
    delivered: int
    delivered_at: float
    held: bool
    alone: bool


class Line:
    """The bytes under way, and how many more may be. Times in seconds, rates in bytes/s."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began = clock()
        self._given = self._taken = 0
        self._total = self._delivered = 0
        self._delivered_at = self._led_at = self._began
        self._led_to = 0
        self._under_way: deque[_Sent] = deque()
        self._answers = False
        self._mute = False
        self._overdue = False
        self._lost = False
        self._confirmed_at = self._began
        self.rate: float | None = None
        self.round_trip = 0.0

    @property
    def is_slow(self) -> bool:
        """Whether it was seen to take few bytes."""
        return self.rate is not None and self.rate < SLOW_RATE

    @property
    def room(self) -> int:
        """Bytes that may be sent now."""
        now = self._clock()
        if not self._answers and now - self._began > _MUTE_S:
            self._mute = True
        if self._mute or self._lost:
            # The kernel's own buffer is all that can be seen: a frame when it took the last one.
            return _FIRST if self._given <= self._taken else 0
        if self._under_way and now - self._under_way[0].at > max(_LOST_S, 4 * self.round_trip):
            self._give_up()
            self._overdue = True
        if self._overdue or (self.round_trip and now - self._confirmed_at > _CONFIRMED_S):
            return 0 if self._under_way else _LEAST
        return max(0, self._most_under_way - (self._total - self._delivered))

    @property
    def _most_under_way(self) -> int:
        if self.rate is None:
            return _FIRST
        return max(_LEAST, int(self.rate * (self.round_trip + _QUEUE_S)))

    @property
    def piece(self) -> int:
        """Bytes after which to ask, so that the answers tell the line's pace."""
        return _FIRST if self.rate is None else max(_LEAST, int(self.rate * _QUEUE_S))

    @property
    def patience(self) -> float:
        """Seconds after which there may be room although nothing was heard."""
        return _MUTE_S if not self._answers else _LOST_S

    def sent(self, size: int, more: bool) -> None:
        """A piece was sent, with a question behind it; `more` is to be sent yet."""
        now = self._clock()
        if self._mute or self._lost:
            self._give_up()
        alone = not self._under_way
        if alone:
            self._delivered_at = now
        self._total += size
        # Only a line that is full tells how little it takes; a frame in pieces tells nothing yet.
        held = more and self._total - self._delivered >= self._most_under_way
        self._under_way.append(
            _Sent(self._total, now, self._delivered, self._delivered_at, held, alone)
        )

    def answered(self, at: float) -> None:
        """The terminal has painted the first piece that is under way; heard of at this moment."""
        self._answers, self._mute, self._overdue, self._lost = True, False, False, False
        if not self._under_way:
            return
        piece = self._under_way.popleft()
        took = max(1e-4, at - piece.at)
        is_old = at - self._confirmed_at > _CONFIRMED_S
        if not self.round_trip or took <= 1.1 * self.round_trip or (piece.alone and is_old):
            self.round_trip = took if is_old else min(took, self.round_trip or took)
            self._confirmed_at = at
        size = piece.total - max(piece.delivered, self._led_to)
        if piece.alone:
            # Its first byte came after the delay: the line was busy with it for the rest only.
            busy_s = took - self.round_trip
            self._led_to, self._led_at = piece.total, at
        else:
            # Nor does the delay of the first count for those that followed it at once.
            busy_s = at - max(piece.delivered_at, self._led_at)
        # Answers that come at once tell less than the delay's own uncertainty.
        rate = size / max(busy_s, 0.2 * took)
        self._delivered, self._delivered_at = piece.total, at
        if size < 2 * _LEAST:
            return  # says nothing of how much fits
        if self.rate is None or rate > self.rate:
            self.rate = rate
        elif piece.held:
            self.rate += _GAIN * (rate - self.rate)

    def typed(self) -> None:
        """A key came: the line is there, whatever was not answered.

        Its effect does not wait for the delay to be measured anew, which takes the line empty.
        """
        self._lost = self._lost or self._overdue
        self._confirmed_at = max(self._confirmed_at, self._clock() - _CONFIRMED_S + _EFFECT_S)

    def given(self, size: int) -> None:
        """So many characters are to be written to the kernel."""
        self._given += size

    def taken(self, size: int) -> None:
        """The kernel took so many."""
        self._taken += size

    def _give_up(self) -> None:
        self._under_way.clear()
        self._delivered = self._total
