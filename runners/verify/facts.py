"""What is known of a run that is about to start: the facts that its checks judge.

A field that could not be found out is None, and its checks say nothing.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from runners.doctor.host_facts import HostFacts
from runners.model.closed import assert_never
from runners.model.gpus import GpuSnapshot
from runners.model.plan import LaunchPlan
from runners.model.spec import CommandRule, FileRule, RunSpec
from runners.model.vendors import Platform, VendorCheck


class TorchDevice(msgspec.Struct, frozen=True):
    """A GPU as the run's own PyTorch sees it: `arch` is sm_90 or gfx942, `memory` in bytes."""

    name: str
    arch: str = ""
    memory: int | None = None


class TorchFacts(msgspec.Struct, frozen=True):
    """The PyTorch of the run's interpreter, seen with the run's environment."""

    version: str = ""
    cuda: str | None = None
    hip: str | None = None
    architectures: tuple[str, ...] = ()
    devices: tuple[TorchDevice, ...] = ()
    problem: str = ""
    cudnn: int | None = None
    """Such as 91002 for 9.10.2; None without one."""

    def built_for(self, platform: Platform) -> str | None:
        """The version of `platform` that it was built with; None where it was not."""
        match platform:
            case "CUDA":
                version = self.cuda
            case "ROCm":
                version = self.hip
            case _:
                assert_never(platform)
        return version


class InterpreterFacts(msgspec.Struct, frozen=True):
    """What the run's interpreter answered; `imports` maps a module to its error, empty for none."""

    path: str
    version: str = ""
    imports: dict[str, str] = {}
    torch: TorchFacts | None = None
    module: str = ""
    """Why the module that is to run cannot be found; empty where it can, or none is."""
    extends_path: bool = False
    """Whether its program changes where modules are looked for."""
    problem: str = ""


class StartFacts(msgspec.Struct, frozen=True):
    """What the command line runs by Python: a script or a module, and whether it is there.

    `processes` are those that its launcher starts on this machine; None where that is not known.
    `unknown` are its options that the script does not know, each with the nearest that it knows.
    """

    script: str = ""
    exists: bool = True
    module: str = ""
    launcher: str = ""
    processes: int | None = None
    unknown: tuple[tuple[str, str], ...] = ()


class FileFacts(msgspec.Struct, frozen=True):
    """What a file rule found: how many, which have a wrong size, and what is missing beside them.

    `place` is the pattern with every placeholder filled; only the first few names are kept.
    """

    rule: FileRule
    place: str
    found: int = 0
    wrong_sizes: tuple[tuple[str, int], ...] = ()
    wrong: int = 0
    missing: tuple[str, ...] = ()
    lacking: int = 0
    rows: int | None = None
    cut: str = ""
    """Why not all files were looked at; empty when they were."""
    problem: str = ""


class CommandFacts(msgspec.Struct, frozen=True):
    """How a check's command ended; None for one that did not end in time or could not start."""

    rule: CommandRule
    exit_code: int | None
    last_line: str = ""


class PathFacts(msgspec.Struct, frozen=True):
    """A parameter that names a file or folder: where it points, and why nothing is seen there."""

    parameter: str
    path: str
    absence: str = ""
    maybe_name: bool = False
    """True for what may be a name on a hub instead, such as allenai/c4."""


class CheckpointFacts(msgspec.Struct, frozen=True):
    """The checkpoint a run is told to go on from, as the checkpoint tool saw it.

    `shapes` are its own model's by bare key, `current` those of the newest checkpoint that this
    preset wrote, to compare with.
    """

    path: str
    bytes: int = 0
    devices: tuple[str, ...] = ()
    wrappers: tuple[str, ...] = ()
    step: dict[str, float] = {}
    shapes: dict[str, tuple[int, ...]] = {}
    current: dict[str, tuple[int, ...]] = {}
    compared_with: str = ""
    problem: str = ""
    unseen: str = ""


class ConfigFacts(msgspec.Struct, frozen=True):
    """The program's configuration as the run will read it.

    `unread` are keys whose names are in none of its source files; None when those are too many.
    """

    path: str
    values: Mapping[str, Any]
    unread: tuple[str, ...] | None = None


class MemoryNeed(msgspec.Struct, frozen=True):
    """Bytes of VRAM on each GPU that something says the run will take; `sure` for a measurement."""

    bytes: int
    basis: str
    sure: bool = False


class BatchFacts(msgspec.Struct, frozen=True):
    """The batch: samples on each of `devices` devices, and in all.

    `usual` is the preset's own on each, `largest` what a probe on `probed_on` found to fit on each.
    """

    each: float
    total: int
    devices: int
    usual: float | None = None
    largest: float | None = None
    probed_on: str = ""


class DiskFacts(msgspec.Struct, frozen=True):
    """The disk that checkpoints go to, and what is to come: size, number, seconds between two.

    Sizes in bytes; `basis` says how size and number are known.
    """

    folder: str
    free: int
    size: int | None = None
    number: int | None = None
    every_s: float | None = None
    basis: str = ""
    inodes: int | None = None


class PortFacts(msgspec.Struct, frozen=True):
    """A TCP port the run will listen on, who said so, and whether it is free now.

    None for a number that no port has.
    """

    port: int | None
    basis: str
    free: bool


class OutputFacts(msgspec.Struct, frozen=True):
    """A path outside its folder that the run writes to: files, the newest, other live writers."""

    pattern: str
    files: int
    newest: str = ""
    age_s: float = 0.0
    writers: tuple[str, ...] = ()


class LaunchFacts(msgspec.Struct, frozen=True):
    """Everything collected for one run; `waits` says why it has no GPUs now."""

    spec: RunSpec
    plan: LaunchPlan
    environment: dict[str, str] = {}
    gpus: tuple[GpuSnapshot, ...] = ()
    driver: str | None = None
    waits: str = ""
    interpreter: InterpreterFacts | None = None
    paths: tuple[PathFacts, ...] = ()
    files: tuple[FileFacts, ...] = ()
    commands: tuple[CommandFacts, ...] = ()
    checkpoint: CheckpointFacts | None = None
    config: ConfigFacts | None = None
    memory: tuple[MemoryNeed, ...] = ()
    batch: BatchFacts | None = None
    disk: DiskFacts | None = None
    ports: tuple[PortFacts, ...] = ()
    outputs: tuple[OutputFacts, ...] = ()
    host: HostFacts | None = None
    architectures: dict[int, str] = {}
    """By GPU index what the kernel driver says its architecture is, e.g. gfx1101."""
    start: StartFacts | None = None

    @property
    def settings(self) -> dict[str, Any]:
        """The program's settings by name: its configuration's, over which parameters go."""
        found = {} if self.config is None else dict(self.config.values)
        for parameter in self.spec.parameters:
            if parameter.value is not None:
                found[parameter.config_key or parameter.name] = parameter.value
        return found

    def change(self, setting: str, value: object) -> str:
        """How to give a setting another value: by a flag, or in the file that has it."""
        own = any(setting in (item.name, item.stands_for) for item in self.spec.parameters)
        if own or self.config is None or self.spec.config is not None:
            return f"--set {setting}={value}"
        return f"correct it in {self.config.path}, or name that file by the preset's key `config`"

    def concerns(self, check: VendorCheck) -> bool:
        """True when a check of one maker's GPUs makes sense for those of the run."""
        return concerns(check, self.gpus)


def concerns(check: VendorCheck, gpus: Sequence[GpuSnapshot]) -> bool:
    """True when one of `gpus` exists, and is of a maker whose GPUs have this check."""
    return any(not gpu.simulated and check in gpu.traits.checks for gpu in gpus)
