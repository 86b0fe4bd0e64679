"""The states a run can be in, their words and signs, and the transitions between them.

Standard library only: the supervisor imports it, and the supervisor stays small.
"""

from enum import Enum


class State(str, Enum):
    """The state of a run.

    `cancelled` means stopped before it ever started. `orphaned` and `lost` are derived from locks;
    `lost` is recorded only once an adopter has found it so.
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
    LOST = "lost"

    # Python 3.11's StrEnum does this; here the same words appear in texts and JSON on 3.10 too.
    __str__ = str.__str__
    __format__ = str.__format__  # type: ignore[assignment]


TERMINAL = frozenset({State.DONE, State.FAILED, State.STOPPED, State.CANCELLED, State.LOST})

SIGNS = {
    State.QUEUED: "◷",
    State.STARTING: "◌",
    State.RUNNING: "▶",
    State.STOPPING: "◼",
    State.DONE: "✔",
    State.FAILED: "✘",
    State.STOPPED: "■",
    State.CANCELLED: "□",
    State.ORPHANED: "⚠",
    State.LOST: "?",
}

TRANSITIONS: dict[State, frozenset[State]] = {
    # Enforced by the supervisor at each write of state.json: see `check_transition`.
    # A run that was queued again after a reboot has started before: it is stopped, not cancelled.
    State.QUEUED: frozenset(
        {State.STARTING, State.CANCELLED, State.STOPPED, State.FAILED, State.LOST}
    ),
    State.STARTING: frozenset(
        {
            State.QUEUED,  # adopted after its GPUs were granted, which somebody else may have now
            State.RUNNING,
            State.STOPPING,
            State.STOPPED,
            State.CANCELLED,
            State.FAILED,
            State.LOST,
        }
    ),
    State.RUNNING: frozenset(
        {
            State.QUEUED,  # after a reboot, where its preset says so
            State.STOPPING,
            State.DONE,
            State.FAILED,
            State.STOPPED,
            State.STARTING,
            State.LOST,
        }
    ),
    State.STOPPING: frozenset({State.STOPPED, State.DONE, State.FAILED, State.LOST}),
    State.DONE: frozenset(),
    State.FAILED: frozenset(),
    State.STOPPED: frozenset(),
    State.CANCELLED: frozenset(),
    State.ORPHANED: frozenset(
        {State.RUNNING, State.STOPPING, State.DONE, State.FAILED, State.STOPPED, State.LOST}
    ),
    State.LOST: frozenset(),
}


def is_terminal(state: State) -> bool:
    """True when a run in this state will never change again."""
    return state in TERMINAL


def check_transition(before: State, after: State) -> None:
    """Raise ValueError when a run may not go from `before` to `after`."""
    if after is not before and after not in TRANSITIONS[before]:
        raise ValueError(f"a run cannot go from {before} to {after}")
