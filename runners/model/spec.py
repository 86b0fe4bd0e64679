"""What a person asks for: the RunSpec, a preset plus overrides, resolved and frozen."""

from typing import Literal

import msgspec

from runners.model.search import Search

Launcher = Literal["python", "torchrun", "accelerate", "command"]
StopTarget = Literal["leader", "group", "workers"]
ScalingRule = Literal["linear", "sqrt", "program", "none"]
Scalar = bool | int | float | str | None
ParameterValue = Scalar | list[bool | int | float | str]


class GpuRequest(msgspec.Struct, frozen=True):
    """A request for GPUs: a count, all of them, or named ones (indices or UUIDs).

    `required` refuses a machine without any GPU; otherwise the run uses its CPU. `explicit` marks a
    request from the command line or the GPU picker, which is never silently replaced by the CPU.
    `memory` is the VRAM in bytes that must be free on each, `model` a part of its name.
    `share_memory` (bytes) lets it run beside other sharing runs within a GPU's VRAM; `foreign`
    allows GPUs on which somebody else computes.
    """

    count: int = 0
    all: bool = False
    ids: tuple[str, ...] = ()
    required: bool = False
    explicit: bool = False
    memory: int | None = None
    model: str = ""
    share_memory: int | None = None
    foreign: bool = False

    @property
    def wants_gpus(self) -> bool:
        """True when at least one GPU is asked for."""
        return self.all or bool(self.ids) or self.count > 0


class Rung(msgspec.Struct, frozen=True):
    """One step of a stop ladder: how to ask, and how many seconds to wait before the next step."""

    how: str
    wait_s: float


class StopRule(msgspec.Struct, frozen=True):
    """How a run is stopped: who is signalled, and the ladder from the gentlest rung to the last."""

    ladder: tuple[Rung, ...]
    target: StopTarget = "leader"


# SIGINT first, as from Ctrl-C: Python raises KeyboardInterrupt, on which a program can still save,
# whereas SIGTERM ends it at once.
DEFAULT_STOP = StopRule((Rung("SIGINT", 30.0), Rung("SIGTERM", 15.0), Rung("SIGKILL", 5.0)))


class Parameter(msgspec.Struct, frozen=True):
    """One editable parameter of a preset: its value, its flag, and what values make sense."""

    name: str
    value: ParameterValue
    default: ParameterValue
    type: Literal["int", "float", "str", "bool", "list"]
    flag: str
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[bool | int | float | str, ...] = ()
    help: str = ""
    config_key: str = ""
    """Its place in the configuration file, e.g. `train.batch_size`; empty for an argument."""


class Price(msgspec.Struct, frozen=True):
    """A chosen rate: US dollars per hour as decimal text, per GPU or machine, and why this one.

    A provider bills begun units of `unit_s` seconds and at least `minimum_s` (0: not looked up). A
    `market` price changes from day to day, a `list` price over months.
    """

    usd_per_hour: str
    per: Literal["gpu", "machine"]
    basis: Literal["preset", "flag", "session"]
    name: str = ""
    source: str = ""
    date: str = ""
    unit_s: int = 0
    minimum_s: int = 0
    kind: Literal["list", "market"] = "list"


class PresetEstimate(msgspec.Struct, frozen=True):
    """What a preset's author expects: seconds, and dollars as decimal text; either may be unknown.

    `doubt` says in words what speaks against it.
    """

    seconds: float | None = None
    usd: str | None = None
    doubt: str = ""


class Scaling(msgspec.Struct, frozen=True):
    """How batch size and learning rate change with the number of devices.

    `batch` and `learning_rate` name parameters. `per` says whether the batch parameter counts all
    devices together or each; `rule` how the learning rate follows the total batch (`program`: the
    program does that itself); `base_rate` is known to be good at `base_batch`.
    """

    batch: str
    per: Literal["global", "device"] = "global"
    learning_rate: str = ""
    rule: ScalingRule = "none"
    base_batch: int | None = None
    base_rate: float | None = None


class RestartRule(msgspec.Struct, frozen=True):
    """Start again after a failure, at most `times` times.

    The pause is `backoff_s` seconds, doubled each time. `arguments` are added once a complete
    checkpoint is there; `${checkpoint}` in them is its path. With `boot`, also after a reboot.
    """

    times: int = 0
    backoff_s: float = 30.0
    arguments: tuple[str, ...] = ()
    boot: bool = False


class ResumeRule(msgspec.Struct, frozen=True):
    """How a program resumes from a checkpoint: `parameter` takes its path, or `arguments` do.

    `${checkpoint}` in the arguments is the path.
    """

    parameter: str = ""
    arguments: tuple[str, ...] = ()


class ConfigFile(msgspec.Struct, frozen=True):
    """The program's configuration file and the flag before its path (empty: no flag)."""

    path: str
    flag: str = "--config"


class Total(msgspec.Struct, frozen=True):
    """How many epochs or steps a run has: by the parameter that says so, else `count`."""

    parameter: str
    unit: Literal["epoch", "step"] = "epoch"
    count: int | None = None


class Expectation(msgspec.Struct, frozen=True):
    """What is expected of a run, or of one stage of it; None where nothing is said.

    `utilization` is a range in percent (upper end None: at least so much), `memory` bytes
    on each GPU, `epoch_s` seconds.
    """

    utilization: tuple[float, float | None] | None = None
    memory: int | None = None
    samples_per_second_per_gpu: float | None = None
    epoch_s: float | None = None
    stages: "dict[str, Expectation]" = {}


class Retention(msgspec.Struct, frozen=True):
    """Which checkpoints stay: the `last` newest, the `best` best, one of every `every` epochs."""

    last: int = 3
    best: int = 1
    every: int = 0


class StallRule(msgspec.Struct, frozen=True):
    """When a silent run counts as stalled, in seconds, and whether it is stopped then."""

    after_s: float
    stop: bool = False


class Limits(msgspec.Struct, frozen=True):
    """What ends a run by its stop ladder: seconds since its start, or US dollars (decimal text)."""

    seconds: float | None = None
    usd: str | None = None


class Needs(msgspec.Struct, frozen=True):
    """What must be installed: Python packages by the names they are imported by, and the command
    that installs them (empty: pip).
    """

    packages: tuple[str, ...] = ()
    install: str = ""


class After(msgspec.Struct, frozen=True):
    """Wait for another run's end: `success`, `failure` or `any`."""

    run: str
    on: Literal["success", "failure", "any"] = "success"


MetricReader = Literal[
    "pcdiff",
    "voxelization",
    "cascade",
    "fresnel",
    "huggingface",
    "lightning",
    "keras",
    "boosting",
    "baselines3",
    "fastai",
    "yolo",
    "wandb",
    "json",
    "tqdm",
    "pairs",
    "none",
]


class MetricPattern(msgspec.Struct, frozen=True):
    """A regular expression for lines of output.

    Its named groups are metrics or step, steps, epoch, epochs, batch. `offset` is added to a
    group's number: {step: 1} for steps that are printed from 0.
    """

    line: str
    offset: dict[str, float] = {}


class MetricRule(msgspec.Struct, frozen=True):
    """Where a run's metrics are read from besides its events.

    Without `readers`, one is chosen by the output. `offset` and `rename` apply to what readers
    find, `higher` names metrics of which more is better, `tensorboard` holds glob patterns of
    event files or their folders.
    """

    readers: tuple[MetricReader, ...] = ()
    patterns: tuple[MetricPattern, ...] = ()
    offset: dict[str, float] = {}
    rename: dict[str, str] = {}
    higher: tuple[str, ...] = ()
    tensorboard: tuple[str, ...] = ()


class FileRule(msgspec.Struct, frozen=True):
    """Files that must be there before a run: a pattern, and how many of which size (bytes).

    `pairs` are files that each one needs, `rows` those that each row of a list names: patterns
    with {stem}, {name}, {folder} and {row}, alternatives divided by `|`. A range is (least, most);
    most is None for no end. `${parameters.NAME}` in `path` is a parameter's value; where that is
    empty the rule does not apply.
    """

    path: str
    name: str = ""
    count: tuple[int, int | None] | None = None
    size: tuple[int, int | None] | None = None
    pairs: tuple[str, ...] = ()
    rows: tuple[str, ...] = ()
    optional: bool = False
    advice: str = ""


class CommandRule(msgspec.Struct, frozen=True):
    """A command that must end with the exit code `exits` within `seconds`, in the run's folder."""

    command: tuple[str, ...]
    name: str = ""
    exits: int = 0
    seconds: float = 60.0
    optional: bool = False
    advice: str = ""


class DeclaredChecks(msgspec.Struct, frozen=True):
    """What a preset adds to the checks before a launch.

    `without_effect` are keys of its configuration file that the program ignores, and why.
    """

    imports: tuple[str, ...] = ()
    files: tuple[FileRule, ...] = ()
    commands: tuple[CommandRule, ...] = ()
    without_effect: dict[str, str] = {}


CheckGroup = Literal[
    "program",
    "gpus",
    "data",
    "checkpoint",
    "config",
    "memory",
    "batch",
    "disk",
    "network",
    "machine",
    "outputs",
    "own",
]
"""Kinds of checks before a launch."""


class NodePlace(msgspec.Struct, frozen=True):
    """A machine's place among those that run one program: of how many it is which (from 0), and
    where rank 0 listens.
    """

    count: int
    rank: int
    address: str
    port: int


class RunSpec(msgspec.Struct, frozen=True):
    """Everything that defines a run before GPUs, port and directory are known.

    `${...}` is not yet replaced in texts.
    """

    preset: str
    name: str
    launcher: Launcher
    source: str = ""
    description: str = ""
    interpreter: str = "python"
    script: str = ""
    module: str = ""
    command: tuple[str, ...] = ()
    shell: bool = False
    arguments: tuple[str, ...] = ()
    launcher_arguments: tuple[str, ...] = ()
    parameters: tuple[Parameter, ...] = ()
    working_directory: str = ""
    environment: dict[str, str] = {}
    gpus: GpuRequest = GpuRequest()
    processes: int | None = None
    terminal: bool = False
    stop: StopRule = DEFAULT_STOP
    checkpoints: tuple[str, ...] = ()
    price: str | None = None
    price_basis: Literal["preset", "flag"] = "preset"
    estimate: PresetEstimate = PresetEstimate()
    scaling: Scaling | None = None
    priority: int = 0
    restart: RestartRule = RestartRule()
    limits: Limits = Limits()
    output_limit: int | None = None
    after: After | None = None
    group: str = ""
    parallel: int | None = None
    """How many runs of its group may run at once, 0 for any number; None: they start together."""
    search: Search | None = None
    """What suggests its swept values when its turn comes; None once they are chosen."""
    metrics: MetricRule = MetricRule()
    resume: ResumeRule | None = None
    config: ConfigFile | None = None
    total: Total | None = None
    expect: Expectation = Expectation()
    keep: Retention | None = None
    needs: Needs = Needs()
    checks: DeclaredChecks = DeclaredChecks()
    verify: tuple[CheckGroup, ...] = ()
    """Which checks are made before every launch."""
    on_stall: StallRule | None = None
    parent: str = ""
    """The run that this one continues, and the checkpoint that it continues from."""
    resumed_from: str = ""
    nodes: NodePlace | None = None
    node_hosts: tuple[str, ...] = ()
    """The rented machines that a launch without a place starts it on, and where they meet."""
    node_port: int = 29500
    warnings: tuple[str, ...] = ()
    """What is to be said of the preset itself, such as a key that was renamed."""
