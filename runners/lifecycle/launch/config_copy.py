"""The configuration file of a launch: the original, or an edited copy in the run's folder."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from runners.model.gpus import GpuSnapshot
from runners.model.spec import Expectation, RunSpec
from runners.presets.config_file import edited, read_config

_GIB = 1 << 30


class PlannedConfig(NamedTuple):
    """The words that pass it to the program, the files to write, and what was changed."""

    argv: tuple[str, ...] = ()
    files: Mapping[str, str] = {}
    changes: tuple[str, ...] = ()


def plan_config(spec: RunSpec, file: Path, directory: Path) -> PlannedConfig:
    """Plan the configuration file of `spec`, which is `file`, for the run in `directory`.

    Unchanged, the program gets the original by its full path. Raises WrongInput when the file
    cannot be read or lacks a key.
    """
    if spec.config is None:
        return PlannedConfig()
    config = read_config(file)
    copy = edited(spec, config)
    path = config.path.resolve() if copy is None else directory / copy.name
    flag = spec.config.flag
    if flag.endswith("="):
        argv: tuple[str, ...] = (f"{flag}{path}",)
    else:
        argv = (flag, str(path)) if flag else (str(path),)
    # Unedited, there is no copy: programs often look for other files beside their configuration.
    if copy is None:
        return PlannedConfig(argv)
    return PlannedConfig(argv, {copy.name: copy.text}, copy.changes)


def memory_notes(expected: Expectation, gpus: Sequence[GpuSnapshot]) -> tuple[str, ...]:
    """Warn of each GPU with less VRAM than the run, or one of its stages, is expected to need."""
    wanted = [("it", expected.memory)]
    wanted += [(f"its stage {name}", stage.memory) for name, stage in expected.stages.items()]
    notes = []
    for gpu in gpus:
        for what, memory in wanted:
            if memory is not None and gpu.memory_total is not None and memory > gpu.memory_total:
                notes.append(
                    f"GPU {gpu.index} has {gpu.memory_total / _GIB:.0f} GiB; the preset expects "
                    f"{what} to use {memory / _GIB:.0f} GiB"
                )
    return tuple(notes)
