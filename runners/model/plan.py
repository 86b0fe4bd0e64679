"""The LaunchPlan: the exact argv, environment and directory. What is printed is what runs."""

from typing import Literal

import msgspec

from runners.model.spec import NodePlace, Price, RunSpec
from runners.model.vendors import Vendor

_MOST_PARTS = 1 << 60


class AssignedGpu(msgspec.Struct, frozen=True):
    """A GPU of this host given to a run; `logical` is the device index that its program sees.

    A MIG instance or a partition is `part` (numerator, denominator) of its `card`. One on another
    node of the run's Slurm job has that `node`'s rank; its number there is not known here.
    """

    index: int
    uuid: str
    name: str
    logical: int
    simulated: bool = False
    share_memory: int | None = None
    vendor: Vendor = "nvidia"
    mig_parent: str | None = None
    card: str = ""
    part: tuple[int, int] = (1, 1)
    node: int = 0

    def __post_init__(self) -> None:
        """Raise ValueError for a part that is none of a card."""
        numerator, denominator = self.part
        if not 0 < numerator <= denominator <= _MOST_PARTS:
            raise ValueError(f"expected a part of a card, got {numerator} of {denominator}")


class Estimate(msgspec.Struct, frozen=True):
    """What a run should take: seconds, dollars as decimal text, and the basis in words.

    Unknown is None. `runs` is how many earlier runs it rests on; 0 for the preset's own estimate,
    about which `doubt` may say something.
    """

    seconds: float | None
    # Decimal text, because a float of dollars would not add up exactly.
    usd: str | None
    basis: str
    runs: int = 0
    epochs: int | None = None
    epoch_s: float | None = None
    doubt: str = ""


class Origin(msgspec.Struct, frozen=True):
    """Who asked, when (unix seconds), on which host and boot, and inside which Slurm job.

    `attended`: a person may have been there; else it was a program without a terminal.
    """

    user: str
    host: str
    boot_id: str
    created: float
    job: str = ""
    attended: bool = True


class Provenance(msgspec.Struct, frozen=True):
    """What ran: the versions and the code behind a run, found without running any of it.

    Unknown is None. `commit` and `branch` are those of the working directory; its uncommitted
    changes are in `source.json` and `source.diff`. `commit_at_launch` differs from `commit` when a
    queued run's code changed while it waited.
    """

    fresnel: str = ""
    system: str = ""
    interpreter: str | None = None
    python: str | None = None
    torch: str | None = None
    driver: str | None = None
    commit: str | None = None
    branch: str | None = None
    commit_at_launch: str | None = None


class SourceRecord(msgspec.Struct, frozen=True):
    """source.json: what git said of the working directory.

    `diff_sha256` is that of the whole source.diff. `dirty` is None when git did not answer in time;
    `problem` says what is missing.
    """

    root: str
    commit: str | None = None
    branch: str | None = None
    dirty: bool | None = None
    untracked: int | None = None
    diff_bytes: int = 0
    diff_sha256: str = ""
    problem: str = ""


class LaunchPlan(msgspec.Struct, frozen=True):
    """One run in every detail: its spec, and what launching decided.

    Secret values are masked in `environment` and in the spec's. `phase` is queued until GPUs are
    granted, granted until argv, environment and port are filled in for them, and final from then
    on. `checkpoints`, `tensorboard` and `restart_arguments` are the spec's with paths and words
    filled in. `limit_s` is when the run ends by its stop ladder, in seconds since its start;
    `limit_usd` is the cost that is spent then, where that is the earlier limit.
    """

    run: str
    spec: RunSpec
    argv: tuple[str, ...]
    environment: dict[str, str]
    environment_removed: tuple[str, ...]
    working_directory: str
    directory: str
    gpus: tuple[AssignedGpu, ...]
    processes: int
    port: int | None
    price: Price | None
    origin: Origin
    checkpoints: tuple[str, ...] = ()
    tensorboard: tuple[str, ...] = ()
    restart_arguments: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    phase: Literal["queued", "granted", "final"] = "final"
    limit_s: float | None = None
    limit_usd: str = ""
    provenance: Provenance = Provenance()
    forecast: Estimate | None = None
    config_changes: tuple[str, ...] = ()
    """What the copy of the configuration file in the run's folder changes, a line each."""
    total_epochs: int | None = None
    total_steps: int | None = None

    @property
    def gpus_here(self) -> tuple[AssignedGpu, ...]:
        """Its GPUs on the host that it was planned on."""
        return tuple(gpu for gpu in self.gpus if not gpu.node)

    @property
    def is_queued(self) -> bool:
        """True until it has been given what it waits for."""
        return self.phase == "queued"

    @property
    def waits_for_gpus(self) -> bool:
        """True of a queued run that asked for GPUs."""
        return self.is_queued and self.spec.gpus.wants_gpus


def on_all_nodes(gpus: tuple[AssignedGpu, ...], node: NodePlace | None) -> tuple[AssignedGpu, ...]:
    """`gpus` of this node, and as many of each other one that Slurm starts the run on."""
    if node is None or not node.by_slurm:
        return gpus
    return gpus + tuple(
        msgspec.structs.replace(gpu, uuid=f"{gpu.uuid}@{rank}", node=rank)
        for rank in range(1, node.count)
        for gpu in gpus
    )


def is_job(plan: LaunchPlan | None) -> bool:
    """Whether a run is a job of a cluster."""
    return plan is not None and plan.spec.place.slurm is not None
