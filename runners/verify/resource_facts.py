"""Memory, batch, disk, ports and outputs of a run to come: looked up, nothing judged."""

import glob
import math
import os
import re
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from runners.doctor.host_facts import present_folder, room_in
from runners.host.bounded_glob import SearchBudget, bounded_glob
from runners.host.files import expanded, is_file, modified_at, size_of
from runners.lifecycle.launch.probe_results import ProbeResult
from runners.model.gpus import GpuSnapshot
from runners.model.parameters import leaf_of, with_values
from runners.model.plan import LaunchPlan
from runners.model.python_command import computing_processes
from runners.model.scaling import batch_of, usual_batch
from runners.model.spec import RunSpec
from runners.model.workload import expected_memory, fitted_memory, workload_of
from runners.scheduling.memory_warning import LOOK_BACK, peak_memory_by_gpu, peaks_by_batch
from runners.state.codec import read_outline
from runners.state.layout import StateDirectory
from runners.state.leases import live_run_ids
from runners.state.runs import list_run_ids, read_run
from runners.verify.data_facts import unescaped
from runners.verify.facts import (
    BatchFacts,
    DiskFacts,
    MemoryNeed,
    OutputFacts,
    PortFacts,
)
from runners.watch.metrics.checkpoints import checkpoint_files

_MOST_FILES = 10_000
_FAR_BEYOND = 1.25
"""So many times the VRAM of a GPU, and an estimate is enough to know that it does not fit."""
_KEEP = ("keep", "keep_last_n", "keep_checkpoints", "save_total_limit")
_REGULAR = ("checkpoint_every", "checkpoint_freq", "checkpoint_interval")
_ARCHIVED = ("saveiter", "save_every", "save_interval", "save_freq")
_OUTPUTS = ("checkpoint_dir", "output_dir", "out_dir", "save_dir", "output", "output_folder")
_PORTS = 1 << 16
_MOST_DIGITS = 20
_PORT_FLAG = re.compile(r"--(?:master|main_process|main-process)[-_]port(?:=(\d+))?")
_ENDPOINT = re.compile(r"--rdzv[-_]endpoint(?:=(.*))?")


class EarlierCheckpoints(NamedTuple):
    """Checkpoints of an earlier run of the preset: the newest, the largest's bytes, how many."""

    run: str
    newest: Path
    size: int
    number: int


def written_before(state: StateDirectory, spec: RunSpec) -> EarlierCheckpoints | None:
    """What the newest run of this preset that wrote checkpoints has left."""
    for run_id in list_run_ids(state)[-LOOK_BACK:][::-1]:
        outline = read_outline(state.run(run_id))
        if outline is None or outline.spec.preset != spec.preset:
            continue
        # Bare commands all have one preset; only the name tells them apart.
        if spec.preset == "command" and outline.spec.name != spec.name:
            continue
        written = checkpoint_files(read_run(state, run_id))
        files = [file for file in written if is_file(file.path)]
        if files:
            largest = max(file.bytes for file in files)
            return EarlierCheckpoints(run_id, Path(files[0].path), largest, len(files))
    return None


def memory_needs(
    state: StateDirectory,
    spec: RunSpec,
    gpus: Sequence[GpuSnapshot],
    probe: ProbeResult | None,
    devices: int,
) -> Iterator[MemoryNeed]:
    """What says how much VRAM the run takes: a probe of the same batch, history, the preset."""
    batch = _value(spec, spec.scaling.batch) if spec.scaling is not None else None
    if probe is not None and probe.memory is not None and batch is not None:
        tried = [step for step in probe.steps if step.batch == batch and step.memory is not None]
        # A measurement of this very batch is better than any history: nothing else is asked.
        for step in tried[:1]:
            made_up = " (simulated)" if step.simulated else ""
            yield MemoryNeed(step.memory or 0, f"by a probe of batch {step.batch}{made_up}", True)
            return
    measured = _measured_need(state, spec, gpus, devices)
    if measured is not None:
        yield measured
    elif spec.scaling is None:
        last = peak_memory_by_gpu(state, spec.preset, spec.name, gpus)
        for run_id, use in list(last.values())[:1]:
            made_up = " (simulated)" if use.simulated else ""
            yield MemoryNeed(use.peak_memory or 0, f"as in run {run_id}{made_up}", True)
    expected = expected_memory(spec, devices)
    if expected is not None:
        # A formula of its author is no measurement: a little beyond is worth a try.
        beyond = any(expected > _FAR_BEYOND * (gpu.memory_total or expected) for gpu in gpus)
        is_formula = spec.expect.memory_per_sample is not None and measured is None
        yield MemoryNeed(expected, "expected by the preset", is_formula and beyond)
    for name, stage in spec.expect.stages.items():
        if stage.memory is not None:
            yield MemoryNeed(stage.memory, f"expected by the preset in {name}")


def _measured_need(
    state: StateDirectory, spec: RunSpec, gpus: Sequence[GpuSnapshot], devices: int
) -> MemoryNeed | None:
    """What earlier runs on such GPUs took, fitted to this batch; None where they say nothing."""
    work = workload_of(spec, devices)
    if work is None or not gpus:
        return None
    peaks = peaks_by_batch(state, spec, (gpus[0].name, gpus[0].simulated))
    made_up = " (simulated)" if gpus[0].simulated else ""
    for each, peak, run_id in peaks:
        if each == work.each:
            return MemoryNeed(peak, f"as in run {run_id}{made_up}", True)
    slope = spec.expect.memory_per_sample
    fitted = fitted_memory(work.each, [(each, peak) for each, peak, _ in peaks], slope)
    if fitted is None:
        return None
    runs = "run" if len(peaks) == 1 else f"{len(peaks)} runs"
    basis = f"fitted to {work.each:g} samples by {runs} here{made_up}"
    return MemoryNeed(fitted, basis, len(peaks) > 1)


def batch_facts(spec: RunSpec, plan: LaunchPlan, probe: ProbeResult | None) -> BatchFacts | None:
    """The batch on each device and in all."""
    devices = computing_processes(plan)
    batch = batch_of(spec, devices)
    if batch is None or spec.scaling is None:
        return None
    usual = usual_batch(spec, devices)
    largest = None
    if probe is not None and probe.parameter == spec.scaling.batch:
        most = batch_of(with_values(spec, {probe.parameter: probe.batch}), devices)
        largest = None if most is None else most.each
    return BatchFacts(
        batch.each,
        batch.total,
        batch.devices,
        None if usual is None else usual.each,
        largest,
        "" if probe is None else probe.gpu,
    )


def disk_facts(
    spec: RunSpec, plan: LaunchPlan, before: EarlierCheckpoints | None
) -> DiskFacts | None:
    """Room where checkpoints go, and how many of which size are to come."""
    folder = present_folder(Path(_fixed_part(plan.checkpoints[0] if plan.checkpoints else "")))
    try:
        room = room_in(folder)
    except OSError:
        return None
    size, basis = None, ""
    if before is not None:
        # The largest one: the disk must have room for the worst case.
        size, basis = before.size, f"as in run {before.run}"
    elif spec.resumed_from and is_file(spec.resumed_from):
        size, basis = size_of(Path(spec.resumed_from)), "as the checkpoint it goes on from"
    number = _number_to_come(spec, plan) or (before.number if before is not None else None)
    return DiskFacts(str(folder), room.free, size, number, _pace(spec, plan), basis, room.inodes)


def port_facts(plan: LaunchPlan, environment: Mapping[str, str]) -> Iterator[PortFacts]:
    """The ports that a run will listen on."""
    named: list[tuple[str, str]] = []
    argv = list(plan.argv)
    for word, after in zip(argv, [*argv[1:], ""], strict=True):
        flag, endpoint = _PORT_FLAG.fullmatch(word), _ENDPOINT.fullmatch(word)
        text = (flag[1] or after) if flag else ""
        if endpoint:
            text = (endpoint[1] or after).rpartition(":")[2]
        named.append((text, word.partition("=")[0]))
    found = {} if plan.port is None else {plan.port: "chosen for this launch"}
    if plan.port is None:
        named.append((environment.get("MASTER_PORT", ""), "MASTER_PORT"))
    for text, basis in named:
        # A port that somebody names is used as it is; nothing chooses a free one. 0 is any that is.
        if text.isdecimal() and len(text) < _MOST_DIGITS and int(text) < _PORTS:
            found.setdefault(int(text), basis)
        elif text.isdecimal():
            yield PortFacts(None, f"{basis} {text[:_MOST_DIGITS]}", False)
    for port, basis in found.items():
        if port:
            yield PortFacts(port, basis, is_free(port))


def is_free(port: int) -> bool:
    """True when nobody listens on this TCP port of this host."""
    with socket.socket() as probe:
        # As servers do: a port that has just been closed would otherwise look taken for a minute.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True


def output_facts(state: StateDirectory, spec: RunSpec, plan: LaunchPlan) -> Iterator[OutputFacts]:
    """The places outside of its own folder that the run writes to, as far as they are known."""
    own, folder = Path(plan.directory), Path(plan.working_directory)
    live = [read_run(state, run_id) for run_id in live_run_ids(state)]
    plans = [(run.id, run.plan) for run in live if run.plan is not None]
    for pattern in plan.checkpoints:
        if Path(pattern).is_relative_to(own):
            continue
        # Two live runs that write to one place overwrite each other's checkpoints.
        writers = tuple(run for run, other in plans if pattern in other.checkpoints)
        yield _output(pattern, writers)
    for parameter in spec.parameters:
        value = parameter.value
        if leaf_of(parameter.name) not in _OUTPUTS:
            continue
        if not isinstance(value, str) or not value or "${" in value:
            continue
        path = folder / expanded(value)
        writers = tuple(run for run, other in plans if _names_path(other, path))
        place = f"{glob.escape(str(path))}/"
        if writers or not any(pattern.startswith(place) for pattern in plan.checkpoints):
            yield _output(f"{place}*.p*t*", writers)


def _output(pattern: str, writers: tuple[str, ...]) -> OutputFacts:
    files = list(islice(bounded_glob(pattern, SearchBudget()), _MOST_FILES))
    newest = max(map(Path, files), key=modified_at, default=None)
    latest = modified_at(newest) if newest is not None else 0.0
    pattern = unescaped(pattern)
    if newest is None or not latest:
        return OutputFacts(pattern, len(files), writers=writers)
    age = max(0.0, time.time() - latest)
    return OutputFacts(pattern, len(files), newest.name, age, writers)


def _names_path(plan: LaunchPlan, path: Path) -> bool:
    folder = Path(plan.working_directory)
    values = (word.partition("=")[2] or word for word in plan.argv[1:])
    return any(os.path.normpath(folder / value) == os.path.normpath(path) for value in values)


def _number_to_come(spec: RunSpec, plan: LaunchPlan) -> int:
    """How many checkpoints the run leaves at its fullest, by what preset and parameters say."""
    total = plan.total_epochs or 0
    if spec.keep is not None:
        every = total // spec.keep.every if spec.keep.every else 0
        return spec.keep.last + spec.keep.best + every
    keep = _first(spec, _KEEP)
    regular, archived = _first(spec, _REGULAR), _first(spec, _ARCHIVED)
    number = int(total // regular) if regular else 0
    if keep:
        number = int(keep) + 1  # one more while the newest is written
    return number + (int(total // archived) if archived else 0)


def _pace(spec: RunSpec, plan: LaunchPlan) -> float | None:
    """Seconds between two checkpoints, where the run's length and theirs are known."""
    seconds = plan.forecast.seconds if plan.forecast is not None else plan.spec.estimate.seconds
    every = _first(spec, _REGULAR) or _first(spec, _ARCHIVED)
    if not seconds or not every or not plan.total_epochs:
        return None
    return seconds * every / plan.total_epochs


def _first(spec: RunSpec, names: Sequence[str]) -> float | None:
    """The first of these that counts something: not 0, nor the -1 that stands for never or all."""
    values = (_value(spec, name) for name in names)
    return next((value for value in values if value is not None and 0 < value < math.inf), None)


def _value(spec: RunSpec, name: str) -> float | None:
    for parameter in spec.parameters:
        value, names = parameter.value, (parameter.name, leaf_of(parameter.name))
        if name in names and isinstance(value, (int, float)) and not isinstance(value, bool):
            return value
    return None


def _fixed_part(pattern: str) -> str:
    """The folder of a glob pattern up to its first wildcard."""
    literal = pattern.replace("[[]", "[")
    parts = []
    for part in Path(literal).parent.parts:
        # The disk is that of the fixed part: what a wildcard matches may not exist yet.
        if any(sign in part for sign in "*?"):
            break
        parts.append(part)
    return str(Path(*parts)) if parts else "."
