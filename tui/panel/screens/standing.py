"""Whether a screen still stands: what it has asked for may come after it was closed."""

from typing import Any

from textual.screen import Screen


def is_open(screen: Screen[Any]) -> bool:
    """Whether there is something to draw on: it is mounted, and was not closed since.

    Textual's `is_mounted` stays true of a screen that was closed, whose parts are gone.
    """
    return screen.is_mounted and screen in screen.app.screen_stack
