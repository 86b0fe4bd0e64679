"""Parts of a RunSpec from the keys of a preset, checked one by one."""

import re
import shlex

from runners.model.spec import After, Estimate, GpuRequest, Launcher, Limits, RestartRule, StopRule
from runners.presets.schema import AfterKeys, EstimateKeys, GpuKeys, LimitKeys, PresetKeys, RestartKeys, StopKeys
from runners.presets.source import Source
from runners.presets.units import build_stop_rule, parse_duration, parse_gpu_ids, parse_gpu_request, parse_size

SMALLEST_OUTPUT = 64 << 10


def build_command(keys: PresetKeys, source: Source) -> tuple[str, ...]:
    """The words of launcher command: a list as it stands, a text split as by a shell."""
    if keys.shell and not isinstance(keys.command, str):
        raise source.error(("command",), "with shell: true the command is one text, not a list")
    if isinstance(keys.command, list):
        return tuple(keys.command)
    if keys.shell:
        return (keys.command,)
    text = keys.command
    return tuple(source.attempt(("command",), lambda: shlex.split(text)))


def build_gpus(keys: int | str | GpuKeys, source: Source, where: tuple[str | int, ...] = ("gpus",)) -> GpuRequest:
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
        foreign=keys.foreign,
    )


def _size(value: str | int | None, key: tuple[str | int, ...], source: Source) -> int | None:
    return None if value is None else source.attempt(key, lambda: parse_size(value))


def build_after(keys: str | AfterKeys | None) -> After | None:
    """The run it waits for, if any."""
    if keys is None:
        return None
    return After(keys) if isinstance(keys, str) else After(keys.run, keys.on)


def build_restart(keys: int | RestartKeys, source: Source) -> RestartRule:
    """The restart rule from a count or its long form."""
    if isinstance(keys, int):
        if keys < 0:
            raise source.error(("restart",), f"expected 0 or more, got {keys}")
        return RestartRule(keys)
    backoff = source.attempt(("restart", "backoff"), lambda: parse_duration(keys.backoff))
    return RestartRule(keys.times, backoff, tuple(keys.arguments))


def build_output_limit(value: str | int | None, source: Source) -> int | None:
    """The most bytes that the output may keep; small ones would keep nothing worth reading."""
    size = _size(value, ("output_limit",), source)
    if size is not None and size < SMALLEST_OUTPUT:
        raise source.error(("output_limit",), f"expected at least {SMALLEST_OUTPUT >> 10}K, got {value!r}")
    return size


def build_limits(keys: LimitKeys, source: Source) -> Limits:
    """Time and cost limits."""
    seconds = None
    if keys.time is not None:
        seconds = source.attempt(("limits", "time"), lambda: parse_duration(keys.time or 0))
    return Limits(seconds, _dollars(keys.cost, ("limits", "cost"), source))


def build_stop(keys: StopKeys, launcher: Launcher, source: Source) -> StopRule:
    """The stop rule; a shell command is signalled like by Ctrl+C, a Python program by its leader alone."""
    target = keys.target or ("group" if launcher == "command" else "leader")
    return source.attempt(("stop", "ladder"), lambda: build_stop_rule(keys.ladder, target))


def build_estimate(keys: EstimateKeys, source: Source) -> Estimate:
    """The author's estimate."""
    seconds = None
    if keys.time is not None:
        seconds = source.attempt(("estimate", "time"), lambda: parse_duration(keys.time or 0))
    return Estimate(seconds, _dollars(keys.cost, ("estimate", "cost"), source))


def _dollars(value: str | float | int | None, key: tuple[str | int, ...], source: Source) -> str | None:
    if value is not None and not re.fullmatch(r"\d+(\.\d+)?", str(value)):
        raise source.error(key, f"expected US dollars such as 0.17, got {value!r}")
    return None if value is None else str(value)


def as_text(value: str | int | float | bool) -> str:
    """A YAML scalar as text for the environment."""
    return str(value).lower() if isinstance(value, bool) else str(value)
