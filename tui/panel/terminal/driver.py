"""Textual's driver for terminals, sure of its footing when the process is stopped and continued."""

import os
import select
import signal
import threading
import time
from codecs import getincrementaldecoder
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import IO, Any

from textual import constants, events
from textual._xterm_parser import XTermParser
from textual.drivers.linux_driver import LinuxDriver
from textual.keys import Keys

from tui.panel.terminal.line import ANSWER, QUESTION, Line

_TICK_S = 0.02
_READ_BYTES = 4096
_LAST_ANSWER_S = 1.0
"""So long at most the terminal's last answers are waited for."""


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


class AnswersApart(XTermParser):
    """A parser that takes the terminal's answers to what was painted out of the keys."""

    def __init__(self, debug: bool, answered: Callable[[], None]) -> None:
        super().__init__(debug)
        self._answered = answered

    def _sequence_to_key_events(self, sequence: str, alt: bool = False) -> Iterable[events.Key]:
        if sequence == ANSWER:
            self._answered()
            return [events.Key(Keys.Ignore, sequence)]
        return super()._sequence_to_key_events(sequence, alt)


class HeardFile:
    """A file that tells when the kernel has taken what was written."""

    def __init__(self, file: IO[str], taken: Callable[[int], None]) -> None:
        self._file, self._taken = file, taken
        self._written = 0

    def write(self, text: str) -> None:
        """Write; it blocks as long as the kernel takes no more."""
        self._file.write(text)
        self._written += len(text)

    def flush(self) -> None:
        """Flush, and tell."""
        self._file.flush()
        written, self._written = self._written, 0
        self._taken(written)

    def fileno(self) -> int:
        """The file's own."""
        return self._file.fileno()


class TerminalDriver(LinuxDriver):
    """Gives the terminal back before anybody of its process group stops.
    It starts afresh on every SIGCONT, and sleeps while no key is pressed.
    """

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.exit_event: WakingEvent = WakingEvent()
        self.line = Line()
        self.room_made: Callable[[], None] = _nothing
        """Called in the loop when the line may take more."""
        self._file: Any = HeardFile(self._file, self._taken)
        self._questions = self._answers = 0
        self._is_gone = False

    def start_application_mode(self) -> None:
        """Take the terminal, of which nothing is known."""
        self.line = Line()
        super().start_application_mode()  # type: ignore[no-untyped-call]
        # With nothing else under way, the answer tells the line's own delay.
        self.line.sent(len(QUESTION), more=False)
        self.write(QUESTION)

    def write(self, data: str) -> None:
        """Have it written to the terminal."""
        self.line.given(len(data))
        self._questions += data.count(QUESTION)
        super().write(data)

    def disable_input(self) -> None:
        """Take no more keys, once what was asked is answered: the shell would read the answers."""
        if not self.exit_event.is_set() and self._answers and not self._is_gone:
            until = time.monotonic() + min(_LAST_ANSWER_S, 0.1 + 3 * self.line.round_trip)
            while self._answers < self._questions and time.monotonic() < until:
                time.sleep(_TICK_S / 4)
        super().disable_input()

    def _taken(self, size: int) -> None:
        self._in_loop(self.line.taken, size)

    def _answered(self) -> None:
        self._answers += 1
        self._in_loop(self.line.answered, time.monotonic())

    def _in_loop(self, note: Callable[..., None], *arguments: Any) -> None:
        def noted() -> None:
            note(*arguments)
            self.room_made()

        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(noted)

    def run_input_thread(self) -> None:
        """Read keys until the driver ends.

        Textual's own looks ten times a second whether it is to end, which costs an idle panel a
        tenth of its processor time.
        """
        parser = AnswersApart(self._debug, self._answered)
        decode = getincrementaldecoder("utf-8")("replace").decode
        ready = select.poll()
        ready.register(self.fileno, select.POLLIN)
        ready.register(self.exit_event.readable, select.POLLIN)
        # An Escape is a key of its own once nothing has followed it for a while.
        settled = 0.0
        while True:
            waits = time.monotonic() < settled
            found = {number for number, _ in ready.poll(_TICK_S * 1000 if waits else None)}
            if self.fileno in found:
                data = os.read(self.fileno, _READ_BYTES)
                if not data:  # the terminal is gone: no more keys
                    ready.unregister(self.fileno)
                    self._is_gone = True
                # Two ticks longer than Textual's delay: the parser is asked once more after it.
                settled = time.monotonic() + constants.ESCAPE_DELAY + 2 * _TICK_S
                # Half a character is no text yet, and no text means the end to the parser.
                for event in parser.feed(text) if (text := decode(data)) else ():
                    self.process_message(event)
            elif self.exit_event.is_set():
                return
            for event in parser.tick():
                self.process_message(event)

    def stop_group(self) -> None:
        """Stop with all that the shell started with us, and return when continued.
        `make` is such a program.

        As the terminal's own Ctrl+Z does; but first the terminal is restored, for the shell takes
        it the moment that the first of us stands still.
        """
        self.suspend_application_mode()
        self._must_signal_resume = True
        # With Textual's handler in place the signal would be handled, and stop nobody.
        ours = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.killpg(os.getpgrp(), signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, ours)

    def _sigcont_application(self, *_: Any) -> None:
        # Not here: a signal comes between any two lines of the loop's thread, also while it holds
        # the lock of the queue into which starting afresh writes.
        with suppress(RuntimeError):  # the loop has ended, and so will the panel
            self._loop.call_soon_threadsafe(self._start_afresh)

    def _start_afresh(self) -> None:
        # Textual 8.2.8 takes each SIGCONT for the end of a Ctrl+Z. After SIGSTOP, which nobody can
        # catch, it would read keys in a second thread beside the first, and hang when the panel is
        # to end.
        if self._auto_restart and not self._must_signal_resume and self._writer_thread is not None:
            self.suspend_application_mode()
            self._must_signal_resume = True
        super()._sigcont_application()


def _nothing() -> None:
    pass
