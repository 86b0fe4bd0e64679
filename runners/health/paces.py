"""How fast a run is now, beside its own pace before: seconds per step over blocks of minutes."""

from collections import deque

from runners.model.quantities import median

BLOCK_S = 180.0
_BLOCKS = 240
_FEWEST = 4
"""Blocks before the last two whose median counts as its own pace."""


class PaceHistory:
    """Paces of blocks of three minutes or more, each until a step comes, without the first."""

    def __init__(self) -> None:
        self._paces: deque[float] = deque(maxlen=_BLOCKS)
        self._from: tuple[float, int] | None = None
        self._blocks = 0

    def note(self, time: float | None, step: int | None, epoch: int | None) -> None:
        """The step (or epoch, where no steps are told) last told of, at `time` (unix seconds)."""
        done = step if step is not None else epoch
        if time is None or done is None:
            return
        # A count that fell belongs to a new attempt or epoch.
        if self._from is None or done < self._from[1]:
            self._from = (time, done)
            self._blocks = 0
            self._paces.clear()
            return
        began, first = self._from
        if time - began >= BLOCK_S and done > first:
            self._blocks += 1
            if self._blocks > 1:
                self._paces.append((time - began) / (done - first))
            self._from = (time, done)

    @property
    def recent(self) -> float | None:
        """Seconds per step in the last two blocks; None before there are enough."""
        if len(self._paces) < _FEWEST + 2:
            return None
        return (self._paces[-1] + self._paces[-2]) / 2

    @property
    def usual(self) -> float | None:
        """Seconds per step before; None before there are enough blocks."""
        if len(self._paces) < _FEWEST + 2:
            return None
        return median(list(self._paces)[:-2])
