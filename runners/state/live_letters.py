"""The letter of a live run, the same in every panel for as long as it lives.

Letters are kept in one file, so that two panels, or one that is opened again, show the same. One
that became free is given out again as late as possible: A must not mean another run the moment A
has ended.
"""

from collections.abc import Iterable
from string import ascii_uppercase

import msgspec

from runners.host.files import replace
from runners.host.locks import locked
from runners.state.decoding import read
from runners.state.layout import StateDirectory


class LetterTable(msgspec.Struct):
    """letters.json: the letter of each live run, and the place in the alphabet that comes next."""

    letters: dict[str, str] = {}
    coming: int = 0


def live_letters(
    state: StateDirectory, live: Iterable[str], may_write: bool = True
) -> dict[str, str]:
    """The letter of each of the `live` runs; those that have none yet get one.

    `A` to `Z`, then `A2` and so on. Where the state folder must not be written, new ones are valid
    for the caller only.
    """
    wanted = sorted(live)
    table = _read(state)
    if table.letters.keys() == set(wanted):
        return table.letters
    if not may_write:
        return _dealt(table, wanted).letters
    try:
        with locked(state.letters_lock):
            table = _dealt(_read(state), wanted)
            replace(state.letters, msgspec.json.encode(table), sync=False)
    except OSError:
        table = _dealt(table, wanted)
    return table.letters


def _read(state: StateDirectory) -> LetterTable:
    return read(state.letters, LetterTable) or LetterTable()


def _dealt(table: LetterTable, wanted: list[str]) -> LetterTable:
    letters = {run: table.letters[run] for run in wanted if run in table.letters}
    coming = table.coming
    for run in wanted:
        if run not in letters:
            letters[run], coming = _next(set(letters.values()), coming)
    return LetterTable(letters, coming)


def _next(used: set[str], coming: int) -> tuple[str, int]:
    count = len(ascii_uppercase)
    level = 1
    while True:
        for step in range(count):
            at = (coming + step) % count
            letter = ascii_uppercase[at] + (str(level) if level > 1 else "")
            if letter not in used:
                return letter, (at + 1) % count
        level += 1
