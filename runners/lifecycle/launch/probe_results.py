"""What probes found, kept by preset, GPU and number of devices."""

import msgspec

from runners.host.files import replace
from runners.state.decoding import read
from runners.state.layout import StateDirectory


class ProbeStep(msgspec.Struct, frozen=True):
    """One batch that was tried: whether it fitted, peak bytes on a GPU, samples per second."""

    batch: int
    fits: bool
    memory: int | None = None
    samples_per_s: float | None = None
    run: str = ""


class ProbeResult(msgspec.Struct, frozen=True):
    """The largest value of the batch parameter that fitted on `devices` GPUs named `gpu`.

    `gpu` is CPU for none, `time` in unix seconds; `settings` are the other
    parameters it was tried with.
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


_results = msgspec.json.Decoder(tuple[ProbeResult, ...])


def read_probes(state: StateDirectory) -> tuple[ProbeResult, ...]:
    """Every result of this host, oldest first; empty when there is none."""
    return read(state.probes, _results) or ()


def find_probe(state: StateDirectory, preset: str, gpu: str, devices: int) -> ProbeResult | None:
    """The result for `preset` on so many GPUs of that name."""
    found = [
        probe
        for probe in read_probes(state)
        if (probe.preset, probe.gpu, probe.devices) == (preset, gpu, devices)
    ]
    return found[-1] if found else None


def keep_probe(state: StateDirectory, result: ProbeResult) -> None:
    """Keep a result in place of an older one of the same preset, GPU and number."""
    key = result.preset, result.gpu, result.devices
    others = [
        probe for probe in read_probes(state) if (probe.preset, probe.gpu, probe.devices) != key
    ]
    replace(state.create().probes, msgspec.json.encode((*others, result)))
