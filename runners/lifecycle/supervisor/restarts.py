"""The attempt that a restart rule has promised: its number, and the wait until it is due.

Standard library only: the supervisor imports it.
"""

import time
from collections.abc import Callable
from typing import NamedTuple

from runners.lifecycle.supervisor.wakeup import WakeupLoop
from runners.model.endings import Ending
from runners.model.states import State
from runners.state.records import RecordFields, RestartFields


class Restart(NamedTuple):
    """Attempt `number` of `attempts`, due at `due` (unix s), `pause_s` after the one before."""

    number: int
    attempts: int
    pause_s: float
    due: float

    @classmethod
    def after(cls, number: int, rule: RestartFields) -> "Restart":
        """The one that follows attempt `number`, which has just failed."""
        pause = _pause_after(number, rule)
        return cls(number + 1, rule["times"] + 1, pause, time.time() + pause)

    def text(self) -> str:
        """What a run's row says of it."""
        return f"attempt {self.number} of {self.attempts} in {self.pause_s:g} s"

    def fields(self) -> RecordFields:
        """What is recorded of it, so that an adopter keeps the appointment: hence wall time."""
        return {"state": State.STARTING, "next_attempt": self.number, "next_at": self.due}

    def wait(self, wakeups: WakeupLoop, is_stop_asked: Callable[[], bool]) -> None:
        """Return when it is due, or when somebody wants the run stopped."""
        # A clock set back must not make the pause longer than the rule's.
        until = time.monotonic() + min(self.pause_s, max(0.0, self.due - time.time()))
        while time.monotonic() < until and not is_stop_asked():
            wakeups.sleep(until - time.monotonic())


def next_restart(
    number: int, rule: RestartFields, ending: Ending, has_progressed: Callable[[], bool]
) -> Restart | None:
    """What follows attempt `number`, which failed with `ending`; None when nothing does.

    What fails for a cause that stays, such as a missing file, fails the same way again, unless the
    attempt has come further: then the next one may too. `ending` says so.
    """
    if number > rule["times"] or "failure" not in rule["on"]:
        return None
    if ending.get("lasting") and not has_progressed():
        ending["not_restarted"] = True
        return None
    return Restart.after(number, rule)


def coming_restart(record: RecordFields, rule: RestartFields) -> Restart | None:
    """The one that a supervisor, dead since, had recorded; None when no attempt was to come."""
    number = record.get("next_attempt")
    if not number:
        return None
    pause = _pause_after(max(1, number - 1), rule)
    return Restart(number, rule["times"] + 1, pause, record.get("next_at") or 0.0)


def _pause_after(number: int, rule: RestartFields) -> float:
    pause: float = rule["backoff_s"] * 2 ** (number - 1)
    return pause
