"""A verdict on an ended run: a known cause, or that none is known. Every command loads this."""

from typing import Any

import msgspec

from runners.doctor.remedies import remedies_of


class Diagnosis(msgspec.Struct, frozen=True):
    """A known cause: its class and signature, in words, and the evidence it rests on."""

    kind: str
    signature: str
    cause: str
    remedy: str
    rests_on: tuple[str, ...]
    looked_at: tuple[str, ...]
    line: str = ""
    rank: int | None = None
    remedies: tuple[str, ...] = ()


class NotKnown(msgspec.Struct, frozen=True):
    """No cause is known: what can be said all the same, and what was looked at."""

    kind: str
    words: str
    looked_at: tuple[str, ...]
    line: str = ""
    rank: int | None = None


def remedies_for(verdict: Diagnosis | NotKnown) -> tuple[str, ...]:
    """The names of the remedies that `fresnel-tui remedy` may offer."""
    named = verdict.remedies if isinstance(verdict, Diagnosis) else ()
    return remedies_of(verdict.kind, named)


def to_json(verdict: Diagnosis | NotKnown) -> dict[str, Any]:
    """The documented JSON of a verdict; `known` tells which of the two it is."""
    known = isinstance(verdict, Diagnosis)
    return {
        "known": known,
        "class": verdict.kind,
        "signature": verdict.signature or None if isinstance(verdict, Diagnosis) else None,
        "cause": verdict.cause if isinstance(verdict, Diagnosis) else verdict.words,
        "remedy": verdict.remedy or None if isinstance(verdict, Diagnosis) else None,
        "remedies": list(remedies_for(verdict)),
        "line": verdict.line or None,
        "rank": verdict.rank,
        "rests_on": list(verdict.rests_on) if isinstance(verdict, Diagnosis) else [],
        "looked_at": list(verdict.looked_at),
    }
