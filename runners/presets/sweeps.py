"""Several values of a parameter on one command line: a grid of all combinations, or random samples.

`lr=1e-4,3e-4` and `seed=0..2` are values; `lr=1e-5..1e-3:log` is a range to sample from. Commas
and ranges count where the value is a number, yes or no, or one of a few choices; in texts and
lists they stand for themselves, and `{a,b}` around the values makes a sweep of these too.
"""

import math
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from typing import NamedTuple

import msgspec

from runners.model.errors import WrongInput
from runners.model.late_pattern import late_pattern
from runners.model.masking import mask_value
from runners.model.sampler_search import SearchAxis
from runners.model.spec import RunSpec

MOST_RUNS = 200
_LONGEST_NAME = 60
_EXACT = 1 << 53
"""The ends of a range are floats, which hold no whole number beyond it exactly."""
_MOST_DIGITS = 16
_UNTYPABLE = r"[^\w.+=-]+"
_PLACE = r"[ _-]*\{[^{}]*\}"
_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_RANGE = late_pattern(rf"({_NUMBER})\.\.({_NUMBER})(?:\.\.({_NUMBER}))?(:log)?")
_MAPPING = late_pattern(r":(?:\s|$)").search
_SAYING = "values as lr=1e-4,3e-4 or seed=0..2; with --samples ranges as lr=1e-5..1e-3:log"


class Variant(NamedTuple):
    """One run of a sweep: its overrides, and those of them that vary."""

    overrides: list[str]
    varied: dict[str, str]

    @property
    def label(self) -> str:
        """What tells it from the others, for its name: `lr1e-4-seed0`."""
        return _joined(self.varied)


def expand(
    overrides: Sequence[str],
    takes_several: Callable[[str], bool],
    samples: int | None = None,
    seed: int = 0,
) -> list[Variant]:
    """The runs that `KEY=VALUE` overrides stand for; one where no value varies.

    `takes_several` says of a key whether commas and ranges count in its value.

    WrongInput for a range without `samples`, samples of nothing, and more than MOST_RUNS.
    """
    axes = _axes(overrides, takes_several)
    if samples is not None and not axes:
        raise WrongInput(f"--samples {samples}: nothing varies", _SAYING)
    if samples is not None and not 1 <= samples <= MOST_RUNS:
        raise WrongInput(f"--samples {samples}: expected 1 to {MOST_RUNS}")
    if not axes:
        return [Variant(list(overrides), {})]
    combinations = _grid(axes) if samples is None else _sampled(axes, samples, seed)
    variants = []
    for texts in combinations:
        chosen = dict(zip(axes, texts, strict=True))
        changed = [
            f"{override.partition('=')[0]}={chosen[i]}" if i in chosen else override
            for i, override in enumerate(overrides)
        ]
        shown = {axes[i].key: _label(axes[i], text) for i, text in chosen.items()}
        variants.append(Variant(changed, shown))
    return variants


def _label(axis: SearchAxis, text: str) -> str:
    """A value as it stands in names and ids: of a secret only which of the values it is."""
    if mask_value(axis.key.rpartition(".")[2], text) == text:
        return text
    return str(axis.values.index(text) + 1) if axis.values else ""


def varied_keys(
    overrides: Sequence[str], takes_several: Callable[[str], bool]
) -> dict[str, SearchAxis]:
    """What has several values among `KEY=VALUE` overrides, by its key."""
    return {axis.key: axis for axis in _axes(overrides, takes_several).values()}


def as_sweep(
    members: Sequence[tuple[RunSpec, Mapping[str, str]]],
    name: str = "",
    parallel: int | None = None,
) -> list[RunSpec]:
    """Specs, each with its values by key, as one group whose members start by themselves.

    Values stand in a run's name where `name` has `{KEY}`, else at its end. At most `parallel` run
    at once. WrongInput for a limit below 1.
    """
    if parallel is not None and parallel < 1:
        raise WrongInput(f"--parallel {parallel}: expected 1 or more")
    base = name or members[0][0].name
    stem = re.sub(_PLACE, "", base).strip() or members[0][0].name
    group = f"{stem}-{os.urandom(2).hex()}"
    return [
        msgspec.structs.replace(
            spec,
            name=_named(base, values)[:_LONGEST_NAME],
            group=group,
            parallel=parallel or 0,
            swept={key: text for key, text in values.items() if key},
        )
        for spec, values in members
    ]


def _named(base: str, values: Mapping[str, str]) -> str:
    filled = base
    for key, text in values.items():
        filled = filled.replace(f"{{{key}}}", re.sub(_UNTYPABLE, "_", text))
    return f"{base}-{re.sub(_UNTYPABLE, '_', _joined(values))}" if filled == base else filled


def _joined(values: Mapping[str, str]) -> str:
    return "-".join(f"{key.rpartition('.')[2]}{text}" for key, text in values.items())


def _axes(overrides: Sequence[str], takes_several: Callable[[str], bool]) -> dict[int, SearchAxis]:
    """What varies, by its place among the overrides."""
    axes, keys = dict[int, SearchAxis](), list[str]()
    for i, override in enumerate(overrides):
        key, _, text = override.partition("=")
        key = key.removeprefix("parameters.")
        axis = _axis(override, key, text, takes_several(key))
        if axis is not None:
            axes[i] = axis
        keys.append(key)
    for axis in axes.values():
        if keys.count(axis.key) > 1:  # its runs would be called by values that they do not have
            raise WrongInput(f"--set {axis.key}: given twice, and it varies", _SAYING)
    return axes


def _axis(override: str, key: str, text: str, several: bool) -> SearchAxis | None:
    """The values of one override, or the range; None where it is one value."""
    # `{times: 3, backoff: 1s}` is YAML's mapping, the value of a key of the preset.
    braces = text.startswith("{") and text.endswith("}") and "," in text and not _MAPPING(text)
    if braces:
        return SearchAxis(key, _parted(override, text[1:-1]))
    if not several:
        return None
    matched = _RANGE.fullmatch(text)
    if matched:
        return _range(override, key, *matched.groups())
    if "," not in text or text.startswith("["):
        return None
    return SearchAxis(key, _parted(override, text))


def _parted(override: str, text: str) -> tuple[str, ...]:
    parts = [part.strip() for part in text.split(",")]
    if not all(parts):
        raise WrongInput(f"--set {override}: a value between the commas is missing", _SAYING)
    return tuple(dict.fromkeys(parts))


def _range(
    override: str, key: str, low: str, high: str, step: str | None, log: str | None
) -> SearchAxis:
    whole = all(re.fullmatch(r"[-+]?\d+", word) for word in (low, high, step or "1"))
    first, last = float(low), float(high)
    if not math.isfinite(last - first) or (whole and max(-first, last) > _EXACT):
        raise WrongInput(f"--set {override}: an end of the range is too large for a number")
    if last < first:
        raise WrongInput(f"--set {override}: the range ends before it begins")
    if log and first <= 0:
        raise WrongInput(f"--set {override}: a logarithmic range begins above 0")
    if step is None:
        return SearchAxis(key, (), first, last, bool(log), whole)
    pace = float(step)
    if log or pace <= 0:
        raise WrongInput(f"--set {override}: expected FIRST..LAST..STEP with a step above 0")
    if (last - first) / pace > MOST_RUNS:
        raise WrongInput(
            f"--set {override}: more than {MOST_RUNS} values; {MOST_RUNS} runs are the most"
        )
    return SearchAxis(key, tuple(_steps(low, high, step)))


def _steps(low: str, high: str, step: str) -> Iterator[str]:
    """The values of a range with a step, in decimal digits as it was typed: none is rounded."""
    from decimal import Decimal  # few sweeps have a step

    pace, value = Decimal(step), Decimal(low)
    while value <= Decimal(high):
        exact = value.normalize()
        yield f"{exact:f}" if -5 < exact.adjusted() < _MOST_DIGITS else f"{exact:e}"
        value += pace


def _grid(axes: dict[int, SearchAxis]) -> list[tuple[str, ...]]:
    columns = []
    for axis in axes.values():
        values = axis.values
        if not values:
            if axis.log or not axis.whole:
                raise WrongInput(
                    f"--set {axis.key}: a range of numbers has to be sampled",
                    "add --samples N, or give the values themselves: a,b,c",
                )
            count = round(axis.high - axis.low) + 1
            if count > MOST_RUNS:
                raise WrongInput(f"--set {axis.key}: {count} values; {MOST_RUNS} runs are the most")
            values = tuple(str(round(axis.low) + i) for i in range(count))
        columns.append(values)
    total = math.prod(map(len, columns))
    if total > MOST_RUNS:
        raise WrongInput(
            f"these are {total:,} combinations; {MOST_RUNS} runs are the most",
            "--samples N takes some of them at random",
        )
    return list(product(*columns))


def _sampled(axes: dict[int, SearchAxis], samples: int, seed: int) -> list[tuple[str, ...]]:
    from random import Random  # most sweeps take every combination

    source = Random(seed)
    return [tuple(axis.draw(source) for axis in axes.values()) for _ in range(samples)]
