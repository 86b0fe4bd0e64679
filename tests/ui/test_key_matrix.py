"""A part of the matrix of keys; all of it: `python -m tests.ui.key_matrix`."""

from pathlib import Path

import pytest

from runners.state.layout import StateDirectory
from tests.ui.key_matrix import Found, drive, make_runs


@pytest.mark.parametrize(("count", "places"), [(0, ["command log", "help"]), (1, ["sort"])])
async def test_every_key_does_something_or_says_why_not(
    count: int, places: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FRESNEL_GPUS", "none")
    monkeypatch.chdir(StateDirectory().create().root)  # keys write files there
    state: Path = StateDirectory().create().root
    make_runs(state, count)
    found = Found()
    await drive(state, count, (80, 24), places, found)
    assert found.cells and not found.silent and not found.stuck and not found.unexplained
