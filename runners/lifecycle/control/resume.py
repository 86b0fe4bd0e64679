"""Resuming an ended run: its own spec, with its newest checkpoint."""

from pathlib import Path, PurePath
from typing import NamedTuple

import msgspec

from runners.host.shells import shell_command
from runners.lifecycle.control.relaunch import relaunch_spec
from runners.lifecycle.launch.resumed_spec import resumed, rule_of
from runners.model.errors import NotFound, WrongInput
from runners.model.python_command import python_command
from runners.model.run import Checkpoint, Run
from runners.model.spec import RunSpec
from runners.model.wrappers import CONTAINERS, started_in_the_end
from runners.state.codec import read_plan
from runners.state.layout import StateDirectory
from runners.state.runs import list_run_ids
from runners.watch.metrics.checkpoints import run_checkpoint
from runners.watch.metrics.final import read_final

_LOOK_BACK = 500
"""So many of the newest runs are asked how their program was told to go on."""


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
            f"{run.id} is still {run.state}", f"stop it first: `fresnel-tui stop {run.id} --wait`"
        )
    found = newest_checkpoint(run)
    base = relaunch_spec(state, run) if spec is None else spec
    folder = Path(run.plan.working_directory) if run.plan is not None else None
    base = as_told_before(state, base, folder)
    return Resumption(resumed(base, Path(found.path), run.id, folder), found, run)


def as_told_before(state: StateDirectory, spec: RunSpec, folder: Path | None) -> RunSpec:
    """`spec` going on as the newest run of its program in `folder` was told to.

    As it is where it says so itself, where its source does, and where none of the newest was told.
    """
    if spec.source or spec.launcher != "command" or rule_of(spec, folder) is not None:
        return spec
    for run_id in reversed(list_run_ids(state)[-_LOOK_BACK:]):
        plan = read_plan(state.run(run_id))
        rule = plan.spec.resume if plan is not None and not plan.spec.source else None
        if plan is None or rule is None or Path(plan.working_directory) != folder:
            continue
        if rule.arguments and _program(plan.spec) == _program(spec):
            notes = (*spec.warnings, f"goes on by {rule.arguments[0]}, as {run_id} was told to")
            return msgspec.structs.replace(spec, resume=rule, warnings=notes)
    return spec


def _program(spec: RunSpec) -> object:
    """What a bare command runs, whatever its flags."""
    found = python_command(spec.command)
    if found is not None:
        return found.script, found.module
    program = started_in_the_end(spec.command).argv
    line, script = shell_command(program)
    name = program[0] if program else ""
    if spec.shell or line or PurePath(name).name in CONTAINERS:
        return spec.command  # which of its words are flags is not known
    return script or name


def newest_checkpoint(run: Run) -> Checkpoint:
    """The newest whole checkpoint of a run. Raises NotFound when it has left none."""
    found = run_checkpoint(run)
    if found is None:
        places = ", ".join(run.plan.checkpoints) if run.plan is not None else "its plan is missing"
        final = read_final(run)
        if final is not None and final.saved is not None:
            raise NotFound(
                f"the checkpoints of {run.id} are gone: deleted, or replaced by another run's",
                "launch it anew",
            )
        raise NotFound(
            f"{run.id} has left no checkpoint ({places})",
            "launch it anew; if it wrote one, say where: --set 'checkpoints=[\"FOLDER/*.pt\"]', "
            "in the panel `a`, then F4: checkpoints",
        )
    return found
