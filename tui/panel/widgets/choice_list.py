"""Lists of a dialog of which one line is chosen."""

from typing import Any, TypeVar

from textual.events import Click
from textual.widgets import OptionList

ListKind = TypeVar("ListKind", bound=OptionList)


def _ignore_a_stale_click(choices: OptionList, event: Click) -> None:
    # What was clicked at is as it was painted; the lines may be fewer by now.
    if event.style.meta.get("option", 0) >= choices.option_count:
        event.prevent_default()


def _page_up(choices: OptionList) -> None:
    if choices.scrollable_content_region:
        OptionList.action_page_up(choices)  # type: ignore[no-untyped-call]


def _page_down(choices: OptionList) -> None:
    if choices.scrollable_content_region:
        OptionList.action_page_down(choices)  # type: ignore[no-untyped-call]


def acts_on_what_is_seen(kind: type[ListKind]) -> type[ListKind]:
    """Of a class of lists: nothing happens where a line, or all the room for them, has just gone.

    With Textual 8.2 each ends the application.
    """
    kind.on_click = _ignore_a_stale_click  # type: ignore[attr-defined]
    kind.action_page_up = _page_up  # type: ignore[method-assign]
    kind.action_page_down = _page_down  # type: ignore[method-assign]
    return kind


@acts_on_what_is_seen
class ChoiceList(OptionList):
    """One line for each choice."""

    def __init__(self, *choices: Any, id: str) -> None:
        super().__init__(*choices, id=id, compact=True)
