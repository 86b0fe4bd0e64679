"""The keys of a preset that say how a run goes on, how long it is, and how it ends."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

Duration = Annotated[
    str | int | float,
    Meta(description="A length of time: seconds, or text such as '90s', '10m', '2h', '1d'."),
]
DEFAULT_LADDER = ("SIGINT 30s", "SIGTERM 15s", "SIGKILL 5s")


class RestartKeys(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Starting again after a failure; never after a stop that was asked for."""

    times: Annotated[int, Meta(ge=0, description="How often at most.")] = 0
    backoff: Annotated[
        Duration, Meta(description="Wait before the first restart; doubled each time.")
    ] = "30s"
    arguments: Annotated[
        list[str],
        Meta(
            description="Added once a complete checkpoint is there, e.g. [--resume, "
            "'${checkpoint}']. Default: as the key `resume` says."
        ),
    ] = []
    boot: Annotated[
        bool,
        Meta(
            description="Start it again after a reboot of the machine too, from its newest "
            "checkpoint (needs `fresnel-tui service install`)."
        ),
    ] = False


class ResumeKeys(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """How the program goes on from a checkpoint: by a parameter, or by arguments."""

    parameter: Annotated[
        str, Meta(description="The parameter that takes the checkpoint's path, e.g. resume.")
    ] = ""
    arguments: Annotated[
        list[str],
        Meta(description="Arguments instead, e.g. [--model, '${checkpoint}']."),
    ] = []


class TotalKeys(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """How long the run is, by a parameter or as a number: progress, ETA, estimates follow it."""

    parameter: Annotated[str, Meta(description="The parameter, e.g. epochs or niter.")] = ""
    count: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Meta(description="The number, where no parameter has it."),
    ] = None
    unit: Annotated[Literal["epoch", "step"], Meta(description="What it counts.")] = "epoch"


class StageExpectKeys(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """What is expected of a run, or of one of its stages."""

    utilization: Annotated[
        str | int | None, Meta(description="Mean use of each GPU in percent: '60-80%' or '90%'.")
    ] = None
    memory: Annotated[str | int | None, Meta(description="VRAM on each GPU, e.g. 40G.")] = None
    samples_per_second_per_gpu: Annotated[
        float | int | None, Meta(description="Training speed of each GPU.")
    ] = None
    per_epoch: Annotated[Duration | None, Meta(description="Time of an epoch, e.g. 2m.")] = None


class ExpectKeys(StageExpectKeys, forbid_unknown_fields=True, frozen=True):
    """What is expected of a run; what falls short is shown beside the readings."""

    stages: Annotated[
        dict[str, StageExpectKeys], Meta(description="The same for stages of a run, by name.")
    ] = {}


class KeepKeys(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Which checkpoints stay on disk; the others are deleted while the run goes on."""

    last: Annotated[int, Meta(ge=1, description="The newest ones.")] = 3
    best: Annotated[int, Meta(ge=0, description="Those whose name says best, newest first.")] = 1
    every: Annotated[
        int, Meta(ge=0, description="Every how many epochs one stays for good; 0: none.")
    ] = 0


class StallKeys(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """What happens when the run is silent for too long; without it, an alert by its own rhythm."""

    after: Annotated[
        Duration, Meta(description="Silence (no output, no event) from which it may have stalled.")
    ]
    stop: Annotated[
        bool, Meta(description="Stop it then by its stop ladder, its stacks saved before.")
    ] = False


class LimitKeys(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """What ends the run by its stop ladder."""

    time: Annotated[Duration | None, Meta(description="At most this long.")] = None
    cost: Annotated[str | float | int | None, Meta(description="At most this many US dollars.")] = (
        None
    )


class AfterKeys(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Waiting for another run."""

    run: Annotated[
        str, Meta(description="A run's id, the beginning of one, a name (its newest run), or last.")
    ]
    on: Annotated[
        Literal["success", "failure", "any"], Meta(description="Which end it waits for.")
    ] = "success"


class StopKeys(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """How the run is stopped."""

    ladder: Annotated[
        list[str],
        Meta(
            min_length=1,
            description="Rungs in order, each 'HOW WAIT': HOW is stop-file or a signal such "
            "as SIGINT; "
            "WAIT is how long before the next rung, e.g. 'stop-file 600s'. SIGKILL is added "
            "when it is missing.",
        ),
    ] = msgspec.field(default_factory=lambda: list(DEFAULT_LADDER))
    target: Annotated[
        Literal["leader", "group", "workers"] | None,
        Meta(
            description="Who gets the signals: the process that was started (leader; the "
            "default for Python "
            "programs), its process group as Ctrl+C does (group; the default for launcher "
            "command), or the worker "
            "processes below it (workers). SIGKILL always goes to everything the run started."
        ),
    ] = None


class EstimateKeys(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """What the author expects the run to take; shown before launch as the preset's estimate."""

    time: Duration | None = None
    cost: Annotated[str | float | int | None, Meta(description="US dollars.")] = None
    caveat: Annotated[str, Meta(description="What speaks against it, shown beside it.")] = ""
