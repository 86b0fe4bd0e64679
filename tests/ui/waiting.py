"""What tests of the screen wait with: a condition, and a ceiling."""

import time
from collections.abc import Callable
from pathlib import Path

from textual.pilot import Pilot

from tests.support import CEILING_S

CEILING = CEILING_S


async def until(pilot: Pilot[None], true: Callable[[], bool]) -> None:
    """Let the app go on until the condition holds."""
    ceiling = time.monotonic() + CEILING
    while not true():
        assert time.monotonic() < ceiling, "it never became true"
        await pilot.pause(0.01)


def append(path: Path, data: bytes) -> None:
    """Write on at the end of a file."""
    with path.open("ab") as out:
        out.write(data)
