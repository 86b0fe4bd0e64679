"""What a program gets as its environment: GPUs, meeting other machines, explaining its end.

A program that knows none of the names is not affected, and a preset or a user who sets a name keeps
it. Sources: PyTorch's FlightRecorder.hpp and ProcessGroupNCCL.hpp (2.13), `torch.distributed.run`
(its `PET_` variables), `torch.distributed.elastic` (error files). The static rendezvous needs node
rank, address and port; NCCL (its socket.cc) takes any interface but lo and docker's, gloo the one
that the host's name resolves to, which is 127.0.1.1 on many. So both are told the interface that
the way to rank 0 goes by.
"""

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from runners.host.procfs import HELPER_MARK, MARK
from runners.lifecycle.launch.interpreter import Interpreter, interpreter_in, search_path
from runners.lifecycle.launch.placeholder_values import LaunchInputs
from runners.model.kept_secrets import without_secrets
from runners.model.late_pattern import late_pattern
from runners.model.launchers import shutdown_environment
from runners.model.spec import NodePlace
from runners.scheduling.visibility import ALL_VARIABLES, given_gpus, visibility
from runners.state.layout import RANK_LOGS

INTERFACES = ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME")
FLIGHT_PREFIX = "flight_rank_"
"""What the names of flight-recorder dumps begin with; the rank follows."""

_RECORDS = "2000"
_RENAMED = (2, 10)
"""Since this PyTorch the variables of the recorder are called FR.

Older versions know only the NCCL names, and newer ones warn about those.
"""
_NAMES = (
    ("TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE"),
    ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE"),
)
_TEEING = ("PET_TEE", "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE")
_MOST_TEED = 10
"""torchrun's list of ranks (`1:3,2:3`) takes ranks of one digit."""
_LOG_OPTIONS = late_pattern(r"(?:--(?:tee|redirects|log[-_]dir)(?:=|$)|-[tr](?:\d|$))")
_LOG_DIR = late_pattern(r"--log[-_]dir(?:=|$)")
_TORCHRUN = late_pattern(r"(?:^|/)torchrun$|^torch\.distributed\.(?:run|launch)$")
_PER_NODE = late_pattern(r"--nproc[-_]per[-_]node(?:=(\d+))?$")
_DEFAULT_ENVIRONMENT = {
    "PYTHONUNBUFFERED": "1",
    # A crash in C leaves a Python stack in the output; costs nothing otherwise.
    "PYTHONFAULTHANDLER": "1",
}


class Variables(NamedTuple):
    """What is added to the environment, all of it, and the inherited names that are removed."""

    added: dict[str, str]
    whole: dict[str, str]
    removed: tuple[str, ...]

    def filled_up(self, more: Mapping[str, str]) -> "Variables":
        """With `more`, where nobody has chosen it."""
        return Variables({**more, **self.added}, {**self.whole, **more}, self.removed)


def program_environment(inputs: LaunchInputs, own: Mapping[str, str]) -> Variables:
    """The variables by which a program is found and sees its GPUs; `own` are the preset's."""
    gpus = inputs.allocation.gpus
    # Those of a run that waits are told when it is given them; it is none of the CPU meanwhile.
    shown = {} if inputs.allocation.awaited else given_gpus(gpus) | visibility(gpus, inputs.reading)
    added = {**_DEFAULT_ENVIRONMENT, **search_path(own), **shutdown_environment(inputs.spec)}
    added |= {**shown, **own}
    # A run that launches a run must not pass on its own mark: the new one is a run of its own.
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in (*ALL_VARIABLES, MARK, HELPER_MARK)
    }
    environment = without_secrets(environment) | added
    removed = tuple(name for name in ALL_VARIABLES if name in os.environ and name not in added)
    return Variables(added, environment, removed)


def completed(
    variables: Variables,
    inputs: LaunchInputs,
    argv: Sequence[str],
    interpreter: Interpreter | None,
) -> Variables:
    """With what several nodes and the watching of the run need, where nobody has chosen it."""
    variables = variables.filled_up(_rank_environment(inputs))
    variables = variables.filled_up(_node_environment(inputs.spec.node, variables.whole))
    return variables.filled_up(watched_environment(inputs, argv, variables.whole, interpreter))


def _rank_environment(inputs: LaunchInputs) -> dict[str, str]:
    """What torchrun would tell its one process on each of several machines (its manual's names)."""
    node = inputs.spec.node
    if node is None or node.by_slurm or inputs.traits.starts_processes:
        return {}
    found = {
        "RANK": str(node.rank),
        "WORLD_SIZE": str(node.count),
        "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": "1",
        "GROUP_RANK": str(node.rank),
        "MASTER_ADDR": node.address,
        "MASTER_PORT": str(node.port),
    }
    return found | ({"FRESNEL_NODE_ADDRESSES": ",".join(node.addresses)} if node.addresses else {})


def _node_environment(nodes: NodePlace | None, environment: Mapping[str, str]) -> dict[str, str]:
    """The interface towards rank 0 for NCCL and gloo, where nobody has chosen one."""
    # The interfaces of Slurm's nodes are not known here, and its administrators' concern.
    if nodes is None or nodes.by_slurm or all(name in environment for name in INTERFACES):
        return {}
    interface = interface_towards(nodes.address, nodes.port)
    if not interface:
        return {}
    return {name: interface for name in INTERFACES if name not in environment}


def interface_towards(address: str, port: int) -> str:
    """The network interface by which packets go to `address`; empty when there is no way."""
    import psutil  # only several machines need it

    try:
        import socket  # only runs over several machines need it

        family, kind, _, _, place = socket.getaddrinfo(address, port, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as probe:
            probe.connect(place)  # nothing is sent
            mine = probe.getsockname()[0]
    except (OSError, UnicodeError):  # a name may be none that DNS could have
        return ""
    found = [
        name
        for name, addresses in psutil.net_if_addrs().items()
        if any(own.address.partition("%")[0] == mine for own in addresses)
    ]
    return found[0] if found else ""


def watched_environment(
    inputs: LaunchInputs,
    argv: Sequence[str],
    environment: Mapping[str, str],
    interpreter: Interpreter | None,
) -> dict[str, str]:
    """Variables that explain how a run of `argv` ends, without those in `environment`.

    What we gave to another run, inside which this one is launched, does not count.
    """
    outer = environment.get("FRESNEL_RUN_DIR")
    inherited = outer is not None and environment.get("PET_LOG_DIR", "").startswith(outer)
    kept = {
        name: value
        for name, value in environment.items()
        if not (outer and value.startswith(outer)) and not (inherited and name in _TEEING)
    }
    wanted = {"TORCHELASTIC_ERROR_FILE": str(inputs.directory / "error.json")}
    wanted |= _flight_recorder(interpreter, inputs.directory, kept)
    wanted |= _rank_logs(inputs, argv)
    return {name: value for name, value in wanted.items() if name not in kept}


def _flight_recorder(
    interpreter: Interpreter | None, run: Path, environment: Mapping[str, str]
) -> dict[str, str]:
    """The last collectives of every rank, written when one of them times out.

    Nothing where no PyTorch is found: it would warn of a name that is not of its own version.
    """
    if interpreter is None:
        # A shell's line most likely starts the one that its PATH has.
        on_path = shutil.which("python", path=environment.get("PATH"))
        interpreter = interpreter_in([on_path], environment, run) if on_path else None
    version = interpreter and interpreter.version_of("torch")
    if not version:
        return {}
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    which = 0 if numbers >= _RENAMED else 1
    found = {"TORCH_NCCL_DUMP_ON_TIMEOUT": "1"}
    for names, value in zip(_NAMES, (_RECORDS, str(run / FLIGHT_PREFIX)), strict=True):
        if not any(name in environment for name in names):
            found[names[which]] = value
    return found


def _rank_logs(inputs: LaunchInputs, argv: Sequence[str]) -> dict[str, str]:
    """torchrun's error file and log of each rank.

    Ranks above 0 still write to the output too, each line with its rank. Rank 0 writes as it would
    anyway: what torchrun passes on has its progress bars cut into lines.
    """
    at = next((i for i, word in enumerate(argv) if _TORCHRUN.search(word)), None)
    spec, traits = inputs.spec, inputs.traits
    if at is None or (traits.starts_processes and not traits.logs_ranks):
        return {}
    # Of a torchrun that a command spells out, its options and the program's are not told apart.
    options = [word for word in argv[at + 1 :] if word.startswith("-")]
    if traits.logs_ranks:
        options = list(spec.launcher_arguments)
    if any(_LOG_DIR.match(word) for word in options):
        return {}
    found = {"PET_LOG_DIR": str(inputs.directory / RANK_LOGS)}
    count = inputs.processes if traits.logs_ranks else _per_node(argv[at + 1 :])
    own = any(_LOG_OPTIONS.match(word) for word in options)
    if own or spec.terminal or spec.output_limit or not 1 < count <= _MOST_TEED:
        return found
    return {
        **found,
        _TEEING[0]: ",".join(f"{rank}:3" for rank in range(1, count)),
        _TEEING[1]: "[rank${rank}]:",
    }


def _per_node(arguments: Sequence[str]) -> int:
    """How many ranks a torchrun that is spelled out starts here; 1 when that is not a number."""
    for place, word in enumerate(arguments):
        found = _PER_NODE.match(word)
        if found is not None:
            value = found[1] or next(iter(arguments[place + 1 : place + 2]), "")
            return int(value) if value.isdecimal() else 1
    return 1
