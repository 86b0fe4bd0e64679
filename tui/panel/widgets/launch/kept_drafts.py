"""What was typed in launch forms that were left: kept for the panel's life, and in no file.

A secret may be among it.
"""

from __future__ import annotations

Typed = dict[tuple[str, str], str]
"""What was typed, by the keys and titles of the fields."""


class KeptDrafts:
    """By machine and by what was chosen there; the newest is where the form opens next."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str], Typed] = {}

    def keep(self, machine: str, choice: str, typed: Typed) -> None:
        """Keep it, in place of what was kept of this choice."""
        self.forget(machine, choice)
        if typed:
            self._kept[machine, choice] = typed

    def forget(self, machine: str, choice: str) -> None:
        """It was launched, or is to begin anew."""
        self._kept.pop((machine, choice), None)

    def of(self, machine: str, choice: str) -> Typed:
        """What was typed; nothing where nothing was kept."""
        return dict(self._kept.get((machine, choice), {}))

    def newest(self, machine: str) -> str:
        """What was chosen on this machine when something was kept last; empty where nothing is."""
        return next((name for at, name in reversed(self._kept) if at == machine), "")
