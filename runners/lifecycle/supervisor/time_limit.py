"""When a run is stopped by its limits of time and cost; that of cost follows a corrected price."""

import time
from collections.abc import Callable

from runners.host.clock import Moment, moment_now, seconds_between
from runners.lifecycle.supervisor.pollers import NEVER
from runners.model.endings import Ending, EndingCause
from runners.state.layout import RunDirectory
from runners.state.limits import EarlierSessions, current_limit, follows_price, limit_of_launch
from runners.state.records import IntentFields, PlanFields, intent_fields

_PRICE_EVERY_S = 10.0


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
        self._limit = limit_of_launch(plan)
        self._follows = follows_price(plan)
        self._paid = EarlierSessions(run, plan, began)
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
            self._limit = current_limit(self._plan, self._run, self._paid) or self._limit
        seconds = self._limit.seconds
        # Counted from the start, not from now: an adopter must not extend the limit.
        left = None if seconds is None else seconds - seconds_between(self._began, moment_now())
        self._ends_at = NEVER if left is None else now + left
