"""The texts of failures as data: read from signatures.yaml and the user's own file, checked."""

from contextlib import suppress
from enum import IntEnum
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec

from runners.diagnosis.remedy_names import REMEDIES
from runners.host.files import replace, stamp_of
from runners.model.errors import WrongInput
from runners.state.decoding import read
from runners.state.layout import StateDirectory, config_dir

SHIPPED = Path(__file__).with_name("signatures.yaml")


class Tier(IntEnum):
    """How much a match says about the cause: the lowest one found is believed first."""

    CAUSE = 0
    VAGUE = 1
    WARNING = 2
    COLLECTIVE = 3
    CONSEQUENCE = 4


class Signature(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One kind of line that tells why a run failed; the fields are explained in signatures.yaml."""

    id: str
    kind: str = msgspec.field(name="class")
    cause: str
    remedy: str
    patterns: tuple[str, ...]
    samples: tuple[str, ...]
    non_matches: tuple[str, ...]
    tier: str = "cause"
    explains: tuple[str, ...] = ()
    remedies: tuple[str, ...] = ()
    title: str = ""
    lasting: bool = False

    @property
    def level(self) -> Tier:
        """Its tier as a number."""
        return Tier[self.tier.upper()]


class _Kept(msgspec.Struct, frozen=True):
    """Signatures as they were read from the file of that stamp."""

    stamp: str
    signatures: tuple[Signature, ...]


def user_file() -> Path:
    """Where a user's own signatures are kept."""
    return config_dir() / "signatures.yaml"


def load_signatures(own: Path | None = None) -> tuple[Signature, ...]:
    """The user's signatures (of `own`, by default user_file()), then the shipped ones.

    Raises WrongInput that names file, entry and key where one of the user's cannot be used.
    """
    path = user_file() if own is None else own
    stamp = stamp_of(path)
    if not stamp:
        return _shipped()
    mine = _user_signatures(path, stamp)
    names = {signature.id for signature in mine}
    return (*mine, *(signature for signature in _shipped() if signature.id not in names))


@lru_cache(maxsize=1)
def _shipped() -> tuple[Signature, ...]:
    """The shipped ones; read from what the last process kept of them, YAML takes its time."""
    stat = SHIPPED.stat()
    stamp = f"{stat.st_mtime_ns:x}-{stat.st_size:x}"
    kept = StateDirectory().signatures
    found = read(kept, _Kept)
    if found is not None and found.stamp == stamp:
        return found.signatures
    made = tuple(msgspec.convert(_entries(SHIPPED), list[Signature]))
    if kept.parent.is_dir():
        with suppress(OSError):
            replace(kept, msgspec.json.encode(_Kept(stamp, made)), sync=False)
    return made


@lru_cache(maxsize=4)
def _user_signatures(path: Path, stamp: int) -> tuple[Signature, ...]:
    return read_signatures(path)


def read_signatures(path: Path) -> tuple[Signature, ...]:
    """Every signature in the file at `path`, checked: fields, expressions, samples, non-matches.

    Raises WrongInput.
    """
    found: list[Signature] = []
    for number, entry in enumerate(_entries(path), 1):
        name = entry.get("id", f"number {number}") if isinstance(entry, dict) else f"{number}"
        try:
            signature = msgspec.convert(entry, Signature)
        except msgspec.ValidationError as error:
            raise _mistake(path, name, str(error).replace("`$.", "`")) from error
        problem = problem_of(signature)
        if not problem and any(other.id == signature.id for other in found):
            problem = "another entry has the same id"
        if problem:
            raise _mistake(path, name, problem)
        found.append(signature)
    return tuple(found)


def problem_of(signature: Signature) -> str:
    """What is wrong with a signature, in words; empty when nothing is."""
    import re2  # only where patterns are used: most commands need none

    if signature.tier.upper() not in Tier.__members__:
        return f"tier `{signature.tier}` is none of {', '.join(tier.name.lower() for tier in Tier)}"
    unknown = [name for name in signature.remedies if name not in REMEDIES]
    if unknown:
        return f"remedy `{unknown[0]}` is none of {', '.join(REMEDIES)}"
    if not signature.patterns or not signature.samples or not signature.non_matches:
        return "patterns, samples and non_matches need at least one line each"
    options = re2.Options()
    options.log_errors = False
    compiled = []
    for pattern in signature.patterns:
        try:
            compiled.append(re2.compile(f"(?:{pattern})", options))  # as it is searched
        except re2.error as error:
            reason = error.args[0]
            text = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
            return f"pattern {pattern!r} is no regular expression of RE2: {text}"
        if compiled[-1].search("") is not None:
            return f"pattern {pattern!r} matches every line"
    for sample in signature.samples:
        if not any(expression.search(sample) for expression in compiled):
            return f"no pattern matches the sample {sample!r}"
    for line in signature.non_matches:
        if any(expression.search(line) for expression in compiled):
            return f"a pattern matches the non-match {line!r}"
    return ""


def _entries(path: Path) -> list[Any]:
    from runners.presets.reading.yaml_lines import read_yaml  # only where a verdict is asked for

    content, _ = read_yaml(path)
    if not isinstance(content, list):
        raise WrongInput(f"{path}: not a list", f"begin each signature with `- id:`, as {SHIPPED}")
    return content


def _mistake(path: Path, name: str, problem: str) -> WrongInput:
    return WrongInput(
        f"{path}: signature `{name}`: {problem}", f"every key is explained at the top of {SHIPPED}"
    )
