"""A run that survives a boot, on a machine that its provider takes away: it goes on afterwards.

Standard library only: the supervisor imports it.
"""

from collections.abc import Callable

from runners.host.files import read_json
from runners.host.identity import boot_id
from runners.lifecycle.supervisor.wakeup import WakeupLoop
from runners.model.endings import EndingCause
from runners.state.layout import RunDirectory
from runners.state.records import PlanFields, intent_fields

TEXT = "it goes on when the machine is back"
_LOOK_EVERY_S = 2.0


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
