"""`guard` and `fetched`."""

import argparse
import re
import time

from runners.cost.sessions import is_damaged, read_session
from runners.guard.daemon import watch
from runners.guard.idleness import LEAST_S
from runners.guard.rule import (
    GuardRule,
    lift,
    new_rule,
    postpone,
    read_guard,
    set_rule,
)
from runners.guard.spawn import ensure_guard, guard_lock
from runners.host.clock import moment_now
from runners.host.locks import is_held
from runners.housekeeping import tend
from runners.lifecycle.control.fetched import mark_fetched, unfetched_runs
from runners.lifecycle.control.preconditions import refuse_untrusted
from runners.model.errors import ExitCode, NotFound, WrongInput
from runners.presets.reading.units import parse_duration
from runners.state.layout import StateDirectory
from runners.state.runs import find_runs
from tui.cli.output import print_json, print_pairs, say
from tui.views.format import duration
from tui.views.guard_text import guard_json, guard_text, too_late_text, watched_text

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
        say("the guard is off" if was_set else "no guard was set")
        if late:
            say(late)
        if arguments.json:
            print_json({"was_set": was_set, "too_late": late or None})
        return ExitCode.DONE
    elif arguments.what == "run":
        return _be_guard(state)
    if ensure_guard(state):
        _await_start(state)
    return _show(state, arguments.json)


def _await_start(state: StateDirectory) -> None:
    """Until the guard that was just started lives, so that what is shown then is true."""
    deadline = time.monotonic() + _STARTS_WITHIN_S
    while not is_held(guard_lock(state)) and time.monotonic() < deadline:
        time.sleep(0.02)


def _set(state: StateDirectory, arguments: argparse.Namespace) -> None:
    refuse_untrusted(state)
    lengths = {
        name: _length(f"--{name.replace('_', '-')}", getattr(arguments, name))
        for name in ("max_age", "no_run", "idle", "countdown", "warm_up")
    }
    if arguments.budget_stop is None and not any(
        lengths[name] for name in ("max_age", "no_run", "idle")
    ):
        raise WrongInput("guard set: say what the guard should watch", _WHAT)
    if arguments.destroys and not arguments.end_command:
        raise WrongInput("--destroys goes with --end-command")
    if arguments.webhook and not re.match(r"https?://[^/\s]+", arguments.webhook):
        raise WrongInput(
            f"--webhook {arguments.webhook}: expected an address such as https://example.org/hook"
        )
    session = read_session(state)
    rule = new_rule(
        budget_stop=_budget(arguments.budget_stop, None if session is None else session.budget),
        max_age_s=lengths["max_age"],
        no_run_s=lengths["no_run"],
        idle_s=lengths["idle"],
        countdown_s=lengths["countdown"],
        warm_up_s=lengths["warm_up"],
        warn_command=arguments.warn_command or "",
        end_command=arguments.end_command or "",
        webhook=arguments.webhook or "",
        destroys=arguments.destroys,
    )
    set_rule(state, rule)
    _say_consequences(state, rule)


def _say_consequences(state: StateDirectory, rule: GuardRule) -> None:
    session = read_session(state)
    then = f", then: {rule.end_command}" if rule.end_command else ""
    say(
        f"{watched_text(rule)} → warning → {duration(rule.countdown_s)} later every run is stopped "
        f"by its ladder{then}"
    )
    if session is None and rule.budget_stop is not None:
        say(
            "no session is open: `fresnel-tui session start` opens one; until then the budget "
            "is not guarded"
        )
    if session is not None and rule.end_command and session.stopping:
        say(f"what that saves: {session.stopping}")
    if rule.destroys:
        missing = len(unfetched_runs(state))
        say(
            f"it destroys: only when every run is marked by `fresnel-tui fetched` ({missing} "
            "are not, so far)"
        )


def _length(flag: str, text: str | None) -> float | None:
    try:
        seconds = None if text is None else parse_duration(text)
    except ValueError as error:
        raise WrongInput(f"{flag}: {error}") from None
    if seconds == 0 and flag not in ("--countdown", "--warm-up", "guard postpone"):
        raise WrongInput(f"{flag} {text}: expected more than nothing")
    if flag == "--idle" and seconds is not None and seconds < LEAST_S:
        raise WrongInput(
            f"--idle {text}: expected at least {duration(LEAST_S)}",
            "use is kept as means of 10 s, and three windows in a row must be idle",
        )
    return seconds


def _budget(text: str | None, budget: str | None) -> str | None:
    if text is None:
        return None
    stripped = text.strip().removeprefix("$")
    if not re.fullmatch(r"\d+(\.\d+)?%?", stripped):
        raise WrongInput(
            f"--budget-stop {text}: expected US dollars such as 95, or a part of the budget "
            "such as 95%"
        )
    if stripped.endswith("%") and budget is None:
        raise WrongInput(
            f"--budget-stop {text}: a part of which budget?",
            "fresnel-tui session budget 100 sets one",
        )
    return stripped


def _postpone(state: StateDirectory, text: str | None) -> None:
    if text is None:
        raise WrongInput("guard postpone: for how long?", "fresnel-tui guard postpone 1h")
    seconds = _length("guard postpone", text) or 0.0
    try:
        postpone(state, seconds)
    except ValueError as error:
        raise WrongInput(str(error), "`fresnel-tui guard set` sets it anew") from None
    late = too_late_text(state)
    if late:
        say(late)
        return
    held = f"holds back for {duration(seconds)}" if seconds else "goes on"
    say(f"the guard {held}; what it has asked to stop, stops")


def _be_guard(state: StateDirectory) -> int:
    if not (state.guard / "guard.json").exists():
        raise NotFound("no guard is set", f"fresnel-tui guard set: {_WHAT}")
    if not watch(state):
        say("a guard is running already")
    return ExitCode.DONE


def _show(state: StateDirectory, as_json: bool) -> int:
    view, now = read_guard(state), moment_now()
    if as_json:
        print_json(guard_json(view))
        return ExitCode.DONE
    for problem in view.problems:
        say(f"⚠ {problem}")
    if view.rule is None:
        say("no guard is set: `fresnel-tui guard set --max-age 8h` sets one")
        return ExitCode.DONE
    rule = view.rule
    pairs = [
        ("guard", guard_text(view, now)),
        ("set by", rule.set_by),
        ("countdown", duration(rule.countdown_s)),
    ]
    pairs += [("warns by", rule.warn_command)] if rule.warn_command else []
    pairs += [("webhook", rule.webhook)] if rule.webhook else []
    ends = f"{rule.end_command}{' (destroys: only when all is fetched)' if rule.destroys else ''}"
    pairs.append(
        (
            "at the end",
            ends if rule.end_command else "nothing: runs are stopped, the machine goes on",
        )
    )
    if is_damaged(state):
        say(f"⚠ {state.session} cannot be read")
    print_pairs(pairs)
    return ExitCode.DONE


def run_fetched(arguments: argparse.Namespace) -> int:
    """Mark runs whose results are safe; without any, show which are not."""
    state = StateDirectory()
    tend(state)
    if arguments.runs and arguments.all:
        raise WrongInput("name the runs that were fetched, or --all, not both")
    if arguments.runs or arguments.all:
        for run in find_runs(state, arguments.runs) if arguments.runs else unfetched_runs(state):
            if arguments.all and run.is_live:
                continue
            mark_fetched(state, run, arguments.to)
            say(f"{run.id}: fetched{' to ' + arguments.to if arguments.to else ''}")
    missing = [run.id for run in unfetched_runs(state)]
    if arguments.json:
        print_json({"unfetched": missing})
    elif missing:
        say(f"not fetched: {', '.join(missing)}")
    return ExitCode.DONE
