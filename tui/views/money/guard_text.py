"""The guard in words and in JSON, the same for every front end."""

from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec

from runners.cost.preemption import Preemption
from runners.cost.sessions import Session
from runners.guard.rule import GuardRule, GuardState, GuardView, Stage, read_rule
from runners.host.clock import Moment, moment_now, seconds_between, time_of_day
from runners.state.layout import StateDirectory
from tui.views.format import duration


def guard_text(view: GuardView, now: Moment) -> str:
    """In one line: what it does, or why it does not; that the machine is taken away, before all."""
    end = [] if view.preemption is None else [f"⚠ {view.preemption.describe(now)}"]
    doing = [] if view.rule is None else [_doing(view, view.rule, now)]
    return "; ".join([*end, *doing, *view.problems])


def _doing(view: GuardView, rule: GuardRule, now: Moment) -> str:
    state = view.progress
    if state is None or state.rule != rule.id:
        state = GuardState(rule.id)
    held = rule.postponed_left(now)
    left = None if held else view.left_s(now)
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
        until = time_of_day(now.wall + held, now.wall)
        return f"postponed until {until} ({duration(held)}): {watched_text(rule)}"
    if view.running:
        return f"watches {watched_text(rule)}"
    return f"set ({watched_text(rule)}), starts with the next command"


def nothing_text(view: GuardView, log: Path) -> str:
    """Why a guard that is set guards nothing, where no problem of it says so; else empty."""
    if not view.does_nothing or view.inert:
        return ""
    if not view.running:
        return f"the guard does nothing: no process of it lives; {log} says why"
    return "the guard does nothing: nothing that it watches is known"


def postponed_text(view: GuardView, now: Moment) -> str:
    """`guard postponed until 14:08`; empty when it is not."""
    held = 0.0 if view.rule is None else view.rule.postponed_left(now)
    until = time_of_day(now.wall + held, now.wall)
    return f"guard postponed until {until}" if held else ""


def guard_mark(view: GuardView, now: Moment) -> str:
    """The guard in few cells: `guard set`, `guard postponed until 14:08`, `⚠ guard 9m48s`."""
    alarm = guard_alarm(view, now)
    if alarm or view.rule is None:
        return alarm
    stage = None if view.progress is None else view.progress.stage
    return postponed_text(view, now) or ("guard has acted" if stage is Stage.ENDED else "guard set")


def guard_alarm(view: GuardView, now: Moment) -> str:
    """For a line with little room: only while it counts down, acts, or is in trouble."""
    if view.preemption is not None:
        ends = view.preemption.ends
        if ends is None:
            return "⚠ machine at risk"
        return f"⚠ machine ends {duration(seconds_between(now, ends))}"
    held = 0.0 if view.rule is None else view.rule.postponed_left(now)
    left = None if held else view.left_s(now)
    if left is not None:
        return f"⚠ guard {duration(left)}"
    if view.problems:
        return "⚠ guard"
    stage = None if view.rule is None or view.progress is None else view.progress.stage
    quiet = (Stage.WATCHING, Stage.WARNED) if held else (Stage.WATCHING,)
    return "" if stage is None or stage in quiet else f"⚠ guard {stage.value}"


def guard_json(view: GuardView) -> dict[str, Any] | None:
    """Everything, for scripts; None when no guard is set."""
    if view.rule is None and not view.problems and view.preemption is None:
        return None
    now, state = moment_now(), view.progress
    return {
        "rule": None if view.rule is None else msgspec.to_builtins(view.rule),
        "stage": None if state is None else state.stage.value,
        "reason": None if state is None else state.reason or None,
        "note": None if state is None else state.note or None,
        "stops_in_s": view.left_s(now),
        "running": view.running,
        "does_nothing": view.does_nothing,
        "keeper": None if view.keeper is None else msgspec.to_builtins(view.keeper),
        "problems": list(view.problems),
        "preemption": None if view.preemption is None else _preemption_json(view.preemption),
        "message": guard_text(view, now),
    }


def _preemption_json(found: Preemption) -> dict[str, Any]:
    from tui.views.json_values import iso  # the first screen does without

    return {
        "provider": found.provider,
        "action": found.action,
        "seen": iso(found.seen.wall),
        "ends": None if found.ends is None else iso(found.ends.wall),
        "ends_bill": found.ends_bill,
        "unfetched": list(found.unfetched),
    }


def too_late_text(state: StateDirectory) -> str:
    """That the end command runs already, and nothing here holds it back; empty when it does not."""
    from runners.guard.claims import (
        END,
        Claim,
        marker_of,
        read_claim,
    )  # only where a guard is held back

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


def consequences(rule: GuardRule, session: Session | None, missing: int | None = None) -> list[str]:
    """What the guard will do by this rule, and what keeps it from doing so, a line each.

    `missing` is how many runs are not marked as fetched, None where that is not known.
    """
    then = f", then: {rule.end_command}" if rule.end_command else ""
    lines = [
        f"{watched_text(rule)} → warning → {duration(rule.countdown_s)} later every run is stopped "
        f"step by step{then}"
    ]
    if session is None and rule.budget_stop is not None:
        lines.append(
            "no session is open: `fresnel-tui session start` opens one; until then the budget "
            "is not guarded"
        )
    if session is not None and rule.end_command and session.stopping:
        lines.append(f"what that saves: {session.stopping}")
    if rule.destroys:
        so_far = "" if missing is None else f" ({missing} are not, so far)"
        lines.append(
            "the end command deletes the machine: it waits until every run is marked by "
            f"`fresnel-tui fetched`{so_far}"
        )
    return lines


def watched_text(rule: GuardRule) -> str:
    """What the rule watches."""
    limits = [
        "" if rule.budget_stop is None else f"budget {_amount(rule.budget_stop)}",
        "" if rule.max_age_s is None else f"age {duration(rule.max_age_s)}",
        "" if rule.no_run_s is None else f"no run for {duration(rule.no_run_s)}",
        "" if rule.idle_s is None else f"idle GPUs for {duration(rule.idle_s)}",
    ]
    return ", ".join(filter(None, limits)) or "nothing"


def _amount(text: str) -> str:
    return text if text.endswith("%") else f"${Decimal(text):,}"
