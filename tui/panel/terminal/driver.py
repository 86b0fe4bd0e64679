"""Textual's driver for terminals, sure of its footing when the process is stopped and continued."""

import os
import signal
from typing import Any

from textual.drivers.linux_driver import LinuxDriver


class TerminalDriver(LinuxDriver):
    """Gives the terminal back before anybody of its process group stops, and starts afresh on
    every SIGCONT.
    """

    def stop_group(self) -> None:
        """Stop with all that the shell started with us, `make` for instance, and return when
        continued.

        As the terminal's own Ctrl+Z does; but first the terminal is restored, for the shell takes
        it the moment that the first of us stands still.
        """
        self.suspend_application_mode()
        self._must_signal_resume = True
        ours = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.killpg(os.getpgrp(), signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, ours)

    def _sigcont_application(self, *_: Any) -> None:
        # Textual 8.2.8 takes each SIGCONT for the end of a Ctrl+Z. After SIGSTOP, which nobody can
        # catch, it would read keys in a second thread beside the first, and hang when the panel is
        # to end.
        if self._auto_restart and not self._must_signal_resume and self._writer_thread is not None:
            self.suspend_application_mode()
            self._must_signal_resume = True
        super()._sigcont_application()
