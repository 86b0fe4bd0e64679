"""The budget over all machines in few words, for a line that is always there."""

import time
from decimal import Decimal

from runners.cost.all_machines import AllBudget, AllMachines, read_all_budget, read_together
from runners.places.ssh.accounts import rented_names
from runners.state.layout import StateDirectory
from tui.views.format import dollars

_HOLDS_S = 5.0
_NEAR = Decimal("0.1")
"""So small a part of it that is left is said before it is spent."""


class AllBudgetText:
    """That of one state folder; read again every few seconds, since every session is added up."""

    def __init__(self, state: StateDirectory) -> None:
        self._state = state
        self._kept = ""
        self._until = 0.0

    def read(self) -> str:
        """`all: $412.00 left`, with a ⚠ before it when that is little; empty without a budget."""
        now = time.monotonic()
        if now >= self._until:
            budget = read_all_budget(self._state)
            together = read_together(self._state, rented_names(self._state)) if budget else None
            self._kept = left_text(budget, together) if budget and together else ""
            self._until = now + _HOLDS_S
        return self._kept


def left_text(budget: AllBudget, together: AllMachines) -> str:
    """What is left of it by what everything came to."""
    left = budget.left(together)
    if left <= 0:
        return "⚠ all: budget spent"
    text = f"all: {dollars(left)} left"
    return f"⚠ {text}" if left < _NEAR * Decimal(budget.amount) else text
