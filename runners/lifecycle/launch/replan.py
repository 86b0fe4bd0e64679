"""The last step of a queued run: its plan is made for the GPUs it was granted.

Run by its supervisor, which has the program's environment in memory and stays too
small to do this itself. The environment that the program gets is printed as JSON:
secrets in it never touch the disk.
"""

import json
import os
import sys
from pathlib import Path

import msgspec

from runners.gpus.cards import CardPart
from runners.gpus.client import read_gpus
from runners.host.files import replace
from runners.lifecycle.launch.git_snapshot import changes_between, read_source, record_again
from runners.lifecycle.launch.placeholder_values import find_free_port
from runners.lifecycle.launch.planner import plan_run
from runners.lifecycle.launch.run_files import write_files
from runners.lifecycle.launch.sampled_runs import suggested
from runners.lifecycle.launch.unmasking import refuse_masked, with_secrets
from runners.model.errors import FresnelError, WrongInput
from runners.model.gpus import GpuSnapshot
from runners.model.masked_plan import arrived, travelling
from runners.scheduling.allocation import Allocation
from runners.scheduling.queue_order import Granted
from runners.slurm.options import over_nodes
from runners.state.codec import read_plan
from runners.state.layout import RunDirectory, StateDirectory


def replan(directory: RunDirectory) -> dict[str, str]:
    """Rewrite plan.json for the granted GPUs; return the program's environment, with its secrets.

    Raises WrongInput when something the run needs does not exist any more, FresnelError when its
    sampler does not answer.
    """
    before = read_plan(directory)
    if before is None:
        raise WrongInput(f"{directory.plan} is missing or damaged: it cannot be started")
    state = directory.home
    # The GPUs are granted already, so what is known of them now is enough.
    reading = read_gpus(state, patience_s=0.0) if before.gpus else None
    known = {gpu.uuid: gpu for gpu in reading.gpus} if reading else {}
    gpus = tuple(
        known.get(gpu.uuid)
        or GpuSnapshot(gpu.index, gpu.uuid, gpu.name, gpu.vendor, mig_parent=gpu.mig_parent)
        for gpu in before.gpus
    )
    # Before planning, which takes relative paths from here.
    try:
        os.chdir(before.working_directory)
    except OSError as error:
        raise WrongInput(
            f"working directory {before.working_directory}: {error.strerror}"
        ) from None
    warned_before, spec = before.spec.warnings, suggested(directory, before.spec)
    source = read_source(directory)
    recording = record_again(directory, Path(before.working_directory))
    granted = Allocation(
        gpus,
        tuple(note for note in before.notes if note not in warned_before),
        tuple(CardPart(gpu.card or gpu.uuid, gpu.part) for gpu in before.gpus),
    )
    spec = over_nodes(with_secrets(spec, arrived(os.environ), os.environ), find_free_port())
    refuse_masked(spec, directory.id)
    run = plan_run(directory, spec, Granted(granted), reading, before.price)
    recording.join()
    problem = run.refusal()
    if problem is not None:
        raise problem
    planned = run.planned
    provenance = msgspec.structs.replace(
        planned.plan.provenance, commit_at_launch=before.provenance.commit
    )
    after = msgspec.structs.replace(
        planned.plan,
        origin=before.origin,
        working_directory=before.working_directory,
        provenance=provenance,
        notes=(*planned.plan.notes, *changes_between(source, read_source(directory))),
    )
    write_files(directory, planned.files)
    # The plan last, because it refers to these files.
    replace(directory.plan, msgspec.json.encode(after))
    return planned.environment | travelling(planned.secrets)


def main() -> None:
    """Prepare the run that the command line names; print its environment, or what is wrong."""
    root, run_id = sys.argv[-2:]
    try:
        run = StateDirectory(Path(root)).run(run_id)
        answer: dict[str, object] = {"environment": replan(run)}
    except FresnelError as error:
        answer = {"error": f"{error.message}; {error.hint}" if error.hint else error.message}
    json.dump(answer, sys.stdout)
