"""What is to be said of a price that is given with a launch: only a session's is ever paid."""

from runners.cost.sessions import read_session
from runners.model.gpus import GpuReading
from runners.model.spec import Price
from runners.state.layout import StateDirectory


def price_notes(
    state: StateDirectory, price: Price | None, reading: GpuReading | None
) -> tuple[str, ...]:
    """That --price changes nothing in a session, and what speaks against it on these GPUs."""
    if price is None or price.basis != "flag":
        return ()
    notes = []
    if read_session(state) is not None:
        notes.append("--price: the run pays its share of the open session, whatever its price")
    if price.name and reading is not None:
        from runners.cost.opening import rate_caveat  # only where a price was given by name

        notes.append(rate_caveat(price.name, price.per, reading))
    return tuple(filter(None, notes))
