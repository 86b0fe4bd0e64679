"""A run's verdict from what lies in its folder: evidence gathered, signatures read, line found."""

from pathlib import Path

import msgspec

from runners.diagnosis.diagnosis import diagnose
from runners.diagnosis.evidence import gather_evidence
from runners.diagnosis.full_disk import KIND, disk_in, find_full_disk, on_disk
from runners.diagnosis.signatures import load_signatures
from runners.diagnosis.verdict import Diagnosis, NotKnown
from runners.host.files import open_binary
from runners.model.errors import WrongInput
from runners.model.masking import mask_text
from runners.model.run import Run

_FAR = 64 << 20
"""Bytes before a line that are looked through to count it: a screen can show no such number."""
_NEAR = 1 << 20
_QUOTING = ("cause", "title", "message", "remedy", "line", "rests_on", "looked_at")
"""Fields of verdicts that may quote what a program wrote."""


def explain_run(run: Run) -> Diagnosis | NotKnown:
    """Why `run`, which has ended badly, did so.

    A mistake in the user's own signatures is told as the verdict: it must not hide the run.
    """
    try:
        signatures = load_signatures()
    except WrongInput as error:
        return NotKnown("signatures_unusable", f"not known: {error.message}", ())
    found = diagnose(gather_evidence(run), signatures)
    if isinstance(found, Diagnosis) and found.kind == KIND:
        found = on_disk(found, find_full_disk(run, found.line) or disk_in(found.line))
    if isinstance(found, Diagnosis) and found.offset is not None:
        number = line_number(Path(run.directory) / "output.log", found.offset, found.line)
        found = found if number is None else _at_line(found, number)
    return _masked(found)


def _at_line(found: Diagnosis, number: int) -> Diagnosis:
    """The verdict with its line as people count it, instead of its byte."""
    byte, line = f"byte {found.offset:,}", f"line {number:,}"
    evidence = tuple(text.replace(byte, line) for text in found.rests_on)
    return msgspec.structs.replace(found, line_number=number, rests_on=evidence)


def _masked(found: Diagnosis | NotKnown) -> Diagnosis | NotKnown:
    """The verdict without the secrets that lines of the output may have in them."""
    fields = {name: getattr(found, name) for name in _QUOTING if hasattr(found, name)}
    changes = {
        name: mask_text(value) if isinstance(value, str) else tuple(map(mask_text, value))
        for name, value in fields.items()
    }
    return msgspec.structs.replace(found, **changes)


def line_number(path: Path, offset: int, line: str) -> int | None:
    """The number, from 1, of `line`, which was found at or after byte `offset`.

    None when it is not in the file as it stands, or too far down to be counted.
    """
    wanted = line.removesuffix("…").encode()
    if offset > _FAR or not wanted:
        return None
    try:
        with open_binary(path) as file:
            content = file.read(offset + _NEAR)
    except OSError:
        return None
    at = content.find(wanted, offset)
    return None if at < 0 else content.count(b"\n", 0, at) + 1
