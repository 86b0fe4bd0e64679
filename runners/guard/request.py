"""What a person wants the guard to do, as text, checked and turned into a rule."""

import re
from collections.abc import Callable
from typing import Any

import msgspec

from runners.guard.idleness import LEAST_S
from runners.guard.rule import GuardRule, new_rule
from runners.model.errors import WrongInput
from runners.model.units import parse_duration

WATCHABLE = ("budget_stop", "max_age", "no_run", "idle")
_LENGTHS = ("max_age", "no_run", "idle", "countdown", "warm_up")
_MAY_BE_NOTHING = ("countdown", "warm_up")
_AS_GIVEN = ("warn_command", "end_command", "webhook", "destroys")


class GuardRequest(msgspec.Struct, frozen=True):
    """The words for each part of a rule; empty where nothing was said."""

    budget_stop: str = ""
    max_age: str = ""
    no_run: str = ""
    idle: str = ""
    countdown: str = "10m"
    warm_up: str = "30m"
    warn_command: str = ""
    end_command: str = ""
    webhook: str = ""
    destroys: bool = False


def spell_length(seconds: float) -> str:
    """A length of time as a person types it: `8h`, `30m`, `90s`."""
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:g}{unit}"
    return f"{seconds:g}s"


def request_of(rule: GuardRule) -> GuardRequest:
    """The words that make this rule."""
    seconds = {part: getattr(rule, f"{part}_s") for part in _LENGTHS}
    given: dict[str, Any] = {part: getattr(rule, part) for part in _AS_GIVEN}
    given |= {part: "" if lasts is None else spell_length(lasts) for part, lasts in seconds.items()}
    return GuardRequest(budget_stop=rule.budget_stop or "", **given)


def request_flags(request: GuardRequest) -> list[str]:
    """The headless flags that say the same."""
    flags = []
    plain = GuardRequest()
    for part in GuardRequest.__struct_fields__:
        value = getattr(request, part)
        if value is True:
            flags.append(flag_of(part))
        elif value and value != getattr(plain, part):
            flags += [flag_of(part), value]
    return flags


def flag_of(part: str) -> str:
    """`--max-age` of `max_age`."""
    return f"--{part.replace('_', '-')}"


def rule_from(
    request: GuardRequest, budget: str | None, named: Callable[[str], str] = flag_of
) -> GuardRule:
    """The rule of `request`; `budget` is the session's, in dollars. WrongInput by `named`."""
    lengths = {
        part: length_of(named(part), getattr(request, part), part in _MAY_BE_NOTHING)
        for part in _LENGTHS
    }
    lengths |= {part: lengths[part] or 0.0 for part in _MAY_BE_NOTHING}
    if not any(getattr(request, part) for part in WATCHABLE):
        watchable = ", ".join(named(part) for part in WATCHABLE)
        raise WrongInput(
            "guard set: say what the guard should watch", f"{watchable} may be combined"
        )
    idle = lengths["idle"]
    if idle is not None and idle < LEAST_S:
        raise WrongInput(
            f"{named('idle')} {request.idle}: expected at least {spell_length(LEAST_S)}",
            "use is kept as means of 10 s, and three windows in a row must be idle",
        )
    if request.destroys and not request.end_command:
        raise WrongInput(f"{named('destroys')} goes with {named('end_command')}")
    if request.webhook and not re.match(r"https?://[^/\s]+", request.webhook):
        raise WrongInput(
            f"{named('webhook')} {request.webhook}: expected an address such as "
            "https://example.org/hook"
        )
    return new_rule(
        budget_stop=_budget(named("budget_stop"), request.budget_stop, budget),
        **{f"{part}_s": seconds for part, seconds in lengths.items()},
        **{part: getattr(request, part) for part in _AS_GIVEN},
    )


def length_of(name: str, text: str, may_be_nothing: bool = False) -> float | None:
    """Seconds in `text`; None for no text. WrongInput for what is no length of time."""
    if not text:
        return None
    try:
        seconds = parse_duration(text)
    except ValueError as error:
        raise WrongInput(f"{name}: {error}") from None
    if seconds == 0 and not may_be_nothing:
        raise WrongInput(f"{name} {text}: expected more than nothing")
    return seconds


def _budget(name: str, text: str, budget: str | None) -> str | None:
    if not text:
        return None
    stripped = text.strip().removeprefix("$")
    if not re.fullmatch(r"\d+(\.\d+)?%?", stripped):
        raise WrongInput(
            f"{name} {text}: expected US dollars such as 95, or a part of the budget such as 95%"
        )
    if stripped.endswith("%") and budget is None:
        raise WrongInput(
            f"{name} {text}: a part of which budget?",
            "`fresnel-tui session budget 100` sets one",
        )
    return stripped
