"""One reading of the GPUs of one host. A field that is not known is None: never 0."""

from typing import Literal

import msgspec

Vendor = Literal["nvidia", "amd", "simulated-nvidia", "simulated-amd"]


class GpuProcess(msgspec.Struct, frozen=True):
    """A process that uses a GPU; `memory_used` in bytes; `outside` when its pid belongs to another namespace."""

    pid: int
    user: str | None = None
    command: str | None = None
    memory_used: int | None = None
    run: str | None = None
    outside: bool = False


class GpuSnapshot(msgspec.Struct, frozen=True):
    """One frozen reading of one GPU. Memory in bytes, utilisation in percent, power in watts, clocks in MHz."""

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
    mig_parent: str | None = None
    processes: tuple[GpuProcess, ...] = ()
    error: str | None = None

    @property
    def simulated(self) -> bool:
        """True when no such GPU exists and its numbers are made up."""
        return self.vendor.startswith("simulated")

    @property
    def is_amd(self) -> bool:
        """True when programs choose this GPU with HIP_VISIBLE_DEVICES."""
        return self.vendor.endswith("amd")


class HostSnapshot(msgspec.Struct, frozen=True):
    """One reading of the host itself: CPU in percent of all cores, memory and disk in bytes."""

    cpu_percent: float | None = None
    cpu_count: int | None = None
    load_1m: float | None = None
    memory_used: int | None = None
    memory_total: int | None = None
    disk_free: int | None = None
    disk_total: int | None = None


class GpuReading(msgspec.Struct, frozen=True):
    """Everything one sample found: when (unix seconds), by which backend, and what went wrong if anything did.

    `setting` is the `$FRESNEL_GPUS` the sampler was started under; None means any.
    """

    time: float
    host: str
    backend: str
    gpus: tuple[GpuSnapshot, ...] = ()
    cpu: HostSnapshot = HostSnapshot()
    problem: str | None = None
    driver: str | None = None
    setting: str | None = None
