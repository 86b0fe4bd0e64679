"""Work of the panel that must not stand in the way of its keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from textual.app import App

from runners.model.errors import FresnelError
from tui.panel.notifications import notify_error
from tui.snapshot.feed import SnapshotFeed


def in_thread(app: App[Any], feed: SnapshotFeed, do: Callable[[], object]) -> None:
    """Do it in a thread, say what went wrong, then take the next snapshot at once."""

    def run() -> None:
        try:
            do()
        except (FresnelError, OSError, ValueError) as error:
            app.call_later(notify_error, app, str(error))
        app.call_later(feed.refresh_now)

    app.run_worker(run, thread=True, group="action")
