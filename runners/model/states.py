"""The states a run can be in, their signs and colours, and the transitions between them.

Standard library only: the supervisor imports it, and the supervisor stays small.
"""

from typing import NamedTuple

from runners.model.closed import TextEnum


class State(TextEnum):
    """The state of a run.

    `cancelled` means stopped before it ever started. `orphaned` and `lost` are derived from locks;
    `lost` is recorded only once an adopter has found it so. `unseen` has ended and left its output,
    but nobody saw its exit status; of a lost one there is no trace.
    """

    QUEUED = "queued"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    DONE = "done"
    FAILED = "failed"
    STOPPED = "stopped"
    CANCELLED = "cancelled"
    ORPHANED = "orphaned"
    UNSEEN = "unseen"
    LOST = "lost"

    @property
    def sign(self) -> str:
        """Its sign in tables."""
        return _TRAITS[self].sign

    @property
    def style(self) -> str:
        """The colour in which it is drawn."""
        return _TRAITS[self].style

    @property
    def is_live(self) -> bool:
        """Whether a run in this state may still change."""
        return bool(_TRAITS[self].next)

    @property
    def has_failed(self) -> bool:
        """Whether a run ended in it without success, and nobody asked for that."""
        return _TRAITS[self].has_failed

    @property
    def has_program(self) -> bool:
        """Whether its program runs, and nobody has asked it to stop."""
        return _TRAITS[self].has_program

    @property
    def is_unstarted(self) -> bool:
        """Whether the program of its attempt is still to be started."""
        return _TRAITS[self].is_unstarted

    @property
    def holds_gpus(self) -> bool:
        """Whether a run in it may have its GPUs, and costs money for that."""
        return self.is_live and self is not State.QUEUED


class _Traits(NamedTuple):
    """What differs from state to state; `style` is the colour in which it is drawn."""

    sign: str
    style: str
    next: frozenset[State]
    """Where a run may go from it, which `check_transition` holds every write of state.json to."""
    has_failed: bool = False
    has_program: bool = False
    is_unstarted: bool = False


_ENDED: frozenset[State] = frozenset()
_ENDS = frozenset({State.DONE, State.FAILED, State.STOPPED, State.UNSEEN, State.LOST})
"""In what a run ends whose program was started."""
_TRAITS = {
    # A run that was queued again after a reboot has started before: it is stopped, not cancelled.
    State.QUEUED: _Traits(
        "◷",
        "cyan",
        frozenset({State.STARTING, State.CANCELLED, State.STOPPED, State.FAILED, State.LOST}),
        is_unstarted=True,
    ),
    State.STARTING: _Traits(
        "◌",
        "cyan",
        # Queued: adopted after its GPUs were granted, which may be others' now.
        (_ENDS - {State.DONE}) | {State.QUEUED, State.RUNNING, State.STOPPING, State.CANCELLED},
        is_unstarted=True,
    ),
    State.RUNNING: _Traits(
        "▶",
        "green",
        # Queued: after a reboot, where its preset says so.
        _ENDS | {State.QUEUED, State.STARTING, State.STOPPING},
        has_program=True,
    ),
    State.STOPPING: _Traits(
        "◼",
        "yellow",
        _ENDS | {State.QUEUED},  # its Slurm job is put back into the queue
    ),
    State.DONE: _Traits("✔", "bright_black", _ENDED),
    State.FAILED: _Traits("✘", "red bold", _ENDED, has_failed=True),
    State.STOPPED: _Traits("■", "bright_black", _ENDED),
    State.CANCELLED: _Traits("□", "bright_black", _ENDED),
    State.ORPHANED: _Traits(
        "⚠",
        "yellow bold",
        _ENDS | {State.RUNNING, State.STOPPING},
        has_program=True,
    ),
    State.UNSEEN: _Traits("◇", "yellow", _ENDED, has_failed=True),
    State.LOST: _Traits("?", "red bold", _ENDED, has_failed=True),
}

TERMINAL = frozenset(state for state in State if not state.is_live)


def check_transition(before: State, after: State) -> None:
    """Raise ValueError when a run may not go from `before` to `after`."""
    if after is not before and after not in _TRAITS[before].next:
        raise ValueError(f"a run cannot go from {before} to {after}")
