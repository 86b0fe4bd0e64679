"""Parts of a RunSpec from the keys of a preset, checked one by one."""

import re
import shlex
from collections.abc import Sequence

from runners.model.spec import (
    After,
    GpuRequest,
    Launcher,
    Limits,
    MetricPattern,
    MetricReader,
    MetricRule,
    Parameter,
    PresetEstimate,
    RestartRule,
    ResumeRule,
    Retention,
    Scaling,
    StallRule,
    StopRule,
    Total,
)
from runners.presets.reading.diagnostics import Diagnostics, nearest
from runners.presets.reading.units import (
    build_stop_rule,
    parse_duration,
    parse_gpu_ids,
    parse_gpu_request,
    parse_size,
)
from runners.presets.schema import PresetKeys
from runners.presets.schema_course import (
    AfterKeys,
    EstimateKeys,
    KeepKeys,
    LimitKeys,
    RestartKeys,
    ResumeKeys,
    StallKeys,
    StopKeys,
    TotalKeys,
)
from runners.presets.schema_metrics import MetricKeys
from runners.presets.schema_program import GpuKeys, ScalingKeys

SMALLEST_OUTPUT = 64 << 10


def build_command(keys: PresetKeys, source: Diagnostics) -> tuple[str, ...]:
    """The words of launcher command: a list as it stands, a text split as by a shell."""
    if keys.shell and not isinstance(keys.command, str):
        raise source.error(("command",), "with shell: true the command is one text, not a list")
    if isinstance(keys.command, list):
        return tuple(keys.command)
    if keys.shell:
        return (keys.command,)
    text = keys.command
    return tuple(source.attempt(("command",), lambda: shlex.split(text)))


def build_gpus(
    keys: int | str | GpuKeys, source: Diagnostics, where: tuple[str | int, ...] = ("gpus",)
) -> GpuRequest:
    """The GPU wish from its short and long forms."""
    if not isinstance(keys, GpuKeys):
        if isinstance(keys, int) and keys < 0:
            raise source.error(where, f"expected 0 or more GPUs, got {keys}")
        return source.attempt(where, lambda: parse_gpu_request(keys))
    if keys.ids != [] and keys.count != 0:
        raise source.error(where, "give count or ids, not both")
    ids = source.attempt((*where, "ids"), lambda: parse_gpu_ids(keys.ids)) if keys.ids != [] else ()
    share = keys.share.memory if keys.share is not None else None
    return GpuRequest(
        count=keys.count if isinstance(keys.count, int) else 0,
        all=keys.count == "all",
        ids=ids,
        required=keys.required,
        memory=_size(keys.memory, (*where, "memory"), source),
        model=keys.model,
        share_memory=_size(share, (*where, "share", "memory"), source),
        foreign=keys.allow_foreign,
    )


def _size(value: str | int | None, key: tuple[str | int, ...], source: Diagnostics) -> int | None:
    return None if value is None else source.attempt(key, lambda: parse_size(value))


def build_scaling(
    keys: ScalingKeys | None, parameters: Sequence[Parameter], source: Diagnostics
) -> Scaling | None:
    """How batch and learning rate go with the devices; the parameters it names must be numbers of
    this preset.
    """
    if keys is None:
        return None
    kinds = {parameter.name: parameter.type for parameter in parameters}
    for key, name in (("batch", keys.batch), ("learning_rate", keys.learning_rate)):
        if name and kinds.get(name) not in ("int", "float"):
            raise source.error(
                ("scaling", key),
                f"`{name}` is not a numeric parameter{nearest(name, kinds)}",
            )
    if keys.rule != "none" and not (keys.learning_rate and keys.base_batch and keys.base_rate):
        raise source.error(
            ("scaling", "rule"), f"rule {keys.rule} needs learning_rate, base_batch and base_rate"
        )
    return Scaling(
        keys.batch, keys.per, keys.learning_rate, keys.rule, keys.base_batch, keys.base_rate
    )


def build_after(keys: str | AfterKeys | None) -> After | None:
    """The run it waits for, if any."""
    if keys is None:
        return None
    return After(keys) if isinstance(keys, str) else After(keys.run, keys.on)


def build_restart(keys: int | RestartKeys, source: Diagnostics) -> RestartRule:
    """The restart rule from a count or its long form."""
    if isinstance(keys, int):
        if keys < 0:
            raise source.error(("restart",), f"expected 0 or more, got {keys}")
        return RestartRule(keys)
    backoff = source.attempt(("restart", "backoff"), lambda: parse_duration(keys.backoff))
    return RestartRule(keys.times, backoff, tuple(keys.arguments), keys.boot)


def build_resume(
    keys: ResumeKeys | None, parameters: Sequence[Parameter], source: Diagnostics
) -> ResumeRule | None:
    """How the program goes on from a checkpoint; the parameter it names must exist."""
    if keys is None:
        return None
    if bool(keys.parameter) == bool(keys.arguments):
        raise source.error(("resume",), "give `parameter` or `arguments`, one of them")
    if keys.parameter:
        _check_named(keys.parameter, parameters, ("resume", "parameter"), source)
    elif not any("${checkpoint}" in word for word in keys.arguments):
        raise source.error(("resume", "arguments"), "none of them has ${checkpoint} in it")
    return ResumeRule(keys.parameter, tuple(keys.arguments))


def build_total(
    keys: TotalKeys | None, parameters: Sequence[Parameter], source: Diagnostics
) -> Total | None:
    """How long the run is; the parameter that says so must exist."""
    if keys is None:
        return None
    if bool(keys.parameter) == (keys.count is not None):
        raise source.error(("total",), "give `parameter` or `count`, one of them")
    if keys.parameter:
        _check_named(keys.parameter, parameters, ("total", "parameter"), source)
    return Total(keys.parameter, keys.unit, keys.count)


def build_retention(keys: KeepKeys | None) -> Retention | None:
    """Which checkpoints stay on disk; None when all do."""
    return None if keys is None else Retention(keys.last, keys.best, keys.every)


def build_stall(keys: StallKeys | None, source: Diagnostics) -> StallRule | None:
    """When a silent run counts as stalled; None where its own rhythm decides."""
    if keys is None:
        return None
    after = source.attempt(("on_stall", "after"), lambda: parse_duration(keys.after))
    if after <= 0:
        raise source.error(("on_stall", "after"), "expected a length of time above 0")
    return StallRule(after, keys.stop)


def _check_named(
    name: str,
    parameters: Sequence[Parameter],
    key: tuple[str | int, ...],
    source: Diagnostics,
) -> None:
    names = [parameter.name for parameter in parameters]
    if name not in names:
        raise source.error(key, f"there is no parameter `{name}`{nearest(name, names)}")


def build_output_limit(value: str | int | None, source: Diagnostics) -> int | None:
    """The most bytes that the output may keep; small ones would keep nothing worth reading."""
    size = _size(value, ("output_limit",), source)
    if size is not None and size < SMALLEST_OUTPUT:
        raise source.error(
            ("output_limit",), f"expected at least {SMALLEST_OUTPUT >> 10}K, got {value!r}"
        )
    return size


def build_metrics(
    keys: MetricReader | list[MetricReader] | MetricKeys, source: Diagnostics
) -> MetricRule:
    """Where metrics are read from; every regular expression is tried here, so that none fails
    while a run goes on.
    """
    if not isinstance(keys, MetricKeys):
        keys = MetricKeys(readers=keys)
    patterns = tuple(
        _build_pattern(
            MetricPattern(one) if isinstance(one, str) else MetricPattern(one.line, one.offset),
            i,
            source,
        )
        for i, one in enumerate(keys.patterns)
    )
    return MetricRule(
        tuple([keys.readers] if isinstance(keys.readers, str) else keys.readers),
        patterns,
        keys.offset,
        keys.rename,
        tuple(keys.higher_is_better),
        tuple([keys.tensorboard] if isinstance(keys.tensorboard, str) else keys.tensorboard),
    )


def _build_pattern(pattern: MetricPattern, place: int, source: Diagnostics) -> MetricPattern:
    key = ("metrics", "patterns", place)
    try:
        groups = re.compile(pattern.line).groupindex
    except re.error as error:
        raise source.error(key, f"not a regular expression: {error}") from None
    if not groups:
        raise source.error(
            key, "it has no named group: a metric is one, as in loss=(?P<loss>[-+.e0-9]+)"
        )
    if ("name" in groups) != ("value" in groups):
        raise source.error(key, "the groups `name` and `value` go together")
    for name in pattern.offset:
        if name not in groups:
            raise source.error((*key, "offset", name), f"the expression has no group `{name}`")
    return pattern


def build_limits(keys: LimitKeys, source: Diagnostics) -> Limits:
    """Time and cost limits."""
    seconds = None
    if keys.time is not None:
        seconds = source.attempt(("limits", "time"), lambda: parse_duration(keys.time or 0))
    return Limits(seconds, _dollars(keys.cost, ("limits", "cost"), source))


def build_stop(keys: StopKeys, launcher: Launcher, source: Diagnostics) -> StopRule:
    """The stop rule; a shell command is signalled like by Ctrl+C, a Python program by its leader
    alone.
    """
    target = keys.target or ("group" if launcher == "command" else "leader")
    return source.attempt(("stop", "ladder"), lambda: build_stop_rule(keys.ladder, target))


def build_estimate(keys: EstimateKeys, source: Diagnostics) -> PresetEstimate:
    """The author's estimate."""
    seconds = None
    if keys.time is not None:
        seconds = source.attempt(("estimate", "time"), lambda: parse_duration(keys.time or 0))
    return PresetEstimate(seconds, _dollars(keys.cost, ("estimate", "cost"), source), keys.caveat)


def _dollars(
    value: str | float | int | None, key: tuple[str | int, ...], source: Diagnostics
) -> str | None:
    if value is not None and not re.fullmatch(r"\d+(\.\d+)?", str(value)):
        raise source.error(key, f"expected US dollars such as 0.17, got {value!r}")
    return None if value is None else str(value)


def as_text(value: object) -> str:
    """A YAML scalar as text for the environment."""
    return str(value).lower() if isinstance(value, bool) else str(value)
