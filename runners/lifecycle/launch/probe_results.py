"""What probes found, kept by preset, GPU and number of devices, and said beside a plan."""

from collections.abc import Sequence

import msgspec

from runners.host.files import replace
from runners.host.locks import locked
from runners.model.gpus import GpuSnapshot
from runners.model.plan import AssignedGpu
from runners.model.spec import RunSpec
from runners.model.units import gib_text
from runners.state.decoding import read
from runners.state.layout import StateDirectory

_HARMLESS = frozenset({"seed", "manualSeed", "resume", "keep", "workers", "num_workers", "name"})


class ProbeStep(msgspec.Struct, frozen=True):
    """One batch that was tried: whether it fitted, peak bytes on a GPU, samples per second.

    Of `simulated` GPUs the memory is made up.
    """

    batch: int
    fits: bool
    memory: int | None = None
    samples_per_s: float | None = None
    run: str = ""
    simulated: bool = False


class ProbeResult(msgspec.Struct, frozen=True):
    """The largest value of the batch parameter that fitted on `devices` GPUs named `gpu`.

    `gpu` is CPU for none and says which are simulated, `time` in unix seconds; `settings` are the
    other parameters it was tried with.
    """

    preset: str
    gpu: str
    devices: int
    parameter: str
    batch: int
    time: float
    memory: int | None = None
    samples_per_s: float | None = None
    settings: dict[str, str] = {}
    steps: tuple[ProbeStep, ...] = ()

    @property
    def key(self) -> tuple[str, str, int]:
        """Of several with the same one the newest counts."""
        return self.preset, self.gpu, self.devices


def read_probes(state: StateDirectory) -> tuple[ProbeResult, ...]:
    """Every result of this host, oldest first; empty when there is none."""
    return read(state.probes, tuple[ProbeResult, ...]) or ()


def find_probe(state: StateDirectory, preset: str, gpu: str, devices: int) -> ProbeResult | None:
    """The result for `preset` on so many GPUs of that name."""
    key = preset, gpu, devices
    return next((probe for probe in reversed(read_probes(state)) if probe.key == key), None)


def keep_probe(state: StateDirectory, result: ProbeResult) -> None:
    """Keep a result in place of an older one of the same preset, GPU and number."""
    path = state.create().probes
    with locked(path.with_suffix(".lock")):
        others = [probe for probe in read_probes(state) if probe.key != result.key]
        replace(path, msgspec.json.encode((*others, result)))


def probe_of(
    state: StateDirectory, spec: RunSpec, gpus: Sequence[GpuSnapshot], processes: int
) -> ProbeResult | None:
    """What a probe found for this preset on such GPUs; None where other settings differ."""
    found = find_probe(state, spec.preset, names_of(gpus), processes)
    return found if found and found.settings == settings_of(spec, found.parameter) else None


def names_of(gpus: Sequence[GpuSnapshot | AssignedGpu]) -> str:
    """What GPUs a result is for: what was made up by simulated ones is none of real ones."""
    marked = (f"{gpu.name} (simulated)" if gpu.simulated else gpu.name for gpu in gpus)
    return ", ".join(dict.fromkeys(marked)) or "CPU"


def settings_of(spec: RunSpec, batch: str) -> dict[str, str]:
    """The parameters that, besides the batch, decide how much memory a step takes.

    Those that differ from the preset, without lengths, rates, seeds and paths.
    """
    free = {batch, spec.length} | _HARMLESS
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
    state: StateDirectory, spec: RunSpec, gpus: Sequence[GpuSnapshot], processes: int
) -> tuple[str, ...]:
    """One note: the largest batch that fitted, and whether this one is above it."""
    found = probe_of(state, spec, gpus, processes)
    if found is None:
        return ()
    value = spec.count_in(found.parameter)
    made_up = " (simulated)" if any(gpu.simulated for gpu in gpus) else ""
    peak = f", {gib_text(found.memory)} at its peak{made_up}" if found.memory else ""
    text = f"a probe found that {found.parameter}={found.batch} fits at most{peak}"
    tried = [step.batch for step in found.steps if not step.fits]
    too_large = value is not None and bool(tried) and value >= min(tried)
    return (f"{text}: {value} will run out of memory" if too_large else text,)
