"""The command line of `launch` and `plan` as RunSpecs."""

import argparse
import shlex
from functools import cached_property
from typing import Any, Literal

import msgspec

from runners.gpus.client import read_gpus
from runners.lifecycle.launch.sweep import (
    SpecSource,
    SweepWish,
    filled_command,
    sweep_of,
    takes_several,
)
from runners.model.cluster import PlaceKeys, SlurmKeys
from runners.model.errors import WrongInput
from runners.model.launchers import place_on_nodes
from runners.model.parameters import with_values
from runners.model.program import MEETING_PORT, chosen_gpus
from runners.model.python_command import devices_of
from runners.model.scaling import rescaled
from runners.model.spec import GpuRequest, NodePlace, RunSpec, ScalingRule
from runners.presets.load import with_wishes
from runners.presets.slurm_text import slurm_keys
from runners.state.layout import StateDirectory
from runners.state.runs import find_run
from tui.cli.given_variables import given_variables
from tui.cli.output import echo


class PresetSource:
    """A preset, by its name or file."""

    open_ended = False

    def __init__(self, preset: str) -> None:
        self.preset = preset

    def specs(self, overrides: list[str], name: str) -> list[RunSpec]:
        """The runs that the preset starts."""
        from runners.presets.catalogue import resolve_runs  # a command needs none

        return resolve_runs(self.preset, overrides, name)

    @cached_property
    def _unchanged(self) -> list[RunSpec]:
        return self.specs([], "")

    def takes_several(self, key: str) -> bool:
        """Whether a parameter of the one run takes several values; a group has none of its own."""
        return len(self._unchanged) == 1 and takes_several(self._unchanged[0], key)


class CommandSource:
    """A command after `--`; `{KEY}` in it stands for a value given by `--set KEY=VALUE`."""

    open_ended = True

    def __init__(self, command: list[str]) -> None:
        self.command = command

    def specs(self, overrides: list[str], name: str) -> list[RunSpec]:
        """The one run of the command."""
        return [filled_command(self.command, overrides, name)]

    def takes_several(self, key: str) -> bool:
        """Whether the command has a place for the key's value."""
        return any(f"{{{key}}}" in word for word in self.command)


class RunSource:
    """An old run that is launched again, with other `flags` where some stand after `--`."""

    open_ended = False

    def __init__(self, run: str, flags: list[str] | None) -> None:
        self.run = run
        self.flags = flags

    @cached_property
    def _spec(self) -> RunSpec:
        from runners.lifecycle.control.relaunch import relaunch_spec
        from runners.lifecycle.launch.variation import with_flags

        state = StateDirectory()
        spec = relaunch_spec(state, find_run(state, self.run))
        return spec if self.flags is None else with_flags(spec, self.flags)

    def specs(self, overrides: list[str], name: str) -> list[RunSpec]:
        """The run's own spec, changed."""
        from runners.lifecycle.launch.variation import varied

        return [varied(self._spec, overrides, name)]

    def takes_several(self, key: str) -> bool:
        """Whether several values of the key make several runs: of parameters by their type."""
        from runners.lifecycle.launch.variation import takes_one_value

        return takes_several(self._spec, key, unknown=not takes_one_value(key))


def specs_from(arguments: argparse.Namespace) -> list[RunSpec]:
    """The RunSpecs that the command line describes: one, or those of a group or sweep."""
    ways = [way for way in (arguments.preset, arguments.again) if way is not None]
    command = arguments.trailing_command
    if len(ways) > 1 or (arguments.preset is not None and command is not None):
        raise WrongInput(
            "give one of them: a preset, a command after --, or --again RUN",
            "a preset's parameters: --set KEY=…",
        )
    if not (ways or command is not None or arguments.resume):
        raise WrongInput(
            "nothing to launch: no preset and no command given",
            "fresnel-tui launch PRESET, or fresnel-tui launch -- COMMAND ARGS…",
        )
    if arguments.resume is not None:
        _refuse_sweep(arguments)
    specs = _swept(arguments, _source(arguments))
    _check_together(arguments, specs)
    return [_apply_flags(spec, arguments) for spec in specs]


def _source(arguments: argparse.Namespace) -> SpecSource:
    if arguments.resume is not None:
        from tui.cli.resumed_source import ResumedSource  # reads checkpoints: few launches do

        return ResumedSource(arguments, _gpu_request(arguments))
    if arguments.again is not None:
        return RunSource(arguments.again, arguments.trailing_command)
    if arguments.trailing_command is not None:
        return CommandSource(arguments.trailing_command)
    return PresetSource(arguments.preset)


def _swept(arguments: argparse.Namespace, source: SpecSource) -> list[RunSpec]:
    """The runs that the overrides describe: one launch, or a sweep as a group."""
    request = SweepWish(
        arguments.samples,
        int(arguments.sample_seed),
        arguments.sampler,
        arguments.parallel,
        getattr(arguments, "early_stop", None),
        arguments.name,
    )
    sweep = sweep_of(request, arguments.overrides, source)
    if sweep is None:
        return source.specs(list(arguments.overrides), arguments.name)
    group = sweep.specs[0].group
    compare = shlex.join(["fresnel-tui", "compare", group])
    echo(f"sweep {group}: {sweep.size}; `{compare}` ranks them")
    for line in sweep.notes:
        echo(line)
    return sweep.specs


def _refuse_sweep(arguments: argparse.Namespace) -> None:
    """WrongInput for a flag of a sweep: one run goes on from one checkpoint."""
    for name in ("samples", "sampler", "parallel", "early_stop"):
        if getattr(arguments, name, None) is not None:
            flag = f"--{name.replace('_', '-')}"
            raise WrongInput(
                f"--resume goes on with one run, and {flag} goes with a sweep",
                f"leave {flag} away; a preset can be swept: launch PRESET --set lr=1e-4,3e-4",
            )


def _check_together(arguments: argparse.Namespace, specs: list[RunSpec]) -> None:
    group = len(specs) > 1 and specs[0].parallel is None
    if group and (arguments.gpus is not None or arguments.gpu_ids is not None):
        raise WrongInput(
            f"`{arguments.preset}` starts {len(specs)} runs with GPUs of their own",
            f"change one of them: --set {specs[0].name}.gpus=0-3",
        )
    if arguments.scale is not None and all(spec.scaling is None for spec in specs):
        names = ", ".join(f"`{spec.preset}`" for spec in specs)
        raise WrongInput(
            f"--scale: {names} {'does' if len(specs) == 1 else 'do'} not say what the batch is",
            "give the preset the key `scaling`",
        )


def _apply_flags(spec: RunSpec, arguments: argparse.Namespace) -> RunSpec:
    request = _gpu_request(arguments)
    spec = _on_nodes(_on_slurm(spec, arguments), arguments)
    if arguments.scale is not None and spec.scaling is not None:
        spec = _rescale(spec, request or spec.gpus, arguments.scale)
    spec = with_wishes(spec, request, arguments.priority, arguments.after, arguments.price)
    changes: dict[str, Any] = {}
    if arguments.env:
        changes["environment"] = {**spec.environment, **given_variables(arguments.env)}
    if arguments.placement:
        changes["warnings"] = (*spec.warnings, f"placed on {arguments.placement}")
    if arguments.tty:
        changes["terminal"] = True
    return msgspec.structs.replace(spec, **changes)


def _on_slurm(spec: RunSpec, arguments: argparse.Namespace) -> RunSpec:
    """The spec as a job of Slurm, where one of its flags is given."""
    given = {
        name: str(value)
        for name in SlurmKeys.__struct_fields__
        if (value := getattr(arguments, f"slurm_{name}", None)) is not None
    }
    if not (given or getattr(arguments, "slurm", False)):
        return spec
    keys = slurm_keys(given, "--").over(spec.place.slurm or SlurmKeys())
    return msgspec.structs.replace(spec, place=PlaceKeys(slurm=keys))


def _on_nodes(spec: RunSpec, arguments: argparse.Namespace) -> RunSpec:
    """The spec for one of several machines, where the flags say so."""
    given = (arguments.nodes, arguments.node_rank, arguments.master_addr)
    if all(value is None for value in given):
        return spec
    keys = spec.place.slurm
    if keys is not None and given[1:] == (None, None):
        keys = msgspec.structs.replace(keys, nodes=arguments.nodes)
        return msgspec.structs.replace(spec, place=PlaceKeys(slurm=keys))
    if any(value is None for value in given) or arguments.nodes < 2:
        raise WrongInput(
            "several machines: --nodes 2 --node-rank 0 --master-addr ADDRESS, on each its own rank",
            "or --slurm --nodes 2",
        )
    text = arguments.node_addresses
    addresses = tuple(text.split(",")) if text else ()
    place = NodePlace(*given, arguments.master_port or MEETING_PORT, addresses=addresses)
    return place_on_nodes(spec, place)


def _gpu_request(arguments: argparse.Namespace) -> GpuRequest | None:
    try:
        return chosen_gpus(arguments.gpus, arguments.gpu_ids)
    except ValueError as error:
        raise WrongInput(f"{'--gpu-ids' if arguments.gpu_ids else '--gpus'}: {error}") from None


def _rescale(spec: RunSpec, request: GpuRequest, rule: ScalingRule | Literal["batch"]) -> RunSpec:
    """The preset's samples on each device, and the learning rate by `rule`; changes are printed."""
    present = len(read_gpus(StateDirectory()).gpus) if spec.gpus.all or request.all else 0
    alone = msgspec.structs.replace(spec, node=None)
    before, devices = devices_of(alone, spec.gpus, present), devices_of(spec, request, present)
    changes = rescaled(spec, before, devices, "none" if rule == "batch" else rule)
    for name, value in changes.items():
        echo(f"--scale {rule}: {name}={value:g}")
    if rule != "batch" and spec.scaling is not None:
        spec = msgspec.structs.replace(
            spec, scaling=msgspec.structs.replace(spec.scaling, rule=rule)
        )
    return with_values(spec, changes)
