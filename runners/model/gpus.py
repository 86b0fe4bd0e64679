"""One reading of the GPUs of one host. A field that is not known is None, never 0."""

from typing import Literal

import msgspec

from runners.model.vendors import Vendor, VendorTraits, traits_of_vendor


class GpuProcess(msgspec.Struct, frozen=True):
    """A process that uses a GPU; `memory_used` in bytes, `utilization` in percent of the GPU.

    `started` is in unix seconds. `outside` when its pid belongs to another pid namespace, and so
    says nothing here.
    """

    pid: int
    user: str | None = None
    command: str | None = None
    memory_used: int | None = None
    run: str | None = None
    outside: bool = False
    started: float | None = None
    utilization: float | None = None


class Xid(msgspec.Struct, frozen=True):
    """An error NVIDIA's driver reports for a GPU: number, time seen (unix seconds), meaning."""

    code: int
    time: float
    meaning: str


class GpuDetail(msgspec.Struct, frozen=True):
    """What else a driver reports of a GPU, some of it read only every few seconds.

    Fan in percent, degrees Celsius, bytes per second in both directions together; unknown is None.
    `state` is NVIDIA's P-state or AMD's performance level, `link` what joins it to other GPUs.
    `rows_remapped` are rows of memory taken out of use; `rows_pending` that a reset is due for it,
    `rows_failed` that no spare row was left.
    """

    fan_percent: float | None = None
    state: str | None = None
    hotspot_c: float | None = None
    memory_c: float | None = None
    pcie_generation: int | None = None
    pcie_width: int | None = None
    pcie_most_generation: int | None = None
    pcie_most_width: int | None = None
    pcie_bytes_s: float | None = None
    link: Literal["NVLink", "XGMI"] | None = None
    link_bytes_s: float | None = None
    ecc_corrected: int | None = None
    rows_remapped: int | None = None
    rows_pending: bool | None = None
    rows_failed: bool | None = None
    compute_mode: str | None = None


class GpuSnapshot(msgspec.Struct, frozen=True):
    """One frozen reading of one GPU.

    Memory in bytes, utilisation in percent, power in watts, clocks in MHz. `xid` is the last one
    since boot that a sampler saw. `partition` says which part of its card an AMD partition is.
    `energy_j` is the card's own counter, in joules since its driver was loaded.
    """

    index: int
    uuid: str
    name: str
    vendor: Vendor
    pci: str | None = None
    utilization: float | None = None
    memory_utilization: float | None = None
    memory_used: int | None = None
    memory_total: int | None = None
    temperature_c: float | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    clock_mhz: int | None = None
    memory_clock_mhz: int | None = None
    throttle: tuple[str, ...] = ()
    ecc_errors: int | None = None
    xid: Xid | None = None
    mig_parent: str | None = None
    partition: str | None = None
    processes: tuple[GpuProcess, ...] = ()
    error: str | None = None
    energy_j: float | None = None
    detail: GpuDetail | None = None
    unread: str | None = None
    """Since when nobody has read it, in words: nothing is known of it now. Never kept on disk."""
    claimed: str | None = None
    """The user whose run holds it, of another state folder than this. Never kept on disk."""

    @property
    def simulated(self) -> bool:
        """True when no such GPU exists and its numbers are made up."""
        return self.vendor.startswith("simulated")

    @property
    def traits(self) -> VendorTraits:
        """What is particular to GPUs of its maker."""
        return traits_of_vendor(self.vendor)


class HostSnapshot(msgspec.Struct, frozen=True):
    """One reading of the host itself: CPU in percent of all cores, memory and disk in bytes."""

    cpu_percent: float | None = None
    cpu_count: int | None = None
    load_1m: float | None = None
    memory_used: int | None = None
    memory_total: int | None = None
    disk_free: int | None = None
    disk_total: int | None = None


UNREAD = "unread"
"""The backend of a reading that does not exist yet.

Then nothing is known of the GPUs, not even whether there are any.
"""


class GpuReading(msgspec.Struct, frozen=True):
    """Everything one sample found: when (unix seconds), by which backend, and what went wrong.

    `setting` is the `$FRESNEL_GPUS` the sampler was started under; None means any. `job` is the
    Slurm job whose GPUs these are, empty outside of one.
    """

    time: float
    host: str
    backend: str
    gpus: tuple[GpuSnapshot, ...] = ()
    cpu: HostSnapshot = HostSnapshot()
    problem: str | None = None
    driver: str | None = None
    setting: str | None = None
    job: str = ""


# As an array: a day of history has 86,400 lines, and field names would be most of it.
class GpuSample(msgspec.Struct, frozen=True, array_like=True):
    """One GPU at one second of the history: percent, bytes, watts, degrees; unknown is None."""

    utilization: float | None = None
    memory_used: int | None = None
    power_w: float | None = None
    temperature_c: float | None = None


class HistoryLine(msgspec.Struct, frozen=True):
    """One second of the host's history: CPU in percent of all cores, and each GPU by its UUID."""

    time: float
    cpu: float | None
    gpus: dict[str, GpuSample]


class GpuUse(msgspec.Struct, frozen=True):
    """What a run used of one GPU, over `seconds` of readings; unknown is None.

    Peak bytes, mean percent and watt-hours. `peak_memory` is that of the run's own processes where
    the driver tells them apart, else the whole GPU's (`whole_gpu`). Utilisation, energy and
    temperature are always the whole GPU's, whoever else it was `shared` with. `utilization_s` and
    `energy_s` are the seconds for which those two are known, `counted_s` those of `energy_s` that
    the GPU's own counter measured. `xids` are the last errors that the GPU had while the run held
    it, oldest first. `node` is the rank of the node that has it, of a run on several.
    """

    index: int
    uuid: str
    name: str
    logical: int
    simulated: bool = False
    shared: bool = False
    peak_memory: int | None = None
    memory_total: int | None = None
    whole_gpu: bool = False
    mean_utilization: float | None = None
    utilization_s: float = 0.0
    energy_wh: float | None = None
    energy_s: float = 0.0
    counted_s: float = 0.0
    peak_temperature_c: float | None = None
    seconds: float = 0.0
    xids: tuple[Xid, ...] = ()
    node: int = 0


class RunUsage(msgspec.Struct, frozen=True):
    """usage.json: all GPUs of one run up to `time` (unix seconds); only the sampler writes it.

    Of a run on several nodes each one's sampler writes its own.
    """

    run: str
    time: float
    gpus: tuple[GpuUse, ...] = ()


class GpuInterval(msgspec.Struct, frozen=True, omit_defaults=True):
    """One GPU over one interval of a run: means of percent and watts, greatest bytes and degrees.

    `lowest`, `highest` (percent) and `highest_w` are set where intervals were merged: they are the
    extremes of those intervals' means.
    """

    index: int
    uuid: str
    utilization: float | None = None
    memory: int | None = None
    power_w: float | None = None
    temperature_c: float | None = None
    lowest: float | None = None
    highest: float | None = None
    highest_w: float | None = None


class UsageInterval(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line of a run's gpus.jsonl: the interval's end and length in seconds, and its GPUs.

    The end is in unix seconds, and in seconds of its boot, which no clock that is set changes.
    """

    time: float
    seconds: float
    gpus: tuple[GpuInterval, ...]
    simulated: bool = False
    uptime: float | None = None
