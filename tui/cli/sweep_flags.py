"""Sweeps on the command line of `launch`, `plan` and `verify`."""

import argparse

from runners.lifecycle.launch.sweep import SweepWish, sweep_of
from runners.model.errors import WrongInput
from runners.model.spec import RunSpec
from tui.cli.output import echo
from tui.cli.spec_sources import SpecSource


def swept(arguments: argparse.Namespace, source: SpecSource) -> list[RunSpec]:
    """The runs that the overrides describe: one launch, or a sweep as a group."""

    def member(overrides: list[str]) -> RunSpec:
        specs = source.specs(overrides, "")
        if len(specs) > 1:
            raise WrongInput(
                f"`{arguments.preset}` starts {len(specs)} runs together: it cannot be swept",
                "sweep the preset of one of them",
            )
        return specs[0]

    request = SweepWish(
        arguments.samples,
        int(arguments.sample_seed),
        arguments.sampler,
        arguments.parallel,
        getattr(arguments, "early_stop", None),
        arguments.name,
    )
    open_ended = arguments.trailing_command is not None and arguments.again is None
    sweep = sweep_of(request, arguments.overrides, member, source.takes_several, open_ended)
    if sweep is None:
        return source.specs(list(arguments.overrides), arguments.name)
    group = sweep.specs[0].group
    echo(f"sweep {group}: {sweep.size}; `fresnel-tui compare {group}` ranks them")
    for line in sweep.notes:
        echo(line)
    return sweep.specs
