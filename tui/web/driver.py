"""Textual's driver for a browser, less what it leaves behind: it goes when the server has gone."""

import os
from contextlib import suppress
from typing import Any

from textual.drivers.web_driver import WebDriver

_OURS = ("COLUMNS", "ROWS", "TEXTUAL_DRIVER", "TEXTUAL_FPS", "TEXTUAL_COLOR_SYSTEM")


class BrowserDriver(WebDriver):
    """Speaks to `fresnel-tui serve` through stdin and stdout."""

    def __init__(self, app: Any, **options: Any) -> None:
        super().__init__(app, **options)
        self._application = app
        if hasattr(app, "terminal"):  # the panel, which paints by itself
            app.terminal = self
        for name in _OURS:  # meant for this process, not for the runs it launches
            os.environ.pop(name, None)

    def run_input_thread(self) -> None:
        """Take input; its end means that the server is gone, however it ended."""
        super().run_input_thread()
        if not self.exit_event.is_set():
            self._application.call_from_thread(self._application.exit)

    def stop_application_mode(self) -> None:
        """Say goodbye, to whoever is still there."""
        with suppress(BrokenPipeError):
            super().stop_application_mode()
