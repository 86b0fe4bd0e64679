"""Saved stacks of a run, for people and for scripts."""

from pathlib import Path
from typing import Any

import msgspec

from runners.diagnosis.stacks import StackDump, newest_stacks
from tui.views.format import duration
from tui.views.json_values import iso


def stacks_json(dump: StackDump) -> dict[str, Any]:
    """The documented JSON of saved stacks; a rank's whole stack stands in `folder`/`file`."""
    value: dict[str, Any] = msgspec.to_builtins(dump)
    return {**value, "time": iso(dump.time)}


def stack_pairs(run: Path, now: float) -> list[tuple[str, str]]:
    """The newest saved stacks as names and values; nothing when there are none."""
    dump = newest_stacks(run)
    if dump is None:
        return []
    ago = duration(max(0.0, now - dump.time))
    pairs = [("stacks", f"saved {ago} ago ({dump.why}): {dump.folder}")]
    if dump.verdict:
        pairs.append(("stacks show", dump.verdict))
    else:
        pairs += [("stacks show", f"{one.label}: {one.words}") for one in dump.ranks[:8]]
    return pairs
