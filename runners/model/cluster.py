"""Keys of a preset that say where it runs, and what a cluster is asked for there."""

import re
from typing import Annotated, Any

import msgspec

from runners.model.spelling import Dollars, Positive, Seconds, Word, key, spelled


def _one_line(text: str) -> str:
    """A value of an option of sbatch; ValueError for one that would end its line in a script."""
    if not re.fullmatch(r"[^\s\"'\\#]*", text):
        raise ValueError(f"expected a word without spaces, quotes and #, got {text!r}")
    return text


def _options(options: list[Any]) -> list[Any]:
    for word in options:
        if not re.fullmatch(r"--[a-z][\w-]*(=[^\s\"'\\#]*)?", str(word)):
            raise ValueError(f"expected options of sbatch such as --licenses=a:1, got {word!r}")
    return options


_Name = Annotated[Word, spelled(_one_line, str)]


class SlurmKeys(msgspec.Struct, frozen=True, omit_defaults=True):
    """What Slurm is asked for; what is left out is the cluster's own default."""

    partition: Annotated[_Name, key("The partition, or several: a,b.")] = ""
    account: Annotated[_Name, key("The account that is charged.")] = ""
    qos: Annotated[_Name, key("The quality of service.")] = ""
    time: Annotated[
        Seconds | None,
        key("The job's time limit, e.g. 4h. Default: 1.3 × the run's estimate, and its stop."),
    ] = None
    gres: Annotated[_Name, key("Instead of the GPUs that `gpus` asks for, e.g. gpu:a100:2.")] = ""
    constraint: Annotated[_Name, key("Features that the node must have.")] = ""
    nodes: Annotated[
        Positive, key("How many nodes run it together, each with the GPUs that `gpus` says.")
    ] = 1
    exclusive: Annotated[bool, key("The whole node.")] = False
    mem: Annotated[_Name, key("Memory of the node, e.g. 64G.")] = ""
    cpus_per_gpu: Annotated[Positive | None, key("Processors for each GPU.")] = None
    array_limit: Annotated[
        Positive | None, key("How many runs of a sweep at once. Default: as --parallel says.")
    ] = None
    extra: Annotated[
        tuple[str, ...],
        spelled(_options, list),
        key("More options of sbatch, e.g. [--licenses=a:1]."),
    ] = ()

    def over(self, defaults: "SlurmKeys") -> "SlurmKeys":
        """These keys, and where they say nothing those of `defaults`."""
        untouched = SlurmKeys()
        missing = {
            name: getattr(defaults, name)
            for name in self.__struct_fields__
            if getattr(self, name) == getattr(untouched, name)
        }
        return msgspec.structs.replace(self, **missing)


class ClusterPrice(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a cluster charges."""

    per_gpu_hour: Annotated[
        Dollars | None, key("US dollars for an hour of a GPU that a job was given.")
    ] = None
    per_billing_hour: Annotated[
        Dollars | None,
        key("US dollars for an hour of one unit of `billing`, by its TRESBillingWeights."),
    ] = None


class ClusterKeys(SlurmKeys, frozen=True, omit_defaults=True):
    """What jobs ask of this machine's Slurm unless they say so, and what that costs."""

    price: Annotated[ClusterPrice, key("What the cluster charges.")] = ClusterPrice()


class PlaceKeys(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where a preset runs."""

    slurm: Annotated[
        SlurmKeys | None, key("As a job of this machine's Slurm, which chooses node and GPUs.")
    ] = None
