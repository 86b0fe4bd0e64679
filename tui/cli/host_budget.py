"""`host budget`: what all machines together may cost."""

import argparse
from decimal import Decimal

from runners.cost.all_machines import read_all_budget, read_together, set_all_budget
from runners.cost.prices import parse_rate
from runners.model.errors import WrongInput
from runners.places.ssh.accounts import refresh_accounts, rented_names
from runners.state.layout import StateDirectory
from tui.cli.output import echo, print_json
from tui.views.json_values import iso, number
from tui.views.money.machine_costs import budget_text


def run_budget(arguments: argparse.Namespace) -> None:
    """Show the budget over all machines, or begin another, or lift it."""
    state = StateDirectory().create()
    refresh_accounts(state)
    together = read_together(state, rented_names(state))
    if arguments.name:
        set_all_budget(state, _amount(arguments.name), together)
    budget = read_all_budget(state)
    if arguments.json:
        print_json(
            {
                "budget_usd": None if budget is None else number(Decimal(budget.amount)),
                "left_usd": None if budget is None else number(budget.left(together)),
                "since": None if budget is None else iso(budget.since),
                "at_least": together.at_least,
            }
        )
    else:
        none = "no budget over all machines: fresnel-tui host budget USD"
        echo(none if budget is None else budget_text(budget, together))


def _amount(text: str) -> Decimal | None:
    if text == "none":
        return None
    try:
        amount = parse_rate(text)
    except ValueError:
        amount = Decimal(0)
    if amount <= 0:
        raise WrongInput(f"host budget {text}: expected US dollars such as 500, or `none`")
    return amount
