"""An open panel does not look for garbage in all that it shows, again and again."""

import gc
from collections.abc import Iterator

import pytest

from runners.state.layout import StateDirectory
from tests.ui.waiting import until
from tui.panel.app import PanelApp

PYTHON_S = (700, 10, 10)


@pytest.fixture(autouse=True)
def _put_back() -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(*PYTHON_S)
    yield
    gc.set_threshold(*before)


async def test_what_is_made_before_all_is_gone_through_is_more_than_python_s() -> None:
    app = PanelApp(StateDirectory())
    async with app.run_test() as pilot:
        await until(pilot, lambda: gc.get_threshold() != PYTHON_S)
        first, second, _ = gc.get_threshold()
        assert gc.isenabled() and 7_000 < first * second <= 100_000
