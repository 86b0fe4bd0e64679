"""Stopping between two steps: on a signal or `$FRESNEL_RUN_DIR/stop.json`, agreed by all ranks."""

from __future__ import annotations

import atexit
import copy
import multiprocessing.util  # Before _end_workers is registered, and so after it at the end.
import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from trainers.common.errors import StoppedError as StoppedError
from trainers.common.report import run_directory

if TYPE_CHECKING:
    import torch

STOP_SIGNALS = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGUSR1") if hasattr(signal, name)
)

LEFT = "stop         what was being read or judged is left for when the run goes on"
T = TypeVar("T")
Watched = Callable[[Iterable[Any]], Iterable[Any]]
"""Gives what it is given, as StopRequest.watched does, or iter where nobody may stop."""


class StopRequest:
    """Remembers that somebody wants this run to end after its step, and how they said so."""

    def __init__(self) -> None:
        directory = run_directory()
        self._file = directory / "stop.json" if directory else None
        self.reason = ""

    @property
    def code(self) -> int:
        """The exit code of a program that ends before it has made all: as of the signal."""
        asked = self.reason if self.reason in signal.Signals.__members__ else "SIGINT"
        return 128 + signal.Signals[asked]

    def listen(self) -> None:
        """Take STOP_SIGNALS as requests; a second SIGINT raises KeyboardInterrupt."""
        for number in STOP_SIGNALS:
            signal.signal(number, self._receive)

    def _receive(self, number: int, _frame: FrameType | None) -> None:
        self.reason = self.reason or signal.Signals(number).name
        if number == signal.SIGINT:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def asked(self) -> bool:
        """Return whether this process has been asked, by signal or by file."""
        if not self.reason and self._file is not None and self._file.exists():
            self.reason = "the stop file"
        return bool(self.reason)

    def agreed(self, device: torch.device) -> bool:
        """Return whether any rank has been asked; all ranks must call this equally often."""
        from trainers.common.ranks import sum_over_ranks  # Programs that make data load no torch.

        return sum_over_ranks([float(self.asked())], device)[0] > 0

    def watched(self, items: Iterable[T]) -> Iterator[T]:
        """Yield items; raise StoppedError before the next one where this process has been asked."""
        for item in items:
            if self.asked():
                raise StoppedError
            yield item

    def shared(self, device: torch.device, work: Callable[[], T]) -> T:
        """Return what this rank's own work gives, in which nothing waits for other ranks.

        Raises StoppedError on every rank where it was raised on any; all must call this alike.
        """
        from trainers.common.ranks import sum_over_ranks

        found: list[T] = []
        try:
            found.append(work())
        except StoppedError:
            pass
        if sum_over_ranks([float(not found)], device)[0] > 0:
            raise StoppedError
        return found[0]


class Placed(Protocol):
    """A run that knows where it is."""

    position: Any


@contextmanager
def judged_or_left(run: Placed) -> Iterator[None]:
    """Leave a run where it was before the judging inside, which a stop may end.

    Saved there, with no step left in its epoch, it begins with that judging when it goes on.
    """
    before = copy.copy(run.position)
    try:
        yield
    except StoppedError:
        run.position = before
        raise


def ignore_stop_signals(_worker: int = 0) -> None:
    """Make a data-loading process outlive a signal meant for the whole process group."""
    for number in STOP_SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def stop_watching_workers() -> None:
    """Let data-loading processes end unnoticed: PyTorch raises an error wherever the program is."""
    if hasattr(signal, "SIGCHLD"):
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)


@atexit.register
def _end_workers() -> None:
    # An error has left them: multiprocessing sends them SIGTERM, which they ignore, and waits.
    left = [child for child in multiprocessing.active_children() if child.daemon]
    if left:
        stop_watching_workers()
    for child in left:
        child.kill()
