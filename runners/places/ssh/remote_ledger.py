"""A rented machine's ledger taken into ours, under its name here: it outlives the machine."""

from decimal import Decimal

import msgspec
from msgspec.structs import replace

from runners.cost.ledger import RunEntry
from runners.cost.sessions import SessionLine
from runners.host.files import append_line, read_text
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
        renamed = _renamed(line, name)
        if renamed is not None and renamed not in known:
            append_line(state.ledger, renamed.encode())
            taken += 1
    return taken


def _renamed(line: str, name: str) -> str | None:
    """The line with the machine's name here; None for one that no ledger of ours has."""
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
        entry = replace(entry, session=replace(entry.session, host=name))
    elif is_run_id(entry.run):
        entry = replace(entry, host=name)
    else:
        return None
    return msgspec.json.encode(entry).decode()
