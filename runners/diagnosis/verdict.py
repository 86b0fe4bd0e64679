"""A verdict on an ended run: a known cause, or that none is known. Every command loads this."""

from typing import Any

import msgspec

from runners.diagnosis.remedy_names import remedies_of


class Diagnosis(msgspec.Struct, frozen=True, tag=True):
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
    title: str = ""
    offset: int | None = None
    """Where `line` was found in output.log, in bytes of what is left of it without escapes."""
    line_number: int | None = None
    """The same as a line of output.log, from 1."""
    is_lasting: bool = False
    """Started again as it is, the program would fail the same way."""

    @property
    def headline(self) -> str:
        """The cause in a few words."""
        return self.title or self.kind.replace("_", " ")


class NotKnown(msgspec.Struct, frozen=True, tag=True):
    """No cause is known: what can be said all the same, and what was looked at."""

    kind: str
    message: str
    looked_at: tuple[str, ...]
    line: str = ""
    rank: int | None = None


def cause_text(verdict: Diagnosis, step: str = "") -> str:
    """The cause for a row or a notice: `out of GPU memory after step 812 (log line 48)`."""
    after = f" after {step}" if step else ""
    line = "" if verdict.line_number is None else f" (log line {verdict.line_number:,})"
    return f"{verdict.headline}{after}{line}"


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
        "title": verdict.headline if isinstance(verdict, Diagnosis) else None,
        "cause": verdict.cause if isinstance(verdict, Diagnosis) else verdict.message,
        "remedy": verdict.remedy or None if isinstance(verdict, Diagnosis) else None,
        "remedies": list(remedies_for(verdict)),
        "line": verdict.line or None,
        "line_number": verdict.line_number if isinstance(verdict, Diagnosis) else None,
        "rank": verdict.rank,
        "rests_on": list(verdict.rests_on) if isinstance(verdict, Diagnosis) else [],
        "looked_at": list(verdict.looked_at),
    }
