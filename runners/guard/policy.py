"""The guard's next step. Pure: how far it has gone and what it sees in, how far it goes and what
it does out.

The order is always warn → stop the runs, with their checkpoints → the end command. Whoever carries
a step out writes it down before and after, so a guard that was killed at any moment goes on where
it stood, and does nothing twice.
"""

from enum import Enum

import msgspec

from runners.guard.rule import GuardRule, GuardState, Stage
from runners.host.clock import Moment, seconds_between


class Action(str, Enum):
    """What the guard has to do for a step; the value names the step to webhooks."""

    NONE = ""
    WARN = "warn"
    CANCEL = "cancel"
    STOP = "stop"
    HOLD = "hold"
    END = "end"
    FINISH = "finish"


_Step = tuple[GuardState, Action]


class Ending(msgspec.Struct, frozen=True):
    """What is known of the end command: whether it began, whether it goes on, and its exit code."""

    began: bool = False
    alive: bool = False
    exit_code: int | None = None


class Observation(msgspec.Struct, frozen=True):
    """What the guard sees: reasons to act, problems, live runs, ended runs whose results were not
    fetched.
    """

    now: Moment
    reasons: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    live: tuple[str, ...] = ()
    unfetched: tuple[str, ...] = ()
    ending: Ending = Ending()


def next_step(
    rule: GuardRule, before: GuardState | None, sight: Observation
) -> tuple[GuardState, Action]:
    """How far the guard goes now, and what it has to do for it."""
    if before is None or before.rule != rule.id:
        before = GuardState(rule.id, since=sight.now)
    before = msgspec.structs.replace(before, problems=sight.problems)
    return _STEPS[before.stage](rule, before, sight)


def _watch(rule: GuardRule, before: GuardState, sight: Observation) -> _Step:
    if not sight.reasons or rule.postponed_left(sight.now):
        return before, Action.NONE
    reason = "; ".join(sight.reasons)
    return _move(
        before, Stage.WARNED, sight, reason=reason, cycle=before.cycle + 1, note=""
    ), Action.WARN


def _count_down(rule: GuardRule, before: GuardState, sight: Observation) -> _Step:
    if rule.postponed_left(sight.now):
        return _move(before, Stage.WATCHING, sight, note="postponed"), Action.CANCEL
    if not sight.reasons:
        return _move(before, Stage.WATCHING, sight, note="its reason is gone"), Action.CANCEL
    if before.since is not None and seconds_between(before.since, sight.now) < rule.countdown_s:
        return before, Action.WARN  # carried out at most once, whoever asks for it
    return _move(before, Stage.STOPPING, sight, reason="; ".join(sight.reasons)), Action.STOP


def _stop(rule: GuardRule, before: GuardState, sight: Observation) -> _Step:
    if sight.live:
        return before, Action.STOP
    if not rule.end_command:
        return _move(before, Stage.ENDED, sight, note="every run has ended"), Action.FINISH
    return _end(rule, before, sight)


def _end(rule: GuardRule, before: GuardState, sight: Observation) -> _Step:
    """After the runs have ended: the end command, unless somebody holds it back, or it would
    destroy results.
    """
    if sight.live:
        return _move(before, Stage.STOPPING, sight), Action.STOP
    if rule.postponed_left(sight.now):
        return before, Action.NONE
    if rule.destroys and sight.unfetched:
        note = (
            f"the end command destroys, and {_name(sight.unfetched)} not fetched "
            "(`fresnel-tui fetched RUN`)"
        )
        if before.stage is Stage.HOLDING and before.note == note:
            return before, Action.HOLD
        return _move(before, Stage.HOLDING, sight, note=note), Action.HOLD
    return _move(before, Stage.ENDING, sight, note=""), Action.END


def _finish(rule: GuardRule, before: GuardState, sight: Observation) -> _Step:
    ending = sight.ending
    if not ending.began:
        return (
            before,
            Action.END,
        )  # the guard was killed before it could; at most one begins, whoever asks for it
    if ending.alive:
        return before, Action.NONE
    code = "exit code unknown" if ending.exit_code is None else f"exit code {ending.exit_code}"
    return _move(before, Stage.ENDED, sight, note=f"the end command has run: {code}"), Action.FINISH


def _rest(rule: GuardRule, before: GuardState, sight: Observation) -> _Step:
    return before, Action.NONE


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
