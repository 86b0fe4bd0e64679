"""Parts of a spec that say how a run proceeds, how long it is, and how it ends."""

import signal
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal, get_args

import msgspec

from runners.model.endings import USUAL_RESTARTS, RestartReason
from runners.model.program import Parameter
from runners.model.spelling import Bytes, Dollars, Positive, Seconds, key, one_or_more, spelled
from runners.model.units import parse_duration, parse_percent_range

StopTarget = Literal["leader", "group", "workers"]


class Rung(msgspec.Struct, frozen=True):
    """One step of a stop ladder: how to ask, and how many seconds to wait before the next step."""

    how: str
    wait_s: float


def parse_rung(text: str) -> Rung:
    """A stop rung such as `stop-file 600s` or `SIGINT 60s`; ValueError says which there are."""
    how, _, wait = text.strip().partition(" ")
    name = how.upper()
    if how == "stop-file":
        name = how
    else:
        name = name if name.startswith("SIG") else f"SIG{name}"
        if name not in signal.Signals.__members__:
            raise ValueError(f"expected stop-file or a signal such as SIGINT, got {how!r}")
    if not wait.strip() and name != "SIGKILL":
        raise ValueError(f"the rung {how!r} needs a wait, e.g. '{how} 60s'")
    return Rung(name, parse_duration(wait) if wait.strip() else 5.0)


def complete_ladder(rungs: list[Any]) -> list[Any]:
    """Texts of rungs that end in SIGKILL; ValueError where it stands before another one."""
    kills = [i for i, text in enumerate(rungs) if _is_kill(text)]
    if kills and kills[0] < len(rungs) - 1:
        raise ValueError("SIGKILL must be the last rung: nothing is left to stop after it")
    return rungs if kills or not rungs else [*rungs, "SIGKILL 5s"]


def _is_kill(text: object) -> bool:
    return str(text).strip().partition(" ")[0].upper().removeprefix("SIG") == "KILL"


class StopRule(msgspec.Struct, frozen=True):
    """How the run is stopped: who is signalled, from the gentlest rung of a ladder to the last."""

    ladder: Annotated[
        tuple[Annotated[Rung, spelled(parse_rung, str)], ...],
        spelled(complete_ladder, list),
        key(
            "Rungs in order, each 'HOW WAIT': HOW is stop-file or a signal such as SIGINT; WAIT is "
            "how long before the next rung, e.g. 'stop-file 600s'. SIGKILL is added when it is "
            "missing.",
            min_length=1,
        ),
    ] = (Rung("SIGINT", 30.0), Rung("SIGTERM", 15.0), Rung("SIGKILL", 5.0))
    # SIGINT first, as from Ctrl-C: Python raises KeyboardInterrupt, on which a program can still
    # save, whereas SIGTERM ends it at once.
    target: Annotated[
        StopTarget,
        key(
            "Who gets the signals: the process that was started (leader; the default for Python "
            "programs), its process group as Ctrl+C does (group; the default for launcher "
            "command), or the worker processes below it (workers). SIGKILL always goes to "
            "everything the run started."
        ),
    ] = "leader"


DEFAULT_STOP = StopRule()


class RestartRule(msgspec.Struct, frozen=True):
    """Starting again after an end of the named kinds; never after a stop that was asked for."""

    short: ClassVar = "times"

    times: Annotated[int, key("How often at most.", ge=0)] = 0
    backoff_s: Annotated[Seconds, key("Wait before the first restart; doubled each time.")] = (
        msgspec.field(default=30.0, name="backoff")
    )
    arguments: Annotated[
        tuple[str, ...],
        key(
            "Added once a complete checkpoint is there, e.g. [--resume, '${checkpoint}']. Default: "
            "as the key `resume` says."
        ),
    ] = ()
    on: Annotated[
        tuple[RestartReason, ...],
        one_or_more,
        key(
            "After which ends: failure of the program; of its Slurm job preempted, node_fail "
            "(these three by default) and time_limit, after which it is put back into the queue."
        ),
    ] = USUAL_RESTARTS
    boot: Annotated[
        bool,
        key(
            "Start it again after a reboot of the machine too, from its newest checkpoint (needs "
            "`fresnel-tui service install`)."
        ),
    ] = False


class ResumeRule(msgspec.Struct, frozen=True, omit_defaults=True):
    """How the program resumes from a checkpoint: by a parameter, or by arguments."""

    parameter: Annotated[
        str, key("The parameter that takes the checkpoint's path, e.g. resume.")
    ] = ""
    arguments: Annotated[
        tuple[str, ...], key("Arguments instead, e.g. [--model, '${checkpoint}'].")
    ] = ()
    auto: Annotated[
        str,
        key(
            "The parameter's value with which the program finds its own newest checkpoint, or "
            "begins, e.g. auto-or-new: for a systemd unit, which knows no checkpoint."
        ),
    ] = ""


class Total(msgspec.Struct, frozen=True, omit_defaults=True):
    """How long the run is, by a parameter or as a number: progress, ETA, estimates follow it."""

    parameter: Annotated[str, key("The parameter, e.g. epochs or niter.")] = ""
    unit: Annotated[Literal["epoch", "step"], key("What it counts.")] = "epoch"
    count: Annotated[Positive | None, key("The number, where no parameter has it.")] = None
    stages: Annotated[
        str,
        key("The list in the configuration file whose entries are stages, each as long as that."),
    ] = ""
    of_stage: Annotated[
        str,
        key(
            "What the keys there begin with that give a stage another length, its number behind: "
            "train.epochs_stage."
        ),
    ] = ""


class Expectation(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is expected of a run, or of one stage of it; None where nothing is said."""

    utilization: Annotated[
        Annotated[tuple[float, float | None], spelled(parse_percent_range, str, int)] | None,
        key("Mean use of each GPU in percent: '60-80%' or '90%'."),
    ] = None
    memory: Annotated[Bytes | None, key("VRAM on each GPU, e.g. 40G.")] = None
    samples_per_second_per_gpu: Annotated[float | None, key("Training speed of each GPU.")] = None
    epoch_s: Annotated[Seconds | None, key("Time of an epoch, e.g. 2m.")] = msgspec.field(
        default=None, name="per_epoch"
    )
    stages: "Annotated[dict[str, Expectation], key('The same for stages of a run, by name.')]" = {}
    memory_per_sample: Annotated[
        Bytes | None, key("VRAM that each further sample on a GPU takes (with `scaling`), e.g. 2G.")
    ] = None
    shared_memory_per_sample: Annotated[
        Bytes | None,
        key("What a worker puts into /dev/shm for a sample (with `scaling`, or a stage's): 17M."),
    ] = None
    data_on_gpu: Annotated[
        bool,
        key("Whether the program keeps data on the GPU where it fits; /dev/shm is spared then."),
    ] = False
    final_below: Annotated[
        dict[str, float], key("Metrics that end below these values, e.g. {val_loss: 0.1}.")
    ] = {}


class Retention(msgspec.Struct, frozen=True):
    """Which checkpoints stay on disk; the others are deleted while the run proceeds."""

    last: Annotated[int, key("The newest ones.", ge=1)] = 3
    best: Annotated[int, key("Those whose name says best, newest first.", ge=0)] = 1
    every: Annotated[int, key("Every how many epochs one stays for good; 0: none.", ge=0)] = 0


class StallRule(msgspec.Struct, frozen=True):
    """What happens when the run is silent for too long; without it, an alert by its own rhythm."""

    after_s: Annotated[
        Seconds, key("Silence (no output, no event) from which it may have stalled.", gt=0)
    ] = msgspec.field(name="after")
    stop: Annotated[bool, key("Stop it then by its stop ladder, its stacks saved before.")] = False


class Limits(msgspec.Struct, frozen=True, omit_defaults=True):
    """What ends the run by its stop ladder."""

    seconds: Annotated[Seconds | None, key("At most this long.")] = msgspec.field(
        default=None, name="time"
    )
    usd: Annotated[Dollars | None, key("At most this many US dollars.")] = msgspec.field(
        default=None, name="cost"
    )


RunEnd = Literal["success", "failure", "any"]


class After(msgspec.Struct, frozen=True):
    """Waiting for another run."""

    short: ClassVar = "run"

    run: Annotated[str, key("A run's id, the beginning of one, a name (its newest run), or last.")]
    on: Annotated[RunEnd, key("Which end it waits for.")] = "success"


def parse_after(text: str) -> After:
    """`RUN`, or `RUN:success`, `RUN:failure`, `RUN:any`; ValueError for another end."""
    name, _, end = text.partition(":")
    for known in get_args(RunEnd):
        if known == (end or "success"):
            return After(name, known)
    forms = ", ".join(f"RUN:{known}" for known in get_args(RunEnd))
    raise ValueError(f"{text}: expected RUN, {forms}")


class PresetEstimate(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the author expects the run to take; shown before launch as the preset's estimate."""

    seconds: Annotated[Seconds | None, key("How long.")] = msgspec.field(default=None, name="time")
    usd: Annotated[Dollars | None, key("US dollars.")] = msgspec.field(default=None, name="cost")
    doubt: Annotated[str, key("What speaks against it, shown beside it.")] = msgspec.field(
        default="", name="caveat"
    )


def counted_total(stated: int, counted: int | None, stated_before: int | None) -> int:
    """What a program counts in all whose parameter says `stated`, by an earlier run of it.

    That one `counted` so many where its parameter said `stated_before`: more, with several stages.
    """
    return round(stated * counted / stated_before) if counted and stated_before else stated


def stage_lengths(
    parameters: Sequence[Parameter], total: Total | None, in_file: Sequence[int]
) -> tuple[int, ...]:
    """The epochs of each stage; empty where there are none, or not all lengths are known.

    A value of the parameter that `total` names is a flag and wins over all that the file says,
    which is `in_file` for each stage, 0 where it gives it none of its own.
    """
    if total is None or not in_file:
        return ()
    mine = {parameter.name: parameter for parameter in parameters}
    length = mine.get(total.parameter)
    each = 0 if length is None else _whole(length.effective)
    if length is None or (length.value is not None and not length.config_key):
        found = [each] * len(in_file)
    else:
        # A key of the file that was asked for is a parameter, too: its value goes into a copy.
        own = [mine.get(f"{total.of_stage}{number}") for number, _ in enumerate(in_file, 1)]
        found = [
            (stated if asked is None else _whole(asked.effective)) or each
            for stated, asked in zip(in_file, own, strict=True)
        ]
    return tuple(found) if all(found) else ()


def _whole(value: object) -> int:
    return value if type(value) is int and value > 0 else 0
