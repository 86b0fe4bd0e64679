"""What a program is given so that its end can be explained: dumps, error files, rank logs.

All of it is environment: a program that knows none of the names is not affected, and a preset or a
user who sets a name keeps it. Sources: PyTorch's FlightRecorder.hpp and ProcessGroupNCCL.hpp
(2.13), `torch.distributed.run` (its `PET_` variables), `torch.distributed.elastic` (error files).
"""

import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from runners.lifecycle.launch.interpreter import interpreter_of, package_folders, package_version
from runners.model.launchers import traits_of
from runners.model.spec import RunSpec

RANK_LOGS = "ranks"
"""The folder for logs of single ranks, in a run's folder."""
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
_LOG_OPTIONS = re.compile(r"(?:--(?:tee|redirects|log[-_]dir)(?:=|$)|-[tr](?:\d|$))")
_LOG_DIR = re.compile(r"--log[-_]dir(?:=|$)")
_TORCHRUN = re.compile(r"(?:^|/)torchrun$|^torch\.distributed\.(?:run|launch)$")
_PER_NODE = re.compile(r"--nproc[-_]per[-_]node(?:=(\d+))?$")


def watched_environment(
    spec: RunSpec, argv: Sequence[str], run: Path, processes: int, environment: Mapping[str, str]
) -> dict[str, str]:
    """Variables for a run of `argv` in the folder `run`, without those in `environment`.

    What we gave to another run, inside which this one is launched, does not count.
    """
    outer = environment.get("FRESNEL_RUN_DIR")
    inherited = outer is not None and environment.get("PET_LOG_DIR", "").startswith(outer)
    kept = {
        name: value
        for name, value in environment.items()
        if not (outer and value.startswith(outer)) and not (inherited and name in _TEEING)
    }
    wanted = {"TORCHELASTIC_ERROR_FILE": str(run / "error.json")}
    wanted |= _flight_recorder(argv, run, kept)
    wanted |= _rank_logs(spec, argv, run, processes)
    return {name: value for name, value in wanted.items() if name not in kept}


def _flight_recorder(
    argv: Sequence[str], run: Path, environment: Mapping[str, str]
) -> dict[str, str]:
    """The last collectives of every rank, written when one of them times out.

    Nothing where no PyTorch is found: it would warn of a name that is not of its own version.
    """
    on_path = shutil.which("python", path=environment.get("PATH"))
    interpreter = interpreter_of(argv) or (Path(on_path) if on_path else None)
    version = interpreter and package_version("torch", package_folders(interpreter, environment))
    if not version:
        return {}
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    which = 0 if numbers >= _RENAMED else 1
    found = {"TORCH_NCCL_DUMP_ON_TIMEOUT": "1"}
    for names, value in zip(_NAMES, (_RECORDS, str(run / FLIGHT_PREFIX)), strict=True):
        if not any(name in environment for name in names):
            found[names[which]] = value
    return found


def _rank_logs(spec: RunSpec, argv: Sequence[str], run: Path, processes: int) -> dict[str, str]:
    """torchrun's error file and log of each rank.

    Ranks above 0 still write to the output too, each line with its rank. Rank 0 writes as it would
    anyway: what torchrun passes on has its progress bars cut into lines.
    """
    at = next((i for i, word in enumerate(argv) if _TORCHRUN.search(word)), None)
    traits = traits_of(spec.launcher)
    if at is None or (traits.starts_processes and not traits.logs_ranks):
        return {}
    # Of a torchrun that a command spells out, its options and the program's are not told apart.
    options = [word for word in argv[at + 1 :] if word.startswith("-")]
    if traits.logs_ranks:
        options = list(spec.launcher_arguments)
    if any(_LOG_DIR.match(word) for word in options):
        return {}
    found = {"PET_LOG_DIR": str(run / RANK_LOGS)}
    count = processes if traits.logs_ranks else _per_node(argv[at + 1 :])
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
