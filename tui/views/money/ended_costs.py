"""What every ended run cost, by the whole ledger: for sorting and finding by money."""

from runners.cost.ledger import Ledger, line_of
from runners.cost.statement import make_statement
from runners.host.clock import moment_now
from runners.host.identity import host_name
from runners.state.layout import StateDirectory
from runners.state.leases import live_run_ids
from runners.state.runs import read_run


def ended_costs(state: StateDirectory) -> dict[str, float]:
    """Dollars by run, of all runs that the ledger has and whose price is known."""
    ledger = Ledger(state)
    ledger.poll()
    # Those that live count too: who shared a GPU with one paid a part of it.
    runs = (read_run(state, run) for run in live_run_ids(state))
    live = [line for run in runs if (line := line_of(run)) is not None]
    now = moment_now()
    found: dict[str, float] = {}
    paid = {line.host for line in (*ledger.runs.values(), *live) if line.is_paid}
    for host in {host_name(), *ledger.hosts}:
        if host not in paid and not ledger.sessions(host):
            continue  # nobody paid anything there: no run has to be placed in time
        costs = make_statement(ledger, live, now, host).run_costs()
        found.update({run: float(cost) for run, cost in costs.items() if run in ledger.runs})
    return found
