"""A rented machine's ledger taken into ours, under its name here: it outlives the machine."""

from decimal import Decimal
from pathlib import Path

import msgspec
from msgspec.structs import replace

from runners.cost.ledger import RunEntry
from runners.cost.sessions import SessionLine
from runners.host.files import append_line, read_plain, read_text
from runners.host.files import replace as replace_file
from runners.model.run_ids import is_run_id
from runners.places.ssh.bounds import require_sane
from runners.state.layout import StateDirectory

_decoder = msgspec.json.Decoder(RunEntry | SessionLine)


def take_in_ledger(state: StateDirectory, text: str, name: str) -> int:
    """Append the lines of another machine's ledger that ours lacks, as of host `name`; how many.

    What cannot be read is left out. OSError when ours cannot be written.
    """
    known = set(read_text(state.ledger).splitlines())
    taken = 0
    for line in text.splitlines():
        entry = read_line(line, name)
        renamed = "" if entry is None else msgspec.json.encode(entry).decode()
        if renamed and renamed not in known:
            append_line(state.ledger, renamed.encode())
            taken += 1
    return taken


def keep_ledger(folder: Path, name: str, text: bytes) -> str:
    """Keep another machine's ledger as `NAME-ledger.jsonl`, which only ever grows.

    One that got shorter, or has another past, is laid beside it; what is wrong, said once for each.
    """
    kept, other = folder / f"{name}-ledger.jsonl", folder / f"{name}-ledger.refused.jsonl"
    if text.startswith(_bytes(kept)):
        replace_file(kept, text)
        return ""
    if text == _bytes(other):
        return ""
    replace_file(other, text)
    return (
        f"the ledger of {name} is not the one fetched before with more behind it: {kept} stays as "
        f"it was, what it says now is {other}"
    )


def _bytes(path: Path) -> bytes:
    try:
        return read_plain(path)
    except OSError:
        return b""


def read_line(line: str, name: str) -> RunEntry | SessionLine | None:
    """A ledger's line with the machine's name here; None for one that no ledger of ours has."""
    try:
        entry = _decoder.decode(line)
        require_sane(entry)
        price = entry.session.price if isinstance(entry, SessionLine) else entry.price
        if price is not None:
            require_sane(Decimal(price.usd_per_hour))
    except (ArithmeticError, ValueError, RecursionError):
        return None
    # Two rented machines may well call themselves alike; their names here differ.
    if isinstance(entry, SessionLine):
        return replace(entry, session=replace(entry.session, host=name))
    return replace(entry, host=name) if is_run_id(entry.run) else None
