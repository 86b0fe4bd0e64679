"""This machine and all rented ones together: what they came to, and a budget over all of them.

The budget begins when it is set. Nothing is ended by it: launches on rented machines are refused
once it is spent, and each machine's own guard acts on that machine's own budget.
"""

import time
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction

import msgspec

from runners.cost.accounting import add_fractions, to_decimal
from runners.cost.ledger import line_of
from runners.cost.machines import MachineCost, MachineState, read_machines
from runners.cost.statement import Statement, open_statement
from runners.host.files import replace
from runners.model.errors import DeniedError
from runners.state.decoding import read
from runners.state.layout import StateDirectory
from runners.state.leases import live_run_ids
from runners.state.runs import read_run


class AllMachines(msgspec.Struct, frozen=True):
    """This machine's sessions and those of all others: dollars, and dollars per hour now.

    `at_least` is True while one that costs money is not reached, and where a line of the ledger
    cannot be read.
    """

    total: Fraction
    per_hour: Decimal
    at_least: bool


class AllBudget(msgspec.Struct, frozen=True):
    """US dollars (decimal text) that all machines may cost from `since` (unix seconds) on.

    `before` is what they had cost by then, as a fraction in text.
    """

    amount: str
    since: float
    before: str

    def left(self, together: AllMachines) -> Decimal:
        """What is left of it; below zero when more was spent."""
        spent = together.total - Fraction(self.before)
        return Decimal(self.amount) - to_decimal(spent)


def add_up(here: Statement, machines: Sequence[MachineCost]) -> AllMachines:
    """All sessions together; a machine that goes by two names counts once."""
    counted = [machine for machine in machines if not machine.same_as]
    own = [here.account(session).total for session in here.sessions]
    rates = [session.rate for session in here.sessions if session.end is None]
    rates += [machine.session.rate for machine in counted if machine.session is not None]
    return AllMachines(
        add_fractions([*own, *(machine.total for machine in counted)]),
        sum(rates, Decimal(0)),
        bool(here.problem) or any(is_at_least(machine) for machine in counted),
    )


def is_at_least(machine: MachineCost) -> bool:
    """Whether what is known of its money may be less than what it cost."""
    return machine.state is MachineState.NOT_REACHED or bool(machine.statement.problem)


def read_together(state: StateDirectory, rented: Sequence[str]) -> AllMachines:
    """What everything came to by now, as far as it is known here; asks no machine."""
    live = [read_run(state, run) for run in live_run_ids(state)]
    lines = [line for run in live if (line := line_of(run)) is not None]
    return add_up(open_statement(state, live), read_machines(state, rented, lines))


def read_all_budget(state: StateDirectory) -> AllBudget | None:
    """The budget over all machines; None without one."""
    return read(state.all_budget, AllBudget)


def set_all_budget(state: StateDirectory, amount: Decimal | None, together: AllMachines) -> None:
    """Begin a budget of so many dollars now; None: none any more."""
    if amount is None:
        state.all_budget.unlink(missing_ok=True)
        return
    state.remote.mkdir(mode=0o700, parents=True, exist_ok=True)
    budget = AllBudget(str(amount), time.time(), str(together.total))
    replace(state.all_budget, msgspec.json.encode(budget))


def refuse_over_budget(state: StateDirectory, rented: Sequence[str]) -> None:
    """DeniedError when the budget over all machines is spent."""
    budget = read_all_budget(state)
    if budget is None:
        return
    left = budget.left(read_together(state, rented))
    if left <= 0:
        raise DeniedError(
            f"the budget over all machines, ${Decimal(budget.amount):,.2f}, is spent",
            "fresnel-tui host budget AMOUNT begins another; `host budget none` lifts it",
        )
