"""What the signs of a live run mean: a pure function, from evidence to findings."""

from runners.health.signs import GpuSign, RunSigns
from runners.model.health import Condition, Finding, RankSign
from runners.model.units import duration_text

WARM_UP_S = 1800.0
"""Compiling and a first epoch take 15 to 30 minutes, in silence."""
SHORTEST_STALL_S = 600.0
_SILENT_S = 120.0
"""After this a run that says nothing is called silent, not progressing."""
_IDLE_GPUS_S = 900.0
"""How long a run that has not begun to step may leave GPUs that it holds idle, in silence."""
_GAPS = 3.0
"""How many times its own longest silence a run may be silent."""
_SLOWER = 1.5
_NOT_FINITE = 3
_BELOW = 3
_MEASURED = 5
_WAITING_PERCENT = 40.0
_WAITING_SHARE = 0.4
_BUSY_LOADER_PERCENT = 85.0
_IDLE_GPU_PERCENT = 5.0
_BUSY_GPU_PERCENT = 50.0
_IDLE_CPU_PERCENT = 3.0
_BUSY_CPU_PERCENT = 20.0
_AS_USUAL = 0.75
_CERTAINLY_LATE = 1.25
"""An ETA is wrong by a tenth in the median: what is late by less may still be in time."""


def judge(signs: RunSigns) -> tuple[Finding, ...]:
    """Every condition that holds, the gravest first; never empty."""
    found = [
        finding
        for finding in (
            _stall(signs),
            _not_finite(signs),
            _of_loss(Condition.DIVERGING, signs, signs.diverges),
            _of_loss(Condition.SPIKES, signs, signs.spikes),
            _of_loss(Condition.NOISY, signs, signs.noisy),
            _unfinished(signs),
            _waits_for_data(signs),
            _slow(signs),
            _below_expectation(signs),
            _of_loss(Condition.FLAT, signs, signs.flat),
            _below(signs),
        )
        if finding is not None
    ]
    if any(finding.condition is Condition.STALL for finding in found):
        return tuple(found)
    return (*found, _doing(signs))


def _doing(signs: RunSigns) -> Finding:
    """What a run does that has not stalled, whatever else is wrong with it."""
    if signs.waits_for_input:
        return Finding(Condition.INPUT, "waits for input")
    if signs.paused:
        return Finding(Condition.PAUSED, "paused by a signal or a debugger")
    if not signs.stepped:
        text = f"warming up for {duration_text(signs.now - signs.started)}"
        return Finding(Condition.WARMING, text)
    if signs.quiet_s >= _SILENT_S:
        text = f"silent for {duration_text(signs.quiet_s)}{_activity(signs)}"
        return Finding(Condition.SILENT, text, _silence_evidence(signs))
    return Finding(Condition.PROGRESSING, "progressing")


def _activity(signs: RunSigns) -> str:
    """What its GPUs, or its processes where it has none, do meanwhile; empty when not known."""
    name = "GPUs" if signs.gpus else "processor"
    if _works_as_usual(signs):
        return f", {name} busy as before"
    return f", {name} idle" if _all_idle(signs) else ""


def stall_after(signs: RunSigns) -> float:
    """Seconds of silence after which a run may have stalled: its preset's, else by its own."""
    stated = signs.stall_after_s
    if not signs.stepped:
        if not _all_idle(signs):
            return max(2 * WARM_UP_S if _gpus_are_busy(signs) else WARM_UP_S, stated or 0.0)
        return stated or (_IDLE_GPUS_S if signs.gpus else WARM_UP_S)
    if stated is not None:
        return stated
    return max(SHORTEST_STALL_S, _GAPS * (signs.gap_s or 0.0))


def _stall(signs: RunSigns) -> Finding | None:
    """Silence, and nothing that works as before: 100 % of a GPU is no work without its power."""
    quiet = signs.quiet_s
    if signs.waits_for_input or signs.paused or quiet < stall_after(signs):
        return None
    # A time that the preset states is meant literally; otherwise silence alone is not a stall.
    if signs.stall_after_s is None and (_works_as_usual(signs) or not _is_measured(signs)):
        return None
    return Finding(Condition.STALL, f"silent for {duration_text(quiet)}", _silence_evidence(signs))


def _silence_evidence(signs: RunSigns) -> tuple[str, ...]:
    evidence = [_since("output", signs.output_at, signs), _since("event", signs.event_at, signs)]
    if signs.saved_at is not None:
        evidence.append(_since("checkpoint", signs.saved_at, signs))
    evidence += [_gpu_text(gpu) for gpu in signs.gpus]
    evidence += _rank_lines(signs.ranks)
    # One rank that died leaves the others waiting in a collective, at full use.
    missing = signs.expected_ranks - len(signs.ranks)
    if missing > 0 and signs.expected_ranks > 1:
        present = {rank.rank for rank in signs.ranks}
        gone = [str(rank) for rank in range(signs.expected_ranks) if rank not in present]
        evidence.append(f"no process of rank {', '.join(gone[:8])}")
    return tuple(filter(None, evidence))


def _is_measured(signs: RunSigns) -> bool:
    """True when something is known of what its GPUs or its processes do."""
    gpus = any(gpu.utilization is not None or gpu.power_w is not None for gpu in signs.gpus)
    return gpus or signs.cpu_percent is not None


def _gpus_are_busy(signs: RunSigns) -> bool:
    used = [gpu.utilization for gpu in signs.gpus if gpu.utilization is not None]
    return bool(used) and min(used) >= _BUSY_GPU_PERCENT


def _works_as_usual(signs: RunSigns) -> bool:
    """True when its GPUs draw, or without any the CPU works, as much as while it progressed."""
    used, usual = signs.cpu_percent, signs.usual_cpu_percent
    if not signs.stepped:
        return not signs.gpus and used is not None and used >= _BUSY_CPU_PERCENT
    drawn = [
        gpu.power_w >= _AS_USUAL * gpu.usual_power_w
        for gpu in signs.gpus
        if gpu.power_w is not None and gpu.usual_power_w is not None
    ]
    if drawn:
        return all(drawn) and not _all_idle(signs)
    if signs.gpus or used is None or usual is None:
        return False
    return used > _IDLE_CPU_PERCENT and used >= _AS_USUAL * usual


def _all_idle(signs: RunSigns) -> bool:
    """True when neither GPU nor CPU does anything for it."""
    gpus = [gpu.utilization for gpu in signs.gpus]
    quiet = all(used is not None and used < _IDLE_GPU_PERCENT for used in gpus)
    return quiet and signs.cpu_percent is not None and signs.cpu_percent < _IDLE_CPU_PERCENT


def _not_finite(signs: RunSigns) -> Finding | None:
    count = signs.losses_not_finite
    if count < _NOT_FINITE:
        return None
    text = f"{signs.loss_name} is not finite"
    return Finding(Condition.NOT_FINITE, text, (f"the last {count:,} values",))


def _of_loss(condition: Condition, signs: RunSigns, text: str) -> Finding | None:
    return Finding(condition, f"{signs.loss_name} {text}") if text else None


def _below(signs: RunSigns) -> Finding | None:
    known = signs.baseline
    if known is None or known.below < _BELOW or known.measured < _MEASURED:
        return None
    text = f"{known.name} {known.value:.4g} is worse than the plain baseline's {known.plain:.4g}"
    return Finding(Condition.BELOW, text, (f"in the last {known.below:,} measurements",))


def _unfinished(signs: RunSigns) -> Finding | None:
    """Ended by a limit long before it is done, at its pace."""
    outlook = signs.outlook
    if outlook is None or outlook.eta_s is None or not outlook.deadline.is_final:
        return None
    left, in_s = outlook.eta_s, max(outlook.deadline.in_s, 0.0)
    if left <= _CERTAINLY_LATE * in_s:
        return None
    text = f"will not finish: {outlook.deadline.limit} ends it in {duration_text(in_s)}"
    if outlook.fraction is not None:
        text += f", {100 * outlook.fraction:.0f} % done"
    return Finding(Condition.UNFINISHED, text, (f"{duration_text(left)} left at its pace",))


def _waits_for_data(signs: RunSigns) -> Finding | None:
    share = signs.data_wait_share
    if signs.stepped and share is not None and _WAITING_SHARE <= share <= 1.0:
        return Finding(Condition.DATA, f"waits for data {100 * share:.0f} % of its time")
    used = [gpu.utilization for gpu in signs.gpus if gpu.utilization is not None]
    loading = signs.loader_percent
    if not (signs.stepped and used and signs.loaders and loading is not None):
        return None
    mean = sum(used) / len(used)
    if mean >= _WAITING_PERCENT or loading < _BUSY_LOADER_PERCENT:
        return None
    text = f"waits for data: GPUs at {mean:.0f} %, loaders busy"
    evidence = f"{signs.loaders} loader processes at {loading:.0f} % of a core each"
    return Finding(Condition.DATA, text, (evidence, *map(_gpu_text, signs.gpus)))


def _slow(signs: RunSigns) -> Finding | None:
    pace, usual = signs.pace_s, signs.usual_pace_s
    if pace is not None and usual is not None and pace > _SLOWER * usual:
        text = f"{pace / usual:.1f} times slower than its usual pace"
        evidence = f"{_pace(pace)} a {signs.counted}, {_pace(usual)} before"
        return Finding(Condition.SLOW, text, (evidence,))
    return None


def _below_expectation(signs: RunSigns) -> Finding | None:
    if not signs.shortfalls:
        return None
    return Finding(Condition.EXPECTATION, signs.shortfalls[0], signs.shortfalls[1:])


def _since(what: str, moment: float | None, signs: RunSigns) -> str:
    if moment is None:
        return f"no {what} so far"
    return f"last {what} {duration_text(max(0.0, signs.now - moment))} ago"


def _gpu_text(gpu: GpuSign) -> str:
    parts = []
    if gpu.utilization is not None:
        usual = gpu.usual_utilization
        parts.append(f"{gpu.utilization:.0f} %" + ("" if usual is None else f" ({usual:.0f} %)"))
    if gpu.power_w is not None:
        usual = gpu.usual_power_w
        parts.append(f"{gpu.power_w:.0f} W" + ("" if usual is None else f" ({usual:.0f} W)"))
    if not parts:
        return ""
    before = " (before)" if gpu.usual_power_w or gpu.usual_utilization else ""
    return f"GPU {gpu.index}{before}: {', '.join(parts)}"


def _rank_lines(ranks: tuple[RankSign, ...]) -> list[str]:
    """One line for each way of waiting, and who waits so; each rank's silence where it is known."""
    # Grouped, with the smallest group first: the rank that differs is most often the culprit.
    groups: dict[str, list[RankSign]] = {}
    for rank in ranks:
        groups.setdefault(rank.state, []).append(rank)
    lines = []
    for state, members in sorted(groups.items(), key=lambda pair: len(pair[1])):
        who = ", ".join(member.label for member in members[:8]) + ("…" if len(members) > 8 else "")
        used = [member.cpu_percent for member in members if member.cpu_percent is not None]
        cpu = f", {sum(used) / len(used):.0f} % CPU" if used else ""
        lines.append(f"{who}: {state}{cpu}")
    return lines


def _pace(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds < 100 else duration_text(seconds)
