"""What follows an attempt: the restart that its rule promises, and the wait until it is due.

Of a run that survives a boot, on a machine that its provider takes away, too: it goes on
afterwards. Standard library only: the supervisor imports it.
"""

import time
from collections.abc import Callable
from typing import NamedTuple

from runners.host.files import read_json
from runners.host.identity import boot_id
from runners.lifecycle.supervisor.wakeup import WakeupLoop
from runners.model.endings import Ending, EndingCause
from runners.model.states import State
from runners.state.layout import RunDirectory
from runners.state.records import PlanFields, RecordFields, RestartFields, intent_fields

PUT_OFF = "it goes on when the machine is back"
_LOOK_EVERY_S = 2.0
_MOST_DOUBLED = 32


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
    # No float holds what a thousand restarts would make of it.
    pause: float = rule["backoff_s"] * 2.0 ** min(number - 1, _MOST_DOUBLED)
    return pause


def is_put_off(run: RunDirectory, plan: PlanFields) -> bool:
    """True where only the machine's end was the reason to stop a run that survives a boot."""
    intent = read_json(run.stop)
    if intent is None or not plan["restart"]["boot"]:
        return False
    return intent_fields(intent)["ending"]["cause"] is EndingCause.PREEMPTED


def await_machine(
    run: RunDirectory, wakeups: WakeupLoop, is_stop_asked: Callable[[], bool]
) -> None:
    """Return once this machine is not to be taken away, or somebody wants the run stopped."""
    while is_announced(run) and not is_stop_asked():
        wakeups.sleep(_LOOK_EVERY_S)


def is_announced(run: RunDirectory) -> bool:
    """True while the provider says when it takes the machine away in this boot."""
    found = read_json(run.home.preemption) or {}
    seen = found.get("seen")
    in_this_boot = isinstance(seen, list) and len(seen) > 1 and seen[1] == boot_id()
    return in_this_boot and found.get("ends") is not None
