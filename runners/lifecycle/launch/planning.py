"""RunSpec + Allocation → LaunchPlan: placeholders filled, paths found, nothing started."""

import os
import shutil
import time
from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

import msgspec

from runners.cost.rates import device_count, hourly_rate
from runners.host.identity import boot_id, host_name, user_name
from runners.host.procfs import HELPER_MARK, MARK
from runners.lifecycle.launch.config_copy import memory_notes, plan_config
from runners.lifecycle.launch.nodes import node_environment, nodes_note, require_place
from runners.lifecycle.launch.placeholder_values import (
    FilledTexts,
    fill_patterns,
    fill_texts,
    placeholder_values,
)
from runners.lifecycle.launch.watched import watched_environment
from runners.lifecycle.launch.wrappers import wrapped
from runners.model.errors import WrongInput
from runners.model.gpus import GpuReading
from runners.model.kept_secrets import MASK, without_secrets
from runners.model.launchers import CommandParts, shutdown_environment, traits_of
from runners.model.masked_plan import mask_tree
from runners.model.masking import mask_value
from runners.model.plan import LaunchPlan, Origin
from runners.model.scaling import batch_notes
from runners.model.spec import Price, RunSpec
from runners.scheduling.allocation import Allocation
from runners.scheduling.visibility import ALL_VARIABLES, given_gpus, visibility
from runners.state.layout import RunDirectory

_DEFAULT_ENVIRONMENT = {
    "PYTHONUNBUFFERED": "1",
    # A crash in C leaves a Python stack in the output; costs nothing otherwise.
    "PYTHONFAULTHANDLER": "1",
}
# A shorter one may be anything: `ssh`, `true`.
_SURELY_SECRET = 8
_DEFAULT_CHECKPOINTS = ("${run_dir}/checkpoints/*",)


class Planned(NamedTuple):
    """A plan as it is written, and in clear what its program really gets: only for memory.

    `secrets` are what the plan masks, by their places in it: those of the command and the spec, as
    the variables are all in `environment`.
    """

    plan: LaunchPlan
    environment: dict[str, str]
    files: Mapping[str, str] = {}
    """Texts to write into the run's folder before it starts, by file name."""
    secrets: Mapping[str, Any] = {}


class _Variables(NamedTuple):
    """What is added to the environment, all of it, and the inherited names that are removed."""

    added: dict[str, str]
    whole: dict[str, str]
    removed: tuple[str, ...]

    def filled_up(self, more: Mapping[str, str]) -> "_Variables":
        return _Variables({**more, **self.added}, {**self.whole, **more}, self.removed)


def make_plan(
    spec: RunSpec,
    run: RunDirectory,
    allocation: Allocation,
    reading: GpuReading | None,
    price: Price | None,
) -> Planned:
    """Plan `spec` for one run, without its estimate and provenance: see `planner`.

    Raises WrongInput when a path, program or variable that it names does not exist.
    """
    require_place(spec)
    processes = spec.processes or len(allocation.gpus) or 1
    placeholders = placeholder_values(spec, run.id, run.path, allocation, processes)
    texts = fill_texts(spec, placeholders)
    variables = _environment(spec, texts.environment, allocation, reading)
    folder = _working_directory(spec, texts.working_directory)
    config = plan_config(spec, folder / Path(texts.config_file).expanduser(), run.path)
    assigned = allocation.assigned(spec.gpus.share_memory)
    argv = _argv(spec, texts, folder, variables.whole, processes, bool(assigned), config.argv)
    variables = _completed(variables, spec, argv, run.path, processes)
    limits = _limit(spec, price, device_count(assigned))
    plan = LaunchPlan(
        run=run.id,
        spec=spec,
        argv=tuple(argv),
        environment=variables.added,
        environment_removed=variables.removed,
        working_directory=str(folder),
        directory=str(run.path),
        gpus=assigned,
        processes=processes,
        port=texts.port,
        price=price,
        origin=Origin(user_name(), host_name(), boot_id(), time.time()),
        checkpoints=fill_patterns(
            spec.checkpoints or _DEFAULT_CHECKPOINTS, spec, folder, placeholders, "checkpoints"
        ),
        tensorboard=fill_patterns(
            spec.metrics.tensorboard, spec, folder, placeholders, "metrics.tensorboard"
        ),
        restart_arguments=texts.restart_arguments,
        notes=(
            *_notes(spec, allocation, processes),
            *_limit_notes(spec, price, device_count(assigned)),
        ),
        config_changes=config.changes,
        total_epochs=_total(spec, "epoch"),
        total_steps=_total(spec, "step"),
        **limits,
    )
    masked, secrets = _masked(plan, variables.whole)
    return Planned(masked, variables.whole, config.files, secrets)


def spell_command(spec: RunSpec) -> tuple[list[str], dict[str, str]]:
    """The argv and the environment that `spec` would have on the CPU; nothing is written.

    Raises WrongInput when a path, program or variable it names does not exist.
    """
    run, nowhere = "preview", Path("preview").absolute()
    processes = spec.processes or 1
    texts = fill_texts(spec, placeholder_values(spec, run, nowhere, Allocation(), processes))
    environment = _environment(spec, texts.environment, Allocation(), None).whole
    folder = _working_directory(spec, texts.working_directory)
    config = plan_config(spec, folder / Path(texts.config_file).expanduser(), nowhere)
    return _argv(spec, texts, folder, environment, processes, False, config.argv), environment


def _environment(
    spec: RunSpec, own: Mapping[str, str], allocation: Allocation, reading: GpuReading | None
) -> _Variables:
    added = {
        **_DEFAULT_ENVIRONMENT,
        **shutdown_environment(spec),
        **given_gpus(allocation.gpus),
        **visibility(allocation.gpus, reading),
        **own,
    }
    # A run that launches a run must not pass on its own mark: the new one is a run of its own.
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in (*ALL_VARIABLES, MARK, HELPER_MARK)
    }
    environment = without_secrets(environment) | added
    removed = tuple(name for name in ALL_VARIABLES if name in os.environ and name not in added)
    return _Variables(added, environment, removed)


def _completed(
    variables: _Variables, spec: RunSpec, argv: Sequence[str], run: Path, processes: int
) -> _Variables:
    """With what several nodes and the watching of the run need, where nobody has chosen it."""
    variables = variables.filled_up(node_environment(spec.node, variables.whole))
    return variables.filled_up(watched_environment(spec, argv, run, processes, variables.whole))


def _masked(plan: LaunchPlan, environment: Mapping[str, str]) -> tuple[LaunchPlan, dict[str, Any]]:
    """The plan as it may be written, and by their places the secrets that it no longer has."""
    # A shell may have put an inherited secret into the command.
    known = [
        value
        for name, value in environment.items()
        if len(value) >= _SURELY_SECRET and value[0] != "/" and mask_value(name, value) == MASK
    ]
    tree, secrets = mask_tree(msgspec.to_builtins(plan), known)
    travelling = {
        place: value for place, value in secrets.items() if not place.startswith("environment.")
    }
    return msgspec.convert(tree, LaunchPlan), travelling


def _notes(spec: RunSpec, allocation: Allocation, processes: int) -> tuple[str, ...]:
    """What a person should know before the run starts, each once."""
    everywhere = processes * (spec.node.count if spec.node else 1)
    batch = batch_notes(spec, everywhere) if allocation.gpus else ()
    batch = (*nodes_note(spec.node, processes), *batch)
    memory = memory_notes(spec.expect, allocation.gpus)
    return tuple(dict.fromkeys((*spec.warnings, *allocation.notes, *batch, *memory)))


def _total(spec: RunSpec, unit: str) -> int | None:
    """How many epochs or steps the preset says the run has; None when it does not say."""
    if spec.total is None or spec.total.unit != unit:
        return None
    if not spec.total.parameter:
        return spec.total.count
    named = next(
        (parameter for parameter in spec.parameters if parameter.name == spec.total.parameter), None
    )
    value = None if named is None else named.value
    return int(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _limit_notes(spec: RunSpec, price: Price | None, gpus: Fraction) -> tuple[str, ...]:
    """What a limit of cost means for a run that nobody pays a session for."""
    if spec.limits.usd is None or price is None or price.basis == "session":
        return ()
    rate = hourly_rate(price, gpus)
    if rate:
        return (f"limits.cost: no session is open, it limits what the run would cost at ${rate}/h",)
    return ("limits.cost: a run on the CPU costs nothing, it is never reached",)


class _Limit(TypedDict):
    limit_s: float | None
    limit_usd: str


def _limit(spec: RunSpec, price: Price | None, gpus: Fraction) -> _Limit:
    """The earlier of the time limit and the moment at which the cost limit is spent."""
    found: list[tuple[float | None, str]] = []
    if spec.limits.seconds is not None:
        found.append((spec.limits.seconds, ""))
    if spec.limits.usd is not None:
        if price is None:
            raise WrongInput(
                "limits.cost: the run has no price", "give the preset a price, or use --price"
            )
        rate = hourly_rate(price, gpus)
        if rate:  # a run on the CPU of a GPU session costs nothing, and reaches no limit
            seconds = float(Decimal(spec.limits.usd) / rate * 3600)
            found.append((seconds, spec.limits.usd))
    earliest, usd = min(found, default=(None, ""), key=lambda pair: pair[0] or 0.0)
    return {"limit_s": earliest, "limit_usd": usd}


def _working_directory(spec: RunSpec, text: str) -> Path:
    # Relative to the preset, so that it means the same wherever the command is given.
    base = Path(spec.source).absolute().parent if spec.source else Path.cwd()
    folder = (base / Path(text).expanduser()).resolve() if text else Path.cwd()
    if not folder.is_dir():
        raise WrongInput(f"working_directory: no folder {folder}", "make it, or change the preset")
    # Plans are JSON, and so UTF-8: another name could not be read back.
    try:
        str(folder).encode()
    except UnicodeEncodeError:
        raise WrongInput(
            "working_directory: its name is not UTF-8", "run it from a folder whose name is"
        ) from None
    return folder


def _argv(
    spec: RunSpec,
    texts: FilledTexts,
    folder: Path,
    environment: Mapping[str, str],
    processes: int,
    on_gpu: bool,
    config: Sequence[str] = (),
) -> list[str]:
    traits, program, interpreter = traits_of(spec.launcher), [*texts.program], ""
    if traits.runs_python:
        interpreter = _interpreter(texts.interpreter, folder, environment)
        if not spec.module:
            program = [_script(texts.program[0], folder)]
    else:
        program[0] = _executable(program[0], folder, environment)
    parts = CommandParts(
        interpreter,
        program,
        [*config, *texts.arguments],
        texts.launcher_arguments,
        processes,
        texts.port,
        on_gpu,
        spec.node,
    )
    return wrapped(traits.spell(parts), spec.terminal, traits.runs_python)


def _script(name: str, folder: Path) -> str:
    script = folder / Path(name).expanduser()
    if not script.is_file():
        raise WrongInput(f"script: no file {script}", f"the working directory is {folder}")
    return str(script)


def _interpreter(name: str, folder: Path, environment: Mapping[str, str]) -> str:
    # Debian and others have no `python` without a venv.
    if name == "python" and shutil.which("python", path=environment.get("PATH")) is None:
        name = "python3"
    return _executable(name, folder, environment)


def _executable(name: str, folder: Path, environment: Mapping[str, str]) -> str:
    expanded = Path(name).expanduser()
    place = environment.get("PATH")
    found = shutil.which(str(folder / expanded)) if "/" in name else shutil.which(name, path=place)
    if found is None:
        raise WrongInput(f"no program `{name}`", f"looked in {folder if '/' in name else 'PATH'}")
    return found
