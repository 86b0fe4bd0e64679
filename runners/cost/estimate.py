"""What a run will take, before it is launched: by its preset's history, else its estimate.

Earlier runs count when they differ in nothing that costs time: the same parameters but for
those below, on as many GPUs of the same model. The number of epochs may differ: every epoch
after the first costs the same. Where there are none, runs with another batch or number of GPUs
count as `runners.model.workload` says. Of a run that goes on, only what is left is estimated.
"""

from collections.abc import Collection, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from operator import mul
from typing import Any, NamedTuple

import msgspec

from runners.cost.ledger import RunEntry, recent_runs
from runners.cost.rates import hourly_rate, money
from runners.host.clock import seconds_between
from runners.model.course import counted_total, stage_lengths
from runners.model.parameters import with_values
from runners.model.plan import Estimate
from runners.model.python_command import processes_for
from runners.model.spec import ConfigFile, Parameter, Price, RunSpec, Total
from runners.model.units import median
from runners.model.workload import (
    Workload,
    fitted_pace,
    time_factor,
    usual_workload,
    workload_of,
)
from runners.state.decoding import read
from runners.state.layout import RunDirectory, StateDirectory

NEWEST_RUNS = 200
"""How many of the newest ended runs are looked at; of those that fit, `ENOUGH` are read."""
ENOUGH = 5
FREE = frozenset({"epochs", "seed", "lr", "resume", "name", "data_seed", "checkpoint_every"})
"""Parameters that change the result, not what a step costs."""


class _Spec(msgspec.Struct):
    parameters: tuple[Parameter, ...] = ()
    config: ConfigFile | None = None
    total: Total | None = None
    stages_in_file: tuple[int, ...] = ()


class _Plan(msgspec.Struct):
    spec: _Spec


def forecast(
    state: StateDirectory,
    spec: RunSpec,
    gpus: Sequence[Any],
    price: Price | None,
    devices: Fraction | None = None,
    done: int = 0,
    asked: int = 0,
) -> Estimate | None:
    """What `spec` should take on `gpus`, each with a `name`; None when nothing is known.

    `devices` is how many they are to a bill, when some are parts of a card. It goes on after
    `done` epochs; one without GPUs that `asked` for some waits for them, and is none on the CPU.
    """
    model = ", ".join(sorted({str(gpu.name) for gpu in gpus})) or "CPU"
    course = _Course.of(spec, len(gpus) or asked, done)
    nodes = spec.node.count if spec.node is not None and spec.node.by_slurm else 1
    found = _history(state, spec, model, len(gpus) * nodes, course)
    billed = len(gpus) * nodes if devices is None else devices
    rate = None if price is None else hourly_rate(price, billed)
    if not found:
        doubt = ""
        if not gpus and spec.gpus.wants_gpus:
            doubt = "" if asked else "the preset's estimate is for a GPU, and this is the CPU"
            # What it would cost there: here, without GPUs, it costs nothing.
            wanted_gpus = len(spec.gpus.ids) or spec.gpus.number or 1
            rate = None if price is None else hourly_rate(price, wanted_gpus * nodes)
        return _by_word(spec, course, rate, doubt)
    epochs = course.epochs
    # The median: one run on a busy machine, or with a cold cache, does not move it.
    seconds = median([learned.seconds for learned in found])
    paces = [learned.pace for learned in found if learned.pace is not None]
    return Estimate(
        seconds,
        None if rate is None else str(round(money(rate, seconds), 6)),
        f"from {len(found)} earlier run{'s' if len(found) > 1 else ''} on {model}"
        + (" (simulated)" if any(getattr(gpu, "simulated", False) for gpu in gpus) else "")
        + (", fitted to this batch and number of GPUs" if found[0].is_fitted else "")
        + course.left_text(found[0].left),
        len(found),
        epochs,
        median(paces) if paces else None,
    )


class _Course(NamedTuple):
    """What a run has to do: its parameters, its length, what of it is done, its workload."""

    wanted: Mapping[str, Any]
    length: str
    epochs: int | None
    done: int
    workload: Workload | None
    resume: str = ""
    """The parameter that names the checkpoint it goes on from."""
    stages: tuple[int, ...] = ()
    """Epochs of each stage, where they are known."""
    of_stage: str = ""
    """What the parameters begin with that say them."""

    @staticmethod
    def of(spec: RunSpec, gpus: int, done: int) -> "_Course":
        """The course of `spec` on so many GPUs, after `done` epochs."""
        wanted = {parameter.name: parameter.value for parameter in spec.parameters}
        epochs = sum(spec.stage_lengths) or _whole(spec.count_in(spec.length))
        nodes = spec.node.count if spec.node is not None else 1
        devices = processes_for(spec, gpus or spec.usual_devices) * nodes
        return _Course(
            wanted,
            spec.length,
            epochs,
            done if epochs else 0,
            workload_of(spec, devices),
            "" if spec.resume is None else spec.resume.parameter,
            spec.stage_lengths,
            spec.total.of_stage if spec.total is not None else "",
        )

    @property
    def left(self) -> int | None:
        """Epochs still to come, where the program has as many as its parameter says."""
        return None if self.epochs is None else max(0, self.epochs - self.done)

    def left_of(self, before: "_Rhythm") -> int | None:
        """Epochs still to come as the program counts them, by what an earlier run said."""
        planned = before.epochs
        if self.stages:
            planned = self.epochs  # as the program counts
        elif self.epochs:
            stated = before.stated
            planned = counted_total(self.epochs, before.epochs, stated)
        return None if planned is None else max(0, planned - self.done)

    def left_of_stages(self) -> tuple[int, ...]:
        """Epochs still to come in each stage."""
        begins = [sum(self.stages[:place]) for place in range(len(self.stages))]
        return tuple(
            max(0, length - max(0, self.done - begin))
            for length, begin in zip(self.stages, begins, strict=True)
        )

    def left_text(self, left: int | None) -> str:
        """What the estimate is for, where it is not for all of the run."""
        return (
            f"; for the {left:,} {self.length} that are left"
            if self.done and left is not None
            else ""
        )

    def costly(self, parameters: Mapping[str, Any], also: Collection[str] = ()) -> dict[str, Any]:
        """Those of `parameters` that change what a step costs."""
        free = FREE | {self.length, self.resume, *also}
        if self.of_stage:
            free |= {name for name in parameters if name.startswith(self.of_stage)}
        return {name: value for name, value in parameters.items() if name not in free}


class _Learned(NamedTuple):
    """What one run before it says: seconds, an epoch's, epochs that are left; whether fitted."""

    seconds: float
    pace: float | None
    left: int | None = None
    is_fitted: bool = False


def _history(
    state: StateDirectory, spec: RunSpec, model: str, gpus: int, course: _Course
) -> list[_Learned]:
    """What earlier runs say: those that cost the same, else those with another workload."""
    same: list[_Learned] = []
    others: list[tuple[Workload, _Rhythm]] = []
    for line in sorted(recent_runs(state), key=lambda line: line.run, reverse=True)[:NEWEST_RUNS]:
        if len(same) == ENOUGH:
            break
        if not _is_like(line, spec, model):
            continue
        rhythm = _rhythm(state.run(line.run), line, spec)
        if rhythm is None:
            continue
        if len(line.gpus) == gpus and course.costly(rhythm.parameters) == course.costly(
            course.wanted
        ):
            same += filter(None, [_learn(rhythm, course)])
        elif len(others) < ENOUGH and (work := _comparable(rhythm, spec, course, len(line.gpus))):
            others.append((work, rhythm))
    if same or course.workload is None:
        return same
    paces = [(work, rhythm.pace) for work, rhythm in others if rhythm.pace is not None]
    each = fitted_pace(course.workload, paces)
    if each is None or course.left is None:
        return []
    paced = [rhythm for _, rhythm in others if rhythm.pace is not None]
    around = median([rhythm.around for rhythm in paced])
    left = course.left_of(paced[0]) or 0
    return [_Learned(around + each * left, each, left, True)] * len(paces)


def _is_like(line: RunEntry, spec: RunSpec, model: str) -> bool:
    """True for an ended run of this preset on such GPUs."""
    # All bare commands have one preset, `command`, so they go by their names.
    same = line.preset == spec.preset and (spec.preset != "command" or line.name == spec.name)
    return same and line.gpu_name == model and line.state in ("done", "stopped", "failed")


class _Rhythm(NamedTuple):
    """An ended run: its parameters, how long it was, its epochs, and what lay around them."""

    parameters: Mapping[str, Any]
    whole: float
    is_done: bool
    epochs: int | None
    pace: float | None
    first: float
    after: float
    has_stages: bool = False
    ends: tuple[tuple[int, float], ...] = ()
    """When each epoch ended, in seconds since the run began."""
    stated: int | None = None
    """How many epochs its parameter, or its configuration file, said."""
    stages: tuple[int, ...] = ()
    """And how many in each stage, where that is known."""

    def of_stages(self) -> list[float] | None:
        """Seconds of each stage; None where not the ends of all are known."""
        at = dict(self.ends)
        lasts = [sum(self.stages[: place + 1]) for place in range(len(self.stages))]
        if not lasts or lasts[-1] != self.epochs or not {1, *lasts} <= at.keys():
            return None
        # What comes before its first epoch and compiles in it is none of the stage's own.
        each = (at[lasts[0]] - at[1]) / (lasts[0] - 1) if lasts[0] > 1 else at[1]
        begins = [at[1] - each, *(at[last] for last in lasts)]
        return [end - begin for begin, end in pairwise(begins)]

    def seconds_from(self, done: int) -> float:
        """What it took after so many of its epochs."""
        return self.whole - max((at for epoch, at in self.ends if epoch <= done), default=0.0)

    @property
    def around(self) -> float:
        """Seconds beside its epochs, the first one's surplus among them."""
        return max(0.0, self.first - (self.pace or 0.0)) + max(0.0, self.after)


def _rhythm(run: RunDirectory, line: RunEntry, spec: RunSpec) -> _Rhythm | None:
    """What an ended run says of the next; None where it went on, or had another configuration."""
    plan = read(run.plan, _Plan)
    if plan is None or line.finished is None or plan.spec.config != spec.config:
        return None
    from runners.watch.metrics.epoch_timing import read_epoch_timing  # of a program seen before

    parameters = {p.name: p.value for p in plan.spec.parameters}
    each = next((_whole(p.effective) for p in plan.spec.parameters if p.name == spec.length), None)
    stages = stage_lengths(plan.spec.parameters, plan.spec.total, plan.spec.stages_in_file)
    if not stages and each:
        stages = tuple(each for _ in spec.stage_lengths)  # begun before they were told
    whole, timing = seconds_between(line.began, line.finished), read_epoch_timing(run.path)
    first = after = 0.0
    if timing.seconds_per_epoch is not None:
        if timing.ends[0][0] != 1:
            return None  # resumed: its first epoch was not the program's first
        first = timing.ends[0][1] - line.began.wall
        # What follows the last epoch, such as an evaluation, is known of finished runs only.
        if line.state == "done":
            after = whole - (timing.ends[-1][1] - line.began.wall)
    return _Rhythm(
        parameters,
        whole,
        line.state == "done",
        timing.epochs,
        timing.seconds_per_epoch,
        first,
        after,
        bool(timing.ends) and timing.stage_from > timing.ends[0][1],
        tuple((epoch, at - line.began.wall) for epoch, at in timing.ends),
        sum(stages) or each,
        stages,
    )


def _learn(rhythm: _Rhythm, course: _Course) -> _Learned | None:
    """What a run that costs the same says; None where it says nothing."""
    # A program may know its epochs without a parameter of that name.
    left = course.left_of(rhythm)
    if rhythm.has_stages and rhythm.is_done and left is not None:
        # Each stage has its pace: no median is of all of them.
        spent = rhythm.of_stages() if len(rhythm.stages) == len(course.stages) else None
        if spent is not None and rhythm.stages != course.stages:
            parts = zip(spent, course.left_of_stages(), rhythm.stages, strict=True)
            more = sum(seconds * (left / length - 1) for seconds, left, length in parts)
            return _Learned(rhythm.whole + more, rhythm.pace, left)
        if left + course.done == rhythm.epochs:
            return _Learned(rhythm.seconds_from(course.done), rhythm.pace, left)
        part = left / rhythm.epochs if rhythm.epochs else 1.0
        return _Learned(rhythm.whole * part, rhythm.pace, left)
    if left is not None and rhythm.pace is not None:
        total = rhythm.first + rhythm.pace * (left - 1) + max(0.0, rhythm.after)
        return _Learned(max(0.0, total) if left else 0.0, rhythm.pace, left)
    same_length = rhythm.stated == course.epochs
    done_alike = rhythm.is_done and same_length and not course.done
    return _Learned(rhythm.whole, None) if done_alike else None


def _comparable(rhythm: _Rhythm, spec: RunSpec, course: _Course, gpus: int) -> Workload | None:
    """The workload of a run that differs in nothing else; None where it differs in more."""
    scaling = spec.scaling
    if scaling is None or rhythm.pace is None:
        return None
    free = {scaling.batch, scaling.learning_rate, "workers", "num_workers"}
    if course.costly(rhythm.parameters, free) != course.costly(course.wanted, free):
        return None
    batch = rhythm.parameters.get(scaling.batch)
    if not isinstance(batch, (int, float)) or isinstance(batch, bool):
        return None
    try:
        return workload_of(with_values(spec, {scaling.batch: batch}), processes_for(spec, gpus))
    except ValueError:
        return None


def _by_word(
    spec: RunSpec, course: _Course, rate: Decimal | None, doubt: str = ""
) -> Estimate | None:
    """The preset's own estimate, in proportion to epochs, batch and devices."""
    word = spec.estimate
    if word.seconds is None and word.usd is None:
        return None
    part, notes = _part_of_usual(spec, course)
    usual = usual_workload(spec)
    if usual is not None and course.workload is not None and course.workload != usual:
        factor = time_factor(course.workload, usual)
        if factor != 1.0:
            part *= factor
            notes.append(
                f", × {factor:.3g} for {course.workload.each:g} on each of "
                f"{course.workload.devices} instead of {usual.each:g} on {usual.devices}"
            )
    basis = "the preset's estimate" + "".join(notes) + course.left_text(course.left)
    seconds = None if word.seconds is None else word.seconds * part
    # The hours are the author's, the rate is this machine's: dollars follow from both.
    if seconds is not None and rate is not None:
        usd: str | None = str(round(money(rate, seconds), 6))
    else:
        usd = None if word.usd is None else str(round(Decimal(word.usd) * Decimal(repr(part)), 6))
    doubts = "; ".join(filter(None, (doubt, word.doubt)))
    return Estimate(seconds, usd, basis, 0, course.epochs, None, doubts)


def _part_of_usual(spec: RunSpec, course: _Course) -> tuple[float, list[str]]:
    """How much of the preset's own epochs are to come, and what to say of it."""
    usual = spec.usual_stages
    if course.stages and len(course.stages) == len(usual):
        # Each stage has its pace; where none is expected, they are alike.
        expected = [spec.expect.stages.get(f"stage {place}") for place, _ in enumerate(usual, 1)]
        paces = [stage.epoch_s or 0.0 if stage else 0.0 for stage in expected]
        weights = paces if all(paces) else [1.0] * len(usual)
        part = sum(map(mul, course.left_of_stages(), weights)) / sum(map(mul, usual, weights))
        count = " + ".join(f"{length:,}" for length in usual)
    else:
        stated = (_whole(p.default) for p in spec.parameters if p.name == course.length)
        default = spec.usual_length or next(stated, None)
        part = course.left / default if course.left is not None and default else 1.0
        count = f"{default:,}" if default else ""
    return part, [] if part == 1.0 else [f" for {count} {course.length}, in proportion"]


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
