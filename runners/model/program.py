"""Parts of a spec that say what is started, with which parameters, and on which GPUs."""

import re
from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import Meta

from runners.model.spelling import Bytes, Positive, Word, key, spelled
from runners.model.units import parse_gpu_ids

ParameterType = Literal["int", "float", "str", "bool", "list"]
ScalingRule = Literal["linear", "sqrt", "program", "none"]
Scalar = bool | int | float | str | None
ParameterValue = Scalar | list[bool | int | float | str]


class Parameter(msgspec.Struct, frozen=True, omit_defaults=True):
    """One editable parameter of a preset: its value, its flag, and what values make sense."""

    short: ClassVar = "value"

    name: str
    value: Annotated[
        ParameterValue,
        key(
            "The default. null leaves the flag away; true gives the bare flag; false leaves it "
            "away."
        ),
    ] = None
    default: ParameterValue = None
    type: Annotated[ParameterType, key("The type; taken from the value when not given.")] = "str"
    flag: Annotated[
        str, key("The command-line flag; --NAME when not given; '' passes it bare.")
    ] = ""
    minimum: Annotated[float | None, key("Smallest value allowed.")] = None
    maximum: Annotated[float | None, key("Largest value allowed.")] = None
    choices: Annotated[tuple[bool | int | float | str, ...], key("The only values allowed.")] = ()
    help: Annotated[str, key("One line shown in the launch form.")] = ""
    stands_for: Annotated[
        str, key("The key of the program's configuration file over which this flag wins.")
    ] = ""
    config_key: str = ""
    """Its place in the configuration file, e.g. `train.batch_size`; empty for an argument."""
    in_file: ParameterValue = None
    """What the file says for what it `stands_for`, over which a value wins."""

    @property
    def effective(self) -> ParameterValue:
        """The value that the program works with, as far as it is known."""
        return self.in_file if self.value is None else self.value


class Needs(msgspec.Struct, frozen=True, omit_defaults=True):
    """What must be installed before the program can run."""

    packages: Annotated[
        tuple[str, ...],
        key("Python packages, by the names they are imported by: [torch, PIL]."),
    ] = ()
    install: Annotated[
        str, key("The command that installs them. Default: pip of the preset's interpreter.")
    ] = ""


class GpuShare(msgspec.Struct, frozen=True):
    """Running beside other sharing runs on one GPU."""

    memory: Annotated[Bytes, key("This run's share of the VRAM, e.g. 20G.")]


class GpuRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    """A request for GPUs: a count, all of them, or named ones (indices or UUIDs).

    `explicit` marks a request from the command line or the GPU picker, which is never silently
    replaced by the CPU.
    """

    count: Annotated[
        Annotated[int, Meta(ge=0)] | Literal["all"],
        key("How many GPUs; 1 where ids are not given either."),
    ] = 0
    ids: Annotated[
        tuple[Word, ...],
        spelled(parse_gpu_ids, str, int, list),
        key("Which ones: '0-6,7', a list of indices, or UUIDs."),
    ] = ()
    required: Annotated[
        bool, key("Refuse a machine without GPUs instead of running on its CPU.")
    ] = False
    memory: Annotated[Bytes | None, key("VRAM that must be free on each, e.g. 40G.")] = None
    model: Annotated[str, key("A part of the GPU's name, e.g. H100.")] = ""
    share: Annotated[GpuShare | None, key("Share a GPU with other sharing runs.")] = None
    foreign: Annotated[bool, key("Take GPUs on which somebody else computes.")] = msgspec.field(
        default=False, name="allow_foreign"
    )
    last: Annotated[
        bool, key("Take the last ones that are free, not the first: others begin at GPU 0.")
    ] = False
    explicit: bool = False

    @property
    def all(self) -> bool:
        """True when every GPU of the machine is asked for."""
        return self.count == "all"

    @property
    def number(self) -> int:
        """How many GPUs are asked for by number alone."""
        return 0 if self.count == "all" else self.count

    @property
    def share_memory(self) -> int | None:
        """Bytes of a GPU's VRAM that are this run's share; None where it does not share."""
        return None if self.share is None else self.share.memory

    def chosen(self, which: "GpuRequest") -> "GpuRequest":
        """A person asks for the number or the names of `which`; all else stays as it is here."""
        return msgspec.structs.replace(self, count=which.count, ids=which.ids, explicit=True)

    @property
    def wants_gpus(self) -> bool:
        """True when at least one GPU is asked for."""
        return self.all or bool(self.ids) or self.number > 0


def parse_gpu_request(value: int | str) -> GpuRequest:
    """The short forms: `2`, `all`, `0-6`; two or more indices need a dash or comma."""
    text = str(value).strip()
    if text == "all":
        return GpuRequest(count="all")
    if isinstance(value, int) and value < 0:
        raise ValueError(f"expected 0 or more GPUs, got {value}")
    if re.fullmatch(r"\d+", text):
        return GpuRequest(count=int(text))
    return GpuRequest(ids=parse_gpu_ids(text))


def chosen_gpus(count: int | str | None, ids: str | None) -> GpuRequest | None:
    """What a person asks for by a number or `all`, or by naming GPUs; None for neither.

    ValueError for what is no such number.
    """
    if ids is not None:
        return GpuRequest(ids=parse_gpu_ids(ids))
    if count is None:
        return None
    if not (str(count).isdecimal() or count == "all"):
        raise ValueError(f"expected a number or all, got {count!r}; gpu-ids names GPUs")
    return parse_gpu_request(count)


def request_in_full(value: int | str | dict[str, Any]) -> dict[str, Any]:
    """What a preset says of GPUs, as a mapping; one GPU where it gives neither number nor names.

    ValueError for what is no request.
    """
    if isinstance(value, dict):
        return value if value.keys() & {"count", "ids"} else {"count": 1, **value}
    request = parse_gpu_request(value)
    return {"ids": list(request.ids)} if request.ids else {"count": request.count}


Gpus = Annotated[GpuRequest, spelled(request_in_full, int, str, dict)]


class ConfigFile(msgspec.Struct, frozen=True, omit_defaults=True):
    """A configuration file of the program, YAML or JSON, whose keys are parameters too."""

    path: Annotated[
        str,
        key(
            "The file; relative to working_directory, else beside the program. It is never changed."
        ),
    ] = msgspec.field(name="file")
    flag: Annotated[str, key("The flag that hands it to the program; '' passes it bare.")] = (
        "--config"
    )
    parameters: Annotated[
        dict[str, Parameter],
        key(
            "Keys of the file that people edit, e.g. {train.batch_size: {minimum: 1}}; the value "
            "comes from the file where none is given."
        ),
    ] = {}
    """Empty in a spec: they are among its parameters then."""


class Scaling(msgspec.Struct, frozen=True, omit_defaults=True):
    """How batch size and learning rate go with the number of GPUs; offered, never done silently."""

    batch: Annotated[str, key("The parameter that holds the batch size.")]
    per: Annotated[
        Literal["global", "device"],
        key("Whether that is the batch of all devices together (global) or of each."),
    ] = "global"
    learning_rate: Annotated[str, key("The parameter that holds the learning rate.")] = ""
    rule: Annotated[
        ScalingRule,
        key("How the learning rate follows the batch; program: the program scales it by itself."),
    ] = "none"
    base_batch: Annotated[Positive | None, key("The global batch at which base_rate is good.")] = (
        None
    )
    base_rate: Annotated[float | None, key("The learning rate that is good at base_batch.")] = None
    divides: Annotated[
        bool, key("Whether the program refuses a global batch that its devices cannot share.")
    ] = False
    workers: Annotated[
        Literal["device", "global"],
        key("Whether its loader workers are counted for each device or for all (global)."),
    ] = "device"


class NodeHosts(msgspec.Struct, frozen=True):
    """The rented machines that run it together, and where they meet."""

    hosts: Annotated[
        tuple[str, ...],
        key(
            "The machines, as `fresnel-tui host list` names them; they meet on the first.",
            min_length=2,
        ),
    ]
    port: Annotated[int, key("Where they meet; 0 is a port that is free.", ge=0, le=65535)] = 0


MEETING_PORT = 29500
"""torchrun's own, for those who start every node by hand."""

NODE_RANK = "$SLURM_NODEID"
FIRST_NODE = "$SLURM_LAUNCH_NODE_IPADDR"
"""Words of a command that srun's variables fill in on each node (srun's manual)."""


class NodePlace(msgspec.Struct, frozen=True):
    """A machine's place among those that run one program, from 0, and where rank 0 listens.

    Of one that is `by_slurm` the first machine starts it on all: each takes its rank there.
    `addresses` are those of all of them, as far as they are known.
    """

    count: int
    rank: int
    address: str
    port: int
    by_slurm: bool = False
    addresses: tuple[str, ...] = ()

    @property
    def rank_word(self) -> str:
        """What stands for the rank in a command."""
        return NODE_RANK if self.by_slurm else str(self.rank)
