"""The state folder that fuzz tests damage: a run that lives elsewhere, one that ended here."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from hypothesis import HealthCheck, settings

from runners.state.layout import RunDirectory, StateDirectory
from tests.fuzz import samples

EXAMPLES = int(os.environ.get("FRESNEL_FUZZ", "1000"))
LIVE, ENDED = "20261120-101500-live-7f3a", "20261120-101400-ended-7f3b"

_few = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    print_blob=True,
    derandomize="FRESNEL_FUZZ" not in os.environ,
    database=None,
)


class World(NamedTuple):
    """A state folder with a run that lives on another host, and one that has ended on this."""

    state: StateDirectory
    live: RunDirectory
    ended: RunDirectory


def share(part: float) -> settings:
    """This part of all examples."""
    return settings(_few, max_examples=max(1, int(EXAMPLES * part)))


def make_world(folder: Path) -> World:
    """The world, whole."""
    state = StateDirectory(folder).create()
    live, ended = state.run(LIVE), state.run(ENDED)
    for run in (live, ended):
        (run.path / "checkpoints").mkdir(parents=True)
        for name, content in samples.state_files(run, run is live).items():
            (run.path / name).write_bytes(content)
        (run.path / "output.log").write_bytes(samples.outputs()[0])
    state.live_marker(LIVE).touch()
    for name, content in samples.machine_files(LIVE, ENDED).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return World(state, live, ended)


@contextmanager
def damaged(path: Path, content: bytes) -> Iterator[None]:
    """`content` in the file at `path`; afterwards what was there before."""
    before = path.read_bytes() if path.exists() else None
    path.write_bytes(content)
    try:
        yield
    finally:
        if before is None:
            path.unlink()
        else:
            path.write_bytes(before)
