"""`guard` and `fetched`."""

import argparse
import time

from runners.cost.sessions import is_damaged, read_session
from runners.guard.daemon import watch
from runners.guard.keeper import ensure_guard, guard_lock, is_set, keeper_lock
from runners.guard.request import GuardRequest, length_of, rule_from
from runners.guard.rule import lift, postpone, read_guard, set_rule
from runners.host.clock import moment_now
from runners.host.locks import is_held
from runners.housekeeping import tended_state
from runners.lifecycle.control.fetched import (
    mark_fetched,
    release_removed,
    removed_unfetched,
    unfetched_runs,
)
from runners.lifecycle.launch.preconditions import refuse_untrusted
from runners.model.errors import ExitCode, NotFound, WrongInput
from runners.state.layout import StateDirectory
from runners.state.runs import find_runs
from tui.cli.output import echo, print_json, print_pairs
from tui.views.format import duration
from tui.views.money.guard_text import (
    consequences,
    guard_json,
    guard_text,
    nothing_text,
    postponed_text,
    too_late_text,
)

_STARTS_WITHIN_S = 3.0
_WHAT = "--budget-stop 95, --max-age 8h, --no-run 30m and --idle 30m may be combined"


def run_guard(arguments: argparse.Namespace) -> int:
    """Set, show, postpone or lift the guard, or be it in this terminal."""
    state = StateDirectory().create()
    if arguments.what == "set":
        _set(state, arguments)
    elif arguments.what == "postpone":
        _postpone(state, arguments.length)
    elif arguments.what == "off":
        late = too_late_text(state)
        was_set = lift(state)
        echo("the guard is off" if was_set else "no guard was set")
        if late:
            echo(late)
        if arguments.json:
            print_json({"was_set": was_set, "too_late": late or None})
        return ExitCode.DONE
    elif arguments.what == "run":
        return _be_guard(state)
    _await_start(state, ensure_guard(state))
    code = _show(state, arguments.json)
    if arguments.what == "set" and is_held(guard_lock(state)):
        return ExitCode.DONE  # what it watches is not looked at yet
    return code


def _await_start(state: StateDirectory, was_started: bool) -> None:
    """Until the guard that is set lives, and the keeper of one that was just started.

    What is shown then is true; between a death and the next guard is a moment.
    """
    deadline = time.monotonic() + _STARTS_WITHIN_S
    locks = [guard_lock(state), keeper_lock(state)] if was_started else [guard_lock(state)]
    for lock in locks:
        while is_set(state) and not is_held(lock) and time.monotonic() < deadline:
            time.sleep(0.02)


def _set(state: StateDirectory, arguments: argparse.Namespace) -> None:
    refuse_untrusted(state)
    session = read_session(state)
    given = {name: getattr(arguments, name) for name in GuardRequest.__struct_fields__}
    wanted = GuardRequest(**{name: value for name, value in given.items() if value is not None})
    rule = rule_from(wanted, None if session is None else session.budget)
    set_rule(state, rule)
    missing = None
    if rule.destroys:
        missing = len(unfetched_runs(state)) + len(removed_unfetched(state))
    for line in consequences(rule, session, missing):
        echo(line)


def _postpone(state: StateDirectory, text: str | None) -> None:
    if text is None:
        raise WrongInput("guard postpone: for how long?", "`fresnel-tui guard postpone 1h`")
    seconds = length_of("guard postpone", text, may_be_nothing=True) or 0.0
    try:
        postpone(state, seconds)
    except ValueError as error:
        raise WrongInput(str(error), "`fresnel-tui guard set` sets it anew") from None
    late = too_late_text(state)
    if late:
        echo(late)
        return
    held = postponed_text(read_guard(state), moment_now()) or "the guard acts again"
    echo(f"{held}; runs already asked to stop still stop")


def _be_guard(state: StateDirectory) -> int:
    if not (state.guard / "guard.json").exists():
        raise NotFound("no guard is set", f"fresnel-tui guard set: {_WHAT}")
    if not watch(state):
        echo("a guard is running already")
    return ExitCode.DONE


def _show(state: StateDirectory, as_json: bool) -> int:
    view, now = read_guard(state), moment_now()
    code = ExitCode.RUN_FAILED if view.does_nothing else ExitCode.DONE
    if as_json:
        print_json(guard_json(view))
        return code
    why = nothing_text(view, state.guard / "guard.log")
    for problem in (*([why] if why else []), *view.problems):
        echo(f"⚠ {problem}")
    if view.rule is None:
        if view.preemption is not None:
            echo(f"⚠ {view.preemption.describe(now)}")
        if not view.problems:
            echo("no guard is set: `fresnel-tui guard set --max-age 8h` sets one")
        return code
    rule = view.rule
    pairs = [
        ("guard", guard_text(view, now)),
        ("set by", rule.set_by),
        ("countdown", duration(rule.countdown_s)),
    ]
    pairs += [("started again by", view.keeper.describe())] if view.keeper is not None else []
    pairs += [("warns by", rule.warn_command)] if rule.warn_command else []
    pairs += [("webhook", rule.webhook)] if rule.webhook else []
    ends = rule.end_command or "nothing: runs are stopped, the machine stays up"
    if rule.end_command and rule.destroys:
        ends += " (deletes the machine: only when all is fetched)"
    pairs.append(("at the end", ends))
    if is_damaged(state):
        echo(f"⚠ {state.session} cannot be read")
    print_pairs(pairs)
    return code


def run_fetched(arguments: argparse.Namespace) -> None:
    """Mark runs whose results are safe; without any, show which are not."""
    state = tended_state()
    if arguments.runs and arguments.all:
        raise WrongInput("name the runs that were fetched, or --all, not both")
    if arguments.give_up and (arguments.all or arguments.to or not arguments.runs):
        raise WrongInput("--give-up takes the names of runs, and no --all or --to")
    _mark_as_fetched(state, arguments)
    missing, removed = [run.id for run in unfetched_runs(state)], removed_unfetched(state)
    if arguments.json:
        print_json({"unfetched": missing, "removed": removed})
        return
    if missing:
        echo(f"not fetched: {', '.join(missing)}")
    if removed:
        echo(f"removed without having been fetched: {', '.join(removed)}")


def _mark_as_fetched(state: StateDirectory, arguments: argparse.Namespace) -> None:
    what = "given up" if arguments.give_up else "fetched"
    where = f" to {arguments.to}" if arguments.to else ""
    removed = set(removed_unfetched(state)) & set(arguments.runs)
    for run_id in sorted(removed):
        release_removed(state, run_id)
        echo(f"{run_id}: {what}{where}")
    names = [name for name in arguments.runs if name not in removed]
    for run in find_runs(state, names) if names else []:
        mark_fetched(state, run, arguments.to, arguments.give_up)
        echo(f"{run.id}: {what}{where}")
    for run in unfetched_runs(state) if arguments.all else []:
        if not run.is_live:
            mark_fetched(state, run, arguments.to)
            echo(f"{run.id}: fetched{where}")
