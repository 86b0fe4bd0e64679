"""What is to be said of a price that is given with a launch: only a session's is ever paid."""

from runners.cost.sessions import read_session
from runners.model.gpus import GpuReading
from runners.model.spec import RunSpec
from runners.state.layout import StateDirectory


def price_notes(
    state: StateDirectory, spec: RunSpec, reading: GpuReading | None
) -> tuple[str, ...]:
    """That --price changes nothing in a session, and what speaks against it on these GPUs."""
    if spec.price is None or spec.price_basis != "flag":
        return ()
    notes = []
    if read_session(state) is not None:
        notes.append("--price: the run pays its share of the open session, whatever its price")
    from runners.cost.prices import choose_price  # only where a price was given

    price = choose_price(spec.price, "flag")
    if price.name and reading is not None and price.per != "unit":
        from runners.cost.opening import rate_caveat  # only where it was given by name

        notes.append(rate_caveat(price.name, price.per, reading))
    return tuple(filter(None, notes))
