"""How each launcher is spelled: argv from a spec whose words are already filled in."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from runners.model.spec import Launcher, RunSpec

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
) -> list[str]:
    """The argument vector; `program` is a script, `-m MODULE`, or a whole command."""
    if launcher == "command":
        return [*program, *arguments]
    if launcher == "python":
        return [interpreter, *program, *arguments]
    if launcher == "torchrun":
        # The loopback address: other machines must not reach the rendezvous, and a
        # host name may not resolve.
        rendezvous = [
            f"--nproc-per-node={processes}",
            "--master-addr=127.0.0.1",
            f"--master-port={port}",
        ]
        return [
            interpreter,
            "-m",
            "torch.distributed.run",
            *rendezvous,
            *launcher_arguments,
            *program,
            *arguments,
        ]
    count = [f"--num_processes={processes}", "--num_machines=1", f"--main_process_port={port}"]
    place = [] if on_gpu else ["--cpu"]
    place += ["--multi_gpu"] if on_gpu and processes > 1 else []
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
