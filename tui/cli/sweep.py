"""Sweeps on the command line of `launch`, `plan` and `verify`: one RunSpec for each combination."""

import argparse
from collections.abc import Callable, Sequence

from runners.model.errors import WrongInput
from runners.model.spec import RunSpec
from runners.presets.sweeps import Variant, as_sweep, expand
from tui.cli.output import say

Maker = Callable[[list[str], str], list[RunSpec]]
"""The RunSpecs for overrides and a name."""


def swept(
    arguments: argparse.Namespace, make: Maker, several: Callable[[str], bool]
) -> list[RunSpec]:
    """The runs that the overrides stand for: those of one launch, or a sweep's, as a group whose
    members start one by one.
    """
    variants = expand(arguments.overrides, several, arguments.samples, arguments.sample_seed)
    if len(variants) == 1 and not variants[0].varied:
        for flag in ("parallel", "stop_hopeless"):
            if getattr(arguments, flag, None) is not None:
                raise WrongInput(
                    f"--{flag.replace('_', '-')} goes with a sweep",
                    "--set lr=1e-4,3e-4 makes one",
                )
        return make(list(arguments.overrides), arguments.name)
    members = [(_member(arguments, make, variant), variant.label) for variant in variants]
    specs = as_sweep(members, arguments.name, arguments.parallel)
    say(_words(specs[0].group, len(specs), arguments.parallel))
    return specs


def _member(arguments: argparse.Namespace, make: Maker, variant: Variant) -> RunSpec:
    specs = make(variant.overrides, "")
    if len(specs) > 1:
        raise WrongInput(
            f"`{arguments.preset}` starts {len(specs)} runs together: it cannot be swept",
            "sweep the preset of one of them",
        )
    return specs[0]


def _words(group: str, count: int, parallel: int | None) -> str:
    limit = f", {parallel} at a time" if parallel else ""
    return f"sweep {group}: {count} runs{limit}; `fresnel-tui compare {group}` ranks them"


def sweep_metric(arguments: argparse.Namespace) -> str | None:
    """The metric that `--stop-hopeless median[:METRIC]` judges by, empty for the loss; None
    without it.
    """
    if arguments.stop_hopeless is None:
        return None
    rule, _, metric = arguments.stop_hopeless.partition(":")
    if rule != "median":
        raise WrongInput(
            f"--stop-hopeless {arguments.stop_hopeless}: expected median or median:METRIC"
        )
    return str(metric)


def fill_placeholders(command: Sequence[str], overrides: list[str]) -> tuple[list[str], list[str]]:
    """A command with `{KEY}` replaced by the values of `KEY=VALUE` overrides, and the overrides
    that name none of its placeholders.
    """
    words, others = list(command), []
    for override in overrides:
        key, equals, value = override.partition("=")
        mark = f"{{{key}}}"
        if equals and any(mark in word for word in words):
            words = [word.replace(mark, value) for word in words]
        else:
            others.append(override)
    return words, others
