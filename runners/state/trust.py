"""Whether a run may be acted on: only this user may write its folder and those above it.

Standard library only: the supervisor imports it.
"""

from runners.host.ownership import permission_problem
from runners.state.layout import RunDirectory, StateDirectory


def state_permission_problem(state: StateDirectory) -> str:
    """Why nothing in this state folder may be acted on, in words; empty when things may."""
    folders = [folder for folder in (state.runs, state.live) if folder.exists()]
    return permission_problem(state.root, follow=True) or next(
        filter(None, map(permission_problem, folders)), ""
    )


def run_permission_problem(run: RunDirectory) -> str:
    """Why this run may not be acted on, in words; empty when it may."""
    return state_permission_problem(run.home) or permission_problem(run.path)
