"""The order of the queue: who may start now, and why the others wait. Pure: reads nothing."""

from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from runners.model.gpus import GpuReading
from runners.model.run_ids import stamp_of
from runners.model.spec import After, GpuRequest
from runners.model.states import State
from runners.model.units import gpus_text
from runners.scheduling.allocation import (
    Allocation,
    Busy,
    Denied,
    allocate,
    claimable_gpus,
    idle,
)
from runners.state.leases import Lease


class Candidate(msgspec.Struct, frozen=True):
    """A run that wants to start.

    Members of one `group` start together or not at all; where they have a limit, each starts by
    itself, at most `parallel` at once (0: any number). A run that is not written down yet has a
    `name` for people instead of its id, which nobody has seen.
    """

    run: str
    request: GpuRequest
    priority: int = 0
    created: float = 0.0
    after: After | None = None
    group: str = ""
    preset: str = ""
    parallel: int | None = None
    name: str = ""

    @property
    def shown(self) -> str:
        """What people know it by."""
        return self.name or self.run

    @property
    def together(self) -> str:
        """The group that it starts together with; empty where it starts by itself."""
        return self.group if self.parallel is None else ""


class Granted(msgspec.Struct, frozen=True):
    """The GPUs a candidate is given now."""

    allocation: Allocation
    place: int = 0


class Waiting(msgspec.Struct, frozen=True):
    """Why a candidate has to wait, in words.

    `hint` is what may be done about it.
    """

    reason: str
    hint: str = ""
    place: int = 0


QueueDecision = Granted | Waiting | Denied
"""The answer to a candidate: GPUs now, a reason to wait, or a reason why it can never start."""


def allocation_of(decision: QueueDecision) -> Allocation:
    """The GPUs a candidate is given; none while it waits."""
    return decision.allocation if isinstance(decision, Granted) else Allocation()


def reason_of(decision: QueueDecision) -> str:
    """Why the candidate does not start, in words; empty when it does."""
    return "" if isinstance(decision, Granted) else decision.reason


def in_order(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Highest priority first, then in the order of launch."""
    # The id's time first, which no clock that is set back changes; the id last: two runs of one
    # instant keep the same order in every pass.
    return sorted(candidates, key=lambda c: (-c.priority, stamp_of(c.run), c.created, c.run))


def decide(
    candidates: Sequence[Candidate],
    reading: GpuReading | None,
    leases: Mapping[str, Sequence[Lease]],
    endings: Mapping[str, State | None],
    drained: str = "",
    running: Mapping[str, int] | None = None,
) -> dict[str, QueueDecision]:
    """The decision on every candidate.

    `endings` maps the runs waited for to their final state, None while live; `running` says how
    many runs of a group with a limit have started. A run behind a waiting one starts only on GPUs
    that the waiting one could not use, so it delays nobody.
    """
    held = {uuid: list(found) for uuid, found in leases.items()}
    reserved: set[str] = set()
    decisions: dict[str, QueueDecision] = {}
    started = Counter(running or {})
    for place, unit in enumerate(_units(in_order(candidates)), 1):
        full = _limit_reached(unit[0], started)
        if full is not None:
            decisions[unit[0].run] = msgspec.structs.replace(full, place=place)
            continue  # it waits for its own kind, and keeps no GPU from anybody
        found = _decide_unit(unit, reading, held, reserved, endings, drained)
        # What waits for another run's end reserves nothing: its GPUs would be idle.
        waits_for_a_run = any(_waits_for_a_run(candidate, endings) for candidate in unit)
        for candidate in unit:
            decision = found[candidate.run]
            # The GPUs of a run that is granted in this pass are taken for all that come after it.
            decisions[candidate.run] = msgspec.structs.replace(decision, place=place)
            if isinstance(decision, Granted):
                started[candidate.group] += 1
                _take(held, candidate, decision.allocation)
            elif isinstance(decision, Waiting) and not waits_for_a_run:
                reserved |= claimable_gpus(candidate.request, reading)
    return decisions


def _limit_reached(candidate: Candidate, started: Mapping[str, int]) -> Waiting | None:
    if not candidate.parallel or started[candidate.group] < candidate.parallel:
        return None
    reason = f"{candidate.group} runs {candidate.parallel} at a time"
    return Waiting(reason, "launch with a greater --parallel")


def _units(ordered: Sequence[Candidate]) -> list[list[Candidate]]:
    """Groups kept together, at the place of their first member."""
    units: list[list[Candidate]] = []
    by_group: dict[str, list[Candidate]] = {}
    for candidate in ordered:
        if candidate.together and candidate.together in by_group:
            by_group[candidate.together].append(candidate)
            continue
        units.append([candidate])
        if candidate.together:
            by_group[candidate.together] = units[-1]
    return units


def _decide_unit(
    unit: Sequence[Candidate],
    reading: GpuReading | None,
    held: Mapping[str, list[Lease]],
    reserved: set[str],
    endings: Mapping[str, State | None],
    drained: str,
) -> dict[str, QueueDecision]:
    # Tried on a copy: when one member cannot start, the others' GPUs are not taken either.
    trial = {uuid: list(found) for uuid, found in held.items()}
    decisions: dict[str, QueueDecision] = {}
    for candidate in unit:
        decision = _decide_one(candidate, reading, trial, reserved, endings, drained)
        decisions[candidate.run] = decision
        _take(trial, candidate, allocation_of(decision))
    refused = [c for c in unit if not isinstance(decisions[c.run], Granted)]
    if not refused or len(unit) == 1:
        return decisions
    never = _never_together(unit, reading)
    if never is not None:
        return dict.fromkeys(decisions, never)
    other = refused[0]
    found = decisions[other.run]
    # The members that could have started say whom they wait for.
    reason = f"starts together with {other.shown}: {reason_of(found)}"
    together = Denied(reason) if isinstance(found, Denied) else Waiting(reason)
    return {
        run: together if isinstance(decision, Granted) else decision
        for run, decision in decisions.items()
    }


def _take(held: dict[str, list[Lease]], candidate: Candidate, allocation: Allocation) -> None:
    share = candidate.request.share_memory
    for logical, gpu in enumerate(allocation.gpus):
        lease = Lease(gpu.uuid, candidate.shown, logical, candidate.preset, 0.0, share)
        held.setdefault(gpu.uuid, []).append(lease)


def _never_together(unit: Sequence[Candidate], reading: GpuReading | None) -> Denied | None:
    """Why a group could not start even on this machine with nobody else; None when it could."""
    if reading is None or not reading.gpus:
        return None
    machine = idle(reading)
    held: dict[str, list[Lease]] = {}
    for candidate in unit:
        answer = allocate(candidate.request, machine, held)
        if isinstance(answer, Allocation):
            _take(held, candidate, answer)
            continue
        alone = allocate(candidate.request, machine, {})
        if isinstance(alone, Denied):
            return None  # refused for itself, and so are the others, who say whom they wait for
        if isinstance(alone, Busy):
            return Denied(f"{candidate.shown}: {alone.reason}", alone.hint)
        problem = f"the runs of this group do not fit together on {gpus_text(len(reading.gpus))}"
        return Denied(problem, "give each of them GPUs that the others do not take")
    return None


def _decide_one(
    candidate: Candidate,
    reading: GpuReading | None,
    held: Mapping[str, Sequence[Lease]],
    reserved: set[str],
    endings: Mapping[str, State | None],
    drained: str,
) -> QueueDecision:
    # Before drain and GPUs: a run whose predecessor failed is to learn that at once.
    if candidate.after is not None:
        waiting = judge_after(candidate.after, endings)
        if waiting is not None:
            return waiting
    if drained:
        return Waiting(f"draining since {drained}: no new runs start")
    answer = allocate(candidate.request, reading, held, reserved)
    if isinstance(answer, Allocation):
        return Granted(answer)
    if isinstance(answer, Busy):
        return Waiting(answer.reason, answer.hint)
    return answer


def judge_after(after: After, endings: Mapping[str, State | None]) -> Waiting | Denied | None:
    """Why what waits for a run does not start, by how that ended; None when it may."""
    ending = endings.get(after.run)
    if ending is None:
        return Waiting(f"waits for the end of {after.run} ({after.on})")
    # `success` wants DONE and `failure` anything else, so the two comparisons must agree.
    if after.on == "any" or (after.on == "success") == (ending is State.DONE):
        return None
    reason = f"{after.run} ended as {ending}, not in {after.on}"
    return Denied(reason, "without --after it starts at once")


def _waits_for_a_run(candidate: Candidate, endings: Mapping[str, State | None]) -> bool:
    return candidate.after is not None and judge_after(candidate.after, endings) is not None
