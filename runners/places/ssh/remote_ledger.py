"""A rented machine's ledger taken into ours, under its name here: it outlives the machine."""

import json
from typing import Any

from runners.host.files import append_line, read_text
from runners.state.layout import StateDirectory


def take_in_ledger(state: StateDirectory, text: str, name: str) -> int:
    """Append the lines of another machine's ledger that ours lacks, as of host `name`; how many.

    What cannot be read is left out. OSError when ours cannot be written.
    """
    known = set(read_text(state.ledger).splitlines())
    taken = 0
    for line in text.splitlines():
        renamed = _renamed(line, name)
        if renamed is not None and renamed not in known:
            append_line(state.ledger, renamed.encode())
            taken += 1
    return taken


def _renamed(line: str, name: str) -> str | None:
    try:
        entry: Any = json.loads(line)
    except ValueError:
        return None
    if not isinstance(entry, dict):
        return None
    # Two rented machines may well call themselves alike; their names here differ.
    holder = entry.get("session") if entry.get("type") == "session" else entry
    if not isinstance(holder, dict) or "host" not in holder:
        return None
    holder["host"] = name
    return json.dumps(entry, separators=(",", ":"), ensure_ascii=False)
