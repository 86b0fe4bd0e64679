"""How often a panel asks for Slurm's other jobs."""

import threading

import pytest

from runners.places.slurm import foreign
from runners.state.layout import StateDirectory
from tests.support import eventually


@pytest.mark.parametrize("is_asked", [True, False])
def test_without_an_answer_it_asks_once_in_a_while(
    monkeypatch: pytest.MonkeyPatch, is_asked: bool
) -> None:
    state, asked = StateDirectory().create(), threading.Semaphore(0)
    calls = 0

    def refresh(state: StateDirectory) -> None:
        nonlocal calls
        calls += 1
        asked.release()
        raise OSError

    monkeypatch.setattr(foreign, "refresh", refresh)
    monkeypatch.setattr(foreign, "_LOOKS_EVERY_S", 1000.0)
    if is_asked:
        state.slurm.mkdir()
    before = set(threading.enumerate())
    jobs = foreign.SlurmJobs(state, lambda: None)
    if is_asked:
        asked.acquire()
    jobs.stop()
    eventually(
        lambda: not any(each.name == "slurm-jobs" for each in set(threading.enumerate()) - before)
    )
    assert calls == is_asked
