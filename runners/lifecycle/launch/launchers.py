"""How each launcher is spelled: argv from a spec whose words are already filled in."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from runners.lifecycle.launch.nodes import accelerate_nodes, torchrun_nodes
from runners.model.spec import Launcher, NodePlace, RunSpec

STDBUF = ("stdbuf", "-oL", "-eL")


def build_argv(
    launcher: Launcher,
    interpreter: str,
    program: Sequence[str],
    arguments: Sequence[str],
    launcher_arguments: Sequence[str],
    processes: int,
    port: int | None,
    on_gpu: bool,
    nodes: NodePlace | None = None,
) -> list[str]:
    """The argument vector; `program` is a script, `-m MODULE`, or a whole command."""
    if launcher == "command":
        return [*program, *arguments]
    if launcher == "python":
        return [interpreter, *program, *arguments]
    if launcher == "torchrun":
        rendezvous = [f"--nproc-per-node={processes}", *torchrun_nodes(nodes, port)]
        return [
            interpreter,
            "-m",
            "torch.distributed.run",
            *rendezvous,
            *launcher_arguments,
            *program,
            *arguments,
        ]
    count = accelerate_nodes(nodes, processes, port)
    over_nodes = nodes is not None and nodes.count > 1
    # With --cpu Accelerate gives no process its rank (its simple_launcher, 1.15): over several
    # machines it starts them through torchrun, as it does for GPUs.
    place = [] if on_gpu or over_nodes else ["--cpu"]
    place += ["--multi_gpu"] if over_nodes or (on_gpu and processes > 1) else []
    return [
        interpreter,
        "-m",
        "accelerate.commands.launch",
        *count,
        *place,
        *launcher_arguments,
        *program,
        *arguments,
    ]


def shutdown_time(spec: RunSpec) -> dict[str, str]:
    """How long torchrun waits for its ranks after a signal: as long as the stop ladder does.

    Its own default is 30 s, shorter than most epochs; then it kills them (`torch.distributed.run`,
    option --shutdown_timeout and its variable).
    """
    if spec.launcher not in ("torchrun", "accelerate"):
        return {}
    patience = sum(rung.wait_s for rung in spec.stop.ladder if rung.how != "SIGKILL")
    return {"TORCH_ELASTIC_SHUTDOWN_TIMEOUT": str(max(30, round(patience)))}


def unbuffer(argv: list[str]) -> list[str]:
    """Return `argv` behind stdbuf where that exists and helps.

    Python is unbuffered by its environment instead.
    """
    name = Path(argv[0]).name
    if name.startswith(("python", "stdbuf")) or shutil.which(STDBUF[0]) is None:
        return argv
    return [*STDBUF, *argv]
