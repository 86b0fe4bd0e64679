"""Setting the guard, and postponing it."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

from rich.text import Text
from textual import on
from textual.app import App, ComposeResult
from textual.binding import BindingType
from textual.widgets import Button, Input, Static

from runners.guard.request import GuardRequest, length_of, request_flags, request_of, rule_from
from runners.guard.rule import GuardRule
from runners.lifecycle.control.fetched import Unfetched
from runners.model.errors import FresnelError, WrongInput
from tui.panel.chosen_place import ChosenPlace
from tui.panel.hotkeys import hotkey
from tui.panel.screens.dialogs import (
    LineScreen,
    PlaceForm,
    dialog_box,
    form_buttons,
    if_answered,
    is_open,
)
from tui.panel.widgets.launch.fields import FormField
from tui.snapshot.questions import Question
from tui.views.money.guard_text import consequences, guard_text, postponed_text

_FIELDS = (
    ("budget_stop", "budget stop", "session total in dollars, or part of its budget: 95%"),
    ("max_age", "max age", "age of the session, or of the boot without one: 8h"),
    ("no_run", "no run", "no run for so long: 30m"),
    ("idle", "idle", "GPUs below 5 % for so long while runs say they train: 30m"),
    ("countdown", "countdown", "between the warning and the stop"),
    (
        "warm_up",
        "start-up",
        "GPUs may idle so long while a run begins: it compiles, loads",
    ),
    ("warn_command", "warn command", "run at the warning; FRESNEL_GUARD_TEXT says why"),
    ("webhook", "webhook", "posted to as JSON at every step"),
    ("end_command", "end command", "run once every run has stopped; none when empty"),
    (
        "destroys",
        "deletes",
        "true: the end command deletes the machine; waits until all is fetched",
    ),
)
_WIDE = ("warn_command", "webhook", "end_command")


class GuardScreen(PlaceForm):
    """The parts of a rule as fields, and what the guard would do by it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        hotkey("f2,ctrl+s", "set", "set the guard"),
    ]

    def __init__(self, place: ChosenPlace, do: Callable[..., None]) -> None:
        super().__init__(place, do)
        account = place.account()
        rule = account.guard.rule if account is not None else None
        self.rule_request = GuardRequest() if rule is None else request_of(rule)
        self._is_new = rule is None
        self._unfetched: int | None = None
        """How many runs there are not marked as fetched, once that is known."""

    def compose(self) -> ComposeResult:
        title = f"{'Set' if self._is_new else 'Change'} the guard{self.place.of}"
        with dialog_box(title, "Tab next field · F2 set · Esc close", "wide fit"):
            for key, name, hint in _FIELDS:
                value = getattr(self.rule_request, key)
                text = str(value).lower() if isinstance(value, bool) else value
                yield FormField(key, name, text, hint, wide=key in _WIDE)
            yield Static(id="fieldhelp")
            yield Static(id="guard-says", classes="heading")
            yield from form_buttons("Set", "set")

    def on_mount(self) -> None:
        self.query(Input).first().focus()
        self._show()
        # What is not known is not counted: the form says the rest without it.
        self.place.ask(Question.UNFETCHED, Unfetched, self._count, lambda _: None)

    def _count(self, found: Unfetched) -> None:
        self._unfetched = len(found.unfetched) + len(found.removed)
        if is_open(self):
            self._show()

    def _read(self) -> GuardRequest:
        """What the fields say; WrongInput for `deletes` that is neither true nor false."""
        texts = {key: field.value for key, field in self.fields.items()}
        destroys = texts.pop("destroys").lower()
        if destroys not in ("true", "false", ""):
            raise WrongInput(f"deletes: expected true or false, got {destroys!r}")
        return GuardRequest(**texts, destroys=destroys == "true")

    def _rule(self) -> GuardRule:
        session = self.place.session
        names = {key: name for key, name, _ in _FIELDS}
        return rule_from(self._read(), session.budget if session else None, names.__getitem__)

    @on(Input.Changed)
    def _changed(self, event: Input.Changed) -> None:
        event.stop()
        self._show()

    def _show(self) -> None:
        try:
            lines = consequences(self._rule(), self.place.session, self._unfetched)
            text = Text(self.place.named("\n".join(lines)))
        except FresnelError as error:
            text = Text(str(error), style="yellow")
        self.query_one("#guard-says", Static).update(text)

    @on(Button.Pressed, "#set")
    def action_set(self) -> None:
        try:
            self._rule()
        except FresnelError as error:
            self.notify(str(error), severity="error", markup=False)
        else:
            self._do("guard", "set", *request_flags(self._read()))
            self.dismiss(None)


def ask_to_postpone(app: App[Any], place: ChosenPlace) -> None:
    """Ask for how long the guard there shall hold back, and say until when; 0 undoes it."""
    account = place.account()
    if account is None or account.guard.rule is None:
        text = f"no guard is set{place.on}: $ opens money and guard, g there sets one"
        app.notify(text, timeout=5, markup=False)
        return
    guard, now = account.guard, account.now
    lines = [
        postponed_text(guard, now) or guard_text(guard, now),
        f"It is {time.strftime('%H:%M')}. For how long from now? 0 ends a postponement.",
    ]

    def check(text: str) -> None:
        if not text:
            raise WrongInput("for how long?", "for example 1h, 30m; 0 resumes it")
        length_of("postpone", text, may_be_nothing=True)

    screen = LineScreen(f"Postpone the guard{place.of}", "\n".join(lines), "1h", check)
    app.push_screen(screen, if_answered(partial(place.do, "guard", "postpone")))
