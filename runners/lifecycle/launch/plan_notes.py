"""What a person should know before a run starts: the notes of its plan."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from runners.host.identity import is_booted
from runners.host.slurm_job import slurm_job
from runners.lifecycle.launch.command_notes import command_notes
from runners.lifecycle.launch.placeholder_values import LaunchInputs
from runners.lifecycle.launch.probe_results import probe_notes
from runners.lifecycle.launch.requirements import MissingPackages
from runners.model.gpus import GpuSnapshot
from runners.model.late_pattern import late_pattern
from runners.model.launchers import PROCESS_LAUNCHERS, traits_of
from runners.model.placeholders import open_places
from runners.model.python_command import started_by
from runners.model.scaling import batch_notes
from runners.model.spec import RunSpec
from runners.model.units import gpus_text
from runners.model.vendors import traits_of_vendor
from runners.scheduling.memory_warning import memory_notes, oom_warnings
from runners.scheduling.visibility import ALL_VARIABLES
from runners.state.layout import StateDirectory

_BY_HAND = late_pattern(r"(?!NVIDIA_)\w+_VISIBLE_DEVICES")
"""Not NVIDIA_VISIBLE_DEVICES, by which a container is given its GPUs."""
_INDICES = late_pattern(r"\d+(?:,\d+)*")


def plan_notes(
    state: StateDirectory,
    inputs: LaunchInputs,
    argv: Sequence[str],
    folder: Path,
    missing: MissingPackages | None,
) -> tuple[str, ...]:
    """What a person should know before the run starts, each once; what is missing comes first."""
    spec, gpus, node = inputs.spec, inputs.allocation.gpus, inputs.spec.node
    traits = traits_of_vendor(gpus[0].vendor) if gpus else None
    processes = started_by(spec, argv, inputs.processes) or inputs.processes
    devices = processes * (node.count if node else 1)
    notes = [*spec.warnings, *command_notes(argv, folder, traits)]
    notes += _placeholder_notes(spec)
    notes += inputs.allocation.notes
    notes += _exported_notes(spec, gpus)
    if not inputs.allocation.asked:  # of GPUs that are only awaited nothing is known
        notes += oom_warnings(state, spec.preset, spec.name, gpus, spec.gpus.share_memory)
        notes += probe_notes(state, spec, gpus, processes)
    if node is not None:
        which = f"{node.count} nodes" if node.by_slurm else f"node {node.rank} of {node.count}"
        where = "the first" if node.by_slurm else f"{node.address}:{node.port}"
        in_all = inputs.processes * node.count
        notes.append(f"{which}, {in_all} processes in all; they meet at {where}")
    if gpus:
        notes += batch_notes(spec, devices)
    notes += unused_notes(spec, len(gpus))
    notes += memory_notes(spec, devices, gpus)
    job = slurm_job()
    if job is None and spec.place.slurm is None:
        notes += _logout_notes()
    elif job is not None:
        given = f"has GPU {','.join(job.gpus)} here" if job.gpus else "has no GPU here"
        notes.insert(0, f"inside Slurm job {job.id}, which {given}: the run ends with the job")
    lacks = () if missing is None else (f"{missing.text}; to install: {missing.install}",)
    return (*lacks, *dict.fromkeys(notes))


def _logout_notes() -> Iterator[str]:
    """That the run would not outlive its user's logins on this machine, and what to do about it."""
    if not is_booted():
        return
    from runners.doctor.logout import judge_logout  # nothing ends runs where there is no systemd

    verdict = judge_logout()
    if verdict.outcome == "killed":
        yield f"ends at your last logout: {verdict.reason}; {verdict.advice}"


def _exported_notes(spec: RunSpec, gpus: Sequence[GpuSnapshot]) -> Iterator[str]:
    """That the shell of the launch names GPUs, which are not those that the run gets."""
    by_slurm = slurm_job() is not None or spec.place.slurm is not None
    if not spec.gpus.wants_gpus or spec.gpus.ids or by_slurm:
        return
    given = ",".join(str(gpu.index) for gpu in gpus)
    for name in filter(_BY_HAND.fullmatch, ALL_VARIABLES):
        value = os.environ.get(name, "")
        if value not in ("", given):
            by_hand = f"; --gpu-ids {value} does" if _INDICES.fullmatch(value) else ""
            yield f"{name}={value} of this shell does not choose its GPUs{by_hand}"


def unused_notes(spec: RunSpec, gpus: int) -> tuple[str, ...]:
    """A warning where somebody gives several GPUs to one process of which nothing is known."""
    traits = traits_of(spec.launcher)
    is_one = traits.runs_python and not traits.starts_processes
    if not is_one or gpus < 2 or spec.gpus_per_process is not None or not spec.gpus.explicit:
        return ()
    return (
        f"one process is started, and sees {gpus_text(gpus)}: many programs use only the first; "
        f"{' and '.join(PROCESS_LAUNCHERS)} start a process for each",
    )


def _placeholder_notes(spec: RunSpec) -> list[str]:
    """That a command goes to its program with `{NAME}` in it; one with a search is filled later."""
    if spec.launcher != "command" or spec.source or spec.search is not None:
        return []
    return [
        f"nothing fills {{{name}}}: the program gets it as it stands; --set {name}=VALUE (in the "
        f"form: values) puts a value there"
        for name in open_places(spec.command)
    ]
