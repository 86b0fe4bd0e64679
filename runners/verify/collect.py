"""Every fact about a coming run, gathered once; what no check needs is not looked up."""

from collections.abc import Collection
from pathlib import Path

from runners.doctor.host_facts import kernel_architectures, read_host
from runners.lifecycle.launch.interpreter import interpreter_of
from runners.lifecycle.launch.placeholder_values import launch_inputs, placeholder_values
from runners.lifecycle.launch.planner import PlannedRun
from runners.lifecycle.launch.probe_results import probe_of
from runners.model.python_command import computing_processes, devices_in_all
from runners.model.spec import CheckGroup
from runners.scheduling.queue_order import allocation_of, reason_of
from runners.state.layout import StateDirectory
from runners.verify.checkpoint_facts import checkpoint_facts, named_checkpoint
from runners.verify.config_facts import config_facts, with_configuration
from runners.verify.data_facts import file_facts, path_facts, run_check
from runners.verify.facts import CheckpointFacts, LaunchFacts, concerns
from runners.verify.program_facts import ask_interpreter, present_script, start_facts
from runners.verify.resource_facts import (
    EarlierCheckpoints,
    batch_facts,
    disk_facts,
    memory_needs,
    output_facts,
    port_facts,
    written_before,
)


def collect(
    state: StateDirectory, run: PlannedRun, groups: Collection[CheckGroup] = ()
) -> LaunchFacts:
    """The facts for the checks of `groups`, all of them where none are named.

    Runs the spec's own interpreter and check commands; imports nothing of theirs here.
    """
    spec, plan, environment = run.spec, run.plan, run.planned.environment
    allocation = allocation_of(run.decision)
    folder, directory = Path(plan.working_directory), Path(plan.directory)
    placeholders = placeholder_values(launch_inputs(spec, plan.run, directory, allocation))
    script = present_script(plan.argv, folder)

    def wants(*names: CheckGroup) -> bool:
        return not groups or any(name in groups for name in names)

    interpreter = commands = config = None
    if wants("program", "gpus"):
        interpreter = ask_interpreter(plan.argv, folder, environment, spec.checks.imports)
    if wants("own"):
        commands = [
            run_check(rule, folder, environment, placeholders) for rule in spec.checks.commands
        ]
    before = written_before(state, spec) if wants("disk", "checkpoint") else None
    probe = probe_of(state, spec, allocation.gpus, computing_processes(plan))
    architectures = {}
    if wants("gpus") and concerns("architecture override", allocation.gpus):
        architectures = dict(enumerate(kernel_architectures()))
    if wants("config", "gpus", "machine", "data"):
        # Also for checks of GPUs and machine: device numbers and worker counts may be in it.
        config = config_facts(spec, folder, placeholders, script)
    paths = path_facts(
        spec, folder, placeholders, directory, script, {} if config is None else config.values
    )
    configured = with_configuration(spec, config, placeholders)
    return LaunchFacts(
        spec,
        plan,
        environment,
        allocation.gpus,
        run.reading.driver if run.reading is not None else None,
        reason_of(run.decision),
        interpreter,
        tuple(paths) if wants("data") else (),
        tuple(file_facts(spec, folder, configured, directory)) if wants("data") else (),
        tuple(commands or ()),
        _checkpoint(run, folder, before) if wants("checkpoint") else None,
        config,
        tuple(memory_needs(state, spec, allocation.gpus, probe, devices_in_all(plan)))
        if wants("memory")
        else (),
        batch_facts(spec, plan, probe) if wants("batch") else None,
        disk_facts(spec, plan, before) if wants("disk") else None,
        tuple(port_facts(plan, environment)) if wants("network") else (),
        tuple(output_facts(state, spec, plan)) if wants("outputs") else (),
        read_host() if wants("machine", "network") else None,
        architectures,
        start_facts(plan.argv, folder) if wants("program") else None,
    )


def _checkpoint(
    run: PlannedRun, folder: Path, before: EarlierCheckpoints | None
) -> CheckpointFacts | None:
    path = named_checkpoint(run.spec, folder)
    if path is None:
        return None
    interpreter = interpreter_of(run.plan.argv, run.planned.environment, folder)
    return checkpoint_facts(
        path,
        None if interpreter is None else str(interpreter),
        run.planned.environment,
        before.newest if before is not None else None,
    )
