"""`after` of a run that is a Slurm job: Slurm itself waits, for the job of the other run."""

from collections.abc import Sequence

from runners.model.errors import DeniedError
from runners.model.plan import is_job
from runners.model.spec import RunSpec
from runners.model.states import State
from runners.scheduling.allocation import Denied
from runners.scheduling.queue_order import judge_after
from runners.slurm.options import keys_of
from runners.state.job_status import job_number
from runners.state.layout import StateDirectory
from runners.state.runs import read_run

# A job of ours exits with 0 where its run is done, and else with 1.
_TYPES = {"success": "afterok", "failure": "afternotok", "any": "afterany"}


def dependency_options(state: StateDirectory, spec: RunSpec) -> Sequence[str]:
    """The options of sbatch for what `spec` waits for; none where that has ended as it should.

    Raises DeniedError where Slurm cannot wait for it, or it would do so for ever.
    """
    after = spec.after
    if after is None or keys_of(spec) is None:
        return ()
    path = state.run(after.run).path
    run = read_run(state, after.run) if path.is_dir() else None
    if run is None or not run.is_live:
        ending = State.LOST if run is None else run.state
        if isinstance(found := judge_after(after, {after.run: ending}), Denied):
            raise DeniedError(found.reason, found.hint)
        return ()
    if not is_job(run.plan):
        raise DeniedError(
            f"{run.id} runs here and is no Slurm job: Slurm cannot wait for it",
            f"`fresnel-tui wait {run.id}`, then launch this one",
        )
    number = job_number(state.run(run.id))
    if not number:
        raise DeniedError(f"the job of {run.id} is not known yet", "try again in a minute")
    # Else some clusters cancel what can never start, and why is lost.
    return (f"--dependency={_TYPES[after.on]}:{number}", "--kill-on-invalid-dep=no")
