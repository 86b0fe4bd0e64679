"""When a run's supervisor has a sampler started: never beside a living one, never too often, only
for GPUs.
"""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from runners.host.locks import acquire
from runners.lifecycle.supervisor import sampler_keepalive as sampling
from runners.lifecycle.supervisor.sampler_keepalive import Sampling
from runners.state.layout import StateDirectory


@pytest.fixture
def state(tmp_path: Path) -> StateDirectory:
    return StateDirectory(tmp_path / "state").create()


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What was to be started; nothing is."""
    found: list[str] = []
    monkeypatch.setattr(
        sampling.helpers,
        "spawn",
        lambda module, argument: found.append(f"{module} {argument.name}"),
    )
    return found


def _die(state: StateDirectory, ago_s: float) -> None:
    """A sampler began `ago_s` seconds ago, and lives no more."""
    state.sampler_lock.touch()
    os.utime(state.sampler_lock, (0, time.time() - ago_s))


def test_a_dead_sampler_is_followed_by_one_other_at_a_time(
    state: StateDirectory, begun: list[str]
) -> None:
    _die(state, 30)
    mine = Sampling(state, wanted=True)
    mine.mind()
    mine.mind()
    assert begun == ["start-sampler state"]
    _die(state, 1)
    Sampling(state, wanted=True).mind()
    assert len(begun) == 1, "another run's supervisor has seen to it just now"


@pytest.mark.parametrize("ago_s", [21, -3600])
def test_a_long_life_or_a_server_s_clock_is_no_young_death(
    state: StateDirectory, begun: list[str], ago_s: float
) -> None:
    _die(state, ago_s)
    Sampling(state, wanted=True).mind()
    assert len(begun) == 1


def test_a_living_sampler_or_a_run_on_the_cpu_needs_none(
    state: StateDirectory, begun: list[str]
) -> None:
    _die(state, 30)
    Sampling(state, wanted=False).mind()
    lock = acquire(state.sampler_lock)
    assert lock is not None
    os.utime(state.sampler_lock, (0, 0))
    Sampling(state, wanted=True).mind()
    os.close(lock)
    assert begun == []


def test_no_process_to_be_had_is_no_end_of_the_run(
    state: StateDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(module: str, argument: Path) -> None:
        raise BlockingIOError("no more processes")

    monkeypatch.setattr(sampling.helpers, "spawn", refuse)
    Sampling(state, wanted=True).mind()
