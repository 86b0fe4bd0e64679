"""The keys of a preset file: one definition for validation, the JSON Schema and the
documentation.
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from runners.model.spec import MetricReader

Duration = Annotated[
    str | int | float,
    Meta(description="A length of time: seconds, or text such as '90s', '10m', '2h', '1d'."),
]
DEFAULT_LADDER = ("SIGINT 30s", "SIGTERM 15s", "SIGKILL 5s")


class ParameterKeys(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A parameter with its limits; the short form is just its value."""

    value: Annotated[
        bool | int | float | str | list[bool | int | float | str] | None,
        Meta(
            description="The default. null leaves the flag away; true gives the bare flag; "
            "false leaves it away."
        ),
    ] = None
    type: Annotated[
        Literal["int", "float", "str", "bool", "list"] | UnsetType,
        Meta(description="The type; taken from the value when not given."),
    ] = UNSET
    flag: (
        Annotated[
            str,
            Meta(description="The command-line flag; --NAME when not given; '' passes it bare."),
        ]
        | UnsetType
    ) = UNSET
    minimum: Annotated[float | None, Meta(description="Smallest value allowed.")] = None
    maximum: Annotated[float | None, Meta(description="Largest value allowed.")] = None
    choices: Annotated[
        list[bool | int | float | str], Meta(description="The only values allowed.")
    ] = []
    help: Annotated[str, Meta(description="One line shown in the launch form.")] = ""


class ShareKeys(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Standing beside other sharing runs on one GPU."""

    memory: Annotated[str | int, Meta(description="This run's share of the VRAM, e.g. 20G.")]


class GpuKeys(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Which GPUs a run wants."""

    count: Annotated[int, Meta(ge=0, description="How many GPUs.")] | Literal["all"] = 0
    ids: Annotated[
        list[int | str] | str | int,
        Meta(description="Which ones: '0-6,7', a list of indices, or UUIDs."),
    ] = []
    required: Annotated[
        bool, Meta(description="Refuse a machine without GPUs instead of running on its CPU.")
    ] = False
    memory: Annotated[
        str | int | None, Meta(description="VRAM that must be free on each, e.g. 40G.")
    ] = None
    model: Annotated[str, Meta(description="A part of the GPU's name, e.g. H100.")] = ""
    share: Annotated[ShareKeys | None, Meta(description="Share a GPU with other sharing runs.")] = (
        None
    )
    allow_foreign: Annotated[
        bool, Meta(description="Take GPUs on which somebody else computes.")
    ] = False


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


class ConfigKeys(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A configuration file of the program, YAML or JSON, whose keys are parameters too."""

    file: Annotated[
        str, Meta(description="The file; relative to working_directory. It is never changed.")
    ]
    flag: Annotated[
        str,
        Meta(description="The flag that hands it to the program; '' passes it bare."),
    ] = "--config"
    parameters: Annotated[
        dict[str, ParameterKeys | bool | int | float | str | list[bool | int | float | str] | None],
        Meta(
            description="Keys of the file that people edit, e.g. {train.batch_size: {minimum: 1}}; "
            "the value comes from the file where none is given."
        ),
    ] = {}


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


class NeedKeys(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """What must be installed before the program can run."""

    packages: Annotated[
        list[str],
        Meta(description="Python packages, by the names they are imported by: [torch, PIL]."),
    ] = []
    install: Annotated[
        str,
        Meta(
            description="The command that installs them. Default: pip of the preset's interpreter."
        ),
    ] = ""


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


class ScalingKeys(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """How batch size and learning rate go with the number of GPUs; offered at launch, never done
    silently.
    """

    batch: Annotated[str, Meta(description="The parameter that holds the batch size.")]
    per: Annotated[
        Literal["global", "device"],
        Meta(description="Whether that is the batch of all devices together (global) or of each."),
    ] = "global"
    learning_rate: Annotated[
        str, Meta(description="The parameter that holds the learning rate.")
    ] = ""
    rule: Annotated[
        Literal["linear", "sqrt", "program", "none"],
        Meta(
            description="How the learning rate follows the batch; program: the program scales "
            "it by itself."
        ),
    ] = "none"
    base_batch: (
        Annotated[int, Meta(ge=1, description="The global batch at which base_rate is good.")]
        | None
    ) = None
    base_rate: Annotated[
        float | None, Meta(description="The learning rate that is good at base_batch.")
    ] = None


class PatternKeys(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A regular expression for lines of output."""

    line: Annotated[
        str,
        Meta(
            description="Searched in each line. Named groups are metrics, or step, steps, "
            "epoch, epochs, batch; "
            "(?P<name>...) with (?P<value>...) is a metric that the line names."
        ),
    ]
    offset: Annotated[
        dict[str, float], Meta(description="Added to a group, e.g. {step: 1} for steps from 0.")
    ] = {}


class MetricKeys(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Where metrics are read from, for programs that write no events."""

    readers: Annotated[
        MetricReader | list[MetricReader], Meta(description="Built-in readers of output.")
    ] = []
    patterns: Annotated[
        list[str | PatternKeys],
        Meta(description="Regular expressions with named groups; tried before the readers."),
    ] = []
    offset: Annotated[
        dict[str, float],
        Meta(description="Added to what readers find, e.g. {epoch: 1} for epochs from 0."),
    ] = {}
    rename: Annotated[
        dict[str, str], Meta(description="Other names for metrics, e.g. {l: loss}.")
    ] = {}
    higher_is_better: Annotated[
        list[str], Meta(description="Metrics of which more is better, where the name does not say.")
    ] = []
    tensorboard: Annotated[
        str | list[str], Meta(description="Folders or files of TensorBoard events; glob patterns.")
    ] = []


class PresetKeys(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A preset: what to run, on how many GPUs, how to stop it, what it should cost."""

    launcher: Annotated[
        Literal["python", "torchrun", "accelerate", "command"],
        Meta(description="How it is started: all but command run `script` or `module`."),
    ]
    description: Annotated[str, Meta(description="One line shown beside the preset's name.")] = ""
    interpreter: Annotated[
        str,
        Meta(
            description="The Python that runs it; ${python} is the one fresnel-tui runs with. "
            "Default: python on PATH."
        ),
    ] = "python"
    script: Annotated[
        str, Meta(description="The Python file to run; relative to working_directory.")
    ] = ""
    module: Annotated[
        str, Meta(description="The Python module to run instead of a script, as in python -m.")
    ] = ""
    command: Annotated[
        list[str] | str,
        Meta(
            description="For launcher command: a list of words; a text is split as by a "
            "shell, but none runs it."
        ),
    ] = []
    shell: Annotated[
        bool, Meta(description="Give the text in `command` to /bin/sh instead of splitting it.")
    ] = False
    arguments: Annotated[
        list[str | int | float], Meta(description="Fixed arguments, before the parameters.")
    ] = []
    launcher_arguments: Annotated[
        list[str | int | float],
        Meta(description="Extra arguments for torchrun or accelerate themselves."),
    ] = []
    parameters: Annotated[
        dict[str, ParameterKeys | bool | int | float | str | list[bool | int | float | str] | None],
        Meta(
            description="Arguments people edit: NAME: VALUE becomes --NAME VALUE; the long "
            "form has limits."
        ),
    ] = {}
    working_directory: Annotated[
        str,
        Meta(
            description="Where it runs; relative to the preset's folder. Default: where "
            "fresnel-tui was started."
        ),
    ] = ""
    environment: Annotated[
        dict[str, str | int | float | bool], Meta(description="Variables added to the environment.")
    ] = {}
    gpus: Annotated[
        int | str | GpuKeys,
        Meta(
            description="How many GPUs (2; 0 for none), which ones ('0-6'), 'all', or count, "
            "ids and required."
        ),
    ] = 1
    processes: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Meta(
            description="Processes that torchrun or accelerate start. Default: one per GPU, "
            "at least one."
        ),
    ] = None
    tty: Annotated[
        bool,
        Meta(
            description="Run it in a terminal of its own, which `fresnel-tui attach` joins; for "
            "programs that ask or draw."
        ),
    ] = False
    stop: Annotated[StopKeys, Meta(description="How it is stopped.")] = StopKeys()
    checkpoints: Annotated[
        list[str] | str,
        Meta(description="Where its checkpoints appear: one or more glob patterns."),
    ] = []
    price: Annotated[
        str | float | int | None,
        Meta(description="A name from prices.yaml, or US dollars per GPU and hour."),
    ] = None
    estimate: Annotated[EstimateKeys, Meta(description="What the run should take.")] = (
        EstimateKeys()
    )
    scaling: Annotated[
        ScalingKeys | None,
        Meta(description="How batch size and learning rate go with the number of GPUs."),
    ] = None
    priority: Annotated[int, Meta(description="Higher goes first in the queue; 0 by default.")] = 0
    after: Annotated[str | AfterKeys | None, Meta(description="Wait for another run's end.")] = None
    restart: Annotated[
        int | RestartKeys,
        Meta(
            description="Start again after a failure: how often, or times, backoff and arguments."
        ),
    ] = 0
    resume: Annotated[
        ResumeKeys | None,
        Meta(description="How the program goes on from a checkpoint: parameter or arguments."),
    ] = None
    config: Annotated[
        ConfigKeys | None,
        Meta(description="A configuration file of the program whose keys are parameters too."),
    ] = None
    total: Annotated[
        TotalKeys | None,
        Meta(description="Which parameter says how many epochs or steps the run has."),
    ] = None
    expect: Annotated[
        ExpectKeys,
        Meta(description="What use, memory and speed are expected, overall and by stage."),
    ] = ExpectKeys()
    keep: Annotated[
        KeepKeys | None,
        Meta(description="Which checkpoints stay on disk. Default: all that the program writes."),
    ] = None
    needs: Annotated[
        NeedKeys,
        Meta(description="Python packages it imports, and the command that installs them."),
    ] = NeedKeys()
    output_limit: Annotated[
        str | int | None,
        Meta(
            description="The most its output may keep, e.g. 1G: the first quarter and the "
            "end. Default: everything."
        ),
    ] = None
    metrics: Annotated[
        MetricReader | list[MetricReader] | MetricKeys,
        Meta(
            description="How metrics are read from its output: readers, or readers, patterns, "
            "offset, rename, higher_is_better and tensorboard. Default: its events.jsonl; "
            "without one the reader is guessed from the output."
        ),
    ] = MetricKeys()
    limits: Annotated[
        LimitKeys, Meta(description="End the run by its stop ladder after a time or a cost.")
    ] = LimitKeys()


class MemberKeys(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """One run of a group."""

    preset: Annotated[str, Meta(description="The preset it runs.")]
    name: Annotated[str, Meta(description="What to call it; the preset's name when not given.")] = (
        ""
    )
    gpus: Annotated[
        int | str | GpuKeys | None, Meta(description="Its GPUs instead of the preset's.")
    ] = None
    set: Annotated[
        dict[str, bool | int | float | str | None],
        Meta(description="Parameters and keys it changes."),
    ] = {}


class GroupKeys(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Several presets launched together."""

    runs: Annotated[
        list[MemberKeys], Meta(min_length=1, description="The runs; all start or none does.")
    ]
    description: Annotated[str, Meta(description="One line shown beside the preset's name.")] = ""


def json_schema() -> dict[str, Any]:
    """The JSON Schema of a preset file, for editors that complete and check YAML."""
    (one, several), definitions = msgspec.json.schema_components(
        [PresetKeys, GroupKeys], ref_template="#/$defs/{name}"
    )
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "fresnel-tui preset",
        "if": {"required": ["runs"]},
        "then": several,
        "else": one,
        "$defs": definitions,
    }
