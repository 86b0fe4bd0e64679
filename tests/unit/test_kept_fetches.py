"""Repeated fetches: none takes the place of one that brings more, a replaced one is not undone."""

import time
from pathlib import Path

import msgspec
import pytest

from runners.places.ssh import kept_fetches
from runners.places.ssh.kept_fetches import KeptFetch, find_fetch, free_name, list_fetches
from runners.state.layout import StateDirectory


@pytest.fixture
def state(tmp_path: Path) -> StateDirectory:
    """A state folder in which fetches can be kept."""
    state = StateDirectory(tmp_path).create()
    (state.remote / ".fetches").mkdir(parents=True)
    return state


def _fetch(name: str, *runs: str, to: str = "/here", created: float = 1.0) -> KeptFetch:
    return KeptFetch(name, "amd", runs, to, "best", 60.0, created)


def _write(state: StateDirectory, fetch: KeptFetch) -> None:
    path = state.remote / ".fetches" / f"{fetch.name}.json"
    path.write_bytes(msgspec.json.encode(fetch))


def test_a_name_is_free_unless_its_fetch_brings_more(state: StateDirectory) -> None:
    _write(state, _fetch("amd-r1", "r1", "r2"))
    assert free_name(state, "amd-r1", ("r1", "r2", "r3"), "/here") == "amd-r1"
    assert free_name(state, "amd-r1", ("r1", "r3"), "/here") != "amd-r1"
    assert free_name(state, "amd-r1", ("r1", "r2"), "/there") != "amd-r1"
    _write(state, msgspec.structs.replace(_fetch("amd-r1", "r1", "r2"), ended=time.time()))
    assert free_name(state, "amd-r1", ("r3",), "/there") == "amd-r1"


def test_what_replaced_it_while_it_fetched_is_fetched_next(
    state: StateDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched = []

    def bring(state: StateDirectory, fetch: KeptFetch) -> tuple[str, bool]:
        fetched.append(fetch.to)
        if fetch.to == "/here":
            _write(state, _fetch("amd-r1", "r1", to="/there", created=2.0))
        return "", True

    monkeypatch.setattr(kept_fetches, "_fetch", bring)
    _write(state, _fetch("amd-r1", "r1"))
    kept_fetches._repeat(state, "amd-r1")
    assert fetched == ["/here", "/there"]
    assert find_fetch(state, "r1").ended and len(list_fetches(state)) == 1
