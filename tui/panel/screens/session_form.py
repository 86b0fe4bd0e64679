"""Starting a session: a price among those that are known, a budget, and since when."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import ClassVar

from rich.text import Text
from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.message import Message
from textual.widgets import Button, Input, Label, OptionList, Static
from textual.widgets.option_list import Option

from runners.cost.opening import Per, rate_caveat, recognised_price
from runners.cost.prices import PriceEntry
from runners.gpus.cards import list_cards
from runners.host.clock import time_of_day
from runners.model.errors import FresnelError, WrongInput
from runners.model.gpus import GpuReading
from tui.panel.chosen_place import ChosenPlace
from tui.panel.hotkeys import hotkey
from tui.panel.screens.dialogs import (
    PlaceForm,
    QuestionScreen,
    dialog_box,
    form_buttons,
    if_answered,
    is_open,
)
from tui.panel.widgets.choice_list import ChoiceList
from tui.panel.widgets.launch.fields import FormField
from tui.snapshot.questions import Question
from tui.views.format import dollars, duration
from tui.views.money.session_offer import SessionOffer


class SessionScreen(PlaceForm):
    """Prices that fit this machine stand first; an amount for the whole machine goes as well."""

    BINDINGS: ClassVar[list[BindingType]] = [
        hotkey("f2,ctrl+s", "start", "start the session"),
    ]

    def __init__(self, place: ChosenPlace, do: Callable[..., None]) -> None:
        super().__init__(place, do)
        self.reading: GpuReading | None = None
        self.prices: list[PriceEntry] = []
        self._offer: SessionOffer | None = None

    def compose(self) -> ComposeResult:
        title = f"Start a session{self.place.on}"
        with dialog_box(title, "Tab next field · F2 start · Esc close", "wide"):
            yield Label("Price", classes="heading")
            yield ChoiceList(id="prices")
            yield FormField("rate", "or a rate", "", "dollars per hour for the whole machine")
            yield FormField("gpus", "GPUs", "", "how many this machine has")
            yield FormField("budget", "budget", "", "dollars you mean to spend at most", "none")
            yield FormField("since", "since", "boot", "boot, now, or 2026-11-20T14:00")
            yield Static(id="session-says")
            yield from form_buttons("Start", "start")

    def on_mount(self) -> None:
        """Find out what this machine is, beside the screen."""
        self.query_one(OptionList).focus()
        self.place.ask(Question.PRICES, SessionOffer, self._list, self._show_problem)

    def _list(self, offer: SessionOffer) -> None:
        if not is_open(self):
            return
        prices, fitting = offer.prices, offer.fitting
        self.reading, self.prices, self._offer = offer.reading, prices, offer
        names = self.query_one(OptionList)
        names.add_options(
            [Option(_price_line(entry, i < fitting)) for i, entry in enumerate(prices)]
        )
        known = recognised_price(prices[:fitting], offer.instance)
        first = 0 if prices else None
        names.highlighted = prices.index(known) if known is not None else first
        field = self.fields["gpus"]
        field.default = str(max(1, len(list_cards(offer.reading.gpus))))
        if not field.is_typed:
            field.put(field.default)
        self._show()

    @on(OptionList.OptionHighlighted)
    @on(Input.Changed)
    def _changed(self, event: Message) -> None:
        event.stop()
        self._show()

    def on_key(self, event: events.Key) -> None:
        """A number that is typed at the list is a rate."""
        rate, typed = self.fields["rate"].input, event.character or ""
        is_number = typed.isdecimal() or typed == "."
        if is_number and isinstance(self.focused, OptionList) and isinstance(rate, Input):
            rate.select_on_focus = False  # what is typed next belongs to it
            rate.insert_text_at_cursor(typed)
            rate.focus()

    @on(OptionList.OptionSelected)
    def _chosen(self) -> None:
        self.fields["budget"].input.focus()

    def _given(self) -> tuple[str, Per, int]:
        """The price, what an amount is for, and the number of GPUs; WrongInput names the field."""
        texts = {key: field.value for key, field in self.fields.items()}
        if not texts["gpus"].isdecimal() or int(texts["gpus"]) < 1:
            raise WrongInput(f"GPUs: expected how many this machine has, got {texts['gpus']!r}")
        if texts["rate"]:
            return texts["rate"], "machine", int(texts["gpus"])
        place = self.query_one(OptionList).highlighted
        if place is None or place >= len(self.prices):
            raise WrongInput("choose a price, or give a rate")
        return self.prices[place].name, "gpu", int(texts["gpus"])

    def _show(self) -> None:
        """What it comes to, and what speaks against it."""
        from runners.cost.prices import choose_price
        from runners.cost.rates import hourly_rate

        if self.reading is None or not self.prices:
            return
        try:
            price, per, gpus = self._given()
            chosen = choose_price(price, "session", per, self.prices)
        except FresnelError as error:
            self._show_problem(str(error))
            return
        text = Text(f"{dollars(hourly_rate(chosen, gpus))}/h for this machine", style="bold")
        if chosen.source:
            text.append(f"  {chosen.source}, {chosen.date}", style="dim")
        text.append(self._from_when(hourly_rate(chosen, gpus)))
        caveat = self._caveat(price, per, gpus)
        if caveat:
            text.append(f"\n⚠ {caveat}", style="yellow")
        self.query_one("#session-says", Static).update(text)

    def _from_when(self, rate: Decimal) -> str:
        """Since when a session since boot counts, and what that comes to by now."""
        offer, since = self._offer, self.fields["since"].value
        if offer is None or offer.since is None or since not in ("", "boot"):
            return ""
        spent = rate * Decimal(offer.since_s) / 3600
        begun = f"counted from {time_of_day(offer.since)}"
        return f"\n{begun}, {duration(offer.since_s)} ago: {dollars(spent)} so far"

    def _caveat(self, price: str, per: Per, gpus: int) -> str:
        if self.reading is None:
            return ""
        count = self.fields["gpus"]
        stated = gpus if count.value != count.default else None
        return rate_caveat(price, per, self.reading, stated, self.prices)

    def _show_problem(self, text: str) -> None:
        if is_open(self):
            self.query_one("#session-says", Static).update(Text(text, style="red"))

    @on(Button.Pressed, "#start")
    def action_start(self) -> None:
        """Start it, once what speaks against its price is taken."""
        try:
            price, per, gpus = self._given()
        except FresnelError as error:
            self._show_problem(str(error))
            return
        caveat = self._caveat(price, per, gpus)
        if not caveat:
            self._start(price, per, gpus, "")
            return
        question = QuestionScreen("Use this price?", caveat, "Use it anyway")
        self.app.push_screen(question, if_answered(lambda _: self._start(price, per, gpus, caveat)))

    def _start(self, price: str, per: Per, gpus: int, caveat: str) -> None:
        texts = {key: field.value for key, field in self.fields.items()}
        found = self.fields["gpus"].default
        arguments = ["--rate" if per == "machine" else "--price", price]
        arguments += ["--gpus", str(gpus)] if str(gpus) != found else []
        arguments += ["--budget", texts["budget"]] if texts["budget"] else []
        arguments += ["--since", texts["since"]] if texts["since"] not in ("", "boot") else []
        arguments += ["--anyway"] if caveat else []
        self._do("session", "start", *arguments)
        self.dismiss(None)


def _price_line(entry: PriceEntry, fits: bool) -> Text:
    whole = " a machine" if entry.per == "machine" else ""
    rate = f"{dollars(Decimal(entry.usd_per_hour))}/h{whole}"
    text = Text.assemble(
        ("● " if fits else "  ", "green"), f"{entry.name:<26} ", f"{rate:<20} ", entry.gpu
    )
    text.append(f"  {entry.provider}" + ("  fits this machine" if fits else ""), style="dim")
    return text
