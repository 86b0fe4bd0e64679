"""Textual's driver for terminals, sure of its footing when the process is stopped and continued."""

import asyncio
import os
import select
import signal
import termios
import threading
import time
from codecs import getincrementaldecoder
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from textual import constants, events
from textual.app import App
from textual.driver import Driver
from textual.drivers.linux_driver import LinuxDriver
from textual.message import Message

from tui.panel.terminal.line import QUESTION, Line
from tui.panel.terminal.output import TerminalOutput
from tui.panel.terminal.textual_private import XTermParser
from tui.views.safe import SWITCHED_OFF, PastedText, safe_cell

MOUSE: Final = {
    on: "".join(f"\x1b[?{mode}{'h' if on else 'l'}" for mode in (1000, 1003, 1015, 1006))
    for on in (False, True)
}
"""What gives the mouse to the panel, or back to the terminal: clicks, movement, far columns."""
_TICK_S = 0.02
_CHECKED_EVERY_S = 1.0
_TAKEN_WITHIN_S = 3.0
_DONE_S = 0.5
_BEGINS_WITHIN_S = 5.0
"""So long after the last key the loop is asked again: what a key does may begin late."""
_TOLD = " A file server does not answer: q leaves, runs go on."
_LEAVES = b"\x03\x11q"
"""Ctrl+C, Ctrl+Q, q."""
_EXIT_CODE = 1
_READ_BYTES = 4096
_LAST_ANSWER_S = 1.0
"""So long at most the terminal's last answers are waited for."""


class HeldUp:
    """Tells whoever types that a file server holds up the panel, and lets them out.

    The loop then waits in the kernel: nothing is painted and no key is taken. The thread that reads
    keys notices; what is typed meanwhile is for nobody, for it would all be done at once, unseen,
    when the server is back. All but `taken` is for that thread.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._here = loop
        self._since: float | None = None
        self._typed_at = 0.0
        self.server: Callable[[], str] = str
        """The folder of the server that does not answer; empty where it is not that."""
        self.repaint: Callable[[], Any] = str
        """Called in the loop when it goes on after something was told."""
        self.is_told = False

    @property
    def is_asked(self) -> bool:
        """Whether something was typed that the loop has not taken."""
        return self._since is not None

    def typed(self) -> None:
        """Ask the loop whether it takes what was typed."""
        self._typed_at = time.monotonic()
        if self._since is None:
            self._since = self._typed_at
            with suppress(RuntimeError):  # the loop has ended
                # What was typed is done before.
                self._here.call_soon_threadsafe(self._here.call_later, _DONE_S, self.taken)

    def taken(self) -> None:
        """The loop goes on."""
        was_told, self.is_told, self._since = self.is_told, False, None
        if (now := time.monotonic()) - self._typed_at < _BEGINS_WITHIN_S:
            self._since = now
            self._here.call_later(_DONE_S, self.taken)
        if was_told:
            self.repaint()

    def check(self) -> None:
        """Tell in the top line once the loop has taken nothing for seconds, and a server is why."""
        since = self._since
        if since is None or time.monotonic() - since < _TAKEN_WITHIN_S or self.is_told:
            return
        if folder := self.server():
            self.is_told = True
            line = f"{_TOLD} The panel waits for {safe_cell(folder)} "
            _write(f"\x1b7\x1b[1;1H\x1b[0;7m{line}\x1b[0m\x1b8")

    def leave(self, data: bytes, settings: list[Any] | None) -> None:
        """End the process, if it is told and `data` asks for it; the terminal gets its `settings`.

        In this thread: the loop's is not to be had.
        """
        if not (self.is_told and any(key in data for key in _LEAVES)):
            return
        _write(SWITCHED_OFF)
        if settings is not None:
            with suppress(termios.error):
                termios.tcsetattr(0, termios.TCSANOW, settings)
        os._exit(_EXIT_CODE)


def _write(text: str) -> None:
    """Past the queue of what is painted, which ends where the loop stands."""
    with suppress(OSError):
        os.write(2, text.encode())


class Driven(App[None]):
    """An application that knows what it is driven by."""

    terminal: Driver | None = None
    """What it writes to, once there is one."""


class WakingEvent(threading.Event):
    """An event that also makes a file descriptor readable for as long as it is set."""

    def __init__(self) -> None:
        super().__init__()
        self.readable, self._written = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)

    def set(self) -> None:
        """Set it; whoever polls `readable` wakes."""
        # One byte, however often it is set: `clear` takes one.
        if not self.is_set():
            os.write(self._written, b"!")
        super().set()

    def clear(self) -> None:
        """Clear it."""
        if self.is_set():
            os.read(self.readable, 1)
        super().clear()


class TerminalDriver(LinuxDriver):
    """Gives the terminal back before anybody of its process group stops.
    It starts afresh on every SIGCONT, and sleeps while no key is pressed.
    """

    def __init__(
        self,
        app: App[Any],
        *,
        debug: bool = False,
        mouse: bool = True,
        size: tuple[int, int] | None = None,
    ) -> None:
        super().__init__(app, debug=debug, mouse=mouse, size=size)
        self.exit_event: WakingEvent = WakingEvent()
        self.line = Line()
        self.room_made: Callable[[], None] = lambda: None
        """Called in the loop when the line may take more."""
        self.wants_mouse = mouse
        self._began_with_mouse = mouse
        self._application = app
        if isinstance(app, Driven):
            app.terminal = self
        self._here = asyncio.get_running_loop()
        self.held_up = HeldUp(self._here)
        self.held_up.repaint = self._start_afresh
        self._output: TerminalOutput | None = None
        self._is_lent = False
        self._questions = self._answers = 0
        self._is_gone = False
        signal.signal(signal.SIGTSTP, self._stopped)
        signal.signal(signal.SIGCONT, self._continued)

    def start_application_mode(self) -> None:
        """Take the terminal, of which nothing is known."""
        self.line = Line()
        super().start_application_mode()  # type: ignore[no-untyped-call]
        if self._output is None:
            return  # in the background: it is taken when the shell brings us to the front
        if self.wants_mouse != self._began_with_mouse:
            self.write(MOUSE[self.wants_mouse])
        # With nothing else under way, the answer tells the line's own delay.
        self.line.sent(len(QUESTION), more=False)
        self.write(QUESTION)

    def stop_application_mode(self) -> None:
        """Give the terminal back."""
        if self.wants_mouse and not self._began_with_mouse:
            self.write(MOUSE[False])
        super().stop_application_mode()

    def close(self) -> None:
        """Have everything written; what comes after it begins anew."""
        output, self._output = self._output, None
        if output is not None:
            output.end()
        super().close()

    def write(self, data: str) -> None:
        """Have it written to the terminal."""
        if self._output is None:
            self._output = TerminalOutput(self._taken)
            self._output.start()
        self.line.given(len(data))
        self._questions += data.count(QUESTION)
        self._output.write(data)

    def switch_mouse(self, on: bool) -> None:
        """Have the mouse reported, or not."""
        self.wants_mouse = on
        self.write(MOUSE[on])

    def disable_input(self) -> None:
        """Take no more keys, once what was asked is answered: the shell would read the answers."""
        if not self.exit_event.is_set() and self._answers and not self._is_gone:
            until = time.monotonic() + min(_LAST_ANSWER_S, 0.1 + 3 * self.line.round_trip)
            while self._answers < self._questions and time.monotonic() < until:
                time.sleep(_TICK_S / 4)
        super().disable_input()

    def process_message(self, message: Message) -> None:
        """Hand it to the application; the terminal's answers to what was painted stay here."""
        if isinstance(message, events.CursorPosition):
            self._answers += 1
            self._in_loop(self.line.answered, time.monotonic())
        else:
            super().process_message(message)

    def _taken(self, size: int) -> None:
        self._in_loop(self.line.taken, size)

    def _in_loop(self, note: Callable[..., None], *arguments: Any) -> None:
        def noted() -> None:
            note(*arguments)
            self.room_made()

        with suppress(RuntimeError):  # the loop has ended
            self._here.call_soon_threadsafe(noted)

    def run_input_thread(self) -> None:
        """Read keys until the driver ends.

        Textual's own looks ten times a second whether it is to end, which costs an idle panel a
        tenth of its processor time.
        """
        parser, pasted = XTermParser(), PastedText()
        decode = getincrementaldecoder("utf-8")("replace").decode
        ready = select.poll()
        ready.register(self.fileno, select.POLLIN)
        ready.register(self.exit_event.readable, select.POLLIN)
        # An Escape is a key of its own once nothing has followed it for a while.
        settled = 0.0
        while True:
            if time.monotonic() < settled:
                within_s: float | None = _TICK_S
            else:
                within_s = _CHECKED_EVERY_S if self.held_up.is_asked else None
            found = {number for number, _ in ready.poll(within_s and within_s * 1000)}
            self.held_up.check()
            if self.fileno in found:
                data = os.read(self.fileno, _READ_BYTES)
                self.held_up.leave(data, self.attrs_before)
                if self.held_up.is_told and data:
                    continue
                self.held_up.typed()
                if not data:  # the terminal is gone: no more keys
                    ready.unregister(self.fileno)
                    self._is_gone = True
                # Two ticks longer than Textual's delay: the parser is asked once more after it.
                settled = time.monotonic() + constants.ESCAPE_DELAY + 2 * _TICK_S
                # Half a character is no text yet, and no text means the end to the parser.
                text = pasted.cleaned(decode(data))
                for event in parser.feed(text) if text else ():
                    self.process_message(event)
            elif self.exit_event.is_set():
                return
            for event in parser.tick():
                self.process_message(event)

    @contextmanager
    def no_automatic_restart(self) -> Iterator[None]:
        """Another program has the terminal meanwhile: whoever lent it takes it again."""
        self._is_lent = True
        try:
            with super().no_automatic_restart():
                yield
        finally:
            self._is_lent = False

    def stop_group(self) -> None:
        """Stop with all that the shell started with us, and return when continued.
        `make` is such a program.

        As the terminal's own Ctrl+Z does; but first the terminal is restored, for the shell takes
        it the moment that the first of us stands still.
        """
        self.suspend_application_mode()
        # With our own handler in place the signal would be handled, and stop nobody.
        ours = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.killpg(os.getpgrp(), signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, ours)

    def _stopped(self, *_: Any) -> None:
        if not self._is_lent:
            self.suspend_application_mode()
        os.kill(os.getpid(), signal.SIGSTOP)

    def _continued(self, *_: Any) -> None:
        # Not here: a signal comes between any two lines of the loop's thread, also while it holds
        # the lock of the queue into which starting afresh writes.
        with suppress(RuntimeError):  # the loop has ended, and so will the panel
            self._here.call_soon_threadsafe(self._start_afresh)

    def _start_afresh(self) -> None:
        if self._is_lent:
            return
        # After SIGSTOP, which nobody can catch, it was never given back: keys would be read in a
        # second thread beside the first.
        if self._output is not None:
            self.suspend_application_mode()
        self.resume_application_mode()
        if self._output is not None:
            self._application.post_message(self.SignalResume())
