"""Programs that make data: work dealt to processes, and a stop that leaves whole files."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing.synchronize import Event
from typing import TypeVar

import trainers
from trainers.common.errors import SettingsError, StoppedError
from trainers.common.stopping import StopRequest, Watched, ignore_stop_signals

A, B = TypeVar("A"), TypeVar("B")


def each_made(
    work: Callable[[A], B],
    items: Sequence[A],
    workers: int,
    watched: Watched = iter,
    begin: Callable[[], object] = int,
) -> Iterator[tuple[A, Callable[[], B]]]:
    """Yield items in their order, each with what returns the work's result or raises its error.

    By so many processes, which call `begin` first, or for 0 by this one, as results are asked for.
    Where `watched` raises StoppedError, what has begun is finished and the rest is left.
    """
    if not workers or not items:
        for item in watched(items):
            yield item, partial(work, item)
        return
    count = min(workers, len(items))
    leaving = multiprocessing.Event()
    pool = ProcessPoolExecutor(count, initializer=_begin, initargs=(os.getpid(), leaving, begin))
    try:
        made = iter([pool.submit(_unless_leaving, work, item) for item in items])
        for item in watched(items):
            yield item, next(made).result
    finally:
        # A pool hands on more work than its processes do at once, and does not take that back.
        leaving.set()
        pool.shutdown(cancel_futures=True)


LEAVING: list[Event] = []
"""In a process of a pool: whether no more work is to be begun."""


def _unless_leaving(work: Callable[[A], B], item: A) -> B:
    if LEAVING[0].is_set():
        raise StoppedError
    return work(item)


def _begin(parent: int, leaving: Event, begin: Callable[[], object]) -> None:
    LEAVING[:] = [leaving]
    # The one that started it is asked to stop, and decides.
    ignore_stop_signals()
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    begin()


def _end_with(parent: int) -> None:
    """End this process soon after the one that started it: it would wait for work for ever."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


def make_data(work: Callable[[StopRequest], int]) -> int:
    """Do a program's work and return its exit code.

    That is the work's, 2 for a setting that cannot be, 1 for a file that cannot or for memory that
    does not suffice, and as of a signal where one asked for the end: whoever waits for the data
    must not take them for made.
    """
    stop = StopRequest()
    stop.listen()
    try:
        return work(stop)
    except (StoppedError, KeyboardInterrupt):
        trainers.leave()
        print("stopped: what is made stays, and is not made again", file=sys.stderr)
        return stop.code
    except Exception as problem:
        text = explained(problem)
        if not text:
            raise
        print(f"error: {text}", file=sys.stderr)
        return 2 if isinstance(problem, SettingsError) else 1
    finally:
        trainers.leave()


def explained(problem: Exception) -> str:
    """Return a line on what a user can act on; nothing where the program itself is at fault."""
    if isinstance(problem, (SettingsError, OSError)):
        return str(problem)
    # Rarely needed, and it loads torch.
    from trainers.common.failures import failure

    return failure(problem, argparse.Namespace())
