"""The script that a run, or a sweep of runs, is submitted as: options of sbatch, and its body."""

import math
import shlex
from collections.abc import Sequence

import msgspec

from runners.model.cluster import SlurmKeys
from runners.model.errors import WrongInput
from runners.model.launchers import place_on_nodes
from runners.model.program import FIRST_NODE
from runners.model.spec import GpuRequest, NodePlace, RunSpec

RUNS_AT_ONCE = 1000
"""So many tasks an array may have where Slurm says nothing else (MaxArraySize is 1001)."""
_MARGIN_S = 30


def keys_of(spec: RunSpec) -> SlurmKeys | None:
    """What Slurm is asked for a run; None for one that is not its own."""
    return spec.place.slurm


def over_nodes(spec: RunSpec, port: int = 29500) -> RunSpec:
    """`spec` for all nodes that it asks Slurm for; they meet at `port` of the first.

    WrongInput for a launcher that knows only one.
    """
    keys = keys_of(spec)
    if keys is None:
        return spec
    alone = msgspec.structs.replace(spec, node=None)
    if keys.nodes == 1:
        return alone
    if spec.terminal:
        raise WrongInput("a terminal is of one machine", "--nodes 1, or no --tty")
    return place_on_nodes(alone, NodePlace(keys.nodes, 0, FIRST_NODE, port, by_slurm=True))


def refuse_unfit(spec: RunSpec) -> None:
    """Raise WrongInput for what cannot be asked of Slurm."""
    request = spec.gpus
    if request.ids:
        raise WrongInput(
            f"GPU {','.join(request.ids)} asked for by name: Slurm chooses them",
            "say how many: --gpus N",
        )
    if request.all or request.share_memory is not None:
        what = "all GPUs of a machine" if request.all else "a share of a GPU"
        raise WrongInput(f"{what} asked for, which Slurm has no word for", "--gpus N, or gres")
    if spec.nodes is not None or (spec.node is not None and not spec.node.by_slurm):
        raise WrongInput(
            "machines are named for it, and Slurm chooses them", "say how many: --slurm --nodes N"
        )
    if spec.search is not None:
        raise WrongInput("a sampler chooses values here, one run after the other", "--samples N")


def options_of(spec: RunSpec, name: str, output: str, tasks: int = 1) -> list[str]:
    """The options of sbatch for runs such as `spec`, as words; `output` has the job's own text."""
    keys = keys_of(spec) or SlurmKeys()
    by_slurm = {*spec.restart.on} - {"failure"}
    found = [
        f"--job-name={name}",
        f"--output={output}",
        "--open-mode=append",
        f"--signal=B:USR2@{_warned_s(spec, keys)}",
        "--requeue" if spec.restart.times and by_slurm else "--no-requeue",
    ]
    if tasks > 1:
        limit = keys.array_limit or spec.parallel
        found.append(f"--array=0-{tasks - 1}" + (f"%{limit}" if limit else ""))
    gres = keys.gres or _gres(spec.gpus)
    named = {
        "gres": gres,
        "partition": keys.partition,
        "account": keys.account,
        "qos": keys.qos,
        "time": "" if keys.time is None else duration_text(keys.time),
        "constraint": keys.constraint,
        "mem": keys.mem,
        "cpus-per-gpu": keys.cpus_per_gpu if gres else None,
    }
    found += [f"--{option}={value}" for option, value in named.items() if value]
    found += [f"--nodes={keys.nodes}", f"--ntasks={keys.nodes}", "--ntasks-per-node=1"]
    return found + (["--exclusive"] if keys.exclusive else []) + list(keys.extra)


def _gres(request: GpuRequest) -> str:
    if not request.wants_gpus:
        return ""
    model = f":{request.model}" if request.model else ""
    return f"gpu{model}:{request.number}"


def ladder_s(spec: RunSpec) -> int:
    """How long before its time limit a job is warned, in seconds: its stop ladder, and a margin."""
    waits = sum(rung.wait_s for rung in spec.stop.ladder)
    return min(int(waits) + _MARGIN_S, 65535)


def _warned_s(spec: RunSpec, keys: SlurmKeys) -> int:
    """How long before its limit a job is warned: of a short one half at most, or it never runs."""
    if keys.time is None:
        return ladder_s(spec)
    return min(ladder_s(spec), 60 * int(duration_text(keys.time)) // 2)


def duration_text(seconds: float) -> str:
    """A length of time as Slurm takes it: whole minutes, rounded up."""
    return str(max(1, math.ceil(seconds / 60)))


def script_of(options: Sequence[str], command: Sequence[str], runs: Sequence[str]) -> str:
    """The whole script: the task of an array, counted from 0, takes its own of `runs`.

    The shell becomes the supervisor: it is that which Slurm signals, and waits for.
    """
    lines = ["#!/bin/sh", *(f"#SBATCH {_quoted(option)}" for option in options)]
    lines += ["set -- " + shlex.join(runs), 'shift "${SLURM_ARRAY_TASK_ID:-0}"']
    return "\n".join([*lines, f'exec {shlex.join(command)} "$1" --job', ""])


def _quoted(option: str) -> str:
    name, equals, value = option.partition("=")
    # sbatch takes quotation marks here, and no other character as special inside them.
    return f'{name}="{value}"' if equals and (" " in value or "#" in value) else option
