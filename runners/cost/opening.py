"""Opening a session: which price fits this machine, and what speaks against one."""

from collections.abc import Sequence
from typing import Literal

from runners.cost.cloud import Instance
from runners.cost.prices import (
    PriceEntry,
    find_entry,
    fitting_prices,
    is_amount,
    list_prices,
    price_caveat,
)
from runners.gpus.cards import card_models
from runners.model.gpus import UNREAD, GpuReading

Per = Literal["gpu", "machine"]


def rate_caveat(
    price: str,
    per: Per,
    reading: GpuReading,
    gpus: int | None = None,
    known: Sequence[PriceEntry] | None = None,
) -> str:
    """What speaks against the rate that `price` makes here; empty when nothing does.

    `per` is what a bare amount is for, `gpus` how many GPUs the machine is stated to have,
    `known` the prices of another machine.
    """
    # An amount needs no list: it must do even when prices.yaml has a mistake.
    entry = None if is_amount(price) else find_entry(price, known)
    counts_gpus = per == "gpu" if entry is None else True
    # A driver that hangs: also of a rate for all of them every run pays its part by their number.
    if gpus is None and any(gpu.unread for gpu in reading.gpus):
        count = len(card_models(reading.gpus))
        return f"the GPUs are {reading.gpus[0].unread}: counted as {count}; --gpus N says how many"
    is_unknown = reading.backend == UNREAD or (counts_gpus and reading.problem)
    if not reading.gpus and is_unknown and gpus is None:
        return (
            f"the GPUs could not be read ({reading.problem}): counted as 1; --gpus N says how many"
        )
    if entry is None:
        return ""
    if not reading.gpus and gpus is None:
        return f"price {entry.name} is for {entry.gpu}, and this machine shows no GPU"
    models = card_models(reading.gpus)
    return price_caveat(entry, models) if gpus in (None, len(models)) else ""


def prices_of_machine(reading: GpuReading, instance: Instance) -> list[PriceEntry]:
    """Prices for this machine's GPUs, of its provider where that is known; none for a mixture."""
    models = card_models(reading.gpus)
    if len(set(models)) != 1:
        return []
    return fitting_prices(instance.provider, models[0], len(models))


def recognised_price(fitting: Sequence[PriceEntry], instance: Instance) -> PriceEntry | None:
    """The one price that a known provider asks for this machine; None when that is not clear."""
    of_machine = [entry for entry in fitting if entry.per == "machine"]
    chosen = of_machine if len(of_machine) == 1 else fitting
    return chosen[0] if instance.provider and len(chosen) == 1 else None


def prices_for(reading: GpuReading, instance: Instance) -> tuple[list[PriceEntry], int]:
    """Every known price, those that fit this machine first, and how many those are."""
    fitting = prices_of_machine(reading, instance)
    names = {entry.name for entry in fitting}
    return [*fitting, *(entry for entry in list_prices() if entry.name not in names)], len(fitting)
