"""What is pasted is text: control characters in it are no keys.

Textual's parser takes an escape inside a paste for the beginning of a key, and types what follows:
of a copied log with colours `x y` would delete a run.
"""

from runners.model.late_pattern import late_pattern

_START, _END = "\x1b[200~", "\x1b[201~"
_CONTROLS = late_pattern(r"\x1b\[[0-9;:?]*[@-~]|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
"""Colours go whole, so that nothing is left of them."""


class PastedText:
    """What comes from a terminal, in pieces, without the control characters of its pastes."""

    def __init__(self) -> None:
        self._paste: str | None = None
        """What came of a paste so far; None outside of one."""
        self._before = ""
        """The end of what went before: a paste's beginning may come in pieces."""

    def cleaned(self, text: str) -> str:
        """The next piece; empty while a paste has not ended."""
        done: list[str] = []
        while text:
            if self._paste is None:
                at = (self._before + text).find(_START)
                cut = len(text) if at < 0 else at + len(_START) - len(self._before)
                done.append(text[:cut])
                self._before = "" if at >= 0 else (self._before + text)[1 - len(_START) :]
                self._paste = None if at < 0 else ""
                text = text[cut:]
            else:
                body, end, text = (self._paste + text).partition(_END)
                self._paste = None if end else body
                if end:
                    done += _CONTROLS.sub("", body), end
        return "".join(done)
