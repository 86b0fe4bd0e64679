"""The places of all kinds, for as long as the panel lives."""

import atexit
import time
from collections.abc import Callable
from typing import Any

from textual.app import App

from runners.places.place import WatchedPlace
from runners.places.table import open_kinds
from runners.state.layout import StateDirectory

_LEAST_S = 0.1
"""Between two looks at what the places show."""


class LinkedHosts:
    """Every place but this machine, by name."""

    def __init__(self, app: App[Any], state: StateDirectory) -> None:
        self._app = app
        self.changed: Callable[[], None] = lambda: None
        """Called in the app's own thread when something is new."""
        self._is_scheduled = False
        self._notified_at = 0.0
        self._kinds = open_kinds(state, self._schedule)
        self.hosts: dict[str, WatchedPlace] = {}
        self.refresh()
        # For a panel that ends without unmounting its screens: no ssh may stay behind.
        atexit.register(self.stop)

    @property
    def not_set_up(self) -> list[str]:
        """The names of those that cannot be used yet."""
        return [name for kind in self._kinds for name in kind.not_set_up]

    @property
    def machines(self) -> dict[str, WatchedPlace]:
        """Those that have GPUs and money of their own."""
        return {name: place for name, place in self.hosts.items() if place.is_machine}

    def refresh(self) -> None:
        """Take in places that were added, changed or removed meanwhile."""
        for kind in self._kinds:
            kind.refresh()
        self.hosts = {name: place for kind in self._kinds for name, place in kind.places.items()}

    def stop(self) -> None:
        """Have every place let go, without waiting."""
        # It would keep the links, and with them the screen, until the program ends.
        atexit.unregister(self.stop)
        for kind in self._kinds:
            kind.stop()

    def _schedule(self) -> None:
        """Called in any thread: have the screen look, in the app's own, once for many."""
        if self._app.is_running and not self._is_scheduled:
            self._is_scheduled = True
            self._app.call_later(self._notify)

    def _notify(self) -> None:
        # Fifty machines say something fifty times a second: nobody reads that, and keys wait.
        early = self._notified_at + _LEAST_S - time.monotonic()
        if early > 0:
            # Textual's timer of less than a turn of its loop never ends.
            self._app.set_timer(max(early, _LEAST_S / 10), self._notify)
            return
        self._is_scheduled, self._notified_at = False, time.monotonic()
        self.changed()
