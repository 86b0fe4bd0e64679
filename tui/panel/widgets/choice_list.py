"""Lists of a dialog of which one line is chosen."""

from typing import Any

from textual.events import Click
from textual.widgets import OptionList


def ignore_a_stale_click(choices: OptionList, event: Click) -> None:
    """What was clicked at is as it was painted; the lines may be fewer by now."""
    if event.style.meta.get("option", 0) >= choices.option_count:
        event.prevent_default()


class ChoiceList(OptionList):
    """One line for each choice; a click on one that has just gone chooses nothing."""

    on_click = ignore_a_stale_click

    def __init__(self, *choices: Any, id: str) -> None:
        super().__init__(*choices, id=id, compact=True)
