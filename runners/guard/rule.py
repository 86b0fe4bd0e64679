"""The guard's rule, written by front ends; its progress, written by the guard; a view of both."""

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from runners.cost.preemption import Preemption, read_preemption
from runners.guard.keeper import GuardKeeper, guard_lock, read_keeper
from runners.guard.reserved import SLOT, disk_is_full, keep_ballast, read_slots, write_reserved
from runners.host.clock import Moment, moment_now, seconds_between
from runners.host.files import modified_at, replace
from runners.host.identity import user_name
from runners.host.locks import is_held
from runners.model.closed import TextEnum
from runners.model.errors import NotFound
from runners.state.decoding import read_or_raise
from runners.state.layout import StateDirectory
from runners.state.leases import live_run_ids

T = TypeVar("T")
_STARTS_KEEPER_WITHIN_S = 5.0


class Stage(TextEnum):
    """How far a guard has gone. Every stage is on disk before it is acted on."""

    WATCHING = "watching"
    WARNED = "warned"
    STOPPING = "stopping"
    HOLDING = "holding"
    ENDING = "ending"
    ENDED = "ended"


class GuardRule(msgspec.Struct, frozen=True):
    """What a guard watches and does; lengths in seconds.

    `budget_stop` is text: dollars, or percent of the budget. A rule that is set again has another
    `id`, and starts from the beginning. `warm_up_s` is how long a run that has not finished an
    epoch may leave its GPUs idle.
    """

    id: str
    set_by: str
    set_at: Moment
    budget_stop: str | None = None
    max_age_s: float | None = None
    no_run_s: float | None = None
    idle_s: float | None = None
    countdown_s: float = 600.0
    warm_up_s: float = 1800.0
    warn_command: str = ""
    end_command: str = ""
    webhook: str = ""
    destroys: bool = False
    postponed_at: Moment | None = None
    postponed_s: float = 0.0

    def postponed_left(self, now: Moment) -> float:
        """Seconds for which it is still postponed."""
        if self.postponed_at is None:
            return 0.0
        return max(0.0, self.postponed_s - seconds_between(self.postponed_at, now))


class GuardState(msgspec.Struct, frozen=True):
    """How far the guard has gone with a rule; `cycle` counts warnings, `since` began the stage."""

    rule: str
    stage: Stage = Stage.WATCHING
    since: Moment | None = None
    reason: str = ""
    cycle: int = 0
    problems: tuple[str, ...] = ()
    note: str = ""
    attempt: int = 0
    failed: Moment | None = None
    """The end command's newest try, and when it failed."""
    blind: bool = False
    """Nothing that the rule watches is known."""


def read_rule(state: StateDirectory) -> GuardRule | None:
    """The guard's rule, or None when none is set. Raises ValueError when it cannot be read."""
    return _read(state.guard / "guard.json", GuardRule)


def read_guard_state(state: StateDirectory) -> GuardState | None:
    """How far the guard has gone, None if it has not begun. Raises ValueError when unreadable."""
    path = state.guard / "progress.json"
    try:
        slots = read_slots(path)
        # The newest slot that makes sense: of a write that a crash cut short, the one before it.
        for slot in reversed(slots):
            with suppress(msgspec.ValidationError):
                return msgspec.convert(slot["value"], GuardState)
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error}") from None
    return _read(path, GuardState)  # one of an earlier release, or damaged


def _read(path: Path, kind: type[T]) -> T | None:
    try:
        return read_or_raise(path, kind)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} cannot be read: {error}") from None


def write_rule(state: StateDirectory, rule: GuardRule) -> None:
    """Write down what the guard shall do. Raises OSError."""
    state.create()
    state.guard.parent.mkdir(mode=0o700, exist_ok=True)
    state.guard.mkdir(mode=0o700, exist_ok=True)
    path = state.guard / "guard.json"
    # Padded, so that it can be changed in place on a full disk: to be postponed, for example.
    content = msgspec.json.encode(rule).ljust(SLOT)
    try:
        replace(path, content)
    except OSError:
        if not path.exists() or path.stat().st_size != len(content):
            raise
        # In place, and so not crash-safe: better than a guard that cannot be held back.
        with path.open("r+b", buffering=0) as file:
            file.write(content)


def set_rule(state: StateDirectory, rule: GuardRule) -> None:
    """Set a rule, reserving room for what the guard will write; progress begins anew. OSError."""
    from runners.guard.claims import reserve_markers  # who only reads a rule does without

    state.create()
    state.guard.parent.mkdir(mode=0o700, exist_ok=True)
    state.guard.mkdir(mode=0o700, exist_ok=True)
    # All that may fail for lack of space comes before the rule, which is what makes the guard act.
    reserve_markers(state, rule.id)
    keep_ballast(state.guard / "ballast")
    (state.guard / "progress.json").unlink(missing_ok=True)
    write_guard_state(state, GuardState(rule.id, since=moment_now()))
    write_rule(state, rule)


def write_guard_state(state: StateDirectory, progress: GuardState) -> None:
    """Write down how far the guard has gone, in reserved blocks. Raises OSError."""
    write_reserved(state.guard / "progress.json", msgspec.to_builtins(progress))


def new_rule(**keys: Any) -> GuardRule:
    """A rule that begins now."""
    return GuardRule(
        f"{time.strftime('%Y%m%d-%H%M%S')}-{os.urandom(2).hex()}", user_name(), moment_now(), **keys
    )


def postpone(state: StateDirectory, seconds: float) -> GuardRule:
    """Postpone the guard for `seconds` from now.

    Raises NotFound when none is set, ValueError when its rule cannot be read, OSError when it
    cannot be written.
    """
    rule = read_rule(state)
    if rule is None:
        raise NotFound("no guard is set", "`fresnel-tui guard set --max-age 8h` sets one")
    later = msgspec.structs.replace(rule, postponed_at=moment_now(), postponed_s=seconds)
    write_rule(state, later)
    return later


def lift(state: StateDirectory) -> bool:
    """Remove the guard, False when none was set; what it has asked to stop still stops."""
    try:
        (state.guard / "guard.json").unlink()
    except FileNotFoundError:
        return False
    return True


class GuardView(msgspec.Struct, frozen=True):
    """The guard as front ends see it: rule, progress, whether it and its keeper live, problems."""

    rule: GuardRule | None
    progress: GuardState | None
    running: bool
    problems: tuple[str, ...] = ()
    keeper: GuardKeeper | None = None
    preemption: Preemption | None = None
    """That the machine is taken away, where its provider says so."""
    inert: bool = False
    """It would not act whatever happens: its files are damaged, or it has acted and runs live."""

    @property
    def does_nothing(self) -> bool:
        """True for a guard that is set and guards nothing: damaged, dead, blind, or done."""
        if self.inert:
            return True
        if self.rule is None or self.progress is None:
            return self.rule is not None and not self.running
        if self.progress.stage is Stage.ENDED:
            return False  # it has done what it was for, and no run lives
        blind = self.progress.blind and self.progress.stage is Stage.WATCHING
        return blind or not self.running

    @property
    def is_urgent(self) -> bool:
        """True when it is about to act, is acting, or has a problem: worth a bell."""
        at_rest = (Stage.WATCHING, Stage.ENDED)
        acting = self.progress is not None and self.progress.stage not in at_rest
        has_news = bool(self.problems) or self.preemption is not None
        return has_news or (self.rule is not None and acting)

    def left_s(self, now: Moment) -> float | None:
        """Seconds of the countdown that are left; None when none runs."""
        if self.rule is None or self.progress is None or self.progress.stage is not Stage.WARNED:
            return None
        if self.progress.since is None or self.progress.rule != self.rule.id:
            return None
        return max(0.0, self.rule.countdown_s - seconds_between(self.progress.since, now))


def stops_in(state: StateDirectory, now: Moment) -> float | None:
    """Seconds until the guard stops every run of this host; None while nothing counts down."""
    try:
        rule = read_rule(state)
        progress = None if rule is None else read_guard_state(state)
    except ValueError:
        return None
    is_held_back = rule is None or rule.postponed_left(now) > 0
    return None if is_held_back else GuardView(rule, progress, running=True).left_s(now)


def full_disk_text(state: StateDirectory) -> str:
    """What is said of a guard that cannot write."""
    return (
        f"the disk of {state.root} is full: the guard acts all the same, but its log and what it "
        "says to runs may be lost; make room"
    )


def read_guard(state: StateDirectory) -> GuardView:
    """The guard of this host and state folder; what cannot be read is one of its problems."""
    rule: GuardRule | None = None
    progress: GuardState | None = None
    problems: list[str] = []
    try:
        rule = read_rule(state)
    except ValueError as error:
        problems.append(f"the guard does nothing: {error}; `fresnel-tui guard set` replaces it")
    try:
        progress = read_guard_state(state)
    except ValueError as error:
        problems.append(f"the guard does nothing: {error}; `fresnel-tui guard set` starts over")
    inert = bool(problems)
    if progress is not None and (rule is None or progress.rule != rule.id):
        progress = None
    # Of another rule: the guard has not looked at the new one yet.
    problems += progress.problems if progress is not None else ()
    if rule is not None and disk_is_full(state.guard):
        problems.append(full_disk_text(state))
    if progress is not None and progress.stage is Stage.ENDING and progress.note:
        problems.append(progress.note)
    if progress is not None and progress.stage is Stage.ENDED and live_run_ids(state):
        inert = True
        problems.append(
            "the guard has acted and watches nothing more: what runs now is not guarded; "
            "`fresnel-tui guard set` sets it again"
        )
    running, keeper = is_held(guard_lock(state)), read_keeper(state)
    if rule is not None and running and keeper is None and not _has_just_begun(state):
        problems.append("nothing would start the guard again if it were killed: no keeper runs")
    shown = tuple(dict.fromkeys(problems))
    return GuardView(rule, progress, running, shown, keeper, read_preemption(state), inert)


def _has_just_begun(state: StateDirectory) -> bool:
    """True for a guard so young that it need not have started its keeper yet."""
    return abs(time.time() - modified_at(guard_lock(state))) < _STARTS_KEEPER_WITHIN_S
