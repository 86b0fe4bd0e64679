"""What a session of a machine may be opened with: its GPUs, who rents it out, and prices."""

import msgspec

from runners.cost.cloud import Instance, find_instance
from runners.cost.opening import prices_for
from runners.cost.prices import PriceEntry
from runners.gpus.client import read_gpus
from runners.model.gpus import GpuReading
from runners.state.layout import StateDirectory


class SessionOffer(msgspec.Struct, frozen=True):
    """Every price known to a machine; the first `fitting` of `prices` fit it."""

    reading: GpuReading
    instance: Instance
    prices: list[PriceEntry]
    fitting: int


def offer_session(state: StateDirectory) -> SessionOffer:
    """What this machine's session may be opened with. May wait for a first reading of the GPUs."""
    reading = read_gpus(state)
    instance = find_instance() or Instance("")
    return SessionOffer(reading, instance, *prices_for(reading, instance))
