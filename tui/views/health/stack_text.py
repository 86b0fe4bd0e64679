"""Saved stacks of a run, for people and for scripts."""

from pathlib import Path
from typing import Any

import msgspec

from runners.diagnosis.stacks import ALL_RANKS, StackDump, newest_stacks, take_stacks
from runners.host.clock import age
from runners.host.files import read_plain
from runners.model.errors import NotFound
from runners.model.run import Run
from runners.state.layout import StateDirectory
from tui.views.format import duration
from tui.views.json_values import iso

_MOST_TEXT = 4 << 20


class SavedStacks(msgspec.Struct, frozen=True):
    """Where every rank of a run was at `time` (unix seconds), as text; `path` where it is kept."""

    time: float
    path: str
    text: str
    verdict: str = ""


def read_stacks(state: StateDirectory, run: Run) -> SavedStacks:
    """The stacks of a live run as they are now, of an ended one as saved when it hung.

    Raises NotFound where there are none, OSError where they cannot be saved.
    """
    directory = state.run(run.id)
    if run.is_live:
        dump = take_stacks(directory, "asked for in the panel")
        if not dump.ranks:
            raise NotFound("nothing runs")
    else:
        saved = newest_stacks(directory.path)
        if saved is None:
            raise NotFound("it has ended, and none of its stacks were saved")
        dump = saved
    path = Path(dump.folder) / ALL_RANKS
    text = read_plain(path, _MOST_TEXT).decode("utf-8", "replace")
    return SavedStacks(dump.time, str(path), text, dump.verdict)


def stacks_json(dump: StackDump) -> dict[str, Any]:
    """The documented JSON of saved stacks; a rank's whole stack stands in `folder`/`file`."""
    value: dict[str, Any] = msgspec.to_builtins(dump)
    return {**value, "time": iso(dump.time)}


def stack_pairs(run: Path, now: float) -> list[tuple[str, str]]:
    """The newest saved stacks as names and values; nothing when there are none."""
    dump = newest_stacks(run)
    if dump is None:
        return []
    ago = duration(age(dump.time, now))
    pairs = [("stacks", f"saved {ago} ago ({dump.why}): {dump.folder}")]
    if dump.verdict:
        pairs.append(("stacks show", dump.verdict))
    else:
        pairs += [("stacks show", f"{rank.label}: {rank.text}") for rank in dump.ranks[:8]]
    return pairs
