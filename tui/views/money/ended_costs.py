"""What every ended run cost, by the whole ledger: for sorting and finding by money."""

from runners.cost.ledger import Ledger
from runners.cost.statement import make_statement
from runners.host.clock import moment_now
from runners.host.identity import host_name
from runners.state.layout import StateDirectory


def ended_costs(state: StateDirectory) -> dict[str, float]:
    """Dollars by run, of all runs that the ledger has and whose price is known."""
    ledger = Ledger(state)
    ledger.poll()
    hosts = {host_name(), *(line.host for line in ledger.runs.values())}
    found: dict[str, float] = {}
    for host in hosts:
        statement = make_statement(ledger, (), moment_now(), host)
        found.update({run: float(cost) for run, cost in statement.run_costs().items()})
    return found
