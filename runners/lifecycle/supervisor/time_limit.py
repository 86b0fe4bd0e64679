"""When a run is stopped by its limits of time and cost; that of cost follows a corrected price."""

import time
from collections.abc import Callable
from typing import NamedTuple

from runners.host.clock import Moment, moment_now, seconds_between
from runners.host.files import read_json
from runners.lifecycle.supervisor.pollers import NEVER
from runners.model.endings import Ending, EndingCause
from runners.state.layout import RunDirectory
from runners.state.records import IntentFields, PlanFields, intent_fields, plan_fields

_PRICE_EVERY_S = 10.0


class Limit(NamedTuple):
    """Seconds since the run's start, and the dollars that are spent then, if these are limited."""

    seconds: float | None
    usd: str = ""


class TimeLimit:
    """Asks for a stop once the plan's limit, counted from the run's start, is reached."""

    def __init__(
        self,
        run: RunDirectory,
        plan: PlanFields,
        began: Moment,
        request: Callable[[IntentFields], None],
    ) -> None:
        self._run = run
        self._plan = plan
        self._began = began
        self._request = request
        self._is_over = False
        self._limit = _limit_of_launch(plan)
        self._follows = _follows(plan)
        self._look_at, self._ends_at = 0.0, NEVER
        self._set(time.monotonic())

    def poll(self, now: float) -> float:
        """Write the durable intent, as a user's stop does; a full disk does not lift a limit."""
        if self._is_over:
            return NEVER
        if self._follows and now >= self._look_at:
            self._set(now)
        if now < self._ends_at:
            return min(self._ends_at, self._look_at if self._follows else NEVER) - now
        # Asked for once: every further request would take the next rung of the ladder.
        self._is_over = True
        if not self._run.stop.exists():
            ending = Ending(cause=EndingCause.LIMIT, seconds=self._limit.seconds or 0.0)
            if self._limit.usd:
                ending["usd"] = self._limit.usd
            asked = intent_fields({"time": time.time(), "by": "its limit"})
            self._request({**asked, "ending": ending})
        return NEVER

    def _set(self, now: float) -> None:
        if self._follows:
            self._look_at = now + _PRICE_EVERY_S
            self._limit = _current(self._plan, self._run) or self._limit
        seconds = self._limit.seconds
        # Counted from the start, not from now: an adopter must not extend the limit.
        left = None if seconds is None else seconds - seconds_between(self._began, moment_now())
        self._ends_at = NEVER if left is None else now + left


def limit_now(run: RunDirectory) -> Limit:
    """When a run will be stopped, by the price as it is now."""
    plan = plan_fields(read_json(run.plan))
    return (_current(plan, run) if _follows(plan) else None) or _limit_of_launch(plan)


def _limit_of_launch(plan: PlanFields) -> Limit:
    return Limit(plan["limit_s"], plan["limit_usd"])


def _follows(plan: PlanFields) -> bool:
    """Whether its limit is one of cost by a session's price: no other is ever corrected."""
    return bool(plan["cost_limit"]) and (plan["price"] or {}).get("basis") == "session"


def _current(plan: PlanFields, run: RunDirectory) -> Limit | None:
    """The earlier limit by the price of the open session; None where there is none to read."""
    session = read_json(run.home.session) or {}
    try:
        if session["ended"] is not None:
            return None
        price, gpus = session["price"], max(1, int(session["gpus"]))
        # Of a price per GPU each costs it; a machine's is divided among its GPUs.
        share = float(price["usd_per_hour"]) / (gpus if price["per"] == "machine" else 1)
        spent = float(plan["cost_limit"]) / (share * _devices(plan)) * 3600
    except (KeyError, TypeError, ValueError, ArithmeticError):
        return None
    longest = plan["time_limit_s"]
    if longest is not None and longest <= spent:
        return Limit(longest)
    return Limit(spent, plan["cost_limit"])


def _devices(plan: PlanFields) -> float:
    """How many GPUs the run pays for; the machine, where that is what it holds."""
    if (plan["price"] or {}).get("per") == "machine":
        return 1.0
    parts = (gpu.get("part") or (1, 1) for gpu in plan["gpus"])
    return sum(numerator / denominator for numerator, denominator in parts)
