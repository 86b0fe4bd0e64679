"""Resuming an ended run: its own spec, with its newest checkpoint."""

from pathlib import Path
from typing import NamedTuple

from runners.lifecycle.control.relaunch import relaunch_spec
from runners.lifecycle.launch.resumed_spec import resumed
from runners.model.errors import NotFound, WrongInput
from runners.model.run import Checkpoint, Run
from runners.model.spec import RunSpec
from runners.state.layout import StateDirectory
from runners.watch.metrics.checkpoints import run_checkpoint


class Resumption(NamedTuple):
    """A spec that resumes from `checkpoint`; `parent` is the run that wrote it."""

    spec: RunSpec
    checkpoint: Checkpoint
    parent: Run


def resume_run(state: StateDirectory, run: Run, spec: RunSpec | None = None) -> Resumption:
    """Return how to resume `run`, by its own spec or by `spec`.

    Raises WrongInput for a live run or a preset that does not say how it resumes, NotFound when the
    run has left no checkpoint.
    """
    if run.is_live:
        raise WrongInput(
            f"{run.id} is still {run.state}", f"stop it first: fresnel-tui stop {run.id} --wait"
        )
    found = newest_checkpoint(run)
    base = relaunch_spec(state, run) if spec is None else spec
    folder = Path(run.plan.working_directory) if run.plan is not None else None
    return Resumption(resumed(base, Path(found.path), run.id, folder), found, run)


def newest_checkpoint(run: Run) -> Checkpoint:
    """The newest whole checkpoint of a run. Raises NotFound when it has left none."""
    found = run_checkpoint(run)
    if found is None:
        places = ", ".join(run.plan.checkpoints) if run.plan is not None else "its plan is missing"
        raise NotFound(
            f"{run.id} has left no checkpoint ({places})",
            "launch it anew; if it wrote one, say where: --set 'checkpoints=[\"FOLDER/*.pt\"]'",
        )
    return found
