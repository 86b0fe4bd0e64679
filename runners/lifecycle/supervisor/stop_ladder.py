"""The stop ladder: which rung a stop is on, and when it moves to the next."""

from runners.state.records import RungFields


class Ladder:
    """Walks the rungs of a plan's stop rule; knows time only as the numbers it is given."""

    def __init__(self, rungs: list[RungFields]) -> None:
        self.rungs = [(rung["how"], rung["wait_s"]) for rung in rungs]
        self.step = -1
        self.until = 0.0

    @property
    def how(self) -> str:
        """The current rung: stop-file or a signal's name; empty before the first."""
        return self.rungs[self.step][0] if self.step >= 0 else ""

    @property
    def wait_s(self) -> float:
        """How long the current rung lasts, in seconds; 0 before the first."""
        return self.rungs[self.step][1] if self.step >= 0 else 0.0

    @property
    def is_last(self) -> bool:
        """True on the last rung, after which nothing more can be done."""
        return self.step == len(self.rungs) - 1

    def clip(self, now: float, left_s: float) -> None:
        """Shorten what is left of all rungs, in proportion, so that they end within `left_s`."""
        current = max(0.0, self.until - now) if self.step >= 0 else 0.0
        together = current + sum(wait_s for _, wait_s in self.rungs[self.step + 1 :])
        if together <= left_s:
            return
        part = left_s / together
        self.until = now + current * part
        self.rungs = [
            (how, wait_s * part if i > self.step else wait_s)
            for i, (how, wait_s) in enumerate(self.rungs)
        ]

    def due(self, now: float, requests: int, force: bool) -> bool:
        """True when the next rung must be taken now: by another request, by force, or by time."""
        if self.is_last:
            return False
        # Each further request moves one rung on at once, but never past the last.
        wanted = len(self.rungs) - 1 if force else min(requests, len(self.rungs)) - 1
        return self.step < wanted or (self.step >= 0 and now >= self.until)

    def advance(self, now: float, force: bool) -> str:
        """Move on by one rung, or to the last by force; return what it does."""
        self.step = len(self.rungs) - 1 if force else self.step + 1
        self.until = now + self.rungs[self.step][1]
        return self.how
