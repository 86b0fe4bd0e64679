"""What a person asks for: the RunSpec, a preset plus overrides, resolved and frozen.

A field with a description is a key of a preset: the loader, the JSON Schema, the example's check
and the documentation read them here and in the parts' own modules, which this one gathers.
"""

import math
from typing import Annotated, Literal

import msgspec

from runners.model.cluster import PlaceKeys
from runners.model.course import (
    DEFAULT_STOP,
    After,
    Expectation,
    Limits,
    PresetEstimate,
    RestartRule,
    ResumeRule,
    Retention,
    Rung,
    StallRule,
    StopRule,
    Total,
    stage_lengths,
)
from runners.model.declared_checks import (
    CheckGroup,
    CommandRule,
    DeclaredChecks,
    FileRule,
    Groups,
)
from runners.model.late_pattern import late_pattern
from runners.model.metric_rule import BestMetric, MetricPattern, MetricReader, MetricRule
from runners.model.program import (
    ConfigFile,
    GpuRequest,
    Gpus,
    GpuShare,
    Needs,
    NodeHosts,
    NodePlace,
    Parameter,
    ParameterValue,
    Scaling,
    ScalingRule,
)
from runners.model.sampler_search import Search
from runners.model.spelling import (
    Positive,
    VariableText,
    Word,
    key,
    one_or_more,
    spelled,
    split_text,
)
from runners.model.units import parse_size

Launcher = Literal["python", "torchrun", "accelerate", "command"]
_SMALLEST_OUTPUT = 64 << 10
AMOUNT = late_pattern(r"\d{1,12}(\.\d{1,60})?(E[-+]?\d{1,2})?")
"""Dollars as decimal text: none of them is too large for a sum."""
_LONGEST_UNIT_S = 366 * 86_400
_HIGHEST_PRIORITY = 1_000_000


def wrong_priority(number: int) -> str:
    """Why `number` is no priority; empty where it is one."""
    if abs(number) <= _HIGHEST_PRIORITY:
        return ""
    return f"expected -{_HIGHEST_PRIORITY:,} to {_HIGHEST_PRIORITY:,}"


class Price(msgspec.Struct, frozen=True):
    """A chosen rate: US dollars per hour as decimal text, per GPU or machine, and why this one.

    A provider bills begun units of `unit_s` seconds and at least `minimum_s` (0: not looked up). A
    `market` price changes from day to day, a `list` price over months.
    """

    usd_per_hour: str
    per: Literal["gpu", "machine", "unit"]
    basis: Literal["preset", "flag", "session", "cluster"]
    name: str = ""
    source: str = ""
    date: str = ""
    unit_s: int = 0
    minimum_s: int = 0
    kind: Literal["list", "market"] = "list"
    units: float = 0.0
    """How many a job is billed as, where the price is `per` unit; not known before it begins."""

    @property
    def is_paid(self) -> bool:
        """Whether a run pays it by itself, in no session: what a cluster charges for its job."""
        return self.basis == "cluster"

    def __post_init__(self) -> None:
        """Raise ValueError for what no sum can be made of: a damaged file then has no price."""
        if not AMOUNT.fullmatch(self.usd_per_hour):
            raise ValueError(f"expected US dollars per hour, got {self.usd_per_hour[:40]!r}")
        if not (0 <= self.unit_s <= _LONGEST_UNIT_S and 0 <= self.minimum_s <= _LONGEST_UNIT_S):
            raise ValueError("expected at most a year as the unit that is billed")


def parse_output_limit(value: str | int) -> int:
    """Bytes that the output may keep; ValueError for so few that nothing worth reading stays."""
    size = parse_size(value)
    if size < _SMALLEST_OUTPUT:
        raise ValueError(f"expected at least {_SMALLEST_OUTPUT >> 10}K, got {value!r}")
    return size


class RunSpec(msgspec.Struct, frozen=True):
    """A preset: what to run, on how many GPUs, how to stop it, what it should cost.

    `${...}` is not yet replaced in texts. What has no description is no key of a preset.
    """

    preset: str
    name: str
    launcher: Annotated[
        Launcher, key("How it is started: all but command run `script` or `module`.")
    ]
    source: str = ""
    description: Annotated[str, key("One line shown beside the preset's name.")] = ""
    interpreter: Annotated[
        str,
        key(
            "The Python that runs it; ${python} is the one fresnel-tui runs with. Default: python "
            "on PATH."
        ),
    ] = "python"
    script: Annotated[str, key("The Python file to run; relative to working_directory.")] = ""
    module: Annotated[
        str, key("The Python module to run instead of a script, as in python -m.")
    ] = ""
    command: Annotated[
        tuple[str, ...],
        spelled(split_text, str),
        key(
            "For launcher command: a list of words; a text is split as by a shell, but none runs "
            "it."
        ),
    ] = ()
    shell: Annotated[
        bool, key("Give the text in `command` to bash (sh without it) instead of splitting it.")
    ] = False
    arguments: Annotated[tuple[Word, ...], key("Fixed arguments, before the parameters.")] = ()
    launcher_arguments: Annotated[
        tuple[Word, ...], key("Extra arguments for torchrun or accelerate themselves.")
    ] = ()
    parameters: Annotated[
        tuple[Parameter, ...],
        key("Arguments people edit: NAME: VALUE becomes --NAME VALUE; the long form has limits."),
    ] = ()
    working_directory: Annotated[
        str,
        key(
            "Where it runs; relative to the preset's folder. Default: where fresnel-tui was "
            "started."
        ),
    ] = ""
    environment: Annotated[dict[str, VariableText], key("Variables added to the environment.")] = {}
    gpus: Annotated[
        Gpus,
        key(
            "How many GPUs (2; 0 for none), which ones ('0-6'), 'all', or count, ids and required."
        ),
    ] = GpuRequest(count=1)
    processes: Annotated[
        Positive | None,
        key("Processes that torchrun or accelerate start. Default: one per GPU, at least one."),
    ] = None
    gpus_per_process: Annotated[
        Positive | None,
        key(
            "How many GPUs each of its processes uses at most: more than that are refused. "
            "Default: not known."
        ),
    ] = None
    terminal: Annotated[
        bool,
        key(
            "Run it in a terminal of its own, which `fresnel-tui attach` joins; for programs that "
            "ask or draw."
        ),
    ] = msgspec.field(default=False, name="tty")
    stop: Annotated[StopRule, key("How it is stopped.")] = DEFAULT_STOP
    checkpoints: Annotated[
        tuple[str, ...],
        one_or_more,
        key("Where its checkpoints appear: one or more glob patterns."),
    ] = ()
    price: Annotated[
        Word | None, key("A name from prices.yaml, or US dollars per GPU and hour.")
    ] = None
    price_basis: Literal["preset", "flag"] = "preset"
    estimate: Annotated[PresetEstimate, key("What the run should take.")] = PresetEstimate()
    scaling: Annotated[
        Scaling | None, key("How batch size and learning rate go with the number of GPUs.")
    ] = None
    priority: Annotated[int, key("Higher goes first in the queue; 0 by default.")] = 0
    restart: Annotated[
        RestartRule,
        key("Start again after a failure: how often, or times, backoff and arguments."),
    ] = RestartRule()
    limits: Annotated[Limits, key("End the run by its stop ladder after a time or a cost.")] = (
        Limits()
    )
    output_limit: Annotated[
        Annotated[int, spelled(parse_output_limit, str, int)] | None,
        key(
            "The most its output may keep, e.g. 1G: the first quarter and the end. Default: "
            "everything."
        ),
    ] = None
    after: Annotated[After | None, key("Wait for another run's end.")] = None
    group: str = ""
    parallel: int | None = None
    """How many runs of its group may run at once, 0 for any number; None: they start together."""
    search: Search | None = None
    """What suggests its swept values when its turn comes; None once they are chosen."""
    metrics: Annotated[
        MetricRule,
        key(
            "How metrics are read from its output: readers, or readers, patterns, offset, rename, "
            "higher_is_better and tensorboard. Default: its events.jsonl; without one the reader "
            "is guessed from the output."
        ),
    ] = MetricRule()
    best: Annotated[
        BestMetric | None,
        key(
            "The metric that runs are judged by: for best values, samplers and --early-stop. "
            "Default: its loss."
        ),
    ] = None
    resume: Annotated[
        ResumeRule | None,
        key("How the program resumes from a checkpoint: parameter or arguments."),
    ] = None
    config: Annotated[
        ConfigFile | None,
        key("A configuration file of the program whose keys are parameters too."),
    ] = None
    total: Annotated[
        Total | None, key("Which parameter says how many epochs or steps the run has.")
    ] = None
    expect: Annotated[
        Expectation, key("What use, memory and speed are expected, overall and by stage.")
    ] = Expectation()
    keep: Annotated[
        Retention | None,
        key("Which checkpoints stay on disk. Default: all that the program writes."),
    ] = None
    needs: Annotated[
        Needs, key("Python packages it imports, and the command that installs them.")
    ] = Needs()
    checks: Annotated[DeclaredChecks, key("Checks of its own: imports, files, commands.")] = (
        DeclaredChecks()
    )
    verify: Annotated[
        Groups,
        key(
            "Check before every launch, which a failure refuses: true, or only some: program, "
            "gpus, data, checkpoint, config, memory, batch, disk, network, machine, outputs, own."
        ),
    ] = ()
    on_stall: Annotated[
        StallRule | None,
        key(
            "When a silent run counts as stalled, and whether it is stopped then: {after: 30m, "
            "stop: true}. Default: an alert by its own rhythm, never a stop."
        ),
    ] = None
    swept: dict[str, str] = {}
    """The values that its sweep gave it, by key; of a secret only which of the values it is."""
    parent: str = ""
    """The run that this one continues, and the checkpoint that it continues from."""
    resumed_from: str = ""
    nodes: Annotated[
        NodeHosts | None, key("Run it on several rented machines together: {hosts: [a, b]}.")
    ] = None
    place: Annotated[
        PlaceKeys,
        key("Where it runs: {slurm: {partition: gpu, time: 4h}}. Default: on this machine."),
    ] = PlaceKeys()
    node: NodePlace | None = None
    """This machine's place among those that run it together."""
    usual_devices: int = 0
    """On how many devices the preset runs by itself, which its estimates are for; 0: not known."""
    usual_length: int = 0
    """How many epochs (or steps) it has by itself, which its estimate is for; 0: not known."""
    usual_stages: tuple[int, ...] = ()
    """How many each of its stages has by itself, where its configuration file lists some."""
    stages_in_file: tuple[int, ...] = ()
    """How many that file gives each stage; 0: as many as the parameter says."""
    warnings: tuple[str, ...] = ()
    """What is to be said of it before it starts."""

    def total_of(self, unit: str) -> int | None:
        """How many of `unit` (epoch, step) the preset says the run has; None where it does not."""
        if self.total is None or self.total.unit != unit:
            return None
        if not self.total.parameter:
            return self.total.count
        return sum(self.stage_lengths) or self.count_in(self.total.parameter)

    @property
    def stage_lengths(self) -> tuple[int, ...]:
        """How many epochs each stage has; empty where no stages, or not all lengths, are known."""
        return stage_lengths(self.parameters, self.total, self.stages_in_file)

    @property
    def length(self) -> str:
        """The parameter that says how many epochs (or iterations) the run has."""
        return (self.total.parameter if self.total is not None else "") or "epochs"

    def count_in(self, parameter: str) -> int | None:
        """The number that a parameter has; None where it has none, or there is no such one."""
        value = next((part.effective for part in self.parameters if part.name == parameter), None)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return None
        return int(value) if -math.inf < value < math.inf else None
