"""When answers should have come: a machine that greets and answers nothing is not reached."""

import time

ANSWERS_WITHIN_S = 40.0
_AT_ONCE = frozenset({"watch", "follow", "older", "end"})
"""Requests that an agent answers at once."""
_EVER_AGAIN = frozenset({"watch"})
"""Of these it says every few seconds that nothing has changed."""


class AnswerDeadlines:
    """The requests of one connection that are to be answered by a certain time."""

    def __init__(self) -> None:
        self._due: dict[int, float] = {}
        self._unanswered: set[int] = set()
        self._again: set[int] = set()

    def asked(self, number: int, what: str) -> None:
        """Note that the request `number` was sent."""
        if what in _AT_ONCE:
            self._due[number] = time.monotonic() + ANSWERS_WITHIN_S
            self._unanswered.add(number)
        if what in _EVER_AGAIN:
            self._again.add(number)

    def answered(self, number: int) -> None:
        """Note an answer."""
        self._unanswered.discard(number)
        if number in self._again:
            self._due[number] = time.monotonic() + ANSWERS_WITHIN_S
        else:
            self._due.pop(number, None)

    def cancelled(self, number: int) -> None:
        """Wait for it no longer."""
        self._again.discard(number)
        self.answered(number)

    @property
    def is_missed(self) -> bool:
        """Whether one is overdue."""
        return bool(self._due) and min(self._due.values()) < time.monotonic()

    @property
    def is_all_answered(self) -> bool:
        """Whether every request that is answered at once was, at least once."""
        return not self._unanswered
