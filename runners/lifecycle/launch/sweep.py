"""A sweep as it is asked for, by flags or in a form: one RunSpec for each of its runs."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import msgspec

from runners.model.errors import WrongInput
from runners.model.metric_rule import BestMetric
from runners.model.sampler_search import Search, SearchAxis
from runners.model.spec import RunSpec
from runners.presets.load import command_spec
from runners.presets.sweeps import Variant, as_sweep, expand, varied_keys
from runners.watch.metrics.sample import metric_name

Maker = Callable[[list[str]], RunSpec]
"""The RunSpec for `KEY=VALUE` overrides with one value each."""


class SpecSource(Protocol):
    """What runs are made of: overrides give RunSpecs, one or those of a group."""

    @property
    def open_ended(self) -> bool:
        """Whether its command keeps the placeholders of values that are not known yet."""
        ...

    def specs(self, overrides: list[str], name: str) -> list[RunSpec]:
        """The RunSpecs with `KEY=VALUE` overrides and a name; WrongInput for what does not go."""
        ...

    def takes_several(self, key: str) -> bool:
        """Whether commas and ranges in the value of `key` are values of a sweep."""
        ...


class SweepWish(NamedTuple):
    """A sweep besides its values: `sampler` NAME[:METRIC[:max|min]], `rule` median[:METRIC]."""

    samples: int | None = None
    seed: int = 0
    sampler: str | None = None
    parallel: int | None = None
    rule: str | None = None
    name: str = ""


class Sweep(NamedTuple):
    """The runs, as a group whose members start one by one, and what is worth saying of them."""

    specs: list[RunSpec]
    notes: list[str]

    @property
    def size(self) -> str:
        """How many runs there are, and how many at a time."""
        parallel = self.specs[0].parallel
        return f"{len(self.specs)} runs" + (f", {parallel} at a time" if parallel else "")


def sweep_of(request: SweepWish, overrides: Sequence[str], source: SpecSource) -> Sweep | None:
    """The sweep that overrides stand for; None where nothing varies.

    WrongInput says what does not go.
    """

    def make(overrides: list[str]) -> RunSpec:
        specs = source.specs(overrides, "")
        if len(specs) > 1:
            raise WrongInput(
                f"the preset starts {len(specs)} runs together: it cannot be swept",
                "sweep the preset of one of them",
            )
        return specs[0]

    if request.sampler is not None and request.samples is None:
        raise WrongInput(
            f"--sampler {request.sampler}: how many runs?",
            "add --samples N, and ranges: --set lr=1e-5..1e-3:log",
        )
    judging_metric(request.rule)
    variants = expand(overrides, source.takes_several, request.samples, request.seed)
    if len(variants) == 1 and not variants[0].varied:
        asked = {
            "parallel": request.parallel,
            "early-stop": request.rule,
            "sampler": request.sampler,
        }
        for flag, value in asked.items():
            if value is not None:
                raise WrongInput(f"--{flag} goes with a sweep", "--set lr=1e-4,3e-4 makes one")
        return None
    if request.sampler is not None:
        from runners.presets.sampler_flag import RANDOM, parse_sampler  # few sweeps have one

        if parse_sampler(request.sampler)[0] != RANDOM:
            axes = varied_keys(overrides, source.takes_several)
            return _searched(request, make, axes, variants, source.open_ended)
    members = [(make(variant.overrides), variant.varied) for variant in variants]
    return Sweep(as_sweep(members, request.name, request.parallel), [])


def _searched(
    request: SweepWish,
    make: Maker,
    varied: dict[str, SearchAxis],
    variants: Sequence[Variant],
    open_ended: bool,
) -> Sweep:
    """The runs of a sweep whose values are suggested when each has its turn."""
    from runners.lifecycle.launch.sampled_runs import waiting_note
    from runners.presets import sampler_flag
    from runners.watch.metrics.judging import higher_by

    name, metric, higher = sampler_flag.parse_sampler(request.sampler or "")
    sampler_flag.require_sampler(name, varied.values())
    metric = metric_name(metric)
    _check_ends(make, varied, variants[0])
    specs = [make(_open(variant) if open_ended else variant.overrides) for variant in variants]
    if not metric and specs[0].best is not None:
        metric = specs[0].best.metric
    if higher is None:
        higher = higher_by(specs[0], metric or "loss")
    if higher is None:
        raise WrongInput(
            f"--sampler {request.sampler}: is more or less of {metric} better?",
            f"say so: --sampler {name}:{metric}:max, or :min",
        )
    search = Search(name, (*varied.values(),), len(variants), metric, higher, request.seed)
    digits = len(str(len(specs)))
    members = [(spec, {"": f"{i:0{digits}}"}) for i, spec in enumerate(specs, 1)]
    # A sampler learns from what has ended: all at once would teach it nothing.
    runs = as_sweep(members, request.name, request.parallel or 1)
    note = waiting_note(search)
    # Tables and comparisons judge these runs as their sampler does.
    best = BestMetric(metric, higher) if metric else None
    sweep = [
        msgspec.structs.replace(spec, search=search, best=best, warnings=(*spec.warnings, note))
        for spec in runs
    ]
    notes = [
        f"{note}, for the {'most' if higher else 'least'} {metric or 'loss'}",
        *sampler_flag.drawn_at_random(name, varied.values()),
    ]
    return Sweep(sweep, notes)


def _open(variant: Variant) -> list[str]:
    """The overrides of a run whose values are not known yet, for a command with placeholders."""
    return [
        override
        for override in variant.overrides
        if override.partition("=")[0] not in variant.varied
    ]


def _check_ends(make: Maker, varied: dict[str, SearchAxis], variant: Variant) -> None:
    """Raise WrongInput for a range that goes beyond what its parameter may be."""
    for end in range(2):
        overrides = []
        for override in variant.overrides:
            key = override.partition("=")[0]
            axis = varied.get(key.removeprefix("parameters."))
            if axis is not None and not axis.values:
                override = f"{key}={axis.ends[end]}"
            overrides.append(override)
        make(overrides)


def judging_metric(rule: str | None) -> str | None:
    """The metric that `median[:METRIC]` judges by, empty for the loss; None without a rule."""
    if rule is None:
        return None
    name, _, metric = rule.partition(":")
    if name != "median":
        raise WrongInput(f"--early-stop {rule}: expected median or median:METRIC")
    return metric


def takes_several(spec: RunSpec, key: str, unknown: bool = False) -> bool:
    """Whether commas and ranges in the value of `key` are values of a sweep.

    Those of a parameter are, by its type; `unknown` says it of what is no parameter of `spec`.
    """
    known = (parameter for parameter in spec.parameters if parameter.name == key)
    return next((p.type in ("int", "float", "bool") or bool(p.choices) for p in known), unknown)


def filled_command(command: Sequence[str], overrides: list[str], name: str) -> RunSpec:
    """The RunSpec of a command in which `{KEY}` stands for the value of an override."""
    filled, others = fill_placeholders(command, overrides)
    return command_spec(filled, others, name)


def fill_placeholders(command: Sequence[str], overrides: list[str]) -> tuple[list[str], list[str]]:
    """A command with `{KEY}` filled in from the overrides, and the overrides it does not name."""
    filled, others = list(command), []
    for override in overrides:
        key, equals, value = override.partition("=")
        mark = f"{{{key}}}"
        if equals and any(mark in word for word in filled):
            filled = [word.replace(mark, value) for word in filled]
        else:
            others.append(override)
    return filled, others
