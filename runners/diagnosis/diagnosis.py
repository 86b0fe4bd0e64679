"""Why a run ended: the first cause, on what that rests, or plainly that it is not known.

Order of evidence: what was done on purpose, the kernel's memory killer, GPU hardware errors, error
files of the earliest rank, the earliest line that is no consequence of another, the exit status.
"""

import re
from collections.abc import Mapping

import msgspec

from runners.diagnosis.evidence import Evidence, LogPart
from runners.diagnosis.full_disk import without_words
from runners.diagnosis.log_ends import first_failure, root_cause
from runners.diagnosis.own_ends import done_on_purpose
from runners.diagnosis.signatures import Signature, Tier
from runners.diagnosis.suspects import (
    Suspect,
    behind_rank,
    find_suspects,
    unknown_error,
)
from runners.diagnosis.verdict import Diagnosis, NotKnown
from runners.model.endings import is_doubtful, over_text, signal_of
from runners.model.states import State
from runners.state.vanished import last_line_of

HARDWARE_XIDS = frozenset({46, 48, 62, 64, 74, 79, 95, 109, 110, 119, 120, 136, 140, 143, 155, 156})
"""Xids that are the machine's, by the action in NVIDIA's catalogue: reset or replace the GPU."""

_LONGEST = 240
_END = 64 << 10
"""Bytes of a log in which the words of a program that refuses are looked for."""
_KILLED = re.compile(r"(?:Kill(?:ed)? process |oom-kill:.*\bpid=)(\d{1,9})\b")
_OPTIONAL = re.compile(r"\[([^][]*)\]")
_FIELD = re.compile(r"\{(\w+)\}")
_SIGNAL_KINDS = {
    "SIGHUP": ("terminal_closed", "the terminal or session it belonged to was closed"),
    "SIGSEGV": ("crashed", "a native library accessed memory that is not its own"),
    "SIGBUS": (
        "crashed",
        "a bus error: usually a full /dev/shm, or a mapped file that was truncated",
    ),
    "SIGILL": ("crashed", "an instruction this CPU does not have: a build for another CPU"),
    "SIGFPE": ("crashed", "an arithmetic error in native code"),
    "SIGXCPU": ("cpu_limit", "its limit of CPU time (ulimit -t) was reached"),
    "SIGXFSZ": ("file_size_limit", "its limit of file size (ulimit -f) was reached"),
}
_SIGNAL_REMEDIES = {
    "SIGXCPU": "`ulimit -t unlimited` in the shell that launches, where it may be raised.",
    "SIGXFSZ": "`ulimit -f unlimited` in the shell that launches, where it may be raised.",
}
_UNKNOWN_SIGNALS = {
    "SIGKILL": ("killed_unknown", "killed by SIGKILL; by whom is not recorded"),
    "SIGTERM": ("terminated_unknown", "ended by a SIGTERM that this panel did not send"),
    "SIGINT": ("interrupted_unknown", "interrupted by a SIGINT that this panel did not send"),
    "SIGABRT": ("aborted_unknown", "it aborted, and its output does not say why"),
}
_SUDDEN = {"SIGKILL", "SIGSEGV", "SIGBUS", "SIGILL", "SIGFPE"}
"""Ends that leave no words, so that what stands in the output is the other ranks' surprise."""
_REFUSAL = re.compile(rb"(?mi)^(?:\[\w*?(?P<rank>\d{1,5})\]: ?)?(?:\S+: )?error: (?P<what>.+)")
REFUSED_SETTINGS = "settings_refused"
"""The class of a program that says what is wrong with its settings or data, and exits with 2."""
_EXITS = {
    126: (
        "not_executable",
        "the command exists but cannot be executed",
        "chmod +x, or name its interpreter",
    ),
    127: (
        "command_not_found",
        "the command, or one it calls, was not found",
        "check PATH and the command",
    ),
}


def diagnose(evidence: Evidence, signatures: tuple[Signature, ...]) -> Diagnosis | NotKnown:
    """The first cause of a run's end; a pure function of the evidence."""
    looked = _looked_at(evidence)
    ended_well = evidence.state is State.DONE or evidence.exit_code == 0
    if ended_well and not is_doubtful(evidence.ending):
        how = "successfully" if evidence.state is State.DONE else "with exit code 0"
        return NotKnown("ended_well", f"it ended {how}: nothing to explain", looked)
    done = done_on_purpose(evidence, looked)
    if done is not None:
        return done
    suspects = find_suspects(evidence.logs, signatures)
    chosen = choose(suspects, evidence)
    found = (
        _memory_killer(evidence, chosen, looked)
        or _hardware(evidence, looked)
        or _error_file(evidence, signatures, looked)
        or _refused_settings(chosen, evidence, looked)
        or _from_text(chosen, suspects, evidence, signatures, looked)
        or _from_exit(evidence, looked)
    )
    if isinstance(found, NotKnown) and not found.line and evidence.oom_kills:
        return _memory_killer(evidence, chosen, looked, is_silent=True) or found
    if isinstance(found, NotKnown) and evidence.full_disk:
        return without_words(found, evidence.full_disk, signatures)
    return found


def choose(suspects: list[Suspect], evidence: Evidence) -> Suspect | None:
    """The suspect to believe: of the most telling tier, of the rank that failed first, earliest."""
    if not suspects:
        return None
    tier = min(suspect.tier for suspect in suspects)
    best = [suspect for suspect in suspects if suspect.tier is tier]
    first = root_cause(evidence.logs)
    of_first = [suspect for suspect in best if first is not None and suspect.rank == first[0]]
    chosen = (of_first or best)[0]
    earlier = (suspect for suspect in suspects if suspect.place < chosen.place)
    return next(
        (suspect for suspect in earlier if chosen.signature.kind in suspect.signature.explains),
        chosen,
    )


def _looked_at(evidence: Evidence) -> tuple[str, ...]:
    code = evidence.exit_code
    name = signal_of(code)
    looked = ["no exit status" if code is None else f"exit {code}{name and f' ({name})'}"]
    if evidence.oom_kills is not None:
        looked.append(f"control group: {evidence.oom_kills} memory kills")
    if evidence.kernel:
        looked.append(f"kernel log: {len(evidence.kernel)} records")
    if evidence.xids:
        looked.append(f"Xid {', '.join(str(xid.code) for xid in evidence.xids)}")
    if evidence.errors:
        looked.append(f"{len(evidence.errors)} error files")
    for part in evidence.logs:
        where = f" from byte {part.start:,}" if part.start else ""
        looked.append(f"{len(part.data):,} bytes of {part.name}{where}")
    return tuple(looked[:12])


def _memory_killer(
    evidence: Evidence, chosen: Suspect | None, looked: tuple[str, ...], is_silent: bool = False
) -> Diagnosis | None:
    """Host memory: the control group's counter, or the kernel's record of one of our processes.

    `is_silent`: nothing else says why, as a shell whose own exit code hides what was killed in it.
    """
    first = root_cause(evidence.logs)
    killed = "SIGKILL" in (signal_of(evidence.exit_code), signal_of(first[1] if first else None))
    of_worker = chosen is not None and chosen.signature.kind == "dataloader_worker_killed"
    if not (killed or of_worker or is_silent):
        return None
    rests = []
    if evidence.oom_kills:
        rests.append(f"the control group counted {evidence.oom_kills} memory kills")
    records = [
        line
        for line in evidence.kernel
        if (found := _KILLED.search(line)) and int(found[1]) in evidence.pids
    ]
    if records:
        rests.append("the kernel's record of the kill")
    if not rests:
        return None
    return Diagnosis(
        "host_out_of_memory",
        "",
        "The host, or the run's memory limit, ran out of memory and the kernel killed it.",
        "Fewer workers, less preloading, or a higher memory limit.",
        tuple(rests),
        looked,
        records[0] if records else "",
        first[0] if first and killed else None,
        title=over_text(evidence.ending.get("memory_limit") if evidence.ending else None),
    )


def _hardware(evidence: Evidence, looked: tuple[str, ...]) -> Diagnosis | None:
    found = next((xid for xid in evidence.xids if xid.code in HARDWARE_XIDS), None)
    if found is None:
        return None
    return Diagnosis(
        "gpu_hardware",
        "",
        f"The GPU reported Xid {found.code}: {found.meaning}.",
        "This is the machine, not the run: exclude this GPU (--gpu-ids), tell its administrator.",
        (f"Xid {found.code} of the run's GPU while it ran",),
        looked,
        title=f"GPU hardware error (Xid {found.code})",
    )


def _error_file(
    evidence: Evidence, signatures: tuple[Signature, ...], looked: tuple[str, ...]
) -> Diagnosis | None:
    """The earliest error file, or torchrun's report of one, whose message is a known cause."""
    name = "the earliest error file"
    texts = [(error.message.encode("utf-8", "replace"), error.rank) for error in evidence.errors]
    parts = [LogPart(name, text, 0, rank) for text, rank in texts]
    reported = first_failure(evidence.logs)
    for part in [*parts, reported] if reported is not None else parts:
        suspects = find_suspects([part], signatures)
        best = min(suspects, key=lambda suspect: suspect.tier, default=None)
        if best is not None and best.tier <= Tier.VAGUE:
            whose = "a rank" if part.rank is None else f"rank {part.rank}"
            return _known_cause(best, (f"{part.name}, of {whose}",), looked)
    return None


def _from_text(
    chosen: Suspect | None,
    suspects: list[Suspect],
    evidence: Evidence,
    signatures: tuple[Signature, ...],
    looked: tuple[str, ...],
) -> Diagnosis | NotKnown | None:
    """What the output tells; None when the exit status tells more than it."""
    if chosen is not None and (chosen.tier <= Tier.VAGUE or chosen.signature.explains):
        return _from_line(chosen, suspects, evidence, looked)
    first = root_cause(evidence.logs)
    ends = {signal_of(evidence.exit_code), signal_of(first[1] if first else None)}
    if ends & _SUDDEN and (chosen is None or chosen.tier >= Tier.COLLECTIVE):
        return None
    line, rank, place = unknown_error(evidence.logs, signatures)
    if line:
        reported = first_failure(evidence.logs)
        if rank is None and reported is not None and line.encode() in reported.data:
            rank = reported.rank
        whose = "" if rank is None else f" of rank {rank}"
        line = _shortened(line)
        message = f"not known; the first error{whose}: {line}" + (f" ({place})" if place else "")
        return NotKnown("unknown", message, looked, line, rank)
    return None if chosen is None else _from_line(chosen, suspects, evidence, looked)


def _refused_settings(
    chosen: Suspect | None, evidence: Evidence, looked: tuple[str, ...]
) -> Diagnosis | None:
    """By the convention of argparse, click and POSIX tools: `error: …` and exit status 2."""
    first = root_cause(evidence.logs)
    code = evidence.exit_code if first is None else first[1]
    if code != 2 or (chosen is not None and chosen.tier <= Tier.VAGUE):
        return None
    lines = [found for part in evidence.logs for found in _REFUSAL.finditer(part.data[-_END:])]
    if not lines:
        return None
    line = _shortened(lines[-1][0].decode("utf-8", "replace").strip())
    what = _shortened(lines[-1]["what"].decode("utf-8", "replace").strip())
    rank: int | None = None if first is None else first[0]
    if lines[-1]["rank"]:
        rank = int(lines[-1]["rank"])
    return Diagnosis(
        REFUSED_SETTINGS,
        "",
        f"The program refused its settings or data: {what}",
        "Correct what it names; started again as it is, it says the same.",
        ("the exit status 2, and the last line that says error",),
        looked,
        line,
        rank,
        title=f"refused: {what}",
        is_lasting=True,
    )


def _from_line(
    chosen: Suspect, suspects: list[Suspect], evidence: Evidence, looked: tuple[str, ...]
) -> Diagnosis:
    whose = "" if chosen.rank is None else f" of rank {chosen.rank}"
    rests = [f"the first line that shows it{whose}: {chosen.log}, byte {chosen.place[1]:,}"]
    same = {suspect.rank for suspect in suspects if suspect.signature.kind == chosen.signature.kind}
    if len(same) > 1:
        rests.append(f"the same of {len(same)} ranks")
    name = signal_of(evidence.exit_code)
    if name:
        rests.append(f"its end by {name}")
    found = _known_cause(chosen, tuple(rests), looked)
    behind = behind_rank(suspects, evidence.processes) if chosen.tier is Tier.COLLECTIVE else None
    if behind is None:
        return found
    return msgspec.structs.replace(
        found,
        cause=f"{found.cause} Rank {behind[0]} is {behind[1]}.",
        rank=behind[0],
        title=f"the others waited for it: {found.headline}",
    )


def _known_cause(suspect: Suspect, rests: tuple[str, ...], looked: tuple[str, ...]) -> Diagnosis:
    signature = suspect.signature
    cause = fill_cause(signature.cause, suspect.fields)
    line, rank = _shortened(suspect.line), suspect.rank
    return Diagnosis(
        signature.kind,
        signature.id,
        cause,
        signature.remedy,
        rests,
        looked,
        line,
        rank,
        signature.remedies,
        fill_cause(signature.title, suspect.fields),
        suspect.place[1] if suspect.log == "output.log" else None,
        is_lasting=signature.lasting,
    )


def _shortened(line: str) -> str:
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…"


def fill_cause(cause: str, fields: Mapping[str, str]) -> str:
    """`cause` with its {fields}; what stands in [brackets] goes when a field in it is not there."""

    def part(found: re.Match[str]) -> str:
        named = _FIELD.findall(found[1])
        return found[1] if all(name in fields for name in named) else ""

    text = _OPTIONAL.sub(part, cause)
    return _FIELD.sub(lambda found: fields.get(found[1], "?"), text)


def _from_exit(evidence: Evidence, looked: tuple[str, ...]) -> Diagnosis | NotKnown:
    """What the exit status alone says, the run's own or the one torchrun tells of a rank."""
    code, rank = evidence.exit_code, None
    first = root_cause(evidence.logs)
    if first is not None and not signal_of(code):
        rank, code = first
    name = signal_of(code)
    whose = "" if rank is None else f"rank {rank}: "
    rests = (f"{whose}the exit status {code}",)
    if name in _SIGNAL_KINDS:
        kind, cause = _SIGNAL_KINDS[name]
        remedy = _SIGNAL_REMEDIES.get(name, "")
        return Diagnosis(kind, "", f"{whose}{name}: {cause}.", remedy, rests, looked, "", rank)
    if code in _EXITS:
        kind, cause, remedy = _EXITS[code]
        return Diagnosis(kind, "", f"{whose}{cause}.", remedy, rests, looked, "", rank)
    kind, cause = _UNKNOWN_SIGNALS.get(
        name, ("unknown", "no line of its output matches a known cause")
    )
    own = [part.data for part in evidence.logs if part.rank is None]
    if own and not name and not whose and (line := last_line_of(own[-1])):
        return NotKnown(kind, f"not known; its last line: {line}", looked)
    return NotKnown(kind, f"not known: {whose}{cause}", looked)
