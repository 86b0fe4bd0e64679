"""Textual's driver for terminals, sure of its footing when the process is continued."""

from typing import Any

from textual.drivers.linux_driver import LinuxDriver


class TerminalDriver(LinuxDriver):
    """Starts afresh on every SIGCONT: Textual 8.2.8 takes each for the end of a Ctrl+Z.

    After SIGSTOP, which nobody can catch, it would read the keys in a second thread beside the first, and hang when
    the panel is to end; and whatever the shell has put on the screen meanwhile would stay there.
    """

    def _sigcont_application(self, *_: Any) -> None:
        if self._auto_restart and not self._must_signal_resume and self._writer_thread is not None:
            self.suspend_application_mode()
            self._must_signal_resume = True
        super()._sigcont_application()
