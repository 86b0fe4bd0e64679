"""The keys of a preset that say what is started and on which GPUs."""

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType


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


class NodesKeys(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Several rented machines that run it together."""

    hosts: Annotated[
        list[str],
        Meta(
            min_length=2,
            description="The machines, as `fresnel-tui host list` names them; they meet on the "
            "first.",
        ),
    ]
    port: Annotated[int, Meta(ge=1, le=65535, description="Where they meet.")] = 29500
