"""Following a run's output for the other end: as fast as it takes it, and no faster."""

import asyncio

from runners.model.errors import WrongInput
from runners.places.ssh.following import FollowedOutput
from runners.state.runs import read_run
from tui.agent.exchange import Exchange
from tui.cli.logs import last_lines_offset

WINDOW = 1 << 20
"""Bytes on the way at most: what lies in the line cannot be overtaken by what is newer."""

_POLL_S = 0.1
_PIECE = 1 << 16


async def follow_output(exchange: Exchange) -> None:
    """Send the file `file` of the run `run` from `at` until the run has ended, then `ended`.

    `inode` is the file that `at` belongs to. `lines` begins so many lines before the end. With
    `most`, what is further from the end than so many bytes is passed over.
    """
    request = exchange.fields
    name = str(request.get("file", "output.log"))
    # A bare name: whoever asks reads in the run's own folder, and no hidden file of it.
    if "/" in name or name.startswith("."):
        raise WrongInput(f"`{name}` is no file of a run")
    run = exchange.find_run()
    most, window = request.get("most"), int(request.get("window", WINDOW))
    path, at = exchange.state.run(run.id).path / name, int(request.get("at", 0))
    # With an inode somebody comes back after a break, and goes on at `at`.
    if "lines" in request and "inode" not in request:
        at = last_lines_offset(path, int(request["lines"]))
    file = FollowedOutput(path, at, request.get("inode"))
    try:
        await exchange.send({"run": run.id})
        while True:
            live = read_run(exchange.state, run.id).is_live
            while (piece := file.read(min(_PIECE, window), most)) is not None:
                fields = {"at": piece.at, "inode": piece.inode}
                if piece.skipped:
                    fields["skipped"] = piece.skipped
                await exchange.send(fields, piece.data)
                await exchange.wait_for_room(window)
            # Its state was read before its file: what it wrote last was there when it had ended.
            if not live:
                await exchange.send({"ended": True})
                return
            await asyncio.sleep(_POLL_S)
    finally:
        file.close()
