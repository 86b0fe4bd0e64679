"""RunSpec + Allocation → LaunchPlan: placeholders filled, paths found, nothing started."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from runners.host.files import expanded, is_folder
from runners.host.identity import boot_id, host_name, is_attended, user_name
from runners.host.slurm_job import SlurmJob, slurm_job
from runners.lifecycle.launch.command_line import spell_argv
from runners.lifecycle.launch.config_copy import PlannedConfig, plan_config
from runners.lifecycle.launch.git_snapshot import provenance_of
from runners.lifecycle.launch.interpreter import interpreter_in
from runners.lifecycle.launch.placeholder_values import (
    FilledTexts,
    LaunchInputs,
    fill_patterns,
    fill_texts,
    launch_inputs,
)
from runners.lifecycle.launch.plan_notes import plan_notes
from runners.lifecycle.launch.requirements import MissingPackages, missing_packages
from runners.lifecycle.launch.run_environment import Variables, completed, program_environment
from runners.model.errors import FresnelError, WrongInput, sentence_of
from runners.model.gpus import GpuReading
from runners.model.kept_secrets import MASK
from runners.model.masked_plan import mask_tree
from runners.model.masking import mask_value
from runners.model.plan import LaunchPlan, Origin, on_all_nodes
from runners.model.spec import Price, RunSpec
from runners.scheduling.allocation import Allocation, Denied, allocate, idle
from runners.state.layout import RunDirectory

# A shorter one may be anything: `ssh`, `true`.
_SURELY_SECRET = 8
_DEFAULT_CHECKPOINTS = ("${run_dir}/checkpoints/*",)


class Planned(NamedTuple):
    """A plan as it is written, and in clear what its program really gets: only for memory.

    `secrets` are what the plan masks, by their places in it: those of the command and the spec, as
    the variables are all in `environment`.
    """

    plan: LaunchPlan
    environment: dict[str, str]
    files: Mapping[str, str] = {}
    """Texts to write into the run's folder before it starts, by file name."""
    secrets: Mapping[str, Any] = {}
    missing: MissingPackages | None = None
    """What its interpreter has not got."""


def make_plan(
    spec: RunSpec,
    run: RunDirectory,
    allocation: Allocation,
    reading: GpuReading | None,
    price: Price | None,
) -> Planned:
    """Plan `spec` for one run, without its costs, limits and phase: see `planner`.

    Raises WrongInput when a path, program or variable that it names does not exist.
    """
    _require_node(spec)
    job = slurm_job()
    inputs = launch_inputs(spec, run.id, run.path, allocation, reading)
    texts = fill_texts(inputs)
    variables, folder, config, argv = _command(inputs, texts)
    interpreter = interpreter_in(argv, variables.whole, folder)
    variables = completed(variables, inputs, argv, interpreter)
    missing = missing_packages(spec, interpreter)
    gpus = on_all_nodes(allocation.assigned(spec.gpus.share_memory), spec.node)
    plan = LaunchPlan(
        run=run.id,
        spec=spec,
        argv=tuple(argv),
        environment=variables.added,
        environment_removed=variables.removed,
        working_directory=str(folder),
        directory=str(run.path),
        gpus=gpus,
        processes=inputs.processes,
        port=texts.port,
        price=price,
        origin=_origin(job),
        checkpoints=fill_patterns(
            spec.checkpoints or _DEFAULT_CHECKPOINTS,
            spec,
            folder,
            texts.placeholders,
            "checkpoints",
        ),
        tensorboard=fill_patterns(
            spec.metrics.tensorboard, spec, folder, texts.placeholders, "metrics.tensorboard"
        ),
        restart_arguments=texts.restart_arguments,
        notes=plan_notes(run.home, inputs, argv, folder, missing),
        config_changes=config.changes,
        total_epochs=spec.total_of("epoch"),
        total_steps=spec.total_of("step"),
    )
    masked, secrets = _masked(plan, variables.whole)
    provenance = provenance_of(interpreter, folder, reading)
    plan = msgspec.structs.replace(masked, provenance=provenance)
    return Planned(plan, variables.whole, config.files, secrets, missing)


def spell_command(spec: RunSpec) -> tuple[list[str], dict[str, str], Path]:
    """The argv, environment and folder that `spec` would have on the CPU; nothing is written.

    Raises WrongInput when a path, program or variable it names does not exist.
    """
    inputs = launch_inputs(spec, "preview", Path("preview").absolute())
    command = _command(inputs, fill_texts(inputs))
    return command.argv, command.variables.whole, command.folder


class _Command(NamedTuple):
    variables: Variables
    folder: Path
    config: PlannedConfig
    argv: list[str]


def _command(inputs: LaunchInputs, texts: FilledTexts) -> _Command:
    """What is started, where, and in which environment."""
    variables = program_environment(inputs, texts.environment)
    folder = _working_directory(inputs.spec, texts.working_directory)
    config = plan_config(inputs, texts, folder)
    argv = spell_argv(inputs, texts, folder, variables.whole, config.argv)
    return _Command(variables, folder, config, argv)


def _require_node(spec: RunSpec) -> None:
    """WrongInput for a spec for several machines together that does not say which this is."""
    if spec.nodes is not None and spec.node is None:
        raise WrongInput(
            f"`{spec.preset}` runs on {', '.join(spec.nodes.hosts)} together",
            f"`fresnel-tui launch {spec.preset}` starts it there; one machine's plan: --nodes "
            f"{len(spec.nodes.hosts)} --node-rank 0 --master-addr ADDRESS",
        )


def _masked(plan: LaunchPlan, environment: Mapping[str, str]) -> tuple[LaunchPlan, dict[str, Any]]:
    """The plan as it may be written, and by their places the secrets that it no longer has."""
    # A shell may have put an inherited secret into the command.
    known = [
        value
        for name, value in environment.items()
        if len(value) >= _SURELY_SECRET and value[0] != "/" and mask_value(name, value) == MASK
    ]
    tree, secrets = mask_tree(msgspec.to_builtins(plan), known)
    travelling = {
        place: value for place, value in secrets.items() if not place.startswith("environment.")
    }
    return msgspec.convert(tree, LaunchPlan), travelling


def _origin(job: SlurmJob | None) -> Origin:
    """Who asks for the run, here and now."""
    job_id = job.id if job else ""
    return Origin(user_name(), host_name(), boot_id(), time.time(), job_id, is_attended())


def _working_directory(spec: RunSpec, text: str) -> Path:
    # Relative to the preset, so that it means the same wherever the command is given.
    base = Path(spec.source).absolute().parent if spec.source else Path.cwd()
    folder = (base / expanded(text)).resolve() if text else Path.cwd()
    if not is_folder(folder):
        raise WrongInput(f"working_directory: no folder {folder}", "make it, or name another one")
    # Plans are JSON, and so UTF-8: another name could not be read back.
    try:
        str(folder).encode()
    except UnicodeEncodeError:
        raise WrongInput(
            "working_directory: its name is not UTF-8", "run it from a folder whose name is"
        ) from None
    return folder


def why_not_here(spec: RunSpec, reading: GpuReading | None) -> str:
    """Why `spec` can never run here: program, file, packages or GPUs missing; empty when it can.

    GPUs that are busy now are no reason, nor are those not yet read (`reading` None).
    """
    try:
        command = spell_command(spec)
        missing = missing_packages(spec, interpreter_in(*command))
    except FresnelError as error:
        return error.message
    except OSError as error:  # a path of it that is too long, or not ours to look at
        return sentence_of(error)
    if missing is not None:
        return f"missing: {', '.join(missing.packages)}"
    if reading is None:
        return ""
    answer = allocate(spec.gpus, idle(reading), {})
    return answer.reason if isinstance(answer, Denied) else ""
