"""The guard in words and in JSON, the same for every front end."""

from typing import Any

import msgspec

from runners.guard.claims import END, Claim, marker_of, read_claim
from runners.guard.rule import GuardRule, GuardState, GuardView, Stage, read_rule
from runners.host.clock import Moment, moment_now
from runners.state.layout import StateDirectory
from tui.views.format import duration


def guard_text(view: GuardView, now: Moment) -> str:
    """In one line: what it does, or why it does not; empty when none is set."""
    if view.rule is None:
        return "; ".join(view.problems)
    return "; ".join([_doing(view, view.rule, now), *view.problems])


def _doing(view: GuardView, rule: GuardRule, now: Moment) -> str:
    state = view.progress
    if state is None or state.rule != rule.id:
        state = GuardState(rule.id)
    left, held = view.left_s(now), rule.postponed_left(now)
    if left is not None:
        return f"⚠ {state.reason}: runs stop in {duration(left)}"
    if state.stage is Stage.STOPPING:
        then = f", then: {rule.end_command}" if rule.end_command else ""
        return f"⚠ {state.reason}: runs are being stopped{then}"
    if state.stage is Stage.HOLDING:
        return f"⚠ {state.note}"
    if state.stage is Stage.ENDING:
        return f"⚠ {state.reason}" + ("" if state.note else ": running the end command")
    if state.stage is Stage.ENDED:
        return f"has acted: {state.reason}" + (f"; {state.note}" if state.note else "")
    if held:
        return f"postponed for {duration(held)}: {watched_text(rule)}"
    if view.running:
        return f"watches {watched_text(rule)}"
    return f"set ({watched_text(rule)}), starts with the next command"


def guard_alarm(view: GuardView, now: Moment) -> str:
    """For a line with little room: only while it counts down, acts, or is in trouble."""
    left = view.left_s(now)
    if left is not None:
        return f"⚠ guard {duration(left)}"
    if view.problems:
        return "⚠ guard"
    stage = None if view.rule is None or view.progress is None else view.progress.stage
    return "" if stage in (None, Stage.WATCHING) else f"⚠ guard {stage.value}"


def guard_json(view: GuardView) -> dict[str, Any] | None:
    """Everything, for scripts; None when no guard is set."""
    if view.rule is None and not view.problems:
        return None
    now, state = moment_now(), view.progress
    return {
        "rule": None if view.rule is None else msgspec.to_builtins(view.rule),
        "stage": None if state is None else state.stage.value,
        "reason": None if state is None else state.reason or None,
        "note": None if state is None else state.note or None,
        "stops_in_s": view.left_s(now),
        "running": view.running,
        "problems": list(view.problems),
        "words": guard_text(view, now),
    }


def too_late_text(state: StateDirectory) -> str:
    """What to say when the end command runs already: that nothing here holds it back; else
    empty.
    """
    try:
        rule = read_rule(state)
    except ValueError:
        return ""
    claim = Claim() if rule is None else read_claim(marker_of(state, rule.id, END))
    if rule is None or not claim.alive:
        return ""
    return (
        f"⚠ too late for the end command: it runs as process {claim.pid} ({rule.end_command}); "
        f"`kill -- -{claim.pid}` ends it"
    )


def watched_text(rule: GuardRule) -> str:
    """What the rule watches."""
    told = [
        "" if rule.budget_stop is None else f"budget {_amount(rule.budget_stop)}",
        "" if rule.max_age_s is None else f"age {duration(rule.max_age_s)}",
        "" if rule.no_run_s is None else f"no run for {duration(rule.no_run_s)}",
        "" if rule.idle_s is None else f"idle GPUs for {duration(rule.idle_s)}",
    ]
    return ", ".join(filter(None, told)) or "nothing"


def _amount(text: str) -> str:
    return text if text.endswith("%") else f"${text}"
