"""Notes on the GPUs of a launch whose memory will not do.

They never refuse: settings may differ from those of the earlier run.
"""

from collections.abc import Collection, Iterable, Sequence

from runners.gpus.usage import read_usage
from runners.model.gpus import GpuSnapshot, GpuUse
from runners.model.python_command import devices_in_all
from runners.model.spec import RunSpec
from runners.model.units import gib_text
from runners.model.workload import expected_memory, workload_of
from runners.state.codec import read_outline, read_plan
from runners.state.layout import StateDirectory
from runners.state.runs import list_run_ids

LOOK_BACK = 50
"""How many of the newest runs are looked at: a launch must not wait for a long history."""
_GIB = 1 << 30
_NO_MEMORY = frozenset({"epochs", "niter", "seed", "manualSeed", "workers", "resume", "model"})
"""Parameters that change nothing of what a GPU holds."""
_WHOLE_GPU_SLACK = 0.02
"""The driver's own share, as part of the memory, in a peak that is the whole GPU's."""


def oom_warnings(
    state: StateDirectory,
    preset: str,
    name: str,
    gpus: Sequence[GpuSnapshot],
    share: int | None = None,
) -> tuple[str, ...]:
    """Notes on GPUs with less free memory than the newest run of `preset` took on that model.

    And on a `share` of a GPU (bytes) that is less than it took. Bare commands all have one preset,
    so these go by the run's `name`. Nothing known means no note.
    """
    last = peak_memory_by_gpu(state, preset, name, gpus)
    what = "run" if preset == "command" else "preset"
    notes = []
    for gpu in gpus:
        if gpu.uuid in last:
            run_id, use = last[gpu.uuid]
            free = _free(gpu)
            if free is not None and _needed(use, gpu) > free:
                notes.append(_note(gpu.index, free, run_id, use, what))
            if share is not None and _needed(use, gpu) > share:
                notes.append(_share_note(share, run_id, use, what))
    # GPUs of one model with the same free memory would say the same thing several times.
    return tuple(dict.fromkeys(notes))


def memory_notes(spec: RunSpec, devices: int, gpus: Sequence[GpuSnapshot]) -> tuple[str, ...]:
    """Warn of each GPU with less VRAM than the run, or one of its stages, is expected to need."""
    wanted = [("it", expected_memory(spec, devices))]
    wanted += [(f"its stage {name}", stage.memory) for name, stage in spec.expect.stages.items()]
    notes = []
    for gpu in gpus:
        for what, memory in wanted:
            if memory is not None and gpu.memory_total is not None and memory > gpu.memory_total:
                notes.append(
                    f"GPU {gpu.index} has {gpu.memory_total / _GIB:.0f} GiB; the preset expects "
                    f"{what} to use {memory / _GIB:.0f} GiB"
                )
    return tuple(notes)


def peak_memory_by_gpu(
    state: StateDirectory, preset: str, name: str, gpus: Sequence[GpuSnapshot]
) -> dict[str, tuple[str, GpuUse]]:
    """By GPU UUID: the newest run of `preset` on that model of GPU, and its use where it peaked."""
    last: dict[tuple[str, bool], tuple[str, GpuUse] | None] = {}
    for gpu in gpus:
        # A simulated GPU is a kind of its own: its numbers say nothing
        # about a real one of that name.
        kind = gpu.name, gpu.simulated
        if kind not in last:
            last[kind] = _newest(state, preset, name, kind)
    return {gpu.uuid: found for gpu in gpus if (found := last[gpu.name, gpu.simulated]) is not None}


def peaks_by_batch(
    state: StateDirectory, spec: RunSpec, kind: tuple[str, bool]
) -> list[tuple[float, int, str]]:
    """Of earlier runs on this kind of GPU: samples on each, bytes at its peak, the run's id.

    Only those that differ in batch, rate and length alone; the newest of each batch.
    """
    scaling = spec.scaling
    if scaling is None:
        return []
    free = {scaling.batch, scaling.learning_rate, *_NO_MEMORY}
    found: dict[float, tuple[int, str]] = {}
    for run_id in reversed(list_run_ids(state)[-LOOK_BACK:]):
        outline = read_outline(state.run(run_id))
        if outline is None or outline.spec.preset != spec.preset:
            continue
        plan = read_plan(state.run(run_id))
        if plan is None or _values(plan.spec, free) != _values(spec, free):
            continue
        work = workload_of(plan.spec, devices_in_all(plan))
        peak = _peak(read_usage(state.run(run_id).path), kind)
        if work is not None and peak:
            found.setdefault(work.each, (peak, run_id))
    return [(each, peak, run_id) for each, (peak, run_id) in found.items()]


def _values(spec: RunSpec, free: Collection[str]) -> dict[str, object]:
    return {part.name: part.value for part in spec.parameters if part.name not in free}


def _peak(uses: Iterable[GpuUse], kind: tuple[str, bool]) -> int:
    peaks = [_took(use) for use in uses if (use.name, use.simulated) == kind]
    return max(peaks, default=0)


def _newest(
    state: StateDirectory, preset: str, name: str, kind: tuple[str, bool]
) -> tuple[str, GpuUse] | None:
    """The newest run of `preset` on this kind of GPU, and its use of the one where it peaked."""
    for run_id in reversed(list_run_ids(state)[-LOOK_BACK:]):
        run = state.run(run_id)
        plan = read_outline(run)
        if plan is None:
            continue
        if plan.spec.preset != preset or (preset == "command" and plan.spec.name != name):
            continue
        uses = [
            use
            for use in read_usage(run.path)
            if (use.name, use.simulated) == kind and use.peak_memory
        ]
        if uses:
            return run_id, max(uses, key=_took)
    return None


def _free(gpu: GpuSnapshot) -> int | None:
    if gpu.memory_total is None or gpu.memory_used is None:
        return None
    return gpu.memory_total - gpu.memory_used


def _took(use: GpuUse) -> int:
    return use.peak_memory or 0


def _needed(use: GpuUse, gpu: GpuSnapshot) -> float:
    """Bytes that the run itself surely took at its peak."""
    # A warning too few is better here than one at every launch.
    slack = (gpu.memory_total or 0) * _WHOLE_GPU_SLACK if use.whole_gpu else 0
    return _took(use) - slack


def _note(gpu: int, free: int, run_id: str, use: GpuUse, what: str) -> str:
    return (
        f"GPU {gpu} has {gib_text(free)} of VRAM free; this {what} peaked at "
        f"{gib_text(_took(use))} "
        f"last time (run {run_id}{_made_up(use)}): it may run out of memory"
    )


def _share_note(share: int, run_id: str, use: GpuUse, what: str) -> str:
    return (
        f"its share is {gib_text(share)} of VRAM (share_memory), but this {what} peaked at "
        f"{gib_text(_took(use))} "
        f"last time (run {run_id}{_made_up(use)}): whoever shares the GPU with it may run out of "
        "memory"
    )


def _made_up(use: GpuUse) -> str:
    return ", simulated" if use.simulated else ""
