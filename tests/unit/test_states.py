"""States and their transitions: every one is named, and what a supervisor records is among them."""

import itertools

import pytest

from runners.model.states import TERMINAL, State, check_transition

# What `supervisor.py` writes to state.json, one after another, launching or adopting.
RECORDED = [
    (State.QUEUED, State.STARTING),
    (State.QUEUED, State.STOPPED),
    (State.QUEUED, State.FAILED),
    (State.STARTING, State.RUNNING),
    (State.STARTING, State.FAILED),
    (State.STARTING, State.LOST),
    (State.RUNNING, State.STOPPING),
    (State.RUNNING, State.DONE),
    (State.RUNNING, State.FAILED),
    (State.RUNNING, State.LOST),
    (State.RUNNING, State.STOPPED),
    (State.RUNNING, State.STARTING),
    (State.STOPPING, State.STOPPED),
    (State.STOPPING, State.LOST),
]


def test_every_state_has_a_sign_of_its_own_and_a_colour() -> None:
    assert len({state.sign for state in State}) == len(State)
    assert all(state.style for state in State)


@pytest.mark.parametrize(("before", "after"), RECORDED)
def test_what_a_supervisor_records_is_allowed(before: State, after: State) -> None:
    check_transition(before, after)


@pytest.mark.parametrize(
    ("before", "after"), list(itertools.product(sorted(TERMINAL), sorted(State)))
)
def test_an_ending_is_an_ending(before: State, after: State) -> None:
    assert not before.is_live
    if before is after:
        check_transition(before, after)
    else:
        with pytest.raises(ValueError, match=f"cannot go from {before} to {after}"):
            check_transition(before, after)


@pytest.mark.parametrize("state", sorted(set(State) - TERMINAL))
def test_whatever_lives_can_end(state: State) -> None:
    assert state.is_live
    assert any(_may_go(state, ending) for ending in TERMINAL)


def _may_go(before: State, after: State) -> bool:
    try:
        check_transition(before, after)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("state", sorted(State))
def test_a_failure_is_an_ending_and_a_program_lives(state: State) -> None:
    assert not (state.has_failed and state.is_live)
    assert state.is_live or not state.has_program
    # Only what has a program can be asked to stop it, or have lost its supervisor beside it.
    assert not state.has_program or _may_go(state, State.STOPPING)
