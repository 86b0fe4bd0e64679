"""What a cluster's accounts may still use, as every surface that shows money says it."""

from collections.abc import Iterable
from typing import Any

import msgspec

from runners.slurm.accounts import AccountBudget

BUDGET_HEADINGS = ("account", "hours of", "limit", "used", "reserved", "left")


def budget_rows(budgets: Iterable[AccountBudget]) -> list[tuple[str, ...]]:
    """A row for each limit, in hours."""
    return [
        (
            *(budget.account, budget.resource),
            *(f"{hours:,.1f}" for hours in (budget.limit_h, budget.used_h)),
            *(f"{hours:,.1f}" for hours in (budget.reserved_h, budget.left_h)),
        )
        for budget in budgets
    ]


def budgets_json(budgets: Iterable[AccountBudget]) -> list[dict[str, Any]]:
    """The documented JSON of the limits."""
    return [{**msgspec.to_builtins(budget), "left_h": budget.left_h} for budget in budgets]
