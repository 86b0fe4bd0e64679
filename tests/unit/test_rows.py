"""Only what changed in a row is painted again, and never less than that."""

import textwrap
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.style import Style
from rich.text import Text

from tui.panel.widgets.log.rows import explanation_line
from tui.panel.widgets.row_painting import changed_cells

_TEXT = st.text(alphabet="ab0123456789 ▁█", min_size=1, max_size=30)


@given(_TEXT, _TEXT, st.integers(1, 40))
def test_everything_outside_the_changed_cells_is_the_same(old: str, new: str, width: int) -> None:
    if old == new:
        return
    start, end = changed_cells(Text(old), Text(new), width)
    assert 0 <= start < end <= width
    before, after = old.ljust(width)[:width], new.ljust(width)[:width]
    assert before[:start] == after[:start] and before[end:] == after[end:]


def test_another_style_is_a_change_of_the_whole_row() -> None:
    plain, styled = Text("same "), Text("same ")
    styled.stylize("red", 0, 2)
    assert changed_cells(plain, styled, 10) == (0, 10)


def test_wide_letters_repaint_the_whole_row() -> None:
    assert changed_cells(Text("漢字1"), Text("漢字2"), 10) == (0, 10)


def test_what_stands_in_an_empty_log_is_wrapped_once(monkeypatch: pytest.MonkeyPatch) -> None:
    texts: list[str] = []
    wrap = textwrap.wrap

    def noted(text: str, *more: Any, **named: Any) -> list[str]:
        texts.append(text)
        return wrap(text, *more, **named)

    monkeypatch.setattr(textwrap, "wrap", noted)
    lines = [explanation_line(("one two", "", "three"), y, 33, Style()).text for y in range(9)]
    assert [line.strip() for line in lines] == ["one two", "", "three", *[""] * 6]
    assert texts == ["one two", "", "three"]
