"""Drawn machines to ask: each in a state folder of its own, its locks held by one process."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from itertools import count
from pathlib import Path

import pytest

from tests.pairs.runs import DrawnHost, LockHolder, World, world_of
from tests.process.conftest import cli as cli

Worlds = Callable[[DrawnHost], AbstractContextManager[World]]


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worlds]:
    """Puts a drawn machine on disk for a block: `with worlds(host) as world:`."""
    root: Path = tmp_path_factory.mktemp("worlds")
    numbers = count()
    holder = LockHolder()
    yield lambda host: world_of(host, root / str(next(numbers)), holder)
    holder.close()
