"""The chart of the selected run beside its log."""

import pytest

from runners.state.layout import StateDirectory
from tests.support import eventually
from tests.ui.conftest import Show
from tests.ui.key_matrix import make_runs

CHART = r"loss +0\.03\d* ↓0\.03"


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FRESNEL_GPUS", "none")
    make_runs(StateDirectory().create().root, 1)


def test_a_chart_stands_beside_the_log_until_it_is_not_wanted(show: Show, runs: None) -> None:
    panel = show(columns=160, rows=40, until=CHART)
    panel.press("3", "z")
    panel.wait_gone(CHART)
    panel.press("Escape")
    panel.wait_for(CHART)
    panel.press("C")
    panel.wait_gone(CHART)
    panel.press("q")
    panel.wait_end()
    again = show(columns=160, rows=40, until="epoch 29")
    again.press("C")
    again.wait_for(CHART)


def test_a_slow_line_and_a_narrow_screen_have_no_chart_and_say_so(show: Show, runs: None) -> None:
    for words, columns in ((("--slow",), 160), ((), 120)):
        panel = show(*words, columns=columns, rows=40, until="epoch 29")
        before = panel.text
        panel.press("C")
        eventually(lambda panel=panel, before=before: panel.read() or panel.text != before)
        panel.wait_for("▌")
        panel.press("C", "l")
        panel.wait_gone(CHART)


def test_a_notice_leaves_the_last_lines_of_the_log_in_sight(show: Show, runs: None) -> None:
    panel = show(columns=80, rows=24, until="epoch 29")
    rows = panel.text.split("\n")
    last = next(y for y, row in enumerate(rows) if "epoch 29" in row)
    panel.press("C")
    panel.wait_for("▌")
    noted = [y for y, row in enumerate(panel.text.split("\n")) if "▌" in row]
    assert max(noted) < len(rows) / 2 < last
    assert "epoch 29" in panel.text.split("\n")[last]
