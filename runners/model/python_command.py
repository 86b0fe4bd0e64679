"""What a command line runs by Python: its script or module, its arguments, how many processes.

Read from the words alone, as `python`, torchrun (torch.distributed.run) and `accelerate launch`
read them; what they cannot mean for certain is None.
"""

from collections.abc import Sequence
from pathlib import Path, PurePath
from typing import NamedTuple

from runners.model.late_pattern import late_pattern
from runners.model.launchers import traits_of
from runners.model.placeholders import partly_filled
from runners.model.plan import LaunchPlan
from runners.model.spec import GpuRequest, RunSpec
from runners.model.wrappers import started_in_the_end

_PYTHON = late_pattern(r"pythonw?\d*(?:\.\d+)?")
_PYTHON_VALUES = ("-W", "-X", "--check-hash-based-pycs")
_TORCHRUN = ("torchrun", "torch.distributed.run", "torch.distributed.launch")
_ACCELERATE = ("accelerate", "accelerate.commands.launch")
_TORCHRUN_SWITCHES = frozenset(
    {"standalone", "no-python", "module", "run-path", "use-env", "virtual-local-rank"}
)
"""Its options without a value (torch.distributed.run, get_args_parser)."""
_ACCELERATE_SWITCHES = frozenset(
    {"multi-gpu", "cpu", "tpu", "use-deepspeed", "use-fsdp", "quiet", "debug", "no-python"}
    | {"module", "same-network", "enable-cpu-affinity", "use-parallelism-config"}
)
_RUN_SCRIPTS = ("cProfile", "profile", "pdb", "trace", "coverage", "debugpy", "kernprof", "scalene")
"""Modules that run the first script among their arguments."""
_LAUNCHER_PROCESSES = {"nproc-per-node", "num-processes"}


class PythonCommand(NamedTuple):
    """A script's path as it is written, or a module's name; the words after it are its own.

    `processes` are those that a launcher starts on this machine: 1 without a launcher, None where
    it decides that itself.
    """

    script: str
    module: str
    arguments: tuple[str, ...]
    processes: int | None
    launcher: str = ""


def python_command(argv: Sequence[str]) -> PythonCommand | None:
    """What `argv` runs by Python in the end, behind `nice`, `uv run` and their like.

    None for another program, a shell's line or Python code.
    """
    found = started_in_the_end(argv)
    command = _python_command(found.argv) if found.argv else None
    return command if command is None or found.is_one else command._replace(processes=None)


def python_script(argv: Sequence[str], folder: Path) -> Path | None:
    """The file that `argv` runs by Python in `folder`, be it there or not; None for a module."""
    command = python_command(argv)
    return folder / command.script if command is not None and command.script else None


def _python_command(argv: Sequence[str]) -> PythonCommand | None:
    name, arguments = PurePath(argv[0]).name, list(argv[1:])
    if name in _TORCHRUN:
        return _launched("torchrun", arguments, _TORCHRUN_SWITCHES)
    if name == "accelerate":
        return (
            _launched(name, arguments[1:], _ACCELERATE_SWITCHES)
            if arguments[:1] == ["launch"]
            else None
        )
    if name.endswith(".py"):
        return PythonCommand(argv[0], "", tuple(arguments), 1)
    return _interpreted(arguments) if _PYTHON.fullmatch(name) else None


def processes_started(plan: LaunchPlan) -> int | None:
    """The processes that are started on this machine; None where the command decides itself."""
    return started_by(plan.spec, plan.argv, plan.processes)


def computing_processes(plan: LaunchPlan) -> int:
    """The processes to which a batch is dealt out on this machine: those that are started.

    Where only its command knows that, they may be one for each GPU.
    """
    return processes_started(plan) or plan.processes


def devices_in_all(plan: LaunchPlan) -> int:
    """The processes to which a batch is dealt out, over all machines of the run."""
    return computing_processes(plan) * (plan.spec.node.count if plan.spec.node else 1)


def devices_of(spec: RunSpec, request: GpuRequest, present: int) -> int:
    """To how many processes `spec` deals a batch out by `request`, where there are `present` GPUs.

    Over all machines of the run.
    """
    count = present if request.all else len(request.ids) or request.number
    return processes_for(spec, count) * (spec.node.count if spec.node else 1)


def processes_for(spec: RunSpec, gpus: int) -> int:
    """To how many processes `spec` deals a batch out on so many GPUs of this machine.

    Before there is a plan: by its launcher, or the words of its command.
    """
    asked = spec.processes or max(1, gpus)
    argv: Sequence[str] = ("python", spec.script or "program")
    if not traits_of(spec.launcher).runs_python:
        values = {
            f"parameters.{parameter.name}": str(parameter.value) for parameter in spec.parameters
        }
        argv = [partly_filled(word, {**values, "gpu_count": str(gpus)}) for word in spec.command]
    return started_by(spec, argv, asked) or asked


def started_by(spec: RunSpec, argv: Sequence[str], asked: int) -> int | None:
    """The processes that `argv` starts, `asked` of a launcher for it; None where it decides."""
    if traits_of(spec.launcher).starts_processes:
        return asked
    command = python_command(argv)
    return command.processes if command is not None else None


def _interpreted(arguments: list[str]) -> PythonCommand | None:
    while arguments:
        word = arguments.pop(0)
        if word in _PYTHON_VALUES:
            del arguments[:1]
        elif word == "-m" and arguments:
            module, rest = arguments[0], arguments[1:]
            if module in _TORCHRUN:
                return _launched("torchrun", rest, _TORCHRUN_SWITCHES)
            if module in _ACCELERATE:
                return _launched("accelerate", rest, _ACCELERATE_SWITCHES)
            at = next((at for at, word in enumerate(rest) if word.endswith(".py")), None)
            if module in _RUN_SCRIPTS and at is not None:
                return PythonCommand(rest[at], "", tuple(rest[at + 1 :]), 1)
            return PythonCommand("", module, tuple(rest), 1)
        elif not word.startswith("-"):
            return PythonCommand(word, "", tuple(arguments), 1)
        elif word[:2] in _PYTHON_VALUES:
            continue  # its value is joined to it: -Ximporttime
        elif word == "-" or "c" in word.lstrip("-") or "m" in word.lstrip("-"):
            return None  # code in the arguments or from the input, or `-m` joined to its module
    return None


def _launched(
    launcher: str, arguments: list[str], switches: frozenset[str]
) -> PythonCommand | None:
    is_module, processes = False, 1 if launcher == "torchrun" else None
    while arguments:
        word = arguments.pop(0)
        if not word.startswith("-"):
            script, module = ("", word) if is_module else (word, "")
            return PythonCommand(script, module, tuple(arguments), processes, launcher)
        option, given, value = word.lstrip("-").replace("_", "-").partition("=")
        if option in ("m", "module"):
            is_module = True
        elif option == "no-python":
            return None
        elif option not in switches and option != "q":
            if not given and arguments:
                value = arguments.pop(0)
            if option in _LAUNCHER_PROCESSES:
                processes = int(value) if value.isdecimal() else None
    return None
