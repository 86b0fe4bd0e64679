"""The lines of a log that may tell why a run failed; what a program got over is left out."""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from runners.diagnosis.evidence import LogPart
from runners.diagnosis.log_ends import LONGEST_LINE, MOST_LINES, LogEnds
from runners.diagnosis.signatures import Signature, Tier

_RANK = re.compile(rb"\[(?:[Rr]ank|RANK|default|worker)[ :=]{0,2}0*(\d{1,5})\]")
_ADVICE = re.compile(
    rb"CUDA_LAUNCH_BLOCKING|TORCH_USE_CUDA_DSA|might be asynchronously reported|^\s*(?:Hint|Note):"
)
_CALM = re.compile(
    rb"\b(?:INFO|DEBUG|WARNING|TRACE|NOTICE)\b|\bWARN\b|\w+Warning:|\[[IW](?:\d{2,4})? |^[IW]\d{4} "
)
_NCCL_WARN = re.compile(rb"NCCL WARN ")
_CODE = re.compile(rb"^\s*(?:raise|print|log|assert|except|if|return|#|//|>>>|>|\^)")
_WRAPPED = re.compile(rb"(?:Error|Exception)\(['\"]$")
_GOT_OVER = re.compile(
    rb"(?i)\bretry(?:ing)?\b|\bretried\b|\bfall(?:ing|s)? ?back\b|\btrying (?:again|with|batch)"
    rb"|\bskipp(?:ed|ing)\b|\bignor(?:ed|ing)\b|\brecovered\b|\bhandled\b|\bcaught(?: and|[,:])"
    rb"|\bcontinuing\b|\bgoing on\b|\b(?:reduc|lower|decreas|halv)(?:ed|ing)\b"
    rb"|\bsucceeded\b|\busing\b.*\b(?:batch|defaults?|instead)\b|\bclearing\b.*\bcache\b"
)
_ADVISED = re.compile(rb"(?i)\b(?:try|consider|please|should|you (?:can|could|may))\b[^.;]*")
"""What an error's own text advises to do: nobody has done it."""
_DATA = re.compile(
    rb"(?i)^\s*(?:tip|note|hint|if you|when|question|title|text|prompt|label)\b"
    rb"|\b(?!err|exc)\w+=(?:\w+: )?$"
)
_LEVEL = re.compile(rb"\b(?:ERROR|CRITICAL|FATAL|error|fatal)\b")
_OPTIONAL = re.compile(
    rb"(?i)not available|\boptional|will not be|disabled|\bwarning\b|could not import|cannot import"
)
_NOT_GOT_OVER = re.compile(rb"Caught \w+ in (?:\w+ )|Exception ignored in")
_LATER_ERROR = re.compile(rb"During handling of the above exception, another exception occurred")
_ERROR_LINE = re.compile(
    rb"^(?:\[[^\]\n]*\]:? ?)*(?:[A-Za-z_]\w*\.)*"
    rb"((?:[A-Z]\w*)?Exception|[A-Z]\w*(?:Error|Exit|Fault|Failure))(?:: [^\n]*)?$",
    re.MULTILINE,
)
_FRAME = re.compile(rb'File "(?:[^"\n]*[/\\])?([^"/\\\n]+)", line (\d{1,9})')
_FRAME_AND_SOURCE = 500
"""So many bytes before an error hold the place where it was raised, with its line of source."""
_CASCADE_ERRORS = re.compile(
    rb"^(?:Dist(?:Backend|Network|Store)?Error|SignalException|ChildFailedError|SystemExit|"
    rb"CalledProcessError|ConnectionResetError|ConnectionRefusedError|BrokenPipeError)$"
)


class Suspect(msgspec.Struct, frozen=True):
    """A line that matched: `place` orders suspects by log and byte, `fields` are named groups."""

    signature: Signature
    line: str
    rank: int | None
    place: tuple[int, int]
    tier: Tier
    log: str
    fields: dict[str, str] = {}


class Engine:
    """Signatures compiled: one expression finds lines, a set tells which signatures they are of."""

    def __init__(self, signatures: Sequence[Signature]) -> None:
        import re2  # only where a log is searched: most commands need none

        options = re2.Options()
        options.never_nl = options.never_capture = True
        options.log_errors = False
        options.max_mem = 64 << 20
        pairs = [(signature, pattern) for signature in signatures for pattern in signature.patterns]
        unnamed = [f"(?:{re.sub(r'[(][?]P<[^>]+>', '(?:', pattern)})" for _, pattern in pairs]
        self.owners = [signature for signature, _ in pairs]
        self.any: Any = re2.compile(f"(?m){'|'.join(unnamed)}".encode(), options)
        self.which: Any = re2.Set.SearchSet(options)
        for pattern in unnamed:
            self.which.Add(f"(?m){pattern}".encode())
        self.which.Compile()
        self._patterns = [pattern.encode() for _, pattern in pairs]
        self._single: dict[int, Any] = {}

    def search_engine_line(self, index: int, line: bytes) -> Any:
        """The match of one expression in a line, with its named groups; None for none."""
        import re2

        if index not in self._single:  # few of them are ever needed
            self._single[index] = re2.compile(self._patterns[index])
        return self._single[index].search(line)


@lru_cache(maxsize=2)
def engine(signatures: tuple[Signature, ...]) -> Engine:
    """The compiled form of `signatures`, kept for the next look."""
    return Engine(signatures)


def find_suspects(parts: Iterable[LogPart], signatures: tuple[Signature, ...]) -> list[Suspect]:
    """Lines of `parts` that may tell the cause, in order; one for each signature and rank."""
    kept: dict[tuple[str, int | None, Tier], Suspect] = {}
    ends = LogEnds(parts)
    for end in ends.ends:
        for suspect in _search(end.data, end.part, end.number, end.at, engine(signatures)):
            if not ends.is_over(end, suspect.line.encode()):
                kept.setdefault((suspect.signature.id, suspect.rank, suspect.tier), suspect)
    return sorted(kept.values(), key=lambda suspect: suspect.place)


def _search(
    data: bytes, part: LogPart, number: int, offset: int, compiled: Engine
) -> Iterator[Suspect]:
    at = 0
    seen: set[bytes] = set()
    for _ in range(MOST_LINES):
        found = compiled.any.search(data, at)
        if found is None:
            return
        start = data.rfind(b"\n", 0, found.start()) + 1
        end = data.find(b"\n", found.end())
        end = len(data) if end < 0 else end
        line = data[start : min(end, start + LONGEST_LINE)]
        place = (number, part.start + offset + start)
        at = end + 1
        if line in seen or _is_optional(data[max(0, start - 4096) : start]):
            continue
        for suspect in _suspects_of(line, data[at : at + 2048], part, place, compiled):
            seen.add(line)
            yield suspect


def _is_optional(before: bytes) -> bool:
    """True when the traceback that ends here was announced as that of something optional."""
    begins = before.rfind(b"Traceback (most recent call last)")
    if begins < 0:
        return False
    frames = before[begins:].split(b"\n")[1:-1]
    if any(line and not line.startswith((b" ", b"[")) for line in frames):
        return False  # that traceback ended before this line
    return _OPTIONAL.search(before[:begins].rstrip(b"\n ").rpartition(b"\n")[2]) is not None


def _suspects_of(
    line: bytes, after: bytes, part: LogPart, place: tuple[int, int], compiled: Engine
) -> Iterator[Suspect]:
    if _ADVICE.search(line):
        return
    tag = _RANK.search(line)
    rank = int(tag[1]) if tag else part.rank
    for index in sorted(compiled.which.Match(line) or ()):
        signature = compiled.owners[index]
        match = compiled.search_engine_line(index, line)
        if match is None:
            continue
        tier = _tier(line, match.start(), match.end(), signature)
        if tier is None or _got_over(line, match.end(), after, tag[1] if tag else None):
            continue
        if tier is Tier.CAUSE and _LATER_ERROR.search(after[:512]):
            tier = Tier.VAGUE
        fields = {
            _text(name): _text(value).strip() for name, value in match.groupdict().items() if value
        }
        text = line.decode("utf-8", "replace").strip()
        yield Suspect(signature, text, rank, place, tier, part.name, fields)


def _text(value: bytes | str) -> str:
    return value if isinstance(value, str) else value.decode("utf-8", "replace")


def _tier(line: bytes, start: int, end: int, signature: Signature) -> Tier | None:
    """How much the match at `start` says; None for code, quoted data and calm log lines."""
    lead = line[:start]
    whole = line[:end]
    if _CODE.match(line) or (_is_quoted(lead) and not _WRAPPED.search(lead)):
        return None
    if not _LEVEL.search(lead) and (_DATA.search(lead) or b" | " in lead):
        return None
    if _CALM.search(whole) and not _NCCL_WARN.search(lead):
        if signature.level is Tier.WARNING or signature.explains:
            return Tier.WARNING
        # torchrun tells of its own SIGHUP as a warning: nobody else says it.
        return signature.level if signature.kind == "terminal_closed" else None
    return signature.level


def _is_quoted(lead: bytes) -> bool:
    """True inside quotes: a text that is data. Apostrophes inside words do not count."""
    if lead.count(b'"') % 2 or lead.count(b"`") % 2:
        return True
    return len(re.findall(rb"(?<!\w)'|'(?!\w)", lead)) % 2 == 1


def _got_over(line: bytes, end: int, after: bytes, rank: bytes | None) -> bool:
    """True when this line, or the same rank's next two, say that the program goes on without."""
    if _NOT_GOT_OVER.search(line):
        return False
    if _GOT_OVER.search(_ADVISED.sub(b"", line[end:])):
        return True
    looked = 0
    for follower in after.split(b"\n")[:12]:
        tag = _RANK.search(follower)
        if (tag[1] if tag else None) != rank or not follower.strip():
            continue
        if _GOT_OVER.search(follower) and not _NOT_GOT_OVER.search(follower):
            return True
        looked += 1
        if looked == 2:
            break
    return False


def unknown_error(
    parts: Iterable[LogPart], signatures: tuple[Signature, ...]
) -> tuple[str, int | None, str]:
    """The earliest raised error that no signature knows, its rank, and where; "" without one.

    One that follows from another rank's end does not count.
    """
    known = engine(signatures).any
    ends = LogEnds(parts)
    for end in ends.ends:
        part, data = end.part, end.data
        for found in _ERROR_LINE.finditer(data):
            line = found[0][:LONGEST_LINE]
            tag = _RANK.search(line)
            after = data[found.end() + 1 : found.end() + 2048]
            if (
                _CASCADE_ERRORS.match(found[1])
                or known.search(line)
                or _CALM.search(line[: found.start(1) - found.start()])
                or _got_over(line, 0, after, tag[1] if tag else None)
                or _LATER_ERROR.search(after[:512])
                or ends.is_over(end, line)
            ):
                continue
            rank = int(tag[1]) if tag else part.rank
            return line.decode("utf-8", "replace").strip(), rank, _raised_at(data[: found.start()])
    return "", None, ""


def _raised_at(before: bytes) -> str:
    """`train.py, line 9`: the last place of the traceback that ends here; empty without one."""
    found = [*_FRAME.finditer(before[-_FRAME_AND_SOURCE:])]
    return f"{found[-1][1].decode('utf-8', 'replace')}, line {int(found[-1][2])}" if found else ""


def behind_rank(suspects: Iterable[Suspect], processes: int = 0) -> tuple[int, str] | None:
    """The rank the others waited for, and why; None when none is singled out.

    The one that is named, else the only one of `processes` that reports no timeout, else the one
    with the smallest sequence number.
    """
    timeouts = [suspect for suspect in suspects if suspect.tier is Tier.COLLECTIVE]
    named = [rank for suspect in timeouts if (rank := _number(suspect, "absent")) is not None]
    if named:
        return named[0], "named as the one that did not come"
    numbers: dict[int, int] = {}
    for suspect in timeouts:
        number = _number(suspect, "sequence")
        if suspect.rank is not None and number is not None:
            numbers.setdefault(suspect.rank, number)
    reported = {suspect.rank for suspect in timeouts if suspect.rank is not None}
    silent = sorted(set(range(processes)) - reported)
    if reported and len(silent) == 1 and processes > 2:
        return silent[0], "the only one that reports no timeout"
    ranked = sorted(numbers, key=numbers.__getitem__)
    if len(ranked) < 2 or numbers[ranked[0]] == numbers[ranked[1]]:
        return None
    return ranked[0], f"furthest behind, at sequence {numbers[ranked[0]]:,}"


def _number(suspect: Suspect, name: str) -> int | None:
    """What a named group found, where that is a whole number: a user's own may find any text."""
    text = suspect.fields.get(name, "")
    return int(text) if text.isdecimal() else None
