"""Whether a run may be acted on: its folder, and those above it in the state folder, are ours alone to write.

Standard library only: the supervisor imports it.
"""

from runners.host.ownership import distrust
from runners.model.paths import RunDirectory, StateDirectory


def distrust_state(state: StateDirectory) -> str:
    """Why nothing in this state folder may be acted on, in words; empty when things may."""
    folders = [folder for folder in (state.runs, state.live) if folder.exists()]
    return distrust(state.root, follow=True) or next(filter(None, map(distrust, folders)), "")


def distrust_run(run: RunDirectory) -> str:
    """Why this run may not be acted on, in words; empty when it may."""
    return distrust_state(StateDirectory(run.path.parent.parent)) or distrust(run.path)
