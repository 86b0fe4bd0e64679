"""Choosing lines, and taking them elsewhere: to the clipboard, into a file."""

from pathlib import Path
from time import monotonic

from textual.actions import SkipAction
from textual.message import Message
from textual.worker import get_current_worker

from runners.watch.logs.extract import text_of, write_part
from tui.panel.terminal.osc import CAP, bytes_in_words
from tui.panel.widgets.log.filtering import LogFiltering

_TOLD = 0.25


class LogPicking(LogFiltering):
    """The part of the log pane that selects lines; its screen has the clipboard."""

    picked: tuple[int, int] | None = None
    """Where the lines begin at which the selection was begun and now ends; None: no selection."""

    writing = ""
    """How far a file is written, in words."""

    class Picked(Message, namespace="log_pane"):
        """Text for the clipboard; `what` it is in words; whether it was cut."""

        def __init__(self, text: bytes, what: str, cut: bool) -> None:
            super().__init__()
            self.text = text
            self.what = what
            self.cut = cut

    class Asked(Message, namespace="log_pane"):
        """The reader wants to type something: a filter, a place, a file's name."""

        def __init__(self, purpose: str) -> None:
            super().__init__()
            self.purpose = purpose

    def action_ask(self, purpose: str) -> None:
        """Have the screen open its line to type in."""
        self.post_message(self.Asked(purpose))

    def action_leave(self) -> None:
        """End the selection, or else the filter; what else Esc does is the screen's."""
        if self.picked is not None:
            self.end_picking()
        elif self.wanted is not None:
            self.end_filter()
        else:
            raise SkipAction

    def action_pick(self) -> None:
        """Begin a selection at the line gone to last, or in the middle; again: end it."""
        start = self.place_here()
        if self.picked is not None or start is None:
            self.end_picking()
            return
        self.following = False
        self.picked = (start, start)
        self.redraw()
        self.paint(force=True)

    def end_picking(self) -> None:
        """No line is selected."""
        self.picked = None
        self.redraw()
        self.paint(force=True)

    def place_here(self) -> int | None:
        """Where the line begins that keys act on: the one gone to last, or the one in the
        middle.
        """
        rows = self.view.rows if self.view is not None else []
        if not rows:
            return None
        return next(
            (row.line.start for row in rows if row.line.start == self.here),
            rows[len(rows) // 2].line.start,
        )

    def extend(self, lines: int) -> None:
        """Move the end of the selection by so many lines, and stay with it."""
        if self.picked is None or self.view is None:
            return
        at = self.picked[1]
        shown = self.view.lines
        found = (
            shown.read_forward(at, lines + 1)[-1:]
            if lines > 0
            else shown.read_backward(at, -lines)[:1]
        )
        if found:
            self._extend_to(found[0].start)

    def _extend_to(self, start: int) -> None:
        assert self.picked is not None and self.view is not None
        self.picked = (self.picked[0], start)
        if start < self.view.top or (start == self.view.top and self.view.top_row):
            self.view.show(start)
        elif not any(row.line.start == start for row in self.view.rows):
            self.view.show(start, above=self.page - 1)
        self.redraw()
        self.paint(force=True)

    def extend_to_start(self) -> None:
        """Select up to the first line."""
        if self.view is not None and (first := self.view.lines.read_forward(0, 1)):
            self._extend_to(first[0].start)

    def extend_to_end(self) -> None:
        """Select down to the last line."""
        if self.view is not None and self.log_file is not None:
            last = self.view.lines.read_backward(self.log_file.size, 1)
            if last:
                self._extend_to(last[0].start)

    def picked_words(self) -> str:
        """How much is selected, for a title."""
        assert self.picked is not None and self.log_file is not None
        low, high = sorted(self.picked)
        first, last = self.log_file.index.line_at(low), self.log_file.index.line_at(high)
        if first is None or last is None or self.wanted is not None:
            return "selecting · y copies · w writes · Esc ends"
        return f"{_lines(last - first + 1)} selected · y copies · w writes · Esc ends"

    def action_copy_lines(self) -> None:
        """Hand the selection, or the line that keys act on, to the screen's clipboard."""
        at = self.place_here()
        if self.view is None or self.log_file is None or at is None:
            return
        low, high = sorted(self.picked or (at, at))
        lines = self.log_file.source if self.picked is None else self.view.lines
        number = self.log_file.index.line_at(low) if low == high else None

        def gather() -> None:
            text = text_of(lines, low, high, CAP)
            what = f"line {number + 1:,}" if number is not None else _lines(text.lines)
            self.post_message(self.Picked(text.data, what, text.cut))

        self.run_worker(gather, thread=True, group="copy", exclusive=True)
        if self.picked is not None:
            self.end_picking()

    def write_to(self, path: Path, overwrite: bool) -> None:
        """Write the selection, else the lines that are shown, else the log into a file, as raw
        bytes.
        """
        log = self.log_file
        if log is None or self.view is None:
            return
        part = (0, log.size)
        if self.picked is not None:
            low, high = sorted(self.picked)
            part = (low, log.source.end_of(high))
            self.end_picking()
        source, lines = log.source, self.view.matching

        def write() -> None:
            worker = get_current_worker()
            told, size = monotonic(), 0
            try:
                for share, so_far in write_part(source, path, overwrite, part, lines):
                    if worker.is_cancelled:
                        return
                    size = so_far
                    if monotonic() - told > _TOLD:
                        told = monotonic()
                        self.writing = f"writing {path.name}: {share:.0%}"
                        self.post_message(self._Progress())
                self.post_message(self.Told(f"wrote {path} ({bytes_in_words(size)})"))
            except OSError as why:
                words = f"not written: {path}: {why.strerror or why}"
                self.post_message(self.Told(words, severe=True, seconds=8))
            self.writing = ""
            self.post_message(self._Progress())

        self.run_worker(write, thread=True, group="write", exclusive=True)


def _lines(count: int) -> str:
    return f"{count:,} line{'' if count == 1 else 's'}"
