"""What every fuzz test has: the world, and a bound on memory."""

import resource
from collections.abc import Iterator

import pytest

from tests.fuzz.world import World, make_world

_MOST_MEMORY = 768 << 20
"""Bytes that a whole run of these tests may add to the process at its largest."""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """A state folder with runs in it, for all examples of a file of tests."""
    return make_world(tmp_path_factory.mktemp("state"))


@pytest.fixture(scope="module", autouse=True)
def bounded_memory() -> Iterator[None]:
    """Whatever a damaged length claims, it is not taken into memory."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10
    assert grown < _MOST_MEMORY, f"{grown >> 20} MiB"
