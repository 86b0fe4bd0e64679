"""Following a run's output for the other end: as fast as it takes it, and no faster."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from runners.model.errors import WrongInput
from runners.places.ssh.following import FollowedOutput
from runners.state.layout import StateDirectory
from runners.state.runs import find_run, read_run
from tui.cli.logs import last_lines_offset

WINDOW = 1 << 20
"""Bytes on the way at most: what lies in the line cannot be overtaken by what is newer."""

_LOOK_S = 0.1
_PIECE = 1 << 16


async def follow_output(
    state: StateDirectory,
    number: int,
    asked: dict[str, Any],
    send: Callable[..., Awaitable[None]],
    acknowledged: tuple[asyncio.Event, list[int]],
) -> None:
    """Send the file `file` of the run `run` from `at` (in the file with the number `inode`, if it
    is given) until the run has ended, then `ended`.

    `lines` begins so many lines before the end. With `most`, what is further from the end than so
    many bytes is passed over.
    """
    name = str(asked.get("file", "output.log"))
    if "/" in name or name.startswith("."):
        raise WrongInput(f"`{name}` is no file of a run")
    run = find_run(state, str(asked["run"]))
    event, counts = acknowledged
    most, window = asked.get("most"), int(asked.get("window", WINDOW))
    path, at = state.run(run.id).path / name, int(asked.get("at", 0))
    if "lines" in asked and "inode" not in asked:
        at = last_lines_offset(path, int(asked["lines"]))
    file = FollowedOutput(path, at, asked.get("inode"))
    sent = 0
    try:
        await send({"id": number, "run": run.id})
        while True:
            live = read_run(state, run.id).is_live
            while (piece := file.read(min(_PIECE, window), most)) is not None:
                fields = {"id": number, "at": piece.at, "inode": piece.inode}
                if piece.skipped:
                    fields["skipped"] = piece.skipped
                await send(fields, piece.data)
                sent += len(piece.data)
                while sent - counts[0] >= window:
                    event.clear()
                    await event.wait()
            # Looked at before reading: what a run wrote last was there when it had ended.
            if not live:
                await send({"id": number, "ended": True})
                return
            await asyncio.sleep(_LOOK_S)
    finally:
        file.close()
