"""What a probe of this preset on such GPUs found, said beside a plan."""

from collections.abc import Sequence

from runners.lifecycle.launch.probe_results import ProbeResult, find_probe
from runners.model.gpus import GpuSnapshot
from runners.model.quantities import gib_text
from runners.model.spec import RunSpec
from runners.state.layout import StateDirectory

_HARMLESS = frozenset({"seed", "manualSeed", "resume", "keep", "workers", "num_workers", "name"})


def probe_of(
    state: StateDirectory, spec: RunSpec, gpus: Sequence[GpuSnapshot], processes: int
) -> ProbeResult | None:
    """What a probe found for this preset on such GPUs; None where other settings differ."""
    name = ", ".join(dict.fromkeys(gpu.name for gpu in gpus)) or "CPU"
    found = find_probe(state, spec.preset, name, processes)
    if found is None or found.settings != settings_of(spec, found.parameter):
        return None
    return found


def settings_of(spec: RunSpec, batch: str) -> dict[str, str]:
    """The parameters that, besides the batch, decide how much memory a step takes.

    Those that differ from the preset, without lengths, rates, seeds and paths.
    """
    free = {batch, spec.total.parameter if spec.total is not None else ""} | _HARMLESS
    if spec.scaling is not None:
        free.add(spec.scaling.learning_rate)
    settings = {}
    for parameter in spec.parameters:
        value = parameter.value
        is_path = isinstance(value, str) and "/" in value
        if value != parameter.default and parameter.name not in free and not is_path:
            settings[parameter.name] = str(value)
    return settings


def probe_notes(
    state: StateDirectory, spec: RunSpec, gpus: Sequence[GpuSnapshot]
) -> tuple[str, ...]:
    """One note: the largest batch that fitted, and whether this one is above it."""
    processes = spec.processes or len(gpus) or 1
    found = probe_of(state, spec, gpus, processes)
    if found is None:
        return ()
    value = next(
        (parameter.value for parameter in spec.parameters if parameter.name == found.parameter),
        None,
    )
    peak = f", {gib_text(found.memory)} at its peak" if found.memory else ""
    text = f"a probe found that {found.parameter}={found.batch} fits at most{peak}"
    tried = [step.batch for step in found.steps if not step.fits]
    too_large = isinstance(value, int) and bool(tried) and value >= min(tried)
    return (f"{text}: {value} will run out of memory" if too_large else text,)
