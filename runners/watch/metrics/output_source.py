"""What a run prints, as samples: all its attempts in order, or live, only what is new of it."""

import re
import time
from collections.abc import Iterator
from enum import Enum
from pathlib import Path

from runners.host.files import names_in
from runners.host.tail import Follower
from runners.model.spec import MetricRule
from runners.state.layout import output_set_aside
from runners.watch.metrics.followed import OutputState
from runners.watch.metrics.reading import OutputReader
from runners.watch.metrics.sample import Sample

LIVE_BYTES = 128 * 1024
"""What is read of new output at one look, in a list of runs: the end of it."""
# After the first look: a list of many runs must not hold the panel up. Lines and not seconds, or
# what is shown of a run would depend on how busy the machine is.
_LIVE_LINES = 512
_LAST = 64
_FOLLOW_S = 1.0
"""Of processor time, for who reads all that is new, at one look."""
_SOON_BYTES = 2 << 20
"""What is read in about `_FOLLOW_S`."""
_LEFT_BYTES = 1 << 30
"""What a watcher that came so far leaves for its next look; of more it takes the end.

It reads some megabytes in a second: what comes faster is read on after the run's end, from there.
"""
_ATTEMPT = re.compile(r"output\.(\d+)\.log")


class OutputEvent(Enum):
    """Where the output's meaning changes."""

    ATTEMPT = "the program was started again"
    GAP = "lines were left out"


OutputItem = Sample | OutputEvent
"""A sample, or the start of an attempt, or of what comes after a gap."""


class OutputSource:
    """A run's output: each attempt's beginning and last `most` bytes; `skipped` counts the rest."""

    def __init__(
        self,
        directory: Path,
        rule: MetricRule,
        live: bool,
        most: int | None = None,
    ) -> None:
        self.reader = OutputReader(rule)
        self.most = most
        self.skipped = 0
        self.more = False
        self._caught_up = False
        self._directory = directory
        self._live = live
        self._follower = Follower(directory / "output.log")
        self._ended: list[int] = []
        self._waiting: list[int] = []
        if live:
            self._ended = self._attempts()
        else:
            self._waiting = self._attempts()

    @property
    def left(self) -> int:
        """Bytes that are not read yet."""
        return self._follower.left

    def state(self) -> OutputState:
        """All that another source of this output needs to read on."""
        return OutputState(
            self._follower.mark(), self._ended, self.skipped, self._caught_up, self.reader.state()
        )

    def read_on_from(self, state: OutputState) -> None:
        """Read on as the source whose state it is."""
        self._follower.go_on_from(state.mark)
        self._ended, self.skipped = list(state.ended), state.skipped
        self._caught_up = state.caught_up
        self.reader.go_on_from(state.reading)

    def follow(self, leave: bool = True) -> Iterator[OutputItem]:
        """All that is new; its end alone of what comes faster than anybody can read it.

        What takes long is left for the next look, unless there is none: then its end is read.
        """
        until = time.thread_time() + _FOLLOW_S
        # Who has no next look does not begin what cannot be read in time.
        at_once = leave or self._follower.left <= _SOON_BYTES
        yield from self._poll(1 << 20 if at_once else LIVE_BYTES, jump=not at_once, hurries=False)
        while self.more:
            late = time.thread_time() > until
            if late and leave and self._follower.left <= _LEFT_BYTES:
                return  # the rest is read at the next look
            yield from self._poll(LIVE_BYTES if late else 1 << 20, jump=late, hurries=False)

    def poll(self, limit: int = LIVE_BYTES) -> Iterator[OutputItem]:
        """What is new, as far as `limit` bytes go; `more` says whether there is more."""
        yield from self._poll(limit, self._live, self._live and self._caught_up)

    def _poll(self, limit: int, jump: bool, hurries: bool) -> Iterator[OutputItem]:
        # The supervisor renames the output when it starts the program again.
        if self._follower.changed():
            self._waiting += [number for number in self._attempts() if number not in self._known()]
            yield from self._finish_old(limit)
        while self._waiting:
            yield from self._read_old(self._waiting.pop(0))
        # Nobody knows when the lines were written that were there before the first read.
        moment = time.time() if self._caught_up else None
        yield from self._read(self._follower, limit, moment, jump, hurries)
        self._caught_up = not self.more

    def finish(self) -> Iterator[OutputItem]:
        """What readers still waited for at the end of a run, and the last redraw of a bar."""
        yield from self._last_of(self._follower)

    def _last_of(self, follower: Follower) -> Iterator[OutputItem]:
        for line in follower.flush() if follower.is_redraw else ():
            # Any other line without an end is cut off, and so may be its number.
            yield from self.reader.read(line)
        yield from self.reader.finish()

    def _known(self) -> set[int]:
        return {*self._ended, *self._waiting}

    def _attempts(self) -> list[int]:
        names = names_in(self._directory)
        return sorted(int(found[1]) for name in names if (found := _ATTEMPT.fullmatch(name)))

    def _finish_old(self, limit: int) -> Iterator[OutputItem]:
        """The rest of the file that was read so far, under its new name."""
        for number in self._waiting:
            old = output_set_aside(self._directory, number)
            self._follower.path = old
            if not self._follower.changed():
                moment, unread = time.time() if self._live else None, True
                while unread:
                    yield from self._read(self._follower, limit, moment, self._live, self._live)
                    unread = self.more and not self._live
                yield from self._last_of(self._follower)
                self._waiting.remove(number)
                self._ended.append(number)
                yield from self._begin_attempt()
                self._follower = Follower(self._directory / "output.log")
                return
        self._follower.path = self._directory / "output.log"

    def _read_old(self, number: int) -> Iterator[OutputItem]:
        follower = Follower(output_set_aside(self._directory, number))
        while True:
            # First a small piece: what is skipped for `most` is only skipped after the beginning.
            yield from self._read(follower, 64 * 1024 if follower.offset == 0 else 1 << 20, None)
            if not self.more:
                break
        yield from self._last_of(follower)
        self._ended.append(number)
        yield from self._begin_attempt()

    def _gap(self) -> OutputItem:
        self.reader.note_gap()
        return OutputEvent.GAP

    def _begin_attempt(self) -> Iterator[OutputItem]:
        self.reader = self.reader.next_attempt()
        yield OutputEvent.ATTEMPT

    def _read(
        self,
        follower: Follower,
        limit: int,
        moment: float | None,
        jump: bool = False,
        hurries: bool = False,
    ) -> Iterator[OutputItem]:
        if self.most is not None and follower.offset:
            self.skipped += follower.skip_to_last(self.most)
        news = follower.poll(limit, jump)
        self.more = news.more
        self.skipped += news.skipped
        if news.restarted:
            yield from self._begin_attempt()
        lines = news.lines
        if news.skipped and not news.before_gap:
            yield self._gap()
        at = 0
        while at < len(lines):
            if hurries and at == _LIVE_LINES - _LAST and len(lines) > _LIVE_LINES:
                # The newest lines tell where the run is, so they are always read.
                yield self._gap()
                self.skipped += sum(map(len, lines[at:-_LAST]))
                at = len(lines) - _LAST
            if news.skipped and at and at == news.before_gap:
                yield self._gap()
            line = lines[at]
            at += 1
            for sample in self.reader.read(line):
                yield (
                    sample
                    if sample.time is not None or moment is None
                    else sample._replace(time=moment)
                )
