"""The limits of time and cost of a run; that of cost follows the prices of its sessions."""

import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple

from runners.host.clock import Moment, moment_now, seconds_between
from runners.host.files import open_binary, read_json
from runners.state.layout import RunDirectory
from runners.state.records import PlanFields, plan_fields

_SESSION_BEGINS = b'{"type":"session"'


class Limit(NamedTuple):
    """Seconds since the run's start, and the dollars that are spent then, if these are limited."""

    seconds: float | None
    usd: str = ""


def limit_now(run: RunDirectory, began: Moment | None) -> Limit:
    """When a run that `began` then will be stopped, by the price as it is now."""
    plan = plan_fields(read_json(run.plan))
    if not follows_price(plan):
        return limit_of_launch(plan)
    paid = EarlierSessions(run, plan, began or moment_now())
    return current_limit(plan, run, paid) or limit_of_launch(plan)


class EarlierSessions:
    """What a run has paid in sessions before the open one, each by its own price."""

    def __init__(self, run: RunDirectory, plan: PlanFields, began: Moment) -> None:
        self._run = run
        self._plan = plan
        self._began = began
        self._known: tuple[object, tuple[float, float]] = (None, (0.0, 0.0))

    def until(self, session: Any) -> tuple[float, float]:
        """Seconds of the run before `session`, and dollars paid in them.

        Raises what odd files raise.
        """
        start = _moment(session["began"], session["started"])
        seconds = seconds_between(self._began, start)
        if not seconds:
            return 0.0, 0.0
        # Another session is seldom opened in a run's life: the ledger is read once for each.
        key = (session["id"], start)
        if self._known[0] != key:
            paid = sum(self._part_of(ended) for ended in _ended_sessions(self._run))
            self._known = (key, (seconds, paid))
        return self._known[1]

    def _part_of(self, session: Any) -> float:
        start = _moment(session["began"], session["started"])
        since = start if seconds_between(self._began, start) else self._began
        end = _moment(session["finished"], session["ended"])
        return seconds_between(since, end) * _rate(self._plan, session) / 3600


def _ended_sessions(run: RunDirectory) -> Iterator[Any]:
    """The sessions in the ledger that have ended, the last line of each."""
    found: dict[tuple[object, ...], Any] = {}
    with suppress(FileNotFoundError), open_binary(run.home.ledger) as file:
        for line in file:
            if line.startswith(_SESSION_BEGINS):
                with suppress(ValueError, KeyError, TypeError):
                    session = json.loads(line)["session"]
                    found[session["id"], str(session["began"])] = session
    host = (read_json(run.home.session) or {}).get("host")
    return (
        session
        for session in found.values()
        if session["ended"] is not None and session["host"] == host
    )


def _moment(known: Any, wall: Any) -> Moment:
    return Moment(float(wall)) if known is None else Moment(*known)


def limit_of_launch(plan: PlanFields) -> Limit:
    """When a run will be stopped, by its price at the launch."""
    return Limit(plan["limit_s"], plan["limit_usd"])


def follows_price(plan: PlanFields) -> bool:
    """Whether its limit is one of cost by a session's price: no other is ever corrected."""
    return bool(plan["cost_limit"]) and (plan["price"] or {}).get("basis") == "session"


def current_limit(plan: PlanFields, run: RunDirectory, paid: EarlierSessions) -> Limit | None:
    """The earlier limit by the price of the open session; None where there is none to read.

    What was paid in sessions before it counts by their prices.
    """
    session = read_json(run.home.session) or {}
    try:
        if session["ended"] is not None:
            return None
        before, spent = paid.until(session)
        left = max(0.0, float(plan["cost_limit"]) - spent)
        reached = before + left / _rate(plan, session) * 3600
    except (KeyError, TypeError, ValueError, ArithmeticError, OSError):
        return None
    longest = plan["time_limit_s"]
    if longest is not None and longest <= reached:
        return Limit(longest)
    return Limit(reached, plan["cost_limit"])


def _rate(plan: PlanFields, session: Any) -> float:
    """Dollars per hour that a run costs in a session, alone on its GPUs."""
    price, gpus = session["price"], max(1, int(session["gpus"]))
    # Of a price per GPU each costs it; a machine's is divided among its GPUs.
    share = float(price["usd_per_hour"]) / (gpus if price["per"] == "machine" else 1)
    return share * _devices(plan)


def _devices(plan: PlanFields) -> float:
    """How many GPUs the run pays for; the machine, where that is what it holds."""
    if (plan["price"] or {}).get("per") == "machine":
        return 1.0
    parts = (gpu.get("part") or (1, 1) for gpu in plan["gpus"])
    return sum(numerator / denominator for numerator, denominator in parts)
