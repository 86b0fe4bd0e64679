"""What one launch goes by, what the `${...}` of its preset mean in it, and who may see them."""

import glob
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from runners.host.shells import shell_line
from runners.model.errors import WrongInput
from runners.model.gpus import GpuReading
from runners.model.launchers import PROCESS_LAUNCHERS, LauncherTraits, traits_of
from runners.model.masking import secret_reference
from runners.model.parameters import arguments_of, flagged
from runners.model.placeholders import secrets_in, substitute, used_placeholders
from runners.model.spec import RunSpec
from runners.model.units import gpus_text
from runners.scheduling.allocation import Allocation
from runners.state.layout import SHIPPED_PRESETS, TRAINERS
from runners.state.secret_store import PLACE, find_secret


class LaunchInputs(NamedTuple):
    """What a plan is made from: what was asked, the run's id and folder, the GPUs it was given.

    Made by `launch_inputs`. `reading` is the one that the GPUs were chosen by.
    """

    spec: RunSpec
    traits: LauncherTraits
    run: str
    directory: Path
    allocation: Allocation
    reading: GpuReading | None
    processes: int


def launch_inputs(
    spec: RunSpec,
    run: str,
    directory: Path,
    allocation: Allocation | None = None,
    reading: GpuReading | None = None,
) -> LaunchInputs:
    """What a plan of `spec` is made from; without an `allocation` it runs on the CPU.

    Raises WrongInput for more GPUs than its processes use.
    """
    given, traits = allocation or Allocation(), traits_of(spec.launcher)
    gpus = len(given.gpus) or len(given.awaited) or given.asked
    processes = spec.processes or gpus or 1
    _refuse_unused(spec, gpus, processes if traits.starts_processes else 1)
    return LaunchInputs(spec, traits, run, directory, given, reading, processes)


def _refuse_unused(spec: RunSpec, gpus: int, processes: int) -> None:
    """Raise WrongInput where `processes` use fewer than `gpus`, as the preset says."""
    if spec.gpus_per_process is None:
        return
    used = spec.gpus_per_process * processes
    if gpus <= used:
        return
    starts = "1 process" if processes == 1 else f"{processes} processes"
    raise WrongInput(
        f"`{spec.preset}` starts {starts}, using {gpus_text(used)} in all: of {gpus} asked for, "
        f"{gpus - used} would stay idle",
        f"--gpus {used}, or a preset that starts a process for each GPU "
        f"({' or '.join(PROCESS_LAUNCHERS)})",
    )


class FilledTexts(NamedTuple):
    """A spec's texts in one run, every `${...}` replaced; `placeholders` are their values.

    `environment` has secrets in clear. `arguments` are the program's, its parameters' included, and
    in `restart_arguments` only `${checkpoint}` is left, which a restart knows.
    """

    placeholders: dict[str, str]
    environment: dict[str, str]
    working_directory: str
    interpreter: str
    program: list[str]
    arguments: list[str]
    launcher_arguments: list[str]
    config_file: str
    restart_arguments: tuple[str, ...]

    @property
    def port(self) -> int | None:
        """The port where its processes meet; None where it needs none."""
        return int(self.placeholders["port"]) if self.placeholders.get("port") else None


def fill_texts(inputs: LaunchInputs) -> FilledTexts:
    """Fill in everything that a spec writes.

    Raises WrongInput, which names the key, for a variable that is not set and for a secret where
    others could read it.
    """
    spec, placeholders = inputs.spec, placeholder_values(inputs)

    def visible(key: str, *texts: str) -> list[str]:
        return [fill_visible(text, placeholders, key) for text in texts]

    if not inputs.traits.runs_python:
        command = visible("command", *spec.command)
        program = shell_line(*command) if spec.shell else command
    elif spec.module:
        program = ["-m", spec.module]
    else:
        program = visible("script", spec.script)
    arguments = visible("arguments", *spec.arguments)
    for parameter in spec.parameters:
        if not parameter.config_key:
            arguments += visible(f"parameters.{parameter.name}", *arguments_of(parameter))
    restarted = {**placeholders, "checkpoint": "${checkpoint}"}
    restart = [
        fill_visible(text, restarted, "restart.arguments") for text in restart_arguments(spec)
    ]
    return FilledTexts(
        placeholders,
        {
            name: fill(text, placeholders | _secrets(text), f"environment.{name}")
            for name, text in spec.environment.items()
        },
        working_directory=fill_visible(spec.working_directory, placeholders, "working_directory"),
        interpreter=fill_visible(spec.interpreter, placeholders, "interpreter"),
        program=program,
        arguments=arguments,
        launcher_arguments=visible("launcher_arguments", *spec.launcher_arguments),
        config_file=fill(spec.config.path, placeholders, "config.file") if spec.config else "",
        restart_arguments=tuple(restart),
    )


def placeholder_values(inputs: LaunchInputs) -> dict[str, str]:
    """Our own placeholders and the parameters' values, by the name in `${...}`."""
    spec, gpus = inputs.spec, inputs.allocation.gpus
    presets = Path(spec.source).absolute().parent if spec.source else SHIPPED_PRESETS
    placeholders = {
        "run_dir": str(inputs.directory),
        "run_id": inputs.run,
        "gpu_count": str(len(gpus)),
        "gpu_ids": ",".join(str(gpu.index) for gpu in gpus),
        "processes": str(inputs.processes),
        "python": sys.executable,
        "trainers": str(TRAINERS),
        "preset_dir": str(presets),
        "working_directory": str(Path.cwd()),
    }
    texts = (*spec.arguments, *spec.command, *spec.environment.values(), *spec.launcher_arguments)
    texts += restart_arguments(spec)
    values = tuple(str(parameter.value) for parameter in spec.parameters)
    # Only where one is used: between finding a port and using it, another program may take it.
    uses_port = any("port" in used_placeholders(text) for text in (*texts, *values))
    if inputs.traits.starts_processes or uses_port:
        placeholders["port"] = str(spec.node.port if spec.node else find_free_port())
    return placeholders | _parameter_values(spec, placeholders)


def _secrets(text: str) -> dict[str, str]:
    """The kept secrets that a variable names, as far as they are here; nobody else sees them."""
    found = {name: find_secret(name) for name in secrets_in(text)}
    return {f"{PLACE}{name}": value for name, value in found.items() if value is not None}


def restart_arguments(spec: RunSpec) -> tuple[str, ...]:
    """The arguments that a restart adds, with `${checkpoint}` still in them."""
    if spec.restart.arguments or spec.resume is None:
        return spec.restart.arguments
    if spec.resume.arguments:
        return spec.resume.arguments
    name = spec.resume.parameter
    parameter = next(parameter for parameter in spec.parameters if parameter.name == name)
    if parameter.config_key:
        return ()  # it is in the configuration file, which was copied at the launch
    # Given a second time: argparse and the like take the last.
    return tuple(flagged(parameter.flag, "${checkpoint}"))


def _parameter_values(spec: RunSpec, placeholders: Mapping[str, str]) -> dict[str, str]:
    """The parameters that have a value, as `${parameters.NAME}` gives them."""
    given = {}
    for parameter in spec.parameters:
        if isinstance(parameter.value, (str, int, float)) and not secret_reference(
            str(parameter.value)
        ):
            # One that cannot be filled is reported by whoever needs it.
            with suppress(ValueError):
                text = substitute(str(parameter.value), placeholders, os.environ)
                given[f"parameters.{parameter.name}"] = text
    return given


def fill_patterns(
    patterns: Sequence[str], spec: RunSpec, folder: Path, placeholders: Mapping[str, str], key: str
) -> tuple[str, ...]:
    """File patterns made absolute; one that names a parameter without a value is left out."""
    empty = {f"parameters.{parameter.name}" for parameter in spec.parameters} - placeholders.keys()
    # Only what the preset writes is a pattern: values and the folder's name are names, whatever
    # characters they have.
    literal = {name: glob.escape(value) for name, value in placeholders.items()}
    return tuple(
        str(Path(glob.escape(str(folder))) / fill_visible(pattern, literal, key))
        for pattern in patterns
        if not any(f"${{{name}}}" in pattern for name in empty)
    )


def find_free_port() -> int:
    """A TCP port of the loopback interface on which nobody listens now. Raises OSError."""
    import socket  # most launches need no port

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def fill(text: str, placeholders: Mapping[str, str], key: str) -> str:
    """`text` of the preset's `key` with every `${...}` replaced.

    Raises WrongInput, which names the key.
    """
    try:
        return substitute(text, placeholders, os.environ)
    except ValueError as error:
        raise WrongInput(f"{key}: {error}") from None


def fill_visible(text: str, placeholders: Mapping[str, str], key: str) -> str:
    """As `fill`, for what everyone on the machine can read: raises WrongInput for a secret."""
    secret = secret_reference(text)
    if secret:
        raise WrongInput(
            f"{key}: ${{{secret}}} on a command line can be read by everyone on this machine",
            "pass it in the environment: programs inherit the variables of the panel",
        )
    return fill(text, placeholders, key)
