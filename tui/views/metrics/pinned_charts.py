"""The order of metrics on a page or in a table, and the charts that were pinned to its front."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from runners.host.files import write_json
from runners.model.run import Run
from runners.state.decoding import read
from runners.state.layout import StateDirectory
from runners.watch.metrics.judging import ordered

_KEY = "pinned_charts"
_charts: "msgspec.json.Decoder[Any]" = msgspec.json.Decoder()  # of its own, for what is kept by it
_MOST = 200


def pinned_charts(state: StateDirectory) -> tuple[str, ...]:
    """The metrics whose charts stand first, in their order; none when nothing readable is kept."""
    found = read(state.charts, _charts)
    kept = found.get(_KEY) if isinstance(found, dict) else None
    names = kept if isinstance(kept, list) else []
    return tuple(dict.fromkeys(name for name in names if isinstance(name, str)))[:_MOST]


def keep_pinned_charts(state: StateDirectory, names: tuple[str, ...]) -> None:
    """Keep the order; a folder that cannot be written forgets it."""
    try:
        write_json(state.charts, {_KEY: list(names[:_MOST])})
    except OSError:
        pass


def in_order(sources: Mapping[str, str], runs: Sequence[Run], pinned: Sequence[str]) -> list[str]:
    """All metrics of some runs in order, given the source of each.

    What the programs report comes before their cost, all devices together, each device.
    """
    devices = {"cost": 0, "gpus": 1}
    own = [name for name, source in sources.items() if source not in devices or name in pinned]
    rest = [name for name in sources if name not in own]

    def place(name: str) -> tuple[int, bool]:
        return devices[sources[name]], not name.startswith("devices/")

    return [*ordered(own, runs, pinned), *sorted(rest, key=place)]
