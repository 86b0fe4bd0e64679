"""Sweeps on the command line of `launch`, `plan` and `verify`: one RunSpec for each combination."""

import argparse
from collections.abc import Callable, Sequence

import msgspec

from runners.lifecycle.launch.search import waiting_note
from runners.model.errors import WrongInput
from runners.model.spec import RunSpec
from runners.presets.search import RANDOM, make_search, parse_sampler, require_sampler
from runners.presets.sweeps import SampleRange, Variant, as_sweep, expand, varied_keys
from runners.watch.metrics.sample import higher_is_better, metric_name
from tui.cli.output import say

Maker = Callable[[list[str], str], list[RunSpec]]
"""The RunSpecs for overrides and a name."""


def swept(
    arguments: argparse.Namespace, make: Maker, several: Callable[[str], bool]
) -> list[RunSpec]:
    """The runs that the overrides stand for: those of one launch, or a sweep's, as a group whose
    members start one by one.
    """
    if arguments.sampler is not None and arguments.samples is None:
        raise WrongInput(
            f"--sampler {arguments.sampler}: how many runs?",
            "add --samples N: --set lr=1e-5..1e-3:log --samples 20 --sampler tpe",
        )
    variants = expand(arguments.overrides, several, arguments.samples, arguments.sample_seed)
    if len(variants) == 1 and not variants[0].varied:
        for flag in ("parallel", "stop_hopeless", "sampler"):
            if getattr(arguments, flag, None) is not None:
                raise WrongInput(
                    f"--{flag.replace('_', '-')} goes with a sweep",
                    "--set lr=1e-4,3e-4 makes one",
                )
        return make(list(arguments.overrides), arguments.name)
    if arguments.sampler is not None and parse_sampler(arguments.sampler)[0] != RANDOM:
        return _searched(arguments, make, varied_keys(arguments.overrides, several), variants)
    members = [(_member(arguments, make, variant), variant.label) for variant in variants]
    specs = as_sweep(members, arguments.name, arguments.parallel)
    say(_words(specs[0].group, len(specs), arguments.parallel))
    return specs


def _searched(
    arguments: argparse.Namespace,
    make: Maker,
    varied: dict[str, list[str] | SampleRange],
    variants: Sequence[Variant],
) -> list[RunSpec]:
    """The runs of a sweep whose values are suggested when each has its turn."""
    name, metric, higher = parse_sampler(arguments.sampler)
    require_sampler(name)
    metric = metric_name(metric)
    _check_ends(arguments, make, varied, variants[0])
    specs = [_member(arguments, make, _open(arguments, variant)) for variant in variants]
    if higher is None:
        higher = True if metric in specs[0].metrics.higher else higher_is_better(metric or "loss")
    if higher is None:
        raise WrongInput(
            f"--sampler {arguments.sampler}: is more or less of {metric} better?",
            f"say so: --sampler {name}:{metric}:max, or :min",
        )
    search = make_search((name, metric, higher), varied, len(variants), int(arguments.sample_seed))
    digits = len(str(len(specs)))
    members = [(spec, f"{i:0{digits}}") for i, spec in enumerate(specs, 1)]
    # A sampler learns from what has ended: all at once would teach it nothing.
    parallel = arguments.parallel or 1
    sweep = [
        msgspec.structs.replace(
            spec, search=search, warnings=(*spec.warnings, waiting_note(search))
        )
        for spec in as_sweep(members, arguments.name, parallel)
    ]
    say(_words(sweep[0].group, len(sweep), parallel))
    say(f"{waiting_note(search)}, for the {'most' if higher else 'least'} {metric or 'loss'}")
    return sweep


def _open(arguments: argparse.Namespace, variant: Variant) -> Variant:
    """The variant of a run whose values are not known yet: a command keeps its placeholders, a
    preset has values of which its own will take the place.
    """
    if arguments.command_words is None or arguments.again is not None:
        return variant
    fixed = [one for one in variant.overrides if one.partition("=")[0] not in variant.varied]
    return variant._replace(overrides=fixed)


def _check_ends(
    arguments: argparse.Namespace,
    make: Maker,
    varied: dict[str, list[str] | SampleRange],
    variant: Variant,
) -> None:
    """Raise WrongInput for a range that goes beyond what its parameter may be."""
    for end in range(2):
        overrides = []
        for override in variant.overrides:
            key = override.partition("=")[0]
            values = varied.get(key.removeprefix("parameters."))
            if isinstance(values, SampleRange):
                override = f"{key}={(values.low, values.high)[end]:.6g}"
            overrides.append(override)
        _member(arguments, make, variant._replace(overrides=overrides))


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
