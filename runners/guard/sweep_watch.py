"""Which sweeps are judged by the median rule, and that a process of each does so."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import msgspec

from runners.host import helpers
from runners.host.files import replace
from runners.host.identity import host_name
from runners.host.keep_alive import KeepAlive
from runners.state.decoding import read
from runners.state.layout import StateDirectory

_ANEW_S = 60.0


class SweepWatch(msgspec.Struct, frozen=True):
    """sweeps/GROUP.json: a sweep's runs on one host, and their metric (empty: their headline)."""

    group: str
    runs: tuple[str, ...]
    host: str
    metric: str = ""


def watch_for_hopeless(
    state: StateDirectory, group: str, runs: Sequence[str], metric: str = ""
) -> None:
    """Have the runs of a sweep judged by the median rule until the last has ended."""
    state.sweeps.mkdir(mode=0o700, exist_ok=True)
    rule = SweepWatch(group, tuple(runs), host_name(), metric)
    replace(state.sweeps / f"{group}.json", msgspec.json.encode(rule))
    ensure_sweep_watches(state)


def ensure_sweep_watches(state: StateDirectory) -> None:
    """Start the process of every sweep of this host that is to be watched and is not.

    One that ends too early is started again once a minute.
    """
    try:
        rules = list(state.sweeps.glob("*.json"))
    except OSError:
        return
    for path in rules:
        rule = read(path, SweepWatch)
        if rule is not None and rule.host == host_name():
            start = partial(helpers.spawn, "watch-sweep", state.root, path.stem)
            KeepAlive(lock_of(path), start, _ANEW_S).ensure()


def lock_of(path: Path) -> Path:
    """Held by the process that watches the sweep of the file at `path`."""
    return path.with_suffix(".lock")
