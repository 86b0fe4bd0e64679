"""Reading the health that the watcher keeps in each live run's folder."""

from pathlib import Path

import msgspec

from runners.model.health import Health
from runners.model.run import Run
from runners.model.states import State
from runners.state.decoding import read

FRESH_S = 60.0
"""Older ones are not valid any more: the watcher looks every ten seconds."""

_health = msgspec.json.Decoder(Health)


def read_health(run: Path) -> Health | None:
    """What the watcher found last of the run in this folder, however old.

    None when it has not looked yet.
    """
    return read(run / "health.json", _health)


def health_of(run: Run, now: float) -> Health | None:
    """How a run is doing at `now` (unix seconds); None while it does not run, or nobody looks."""
    if run.state is not State.RUNNING:
        return None
    found = read_health(Path(run.directory))
    if found is None or not -FRESH_S <= now - found.time <= FRESH_S:
        return None
    return found if run.record is None or found.attempt == run.record.attempt else None
