"""What a session of a machine may be opened with: its GPUs, who rents it out, and prices."""

import msgspec

from runners.cost.cloud import Instance, find_instance
from runners.cost.opening import prices_for
from runners.cost.prices import PriceEntry
from runners.cost.sessions import begin_since_boot
from runners.gpus.client import read_gpus
from runners.host.clock import moment_now, seconds_between
from runners.model.gpus import GpuReading
from runners.state.layout import StateDirectory


class SessionOffer(msgspec.Struct, frozen=True):
    """Every price known to a machine; the first `fitting` of `prices` fit it."""

    reading: GpuReading
    instance: Instance
    prices: list[PriceEntry]
    fitting: int
    since: float | None = None
    """When a session since boot would begin, in unix seconds by the machine's own clock."""
    since_s: float = 0.0
    """How long ago that is."""


def offer_session(state: StateDirectory) -> SessionOffer:
    """What this machine's session may be opened with. May wait for a first reading of the GPUs."""
    reading = read_gpus(state)
    instance = find_instance() or Instance("")
    prices, fitting = prices_for(reading, instance)
    now = moment_now()
    began = begin_since_boot(state, now)
    return SessionOffer(reading, instance, prices, fitting, began.wall, seconds_between(began, now))
