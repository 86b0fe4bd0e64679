"""A preset file: one definition for validation, the JSON Schema and the documentation; its parts
are in `schema_program`, `schema_course` and `schema_metrics`.
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from runners.model.spec import CheckGroup, MetricReader
from runners.presets.schema_checks import CheckKeys
from runners.presets.schema_course import (
    AfterKeys,
    EstimateKeys,
    ExpectKeys,
    KeepKeys,
    LimitKeys,
    RestartKeys,
    ResumeKeys,
    StallKeys,
    StopKeys,
    TotalKeys,
)
from runners.presets.schema_metrics import MetricKeys
from runners.presets.schema_program import (
    ConfigKeys,
    GpuKeys,
    NeedKeys,
    NodesKeys,
    ParameterKeys,
    ScalingKeys,
)


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
    nodes: Annotated[
        NodesKeys | None,
        Meta(description="Run it on several rented machines together: {hosts: [a, b]}."),
    ] = None
    on_stall: Annotated[
        StallKeys | None,
        Meta(
            description="When a silent run counts as stalled, and whether it is stopped then: "
            "{after: 30m, stop: true}. Default: an alert by its own rhythm, never a stop."
        ),
    ] = None
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
    checks: Annotated[
        CheckKeys, Meta(description="Checks of its own: imports, files, commands.")
    ] = CheckKeys()
    verify: Annotated[
        bool | list[CheckGroup],
        Meta(
            description="Check before every launch, which a failure refuses: true, or only some: "
            "program, gpus, data, checkpoint, config, memory, batch, disk, network, machine, "
            "outputs, own."
        ),
    ] = False


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
