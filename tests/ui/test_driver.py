"""Keys as the terminal sends them, in pieces, and the end of the terminal."""

from __future__ import annotations

import array
import asyncio
import fcntl
import os
import signal
import termios
import threading
from collections.abc import Iterator

import pytest
from textual import events
from textual.app import App
from textual.message import Message

from tests.support import CEILING_S, eventually
from tui.panel.terminal.driver import TerminalDriver


class Keys(TerminalDriver):
    """A driver that reads a pipe and keeps the keys."""

    def __init__(self) -> None:
        super().__init__(App())
        self.fileno, self.typed = os.pipe()
        self.keys: list[str] = []

    def process_message(self, message: Message) -> None:
        if isinstance(message, events.Paste):
            self.keys.append(f"pasted {message.text}")
        elif isinstance(message, events.Key):
            self.keys.append(message.key if message.character is None else message.character)

    def type(self, piece: bytes) -> None:
        """Send a piece and wait until it was read, so that the next one is a read of its own."""
        os.write(self.typed, piece)
        unread = array.array("i", [1])
        eventually(
            lambda: fcntl.ioctl(self.fileno, termios.FIONREAD, unread) == 0 and not unread[0]
        )


@pytest.fixture(autouse=True)
def _handlers() -> Iterator[None]:
    """A driver takes these signals for itself."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTSTP, signal.SIGCONT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


async def _made() -> Keys:
    return Keys()  # in a loop, as Textual's drivers want


@pytest.fixture
def driver() -> Iterator[Keys]:
    driver = asyncio.run(_made())
    thread = threading.Thread(target=driver.run_input_thread)
    thread.start()
    yield driver
    driver.exit_event.set()
    thread.join(CEILING_S)
    assert not thread.is_alive()


def test_keys_that_come_in_pieces(driver: Keys) -> None:
    for piece in (b"a", b"\xc3", b"\xa9", b"\x1b[A", b"\xe6\x97", b"\xa5"):
        driver.type(piece)
    eventually(lambda: driver.keys == ["a", "é", "up", "日"], what="all keys")


def test_escape_alone_is_a_key(driver: Keys) -> None:
    driver.type(b"\x1b")
    eventually(lambda: driver.keys == ["\x1b"])
    driver.type(b"q")
    eventually(lambda: driver.keys == ["\x1b", "q"])


@pytest.mark.parametrize("size", [1, 5, 100])
def test_nothing_of_a_paste_is_a_key(driver: Keys, size: int) -> None:
    """A copied log may have colours: what followed one was typed, `x` and `y` among it."""
    typed = b"a\x1b[200~\x1b[31mred\x1b[0m\n\x1bxy\x7f\tz\x1b[201~b"
    for i in range(0, len(typed), size):
        driver.type(typed[i : i + size])
    eventually(lambda: driver.keys == ["a", "pasted red\nxy\tz", "b"], what="one paste")


def test_a_terminal_that_is_gone_is_waited_for_without_work(driver: Keys) -> None:
    driver.type(b"a")
    os.close(driver.typed)
    eventually(lambda: driver.keys == ["a"])


def test_the_end_can_come_twice() -> None:
    driver = asyncio.run(_made())
    for _ in range(2):  # suspended, continued, ended
        thread = threading.Thread(target=driver.run_input_thread)
        thread.start()
        driver.type(b"a")
        driver.exit_event.set()
        thread.join(CEILING_S)
        assert not thread.is_alive()
        driver.exit_event.clear()
    assert driver.keys == ["a", "a"]


async def test_a_signal_only_asks_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    driver, done = Keys(), []
    for step in ("suspend_application_mode", "resume_application_mode"):
        monkeypatch.setattr(driver, step, lambda step=step: done.append(step))
    monkeypatch.setattr(driver, "_output", object())  # it has the terminal
    os.kill(os.getpid(), signal.SIGCONT)
    # Whatever the loop's thread was doing, it goes on with it first.
    assert not done
    await asyncio.sleep(0)
    assert done == ["suspend_application_mode", "resume_application_mode"]
