"""Sequences for the terminal of a person, through SSH, tmux and screen: clipboard, notification.

Nobody answers, so nobody knows whether it arrived: what is said is what was sent. Facts: xterm's
ctlseqs (OSC 52); tmux(1) `allow-passthrough`, `set-clipboard`; screen(1) "ESC P … ESC \\"; iTerm2's
documentation (OSC 9, which kitty, WezTerm, Ghostty and Windows Terminal know too); urxvt's notify
extension (OSC 777).
"""

import os
import re
from base64 import b64encode
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from tui.views.format import size as size_text

if TYPE_CHECKING:
    from textual.app import App

CAP = 74_994
"""Bytes of text: with them the sequence has 100,000 bytes, which is as much as many terminals
take.
"""

_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_NOTICE_CAP = 200
_SCREEN_PIECE = 240  # screen drops a string longer than 256


def osc52(text: bytes, environment: Mapping[str, str]) -> str:
    """The sequence that hands `text` to the terminal, wrapped for a multiplexer between."""
    return wrapped(f"\x1b]52;c;{b64encode(text[:CAP]).decode()}\x07", environment)


def desktop_notice(
    title: str, text: str, how: Literal["osc9", "osc777"], environment: Mapping[str, str]
) -> str:
    """The sequence that asks the terminal for a desktop notice.
    Nothing in the texts can end it early.
    """
    # A control character in a run's name would end the sequence, and begin another.
    title, text = (_CONTROLS.sub(" ", part)[:_NOTICE_CAP] for part in (title, text))
    # Semicolons part its fields.
    if how == "osc777":
        return wrapped(
            f"\x1b]777;notify;{title.replace(';', ',')};{text.replace(';', ',')}\x07", environment
        )
    return wrapped(f"\x1b]9;{title}: {text}\x07", environment)


def wrapped(sequence: str, environment: Mapping[str, str]) -> str:
    """A sequence as the multiplexer between lets it through to the terminal."""
    if environment.get("TMUX"):
        # tmux takes what is passed through with every ESC doubled.
        return f"\x1bPtmux;{sequence.replace(chr(27), chr(27) * 2)}\x1b\\"
    if environment.get("STY"):
        pieces = (
            sequence[at : at + _SCREEN_PIECE] for at in range(0, len(sequence), _SCREEN_PIECE)
        )
        return "".join(f"\x1bP{piece}\x1b\\" for piece in pieces)
    return sequence


def describe_sent(what: str, size: int, cut: bool, environment: Mapping[str, str]) -> str:
    """What was sent, in words; never that it arrived."""
    sent = (
        f"sent {what} ({size_text(size)}{', cut there' if cut else ''}) to the "
        "terminal's clipboard (OSC 52"
    )
    if environment.get("TMUX"):
        sent += ", through tmux: needs its allow-passthrough on"
    return f"{sent}); w writes {'it' if what.startswith(('1 ', 'line')) else 'them'} to a file"


def describe_copied(text: str, environment: Mapping[str, str]) -> str:
    """What was sent to the clipboard, in full; never that it arrived."""
    through = ", through tmux: needs its allow-passthrough on" if environment.get("TMUX") else ""
    return f"sent to the terminal's clipboard (OSC 52{through}):\n{text}"


def send(app: "App[Any]", sequence: str) -> None:
    """Write a sequence for the terminal itself, past the screen."""
    terminal = getattr(app, "terminal", None)
    if terminal is not None:
        # Textual has no way to write past its screen but its own clipboard sequence.
        terminal.write(sequence)


def copy_text(app: "App[Any]", text: str) -> None:
    """Hand a text to the terminal's clipboard, and say so."""
    send(app, osc52(text.encode(), os.environ))
    app.notify(describe_copied(text, os.environ), timeout=6, markup=False)
