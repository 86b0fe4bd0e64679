"""The LaunchPlan: the exact argv, environment and directory. What is printed is what runs."""

import msgspec

from runners.model.spec import Estimate, Launcher, Price, StopRule


class AssignedGpu(msgspec.Struct, frozen=True):
    """A GPU of this host given to a run; `logical` is the device index that the run's program sees."""

    index: int
    uuid: str
    name: str
    logical: int
    simulated: bool = False


class Origin(msgspec.Struct, frozen=True):
    """Who asked, when (unix seconds), on which host and boot."""

    user: str
    host: str
    boot_id: str
    created: float


class LaunchPlan(msgspec.Struct, frozen=True):
    """One run, fully spelled out. Secret values in `environment` are masked here and only here."""

    run: str
    preset: str
    name: str
    launcher: Launcher
    argv: tuple[str, ...]
    environment: dict[str, str]
    environment_removed: tuple[str, ...]
    working_directory: str
    directory: str
    gpus: tuple[AssignedGpu, ...]
    processes: int
    port: int | None
    terminal: bool
    stop: StopRule
    checkpoints: tuple[str, ...]
    price: Price | None
    estimate: Estimate
    origin: Origin
    notes: tuple[str, ...] = ()
