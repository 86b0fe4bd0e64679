"""The guard's next step. Pure: from how far it has gone and what it sees to what it does.

The order is always warn → stop the runs, with their checkpoints → the end command. Whoever carries
a step out writes it down before and after, so a guard that was killed at any moment continues where
it was, and does nothing twice; a step that is only to be told is returned as long as it lasts. What
a boot has not finished, the next begins again with a warning: somebody may have switched the
machine on to fetch results.
"""

from enum import Enum

import msgspec

from runners.guard.claims import Claim
from runners.guard.rule import GuardRule, GuardState, Stage
from runners.host.clock import Moment, seconds_between
from runners.model.units import duration_text

FIRST_RETRY_S = 30.0
LONGEST_RETRY_S = 3600.0
_SUSPENDED_S = 10.0
"""From then on a countdown in which the machine was suspended begins again."""


class Action(str, Enum):
    """What the guard has to do for a step; the value names the step to webhooks."""

    NONE = ""
    WARN = "warn"
    CANCEL = "cancel"
    STOP = "stop"
    HOLD = "hold"
    END = "end"
    FAILED = "failed"
    FINISH = "finish"


_Step = tuple[GuardState, Action]


class Observation(msgspec.Struct, frozen=True):
    """What the guard sees: reasons, problems, runs live and not fetched, and its end command."""

    now: Moment
    reasons: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    live: tuple[str, ...] = ()
    unfetched: tuple[str, ...] = ()
    ending: Claim = Claim()
    blind: bool = False
    suspended_s: float = 0.0
    """For how long the machine was suspended since the stage began."""


def next_step(
    rule: GuardRule, before: GuardState | None, sight: Observation
) -> tuple[GuardState, Action]:
    """How far the guard goes now, and what it has to do for that."""
    # Another rule was set: how far the one before had gone does not count.
    if before is None or before.rule != rule.id:
        before = GuardState(rule.id, since=sight.now)
    before = msgspec.structs.replace(before, problems=sight.problems, blind=sight.blind)
    if _machine_was_off(before, sight):
        return _begin_again(rule, before, sight, "the machine was off: starting over")
    if before.stage is Stage.WARNED and sight.suspended_s >= _SUSPENDED_S:
        # Nobody could postpone it meanwhile.
        return _begin_again(rule, before, sight, "the machine was suspended: starting over")
    return _STEPS[before.stage](rule, before, sight)


def retry_pause(attempt: int) -> float:
    """Seconds between a failed try of the end command and the next: doubled each time."""
    return min(LONGEST_RETRY_S, FIRST_RETRY_S * 2.0 ** (attempt - 1))


def _machine_was_off(before: GuardState, sight: Observation) -> bool:
    """True for a step that an earlier boot left unfinished."""
    if before.since is None or not before.since.boot or before.since.boot == sight.now.boot:
        return False
    if before.stage is Stage.ENDING:
        # Switching the machine off takes the command's exit code with it: that is a success.
        return sight.ending.attempt < before.attempt or sight.ending.exit not in (0, None)
    return before.stage in (Stage.WARNED, Stage.STOPPING, Stage.HOLDING)


def _begin_again(rule: GuardRule, before: GuardState, sight: Observation, note: str) -> _Step:
    anew = _move(before, Stage.WATCHING, sight, note=note)
    after, action = _watch(rule, anew, sight)
    return after, action if action is not Action.NONE else Action.CANCEL


def _watch(rule: GuardRule, before: GuardState, sight: Observation) -> _Step:
    if not sight.reasons or rule.postponed_left(sight.now):
        return before, Action.CANCEL if before.note else Action.NONE
    reason = "; ".join(sight.reasons)
    return _move(
        before, Stage.WARNED, sight, reason=reason, cycle=before.cycle + 1, note=""
    ), Action.WARN


def _count_down(rule: GuardRule, before: GuardState, sight: Observation) -> _Step:
    if rule.postponed_left(sight.now):
        return _move(before, Stage.WATCHING, sight, note="postponed"), Action.CANCEL
    # Money spent does not come back, but a budget can be raised and an idle run can go on.
    if not sight.reasons:
        return _move(before, Stage.WATCHING, sight, note="its reason is gone"), Action.CANCEL
    if before.since is not None and seconds_between(before.since, sight.now) < rule.countdown_s:
        return before, Action.WARN  # carried out at most once, however often it is returned
    return _move(before, Stage.STOPPING, sight, reason="; ".join(sight.reasons)), Action.STOP


def _stop(rule: GuardRule, before: GuardState, sight: Observation) -> _Step:
    if sight.live:
        return before, Action.STOP
    if not rule.end_command:
        return _move(before, Stage.ENDED, sight, note="every run has ended"), Action.FINISH
    return _end(rule, before, sight)


def _end(rule: GuardRule, before: GuardState, sight: Observation) -> _Step:
    """After the runs: the end command, unless it is postponed or would destroy results."""
    # Somebody launched a run meanwhile: it is stopped in order, like the others.
    if sight.live:
        return _move(before, Stage.STOPPING, sight), Action.STOP
    if rule.postponed_left(sight.now):
        return before, Action.NONE
    if rule.destroys and sight.unfetched:
        note = (
            f"the end command deletes the machine, and {_name(sight.unfetched)} not fetched "
            "(`fresnel-tui fetched RUN`, or `fetched --give-up RUN`)"
        )
        # Reported once: the same note means that nothing has changed.
        if before.stage is Stage.HOLDING and before.note == note:
            return before, Action.HOLD
        return _move(before, Stage.HOLDING, sight, note=note), Action.HOLD
    attempt = before.attempt + 1
    return _move(before, Stage.ENDING, sight, note="", attempt=attempt), Action.END


def _finish(rule: GuardRule, before: GuardState, sight: Observation) -> _Step:
    ending = sight.ending
    if before.failed is not None:
        return _try_again(rule, before, sight)
    if ending.damaged and not ending.alive:
        # It may have begun: in this boot never a second time. After a reboot all begins again.
        return _unseen(before, "its marker is damaged, so nobody knows whether the end command ran")
    if ending.attempt < before.attempt:
        # The guard was killed before it could start it; at most one is ever started.
        return before, Action.END
    if ending.alive:
        return before, Action.NONE
    if ending.exit == 0:
        note = "the end command has run: exit code 0"
        return _move(before, Stage.ENDED, sight, note=note), Action.FINISH
    if ending.exit is None and not ending.in_this_boot:
        note = "the end command has run: the machine went down with it"
        return _move(before, Stage.ENDED, sight, note=note), Action.FINISH
    if ending.exit is None:
        # It may have done its work: a second run could do harm.
        return _unseen(before, "nobody saw how the end command ended, exit code unknown")
    wait = duration_text(retry_pause(before.attempt))
    note = f"the end command failed: exit code {ending.exit}; try {before.attempt + 1} in {wait}"
    return msgspec.structs.replace(before, failed=sight.now, note=note), Action.FAILED


def _unseen(before: GuardState, what: str) -> _Step:
    note = f"{what}: check the machine yourself; `fresnel-tui guard set` sets the guard again"
    if before.note == note:
        return before, Action.FAILED
    return msgspec.structs.replace(before, note=note), Action.FAILED


def _try_again(rule: GuardRule, before: GuardState, sight: Observation) -> _Step:
    """The end command once more when its pause is over, under the same conditions as at first."""
    assert before.failed is not None
    if seconds_between(before.failed, sight.now) < retry_pause(before.attempt):
        return before, Action.FAILED
    after, action = _end(rule, before, sight)
    return after if after is before else msgspec.structs.replace(after, failed=None), action


def _rest(rule: GuardRule, before: GuardState, sight: Observation) -> _Step:
    return before, Action.FINISH


def _move(before: GuardState, stage: Stage, sight: Observation, **changes: object) -> GuardState:
    return msgspec.structs.replace(before, stage=stage, since=sight.now, **changes)


def _name(runs: tuple[str, ...]) -> str:
    shown = ", ".join(runs[:3]) + (f" and {len(runs) - 3} more" if len(runs) > 3 else "")
    return f"{shown} {'are' if len(runs) > 1 else 'is'}"


_STEPS = {
    Stage.WATCHING: _watch,
    Stage.WARNED: _count_down,
    Stage.STOPPING: _stop,
    Stage.HOLDING: _end,
    Stage.ENDING: _finish,
    Stage.ENDED: _rest,
}
