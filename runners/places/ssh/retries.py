"""Going on after a line broke, for as long as that gets any further."""

import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from runners.places.ssh.ssh import RemoteTrouble, Trouble

T = TypeVar("T")

PAUSES_S = (1.0, 3.0, 10.0, 30.0)
"""Between tries, one after the other, until something new has arrived."""
FIRST_PAUSES_S = (0.5, 1.0, 3.0)
"""The same for a machine that was not reached yet: it may be off."""


def retry(
    attempt: Callable[[], T],
    arrived: Callable[[], object] = lambda: None,
    notify: Callable[[str], None] = lambda _: None,
    pauses_s: Sequence[float] | None = None,
) -> T:
    """Try until an attempt succeeds; RemoteTrouble once the pauses are over without progress.

    `arrived` returns what there is so far: whatever differs from the time before is progress, and
    None means that it is not known. Only a line that broke is tried again.
    """
    given = PAUSES_S if pauses_s is None else pauses_s
    pauses, before = iter(given), arrived()
    while True:
        try:
            return attempt()
        except RemoteTrouble as trouble:
            if trouble.kind is not Trouble.NOT_REACHED:
                raise
            found = arrived()
            if found is not None and found != before:
                before, pauses = found, iter(given)
            pause = next(pauses, None)
            if pause is None:
                raise
        notify(f"the connection was lost; continuing in {pause:g} s")
        time.sleep(pause)
