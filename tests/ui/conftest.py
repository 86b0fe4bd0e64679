"""What tests of the panel share: panels to open, a command line, runs that end with the test."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from runners.state.layout import StateDirectory
from tests.process.conftest import cli, end_everything
from tests.terminal import Terminal, panel_command

__all__ = ["cli"]

Show = Callable[..., Terminal]


@pytest.fixture
def show() -> Iterator[Show]:
    """Opens panels: `show(*words, columns=80, rows=24, until="a pattern", **environment)`; they
    and all runs end with the test.
    """
    opened: list[Terminal] = []

    def show_it(
        *words: str, columns: int = 80, rows: int = 24, until: str = "", **environment: str
    ) -> Terminal:
        opened.append(Terminal(panel_command(*words), columns, rows, **environment))
        if until:
            opened[-1].wait_for(until)
        return opened[-1]

    yield show_it
    for terminal in opened:
        terminal.close()
    end_everything(StateDirectory())


@pytest.fixture
def presets(tmp_path: Path) -> Path:
    """The folder of the user's own presets."""
    folder = tmp_path / "config" / "fresnel-tui" / "presets"
    folder.mkdir(parents=True)
    return folder


def sized(show: Show, columns: int, rows: int, until: str = "") -> Show:
    """The same panels, of another size and shown once a pattern is there."""
    return partial(show, columns=columns, rows=rows, until=until)
