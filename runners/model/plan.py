"""The LaunchPlan: the exact argv, environment and directory. What is printed is what runs."""

import msgspec

from runners.model.spec import After, Estimate, Launcher, Price, RestartRule, StopRule


class AssignedGpu(msgspec.Struct, frozen=True):
    """A GPU of this host given to a run; `logical` is the device index that the run's program sees."""

    index: int
    uuid: str
    name: str
    logical: int
    simulated: bool = False
    share_memory: int | None = None


class Origin(msgspec.Struct, frozen=True):
    """Who asked, when (unix seconds), on which host and boot."""

    user: str
    host: str
    boot_id: str
    created: float


class LaunchPlan(msgspec.Struct, frozen=True):
    """One run, fully spelled out. Secret values in `environment` are masked here and only here.

    `queued` stands until GPUs are granted: then argv, environment and port are spelled out anew. `limit_s` is
    when the run ends by its stop ladder, in seconds since its start.
    """

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
    queued: bool = False
    priority: int = 0
    after: After | None = None
    group: str = ""
    restart: RestartRule = RestartRule()
    limit_s: float | None = None
    limit_reason: str = ""
