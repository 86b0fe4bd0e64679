"""What the machines say of a launch: each is asked for its plan of it, as a launch there decides.

Asked again when something changed there, by what its link shows, or now and then.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from decimal import Decimal
from itertools import chain
from queue import Empty, Queue
from typing import NamedTuple

import msgspec

from runners.cost.rates import device_count, hourly_rate
from runners.model.plan import AssignedGpu
from runners.model.spec import Price
from runners.model.trailing_command import split_at_dashes
from runners.places.actions import Outcome
from runners.places.fleet.choosing import Fit, Offer
from runners.places.fleet.waiting import WaitingLaunch
from runners.places.place import WatchedPlace
from runners.scheduling.allocation import free_gpus

_ANSWERS_WITHIN_S = 20.0
_HOLDS_S = 30.0
"""So long an answer counts at most, whatever is seen of the machine: data may have come there."""
_SHORTEST_S, _LONGEST_S = 0.5, 60.0
_BEHIND = "kept for a launch ahead of it in the queue"
PLACEMENT = "--placement"
"""The flag by which a run's plan says why it is on its machine."""
AT_ONCE = "--no-queue"
"""The flag of a launch of which nothing shall wait."""
_NOT_ASKED = {"--env", "--early-stop"}
"""Flags with a value that are for the start, not for `plan`."""
_ALIKE = "true"
"""Planned in place of a command of somebody's own, which is sent to the one machine that runs it.
"""


class _Problem(msgspec.Struct, frozen=True):
    message: str


class _Provenance(msgspec.Struct, frozen=True):
    torch: str | None = None


class PlanAnswer(msgspec.Struct, frozen=True):
    """What `plan --json` says on another machine, as far as it decides or is compared.

    `error` says why there is no plan.
    """

    error: _Problem | None = None
    denied: str | None = None
    waits: str | None = None
    price: Price | None = None
    gpus: tuple[AssignedGpu, ...] = ()
    provenance: _Provenance | None = None


class _Kept(NamedTuple):
    """An answer, which holds until a moment (monotonic s) or until the machine's stamp changes.

    With the stamp None it holds until then whatever changes.
    """

    offer: Offer
    stamp: object
    until: float


_decoder = msgspec.json.Decoder(PlanAnswer | list[PlanAnswer])


class Fleet:
    """The answers of machines to launches, each asked for once as long as nothing changes there."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str], _Kept] = {}
        self._pauses: dict[tuple[str, str], float] = {}

    def offers(
        self,
        launch: WaitingLaunch,
        places: Sequence[WatchedPlace],
        taken: Collection[str] = (),
    ) -> list[Offer]:
        """What each of the machines says of it; asks those whose answer is old, all at once.

        Those in `taken` are waited for by a launch ahead of it, and not asked.
        """
        self._ask(launch, [place for place in places if place.name not in taken])
        return [
            Offer(place.name, Fit.BUSY, _BEHIND)
            if place.name in taken
            else self._kept[launch.id, place.name].offer
            for place in places
        ]

    def refused(self, launch: WaitingLaunch, machine: str, reason: str) -> None:
        """A machine refused what it had offered: ask it again later, each time after longer."""
        key = launch.id, machine
        pause = self._pauses[key] = min(_LONGEST_S, 2 * self._pauses.get(key, _SHORTEST_S / 2))
        offer = Offer(machine, Fit.BUSY, reason)
        self._kept[key] = _Kept(offer, None, time.monotonic() + pause)

    def _ask(self, launch: WaitingLaunch, places: Sequence[WatchedPlace]) -> None:
        answers: Queue[tuple[WatchedPlace, object, Outcome]] = Queue()
        asked: dict[str, WatchedPlace] = {}
        for place in places:
            stamp = _stamp(place)
            kept = self._kept.get((launch.id, place.name))
            if kept is not None and time.monotonic() < kept.until and kept.stamp in (None, stamp):
                continue
            if place.place.obstacle or place.snapshot is None:
                self._keep(launch, place, stamp, unreached(place))
                continue
            asked[place.name] = place
            place.place.command(
                plan_command(launch, place.place.preset_flags), _into(answers, place, stamp)
            )
        deadline = time.monotonic() + _ANSWERS_WITHIN_S
        while asked:
            try:
                place, stamp, outcome = answers.get(timeout=max(0.0, deadline - time.monotonic()))
            except Empty:
                break
            asked.pop(place.name, None)
            at_once = AT_ONCE in split_at_dashes(launch.command)[0]
            offer = judge(place.name, outcome, free_count(place), at_once)
            self._keep(launch, place, stamp, offer)
        for name, place in asked.items():
            silent = Offer(name, Fit.UNKNOWN, f"no answer within {_ANSWERS_WITHIN_S:.0f} s")
            self._keep(launch, place, _stamp(place), silent)

    def _keep(
        self, launch: WaitingLaunch, place: WatchedPlace, stamp: object, offer: Offer
    ) -> None:
        self._kept[launch.id, place.name] = _Kept(offer, stamp, time.monotonic() + _HOLDS_S)


def _into(
    answers: Queue[tuple[WatchedPlace, object, Outcome]], place: WatchedPlace, stamp: object
) -> Callable[[Outcome], None]:
    return lambda outcome: answers.put((place, stamp, outcome))


def plan_command(
    launch: WaitingLaunch, preset_flags: Callable[[str, Sequence[str]], Sequence[str]]
) -> list[str]:
    """The command by which a machine plans a launch."""
    ours, command = split_at_dashes(launch.command[1:])
    given = ["plan", "--json", f"{PLACEMENT}=asked", *_asked(ours)]
    if command:
        # Where a sweep's values go is kept: without a place for them the plan is refused.
        names = (override.partition("=")[0] for override in launch.overrides)
        places = (place for name in names if (place := f"{{{name}}}") in " ".join(command))
        return [*given, "--", _ALIKE, *places]
    flags = preset_flags(launch.preset, launch.overrides) if launch.preset else ()
    concealed = (("--set", f"environment.{name}={_ALIKE}") for name in launch.concealed)
    return [*given, *flags, *chain.from_iterable(concealed)]


def _asked(given: Sequence[str]) -> list[str]:
    """The words that `plan` knows, without `--env NAME`, whose values stay here until it starts."""
    pairs = zip(("", *given), given, strict=False)
    return [
        text
        for before, text in pairs
        if text != AT_ONCE and _NOT_ASKED.isdisjoint((before, text.partition("=")[0]))
    ]


def judge(machine: str, outcome: Outcome, free: int, at_once: bool = False) -> Offer:
    """What a machine's plan means; `free` are its free GPUs. A group or sweep begins where one of
    its runs can, unless all of them have to start `at_once`.
    """
    try:
        found = _decoder.decode(outcome.output)
    except (ValueError, RecursionError):
        reason = outcome.problem or "an answer that is no plan"
        return Offer(machine, Fit.UNKNOWN, reason.partition("\n")[0][:300])
    plans = found if isinstance(found, list) else [found]
    for plan in plans:
        if plan.error is not None or plan.denied:
            reason = plan.error.message if plan.error is not None else plan.denied or ""
            return Offer(machine, Fit.UNFIT, reason)
    waits = [plan.waits for plan in plans if plan.waits]
    if len(waits) == len(plans) or (waits and at_once):
        return Offer(machine, Fit.BUSY, waits[0])
    prices = [
        hourly_rate(plan.price, device_count(plan.gpus)) for plan in plans if plan.price is not None
    ]
    used = sum(len(plan.gpus) for plan in plans)
    rate = sum(prices, Decimal(0)) if prices else None
    return Offer(machine, Fit.FREE, "", rate, max(0, free - used), len(waits))


def unreached(place: WatchedPlace) -> Offer:
    """A machine of which nothing is known now."""
    return Offer(place.name, Fit.UNKNOWN, place.status_text or "not reached")


def free_count(place: WatchedPlace) -> int:
    """How many those are; 0 before anything is known."""
    snapshot = place.snapshot
    return 0 if snapshot is None else len(free_gpus(snapshot.gpus, snapshot.leases))


def _stamp(place: WatchedPlace) -> object:
    """What tells one state of a machine from another, as far as launches go."""
    snapshot = place.snapshot
    if snapshot is None or place.place.obstacle:
        return place.place.obstacle
    live = frozenset(run for run, row in snapshot.runs.items() if row.is_live)
    free = frozenset(gpu.uuid for gpu in free_gpus(snapshot.gpus, snapshot.leases))
    return free, live, snapshot.drained
