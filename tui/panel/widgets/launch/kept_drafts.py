"""What was typed in launch forms that were left: kept for the panel's life, and in no file.

A secret may be among it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

Typed = dict[tuple[str, str], str]
"""What was typed, by the keys and titles of the fields."""


KeptDrafts = dict[tuple[str, str], Typed]
"""By machine and by what was chosen there; the newest, where the form opens next, is the last."""


class OpenDraft:
    """What is typed in the form that is open; of one choice, until another one is looked at."""

    def __init__(self, kept: KeptDrafts) -> None:
        self._kept = kept
        self._key = ("", "")
        self._as_filled: Typed = {}
        self._asked = False

    def newest(self, machine: str) -> str:
        """What was chosen on this machine when something was kept last; empty where nothing is."""
        return next((name for at, name in reversed(self._kept) if at == machine), "")

    def begin(self, machine: str, choice: str) -> Typed:
        """Another choice is shown; what was typed there earlier."""
        self._key, self._as_filled = (machine, choice), {}
        return dict(self._kept.get(self._key, {}))

    def filled(self, typed: Typed) -> None:
        """Its fields are filled in: this much is kept already."""
        self._as_filled = typed

    def keep(self, typed: Typed) -> None:
        """Keep what stands there."""
        self.forget()
        if self._key[1] and typed:
            self._kept[self._key] = typed

    def forget(self) -> None:
        """It is to begin anew."""
        self._kept.pop(self._key, None)

    def hold(self, typed: Typed) -> Callable[[], object]:
        """Keep what stands there, and is being launched, until what is returned is called."""
        self.forget()
        self._kept[self._key] = typed
        return partial(self._kept.pop, self._key, None)

    def goes_on(self) -> None:
        """Something more is typed: nobody is about to leave."""
        self._asked = False

    def may_leave(self, typed: Typed | None) -> bool:
        """Whether the form may close now: what is new in it is asked for once, then kept.

        None while its fields are being filled.
        """
        is_new = typed is not None and typed != self._as_filled
        if is_new and not self._asked:
            self._asked = True
            return False
        if typed is not None:
            self.keep(typed)
        return True
