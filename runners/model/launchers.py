"""The launchers: one row for each, with everything in which they differ.

A new one is a name in `Launcher`, a row, and a function that spells its command.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, get_args

import msgspec

from runners.model.closed import assert_never
from runners.model.errors import WrongInput
from runners.model.spec import Launcher, NodePlace, RunSpec


class CommandParts(NamedTuple):
    """What a command is spelled from, every word filled in.

    `program` is a script, `-m MODULE`, or a whole command, and `arguments` are its own. A launcher
    that starts `processes` on this machine has `port` to meet at, or is one of several `nodes`.
    """

    interpreter: str
    program: Sequence[str]
    arguments: Sequence[str] = ()
    launcher_arguments: Sequence[str] = ()
    processes: int = 1
    port: int | None = None
    on_gpu: bool = False
    nodes: NodePlace | None = None


class LauncherTraits(NamedTuple):
    """What a launcher does, and what it needs.

    One that `starts_processes` itself takes their number and arguments of its own, meets at a port
    and can span machines. `packages` must be importable. `shutdown_variable` tells it how many
    seconds its processes have after a signal. `logs_ranks`: it keeps a log of each rank where the
    variables of torchrun say so.
    """

    spell: Callable[[CommandParts], list[str]]
    runs_python: bool = True
    starts_processes: bool = False
    packages: tuple[str, ...] = ()
    shutdown_variable: str = ""
    logs_ranks: bool = False


def _command(parts: CommandParts) -> list[str]:
    return [*parts.program, *parts.arguments]


def _python(parts: CommandParts) -> list[str]:
    return [parts.interpreter, *parts.program, *parts.arguments]


def _torchrun(parts: CommandParts) -> list[str]:
    nodes = parts.nodes
    if nodes is None:
        # The loopback address: others must not reach it, and a host's name may not resolve.
        meeting = ["--master-addr=127.0.0.1", f"--master-port={parts.port}"]
    else:
        meeting = [
            f"--nnodes={nodes.count}",
            f"--node-rank={nodes.rank_word}",
            f"--master-addr={nodes.address}",
            f"--master-port={nodes.port}",
        ]
    options = [f"--nproc-per-node={parts.processes}", *meeting]
    return _module(parts, "torch.distributed.run", options)


def _accelerate(parts: CommandParts) -> list[str]:
    nodes, processes = parts.nodes, parts.processes
    if nodes is None:
        options = [
            f"--num_processes={processes}",
            "--num_machines=1",
            f"--main_process_port={parts.port}",
        ]
    else:
        options = [
            f"--num_processes={processes * nodes.count}",
            f"--num_machines={nodes.count}",
            f"--machine_rank={nodes.rank_word}",
            f"--main_process_ip={nodes.address}",
            f"--main_process_port={nodes.port}",
        ]
    over_nodes = nodes is not None and nodes.count > 1
    # With --cpu Accelerate gives no process its rank (its simple_launcher, 1.15): over several
    # machines it starts them through torchrun, as it does for GPUs.
    if not (parts.on_gpu or over_nodes):
        options.append("--cpu")
    if over_nodes or (parts.on_gpu and processes > 1):
        options.append("--multi_gpu")
    return _module(parts, "accelerate.commands.launch", options)


def _module(parts: CommandParts, module: str, options: Sequence[str]) -> list[str]:
    """A launcher that is a Python module: its options, those of the preset, then the program."""
    argv = [parts.interpreter, "-m", module, *options, *parts.launcher_arguments]
    return [*argv, *parts.program, *parts.arguments]


_ELASTIC = "TORCH_ELASTIC_SHUTDOWN_TIMEOUT"
_COMMAND_TRAITS = LauncherTraits(_command, runs_python=False)
_PYTHON_TRAITS = LauncherTraits(_python)
_TORCHRUN_TRAITS = LauncherTraits(
    _torchrun,
    starts_processes=True,
    packages=("torch",),
    shutdown_variable=_ELASTIC,
    logs_ranks=True,
)
_ACCELERATE_TRAITS = LauncherTraits(
    _accelerate,
    starts_processes=True,
    packages=("accelerate",),
    shutdown_variable=_ELASTIC,
)


def traits_of(launcher: Launcher) -> LauncherTraits:
    """The row of a launcher."""
    match launcher:
        case "command":
            traits = _COMMAND_TRAITS
        case "python":
            traits = _PYTHON_TRAITS
        case "torchrun":
            traits = _TORCHRUN_TRAITS
        case "accelerate":
            traits = _ACCELERATE_TRAITS
        case _:
            assert_never(launcher)
    return traits


LAUNCHERS: tuple[Launcher, ...] = get_args(Launcher)
PROCESS_LAUNCHERS = tuple(name for name in LAUNCHERS if traits_of(name).starts_processes)
"""Those that start several processes themselves."""


def place_on_nodes(spec: RunSpec, nodes: NodePlace) -> RunSpec:
    """`spec` for one of several machines.

    WrongInput for one that is started by Slurm, which gives a plain program no rank.
    """
    if nodes.by_slurm and not traits_of(spec.launcher).starts_processes:
        raise WrongInput(
            f"`{spec.preset}` is launched by {spec.launcher}, on one machine",
            "several nodes need a preset with a `script` or `module`, and "
            f"`launcher: {'` or `launcher: '.join(PROCESS_LAUNCHERS)}`",
        )
    if not 0 <= nodes.rank < nodes.count:
        raise WrongInput(f"--node-rank {nodes.rank}: expected 0 to {nodes.count - 1}")
    return msgspec.structs.replace(spec, node=nodes)


def shutdown_environment(spec: RunSpec) -> dict[str, str]:
    """How long the launcher waits for its ranks after a signal: as long as the stop ladder does.

    Its own default is 30 s, shorter than most epochs; then it kills them (`torch.distributed.run`,
    option --shutdown_timeout and its variable).
    """
    variable = traits_of(spec.launcher).shutdown_variable
    if not variable:
        return {}
    patience = sum(rung.wait_s for rung in spec.stop.ladder if rung.how != "SIGKILL")
    return {variable: str(max(30, round(patience)))}
