"""Remedies that change settings of the program: batch, rate, accumulation, precision, workers."""

import math
import re
from collections.abc import Callable, Sequence

import msgspec

from runners.diagnosis.remedy.case import Case, Unfit
from runners.model.scaling import batch_of
from runners.model.spec import Parameter

BATCH = ("batch_size", "bs", "batch", "per_device_train_batch_size", "train_batch_size")
RATE = ("lr", "learning_rate", "base_lr")
ACCUMULATE = (
    *("accumulate", "accumulation_steps", "gradient_accumulation_steps"),
    *("accum_steps", "grad_accum"),
)
PRECISION = ("precision", "mixed_precision")
SWITCHES = ("amp", "bf16", "fp16", "use_amp")
WORKERS = ("workers", "num_workers", "n_workers", "dataloader_num_workers")
_HAS_BF16 = re.compile(
    r"\b(?:[AH]100|H200|GH200|B[123]00|L40?S?|A[3-6]0(?:00)?|RTX [345]0[5-9]0)\b"
    r"|Ada Generation|MI[23]\d\d"
)
"""Names of GPUs that compute in bf16: Ampere and newer, MI200 and newer (vendors' data sheets)."""


def half_batch(case: Case) -> Case:
    """Half the batch on every device, and the learning rate by the preset's rule. Raises Unfit."""
    parameter = _batch_parameter(case)
    if parameter is None:
        return with_flag(case, BATCH, lambda text: str(_half(whole(text))))
    value = _number(parameter)
    per_step = case.devices if case.spec.scaling is None or _is_global(case) else 1
    # A value of all devices together must stay divisible by their number.
    each = value / per_step
    smaller = _half(int(each)) * per_step if each >= 2 else _half(int(value))
    treated = case.with_parameter(parameter, smaller)
    return _with_rate_by_rule(case, treated)


def _with_rate_by_rule(before: Case, after: Case) -> Case:
    """`after` with the learning rate that goes with its batch, from the one it had."""
    scaling = before.spec.scaling
    if scaling is None or not scaling.learning_rate or scaling.rule in ("none", "program"):
        return after
    old, new = batch_of(before.spec, before.devices), batch_of(after.spec, after.devices)
    parameter = after.parameter(scaling.learning_rate)
    if old is None or new is None or parameter is None:
        return after
    if not isinstance(parameter.value, (int, float)) or isinstance(parameter.value, bool):
        return after if new.wanted is None else after.with_parameter(parameter, new.wanted)
    # From the rate the run had, not from the preset's base: the user may
    # have changed it on purpose.
    factor = new.total / old.total
    factor = math.sqrt(factor) if scaling.rule == "sqrt" else factor
    return after.with_parameter(parameter, _rounded(parameter.value * factor))


def accumulate(case: Case) -> Case:
    """Twice the accumulation; where the batch is that of one pass, half of it too. Raises Unfit."""
    parameter = case.parameter(*ACCUMULATE)
    if parameter is None:
        treated = with_flag(case, ACCUMULATE, lambda text: str(2 * whole(text)))
        return with_flag(treated, BATCH, lambda text: str(_half(whole(text))))
    steps = 1 if parameter.value is None else _number(parameter)
    treated = case.with_parameter(parameter, int(steps * 2))
    batch = _batch_parameter(case)
    if batch is None or _is_global(case):
        return treated
    value = _number(batch)
    if value < 2:
        raise Unfit(f"{batch.name} is {value:g} already: there is nothing to divide")
    return treated.with_parameter(batch, _half(int(value)))


def mixed_precision(case: Case) -> Case:
    """bf16 where all its GPUs have it, else fp16. Raises Unfit."""
    names = [gpu.name for gpu in case.plan.gpus]
    wanted = "bf16" if names and all(_HAS_BF16.search(name) for name in names) else "fp16"
    parameter = case.parameter(*PRECISION)
    if parameter is not None:
        value = str(parameter.value)
        if value in ("bf16", "fp16", "auto"):
            raise Unfit(f"{parameter.name} is {value} already")
        # A preset may know only one of the two, whatever the GPU can do.
        if parameter.choices and wanted not in parameter.choices:
            wanted = next((name for name in ("fp16", "bf16") if name in parameter.choices), "")
        if not wanted:
            raise Unfit(f"{parameter.name} has neither bf16 nor fp16")
        return case.with_parameter(parameter, wanted)
    switch = case.parameter(wanted, *SWITCHES)
    if switch is None or switch.type != "bool":
        raise Unfit("the run has no parameter for mixed precision")
    if switch.value is True:
        raise Unfit(f"{switch.name} is on already")
    return case.with_parameter(switch, True)


def half_rate(case: Case) -> Case:
    """Half the learning rate. Raises Unfit."""
    parameter = _rate_parameter(case)
    if parameter is None:
        return with_flag(case, RATE, lambda text: repr(_rounded(_rate(text) / 2)))
    return case.with_parameter(parameter, _rounded(_known_rate(case, parameter) / 2))


def sqrt_rate(case: Case) -> Case:
    """The rate by the square root rule, where the preset's is linear and the batch is larger.

    Raises Unfit when it cannot be applied.
    """
    scaling = case.spec.scaling
    if scaling is None or scaling.rule != "linear":
        raise Unfit("its learning rate does not follow the batch by the linear rule")
    softer = msgspec.structs.replace(scaling, rule="sqrt")
    batch = batch_of(msgspec.structs.replace(case.spec, scaling=softer), case.devices)
    parameter = case.parameter(scaling.learning_rate)
    if batch is None or batch.wanted is None or parameter is None:
        raise Unfit("its preset does not say at which batch which rate is good")
    # Below the known good batch the square root rule would raise the rate instead of lowering it.
    if not batch.growth or batch.growth <= 1:
        raise Unfit(f"its batch is not above {scaling.base_batch}, where the rate is known good")
    if isinstance(parameter.value, (int, float)) and parameter.value <= batch.wanted:
        raise Unfit(f"{parameter.name} {parameter.value:g} is not above {batch.wanted:g} already")
    return case.changed(scaling=softer).with_parameter(parameter, batch.wanted)


def fewer_workers(case: Case) -> Case:
    """Half as many loader processes; none where there was one. Raises Unfit."""
    parameter = case.parameter(*WORKERS)
    if parameter is None:
        return with_flag(case, WORKERS, lambda text: str(_fewer(whole(text))))
    return case.with_parameter(parameter, _fewer(int(_number(parameter))))


def more_workers(case: Case) -> Case:
    """Twice as many loader processes. Raises Unfit."""
    parameter = case.parameter(*WORKERS)
    if parameter is None:
        return with_flag(case, WORKERS, lambda text: str(max(2, whole(text) * 2)))
    return case.with_parameter(parameter, max(2, int(_number(parameter)) * 2))


def _batch_parameter(case: Case) -> Parameter | None:
    if case.spec.scaling is not None:
        return case.parameter(case.spec.scaling.batch)
    return case.parameter(*BATCH)


def _rate_parameter(case: Case) -> Parameter | None:
    if case.spec.scaling is not None and case.spec.scaling.learning_rate:
        return case.parameter(case.spec.scaling.learning_rate)
    return case.parameter(*RATE)


def _is_global(case: Case) -> bool:
    return case.spec.scaling is not None and case.spec.scaling.per == "global"


def _known_rate(case: Case, parameter: Parameter) -> float:
    if isinstance(parameter.value, (int, float)) and not isinstance(parameter.value, bool):
        return parameter.value
    batch = batch_of(case.spec, case.devices)
    if batch is None or batch.wanted is None:
        raise Unfit(f"{parameter.name} was left to the program, and nobody says what that is")
    return batch.wanted


def _number(parameter: Parameter) -> float:
    value = parameter.value
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < math.inf:
        return value
    # -1 is many programs' word for that.
    raise Unfit(f"{parameter.name} was left to the program, and nobody says what that is")


def _half(value: int) -> int:
    if value < 2:
        raise Unfit("the batch is one sample already")
    return value // 2


def _fewer(value: int) -> int:
    if value < 1:
        raise Unfit("it loads without workers already")
    return value // 2


def _rate(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise Unfit(f"{text!r} is no number") from None


def _rounded(rate: float) -> float:
    # Three digits: readable in a diff, and precise enough for a learning rate.
    return float(f"{rate:.3g}")


def with_flag(case: Case, names: Sequence[str], change: Callable[[str], str]) -> Case:
    """Return `case` with one of these flags changed: `--bs 8` or `--bs=8`, with `-` or `_`.

    Raises Unfit for a shell command, and where no such flag is given or it is given twice.
    """
    if case.spec.launcher != "command" or case.spec.shell:
        raise Unfit("the run has no parameter for this")
    command = list(case.spec.command)
    places = [i for i, word in enumerate(command) if _flag(word) in names]
    if len(places) != 1:
        what = ", ".join(f"--{name}" for name in names[:3])
        raise Unfit(f"its command has {'several' if places else 'no'} {what}")
    at = places[0]
    flag, equals, value = command[at].partition("=")
    if equals:
        command[at] = f"{flag}={change(value)}"
    elif at + 1 < len(command):
        command[at + 1] = change(command[at + 1])
    else:
        raise Unfit(f"{flag} has no value")
    return case.changed(command=tuple(command))


def whole(text: str) -> int:
    """The whole number in a flag's value. Raises Unfit for anything else."""
    if not text.isdecimal():
        raise Unfit(f"{text!r} is no whole number")
    return int(text)


def _flag(word: str) -> str:
    return word.partition("=")[0].lstrip("-").replace("-", "_") if word.startswith("-") else ""
