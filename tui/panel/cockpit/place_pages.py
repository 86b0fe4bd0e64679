"""Pages and dialogs about one machine: its money, its guard, its queue."""

from __future__ import annotations

from runners.places.place import Place
from tui.panel.chosen_place import ChosenPlace, PlaceAccount, account_here, account_of
from tui.panel.cockpit.cockpit_parts import CockpitParts
from tui.panel.notifications import notify_error
from tui.panel.places import PlaceOfRuns
from tui.views.format import go_on_text


class PlacePages:
    """They are about the machine whose GPUs are shown, else about that of the selected run."""

    def __init__(self, parts: CockpitParts, places: PlaceOfRuns) -> None:
        self._parts = parts
        self._places = places

    def _chosen(self) -> ChosenPlace | None:
        """The machine, or None once it was told why it cannot be one."""
        parts = self._parts
        machine = parts.remote.chosen(parts.pane.selected_row)
        place: Place | None = parts.commands.local_place
        if machine:
            place = parts.remote.place(machine)
        if place is None or place.obstacle:
            notify_error(parts.app, place.obstacle if place else f"{machine} is not set up")
            return None

        def account() -> PlaceAccount | None:
            if not machine:
                return account_here(parts.snapshot) if parts.snapshot else None
            hosts = parts.remote.hosts
            host = hosts.links.hosts.get(machine) if hosts is not None else None
            return None if host is None else account_of(host)

        return ChosenPlace(place, account, parts.commands, self._places)

    def money(self) -> None:
        """What everything costs there; session and guard."""
        from tui.panel.screens.money import MoneyScreen

        place = self._chosen()
        if place is not None:
            self._parts.app.push_screen(MoneyScreen(place, self._parts.read_only))

    def postpone(self) -> None:
        """Ask for how long the guard there shall hold back."""
        from tui.panel.screens.guard_form import ask_to_postpone

        place = self._chosen()
        if place is not None:
            ask_to_postpone(self._parts.app, place)

    def drain(self) -> None:
        """Ask whether the queue there shall be drained, or go on."""
        from tui.panel.screens.dialogs import QuestionScreen, if_answered

        place = self._chosen()
        account = place.account() if place is not None else None
        if place is None or account is None:
            return
        where = f" {place.place.name}" if place.place.name else ""
        if account.drained:
            word = "off"
            text = f"Drained since {account.drained}. Waiting runs may start again."
            question = QuestionScreen(f"End the drain{place.of}?", text, "Let the queue go on")
        else:
            word = "on"
            text = f"{go_on_text(account.live)}; no new run starts until drain is ended."
            question = QuestionScreen(f"Drain{where}?", text, "Drain")
        do = place.do
        self._parts.app.push_screen(question, if_answered(lambda _: do("drain", word)))
