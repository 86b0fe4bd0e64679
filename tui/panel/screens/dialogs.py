"""What dialogs have in common, and two small ones: a question, and a line to type."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from rich.text import Text
from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen, Screen
from textual.widget import Widget
from textual.widgets import Button, Input, OptionList, Static

from runners.model.errors import FresnelError
from tui.panel.hotkeys import hotkey, paging_keys
from tui.panel.terminal.repainting import panel_screen
from tui.panel.widgets.launch.fields import FormField

if TYPE_CHECKING:
    from tui.panel.chosen_place import ChosenPlace

SCREEN_STYLES = Path(__file__).with_name("screens.tcss")
Result = TypeVar("Result")
_KEPT_ROWS = 2
"""Of a dialog no notice stands on: its title, and its first line."""


def is_open(screen: Screen[Any]) -> bool:
    """Whether there is something to draw on: it is mounted, and was not closed since.

    What a screen has asked for may come after it was closed. Textual's `is_mounted` stays true of
    one that was, whose parts are gone; so does its place on the stack while the panel is left.
    """
    app = screen.app
    return screen.is_mounted and app.is_running and screen in app.screen_stack


def if_answered(do: Callable[[Any], object]) -> Callable[[Any], None]:
    """What a dialog calls when it closes: `do` with its answer, nothing when it has none."""

    def closed(answer: Any) -> None:
        if answer:
            do(answer)

    return closed


def _place_notices(screen: Screen[Any]) -> None:
    racks = [rack for rack in screen.query("ToastRack") if rack.display]
    for rack, dialog in zip(racks, screen.query(".dialog"), strict=False):
        box = dialog.region
        buttons = min((row.region.y for row in screen.query(".buttons")), default=box.bottom)
        needed = sum(toast.outer_size.height + 1 for toast in screen.query("Toast")) - 1
        places = (
            (0, box.y),
            (box.bottom, screen.size.height - box.bottom),
            (box.y + _KEPT_ROWS, buttons - box.y - _KEPT_ROWS),
        )
        top, room = max(places, key=lambda place: min(place[1], needed))
        rack.styles.margin = (top, 0, 0, 0)
        rack.styles.max_height = max(1, room)


@panel_screen
class Dialog(ModalScreen[Result]):
    """A dialog, with the look that all of them have."""

    CSS_PATH = SCREEN_STYLES

    @on(events.Mount)
    def _keep_free(self) -> None:
        """Notices never stand on the title, the first line or the buttons."""
        self.screen_layout_refresh_signal.subscribe(self, _place_notices)


class ListDialog(Dialog[Result]):
    """A dialog about one list, in which j and k move as the arrow keys do."""

    BINDINGS: ClassVar[list[BindingType]] = [
        hotkey("j", "move('down')", "the next"),
        hotkey("k", "move('up')", "the one before"),
    ]

    def action_move(self, way: str) -> None:
        getattr(self.query_one(OptionList), f"action_cursor_{way}")()


TEXT_KEYS: list[BindingType] = [
    hotkey("j", "rows(1)", "a line down or up"),
    hotkey("k", "rows(-1)", "a line down or up"),
    *paging_keys(),
    hotkey("G", "scroll_end", "the end"),
]
"""A text scrolls by the keys of lists and logs, too."""


class ScrollsByKeys(Widget):
    """What the keys of a text do."""

    def action_rows(self, by: int) -> None:
        self.scroll_relative(y=by, animate=False)

    def action_page(self, screens: float) -> None:
        self.action_rows(round(screens * max(2, self.size.height)))


# Behind Textual's own class: of the first, Textual takes the style.
class PageScroll(VerticalScroll, ScrollsByKeys):
    """A text that scrolls."""

    BINDINGS: ClassVar[list[BindingType]] = TEXT_KEYS


def dialog_box(
    title: str, keys: str = "", classes: str = "", scrolls: bool = False
) -> Vertical | PageScroll:
    """The box around a dialog, words in its border: what stands in them is no markup."""
    box = (PageScroll if scrolls else Vertical)(classes=f"dialog {classes}")
    box.border_title, box.border_subtitle = Content(title), Content(keys)
    return box


def form_buttons(verb: str, button_id: str) -> ComposeResult:
    """The last line of a form: what it is for, and closing it."""
    with Horizontal(classes="buttons"):
        yield Button(f"{verb} (F2)", id=button_id, variant="success", compact=True)
        yield Button("Close (Esc)", id="close", compact=True)


class FormDialog(Dialog[None]):
    """Fields one below the other; the whole help of the one that has the keys stands below them."""

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """The whole help of the field that has the keys."""
        field, text = event.widget.parent, Text()
        if isinstance(field, FormField) and field.hint:
            text = Text.assemble((f"{field.title}: ", "bold"), field.hint)
        for place in self.query("#fieldhelp").results(Static):
            place.update(text)

    @property
    def fields(self) -> dict[str, FormField]:
        """Its fields by their keys."""
        return {field.key: field for field in self.query(FormField)}

    @on(Input.Submitted)
    def _next(self, event: Input.Submitted) -> None:
        event.stop()
        self.focus_next()

    @on(Button.Pressed, "#close")
    def _close(self) -> None:
        self.action_leave()

    def action_leave(self) -> None:
        self.dismiss(None)


class PlaceForm(FormDialog):
    """Fields about one place; what they come to is done there by a headless command."""

    BINDINGS: ClassVar[list[BindingType]] = [
        hotkey("escape", "dismiss(None)", "close"),
        hotkey("down", "app.focus_next", "the next field"),
        hotkey("up", "app.focus_previous", "the previous field"),
    ]

    def __init__(self, place: ChosenPlace, do: Callable[..., None]) -> None:
        """`do` runs a headless command there, given as words."""
        super().__init__()
        self.place = place
        self._do = do


class QuestionScreen(Dialog[bool]):
    """Asks before something is done; the harmless answer has the focus."""

    BINDINGS: ClassVar[list[BindingType]] = [
        hotkey("y", "dismiss(True)", "yes"),
        hotkey("n,escape", "dismiss(False)", "no"),
    ]

    def __init__(self, title: str, text: str, yes: str, no: str = "Cancel") -> None:
        super().__init__()
        self._title, self._text, self._yes, self._no = title, text, yes, no

    def compose(self) -> ComposeResult:
        with dialog_box(self._title):
            yield Static(Text(self._text))
            with Horizontal(classes="buttons"):
                yield Button(f"{self._yes} (y)", id="yes", variant="warning", compact=True)
                yield Button(f"{self._no} (n)", id="no", compact=True)

    def on_mount(self) -> None:
        """Enter does nothing that could be regretted."""
        self.query_one("#no").focus()

    def on_button_pressed(self, event: Button.Pressed) -> None:
        self.dismiss(event.button.id == "yes")


class LineScreen(Dialog[str | None]):
    """Asks for one line; `check` raises FresnelError for one that will not do."""

    BINDINGS: ClassVar[list[BindingType]] = [
        hotkey("escape", "dismiss(None)", "close; nothing is changed")
    ]

    def __init__(
        self,
        title: str,
        text: str,
        value: str = "",
        check: Callable[[str], object] | None = None,
        hint: str = "",
    ) -> None:
        super().__init__()
        self._title, self._text, self._value, self._hint = title, text, value, hint
        self._check = check

    def compose(self) -> ComposeResult:
        with dialog_box(self._title, "Enter accept · Esc close"):
            yield Static(Text(self._text))
            yield Input(value=self._value, placeholder=self._hint, compact=True, id="line")
            yield Static(id="wrong")

    def on_mount(self) -> None:
        """The line has the keys."""
        self.query_one(Input).focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        text = event.value.strip()
        try:
            if self._check is not None:
                self._check(text)
        except FresnelError as error:
            self.query_one("#wrong", Static).update(Text(str(error), style="red"))
        else:
            self.dismiss(text)
