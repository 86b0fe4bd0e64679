"""A launch plan as names and values for people."""

import shlex
from collections.abc import Sequence
from decimal import Decimal

from runners.cost.rates import device_count, hourly_rate, price_age
from runners.model.closed import assert_never
from runners.model.course import Rung, StopRule
from runners.model.plan import AssignedGpu, LaunchPlan
from runners.model.python_command import processes_started
from runners.model.run_ids import by_names
from runners.model.spec import Price
from runners.model.units import gpus_text, indices
from runners.scheduling.allocation import Denied
from runners.scheduling.queue_order import Granted, QueueDecision, Waiting
from runners.scheduling.visibility import ALL_VARIABLES, COUNT_VARIABLE
from tui.views.format import dollars, duration

_TARGETS = {
    "leader": "to the process",
    "group": "to its process group",
    "workers": "to its worker processes",
}
"""Who gets the signals of a stop."""
_DECIDED = {*ALL_VARIABLES, COUNT_VARIABLE}
"""Variables that are decided once the GPUs are."""
_PRICED = {"gpu": "GPU", "machine": "machine"}


def describe_plan(plan: LaunchPlan, decision: QueueDecision) -> list[tuple[str, str]]:
    """The plan as names and values; the refusal or the wait stands in the place of the GPUs."""
    pairs = [
        ("run", plan.run),
        ("command", shlex.join(plan.argv)),
        ("directory", plan.working_directory),
    ]
    starts = isinstance(decision, Granted)
    for name, value in plan.environment.items():
        if starts or name not in _DECIDED:
            pairs.append(("environment", f"{name}={value}"))
    pairs += [("removed", name) for name in plan.environment_removed]
    pairs += _gpu_pairs(plan, decision)
    if plan.spec.resumed_from:
        pairs.append(("resumes", plan.spec.resumed_from))
    pairs += [("config", change) for change in plan.config_changes]
    if plan.port is not None:
        pairs.append(("port", str(plan.port)))
    if plan.limit_s is not None:
        pairs.append(("limit", limit_text(plan.limit_s, plan.limit_usd)))
    pairs += [*rule_pairs(plan), ("run folder", plan.directory)]
    pairs += [("checkpoints", pattern) for pattern in plan.checkpoints]
    if plan.price is not None:
        pairs.append(("price", rate_text(plan.price, plan, starts)))
    if plan.forecast is not None:
        pairs.append(("estimate", estimate_text(plan)))
    return pairs + [("note", note) for note in plan.notes]


def plan_summary(plan: LaunchPlan, decision: QueueDecision, is_checked: bool = True) -> str:
    """What a launch comes to in a line: whether it starts, on what, for how much, how long.

    As long as it is not checked, only that its GPUs are free.
    """
    match decision:
        case Denied(reason=reason):
            return f"cannot start: {by_names(reason)}"
        case Waiting(reason=reason):
            verdict = f"queued: {by_names(reason)}"
        case Granted():
            verdict = f"starts now on {_where(plan)}" if is_checked else f"{_where(plan)} free"
        case _:
            assert_never(decision)
    facts = [verdict]
    if plan.price is not None:
        would = "" if _is_paid(plan) else "would cost "
        facts.append(would + _hourly_text(plan.price, plan, isinstance(decision, Granted)))
    if plan.forecast is not None:
        cost = f" {dollars(Decimal(plan.forecast.usd))}" if plan.forecast.usd else ""
        facts.append(f"~{duration(plan.forecast.seconds)}{cost}")
    return " · ".join(facts)


def starts_of(decisions: Sequence[QueueDecision]) -> str:
    """How many of several runs start now, and why the first of the others does not."""
    waits, denied = (
        [decision.reason for decision in decisions if isinstance(decision, kind)]
        for kind in (Waiting, Denied)
    )
    return starts_text(len(decisions), waits, denied)


def starts_text(runs: int, waits: Sequence[str], denied: Sequence[str] = ()) -> str:
    """`3 start now · 9 wait: WHY`: of so many `runs`, by the reasons of those that do not."""
    starts = runs - len(waits) - len(denied)
    parts = [f"{starts} start{'s' * (starts == 1)} now"]
    for count, verb, reasons in (
        (len(waits), "wait", waits),
        (len(denied), "cannot start", denied),
    ):
        if reasons:
            verb += "s" * (verb == "wait" and count == 1)
            parts.append(f"{count} {verb}: {by_names(reasons[0]).partition(': ')[0]}")
    return " · ".join(parts)


def _where(plan: LaunchPlan) -> str:
    """`GPU 0-3`, or the CPU."""
    if not plan.gpus:
        return "the CPU"
    return f"GPU {gpu_numbers(plan)}"


def gpu_numbers(plan: LaunchPlan) -> str:
    """`0-3`, or `0-3 on each of 2 nodes`; empty of a run without GPUs."""
    node, numbers = plan.spec.node, indices([gpu.index for gpu in plan.gpus_here])
    by_node = bool(numbers) and node is not None and node.by_slurm
    return f"{numbers} on each of {node.count} nodes" if node is not None and by_node else numbers


def rate_text(price: Price, plan: LaunchPlan, starts: bool) -> str:
    """What an hour costs, or would cost without a session, and by whose word."""
    where = ", ".join(filter(None, (price_text(price), price_age(price))))
    where = f", {where}" if where else ""
    pays = "" if _is_paid(plan) else "no session: it would cost "
    return f"{pays}{_hourly_text(price, plan, starts)} by {price.basis}{where} (estimate)"


def _is_paid(plan: LaunchPlan) -> bool:
    """Whether a session pays for it; else its price says what it would cost."""
    return plan.price is not None and plan.price.basis == "session"


def _hourly_text(price: Price, plan: LaunchPlan, starts: bool) -> str:
    """What an hour costs; of a run that waits, whose GPUs are not known, what it is counted by."""
    if starts:
        return f"{dollars(hourly_rate(price, device_count(plan.gpus)))}/h"
    return f"{dollars(Decimal(price.usd_per_hour))}/h per {_PRICED[price.per]}"


def limit_text(seconds: float, usd: str) -> str:
    """After how long it is stopped, and the dollars that are spent then."""
    return duration(seconds) + (f" (cost limit of ${Decimal(usd):,})" if usd else "")


def rule_pairs(plan: LaunchPlan) -> list[tuple[str, str]]:
    """How it is stopped, and what happens by itself: restarts, deletions, an answer to silence."""
    spec, pairs = plan.spec, [("stop", stop_text(plan.spec.stop))]
    again = spec.restart
    if again.times:
        wait = f"{duration(again.backoff_s)} later, doubled each time"
        pairs.append(("restarts", f"up to {again.times} after {', '.join(again.on)}: {wait}"))
    if again.boot:
        pairs.append(("reboot", "started again, from its newest checkpoint"))
    if spec.keep is not None:
        kept = [f"the newest {spec.keep.last}", f"the best {spec.keep.best}"]
        kept += [f"one every {spec.keep.every} epochs"] if spec.keep.every else []
        pairs.append(("keeps", f"{', '.join(kept)} of its checkpoints; deletes the others"))
    if spec.on_stall is not None:
        answer = "is stopped, its stacks saved" if spec.on_stall.stop else "an alert"
        pairs.append(("if silent", f"for {duration(spec.on_stall.after_s)}: {answer}"))
    return pairs


def stop_text(rule: StopRule) -> str:
    """`SIGINT 30s → SIGKILL 5s (to its process group)`."""
    return f"{ladder_text(rule.ladder)} ({_TARGETS[rule.target]})"


def ladder_text(ladder: Sequence[Rung]) -> str:
    """`SIGINT 30s → SIGKILL 5s`."""
    return " → ".join(f"{rung.how} {duration(rung.wait_s)}" for rung in ladder)


def price_text(price: Price) -> str:
    """Name, source and date of a price; empty for one given by hand."""
    return f"{price.name}: {price.source}, {price.date}" if price.name else ""


def _gpu_pairs(plan: LaunchPlan, decision: QueueDecision) -> list[tuple[str, str]]:
    match decision:
        case Denied(reason=reason):
            return [("GPUs", f"denied: {by_names(reason)}")]
        case Waiting(reason=reason):
            return [("GPUs", f"queued: {by_names(reason)}")]
        case Granted():
            pass
        case _:
            assert_never(decision)
    if not plan.gpus:
        return [("GPUs", "none: runs on the CPU")]
    simulated = " (simulated)" if plan.gpus[0].simulated else ""
    numbers = gpu_numbers(plan)
    mapping = ", ".join(f"{_place(gpu)} → device {gpu.logical}" for gpu in plan.gpus_here)
    return [
        ("GPUs", f"{numbers} {plan.gpus[0].name}{simulated}"),
        ("mapping", mapping),
        ("processes", _processes_text(plan)),
    ]


def number_of_processes(plan: LaunchPlan) -> str:
    """How many processes are started on this machine, as far as that is known before they are."""
    return str(processes_started(plan) or "as many as its command starts")


def _processes_text(plan: LaunchPlan) -> str:
    """How many processes are started, by what, and on how many GPUs."""
    number = number_of_processes(plan)
    return f"{number} (started by {plan.spec.launcher}) on {gpus_text(len(plan.gpus))}"


def _place(gpu: AssignedGpu) -> str:
    """`GPU 1`, or `GPU 1 instance MIG-1111`: several instances of one GPU are told apart."""
    return f"GPU {gpu.index}" + (f" instance {gpu.uuid}" if gpu.mig_parent else "")


def estimate_text(plan: LaunchPlan) -> str:
    """What a run should take and cost, and who says so; empty when nobody does."""
    expected = plan.forecast
    if expected is None:
        return ""
    would = "" if _is_paid(plan) else "would cost "
    cost = f", {would}{dollars(Decimal(expected.usd))}" if expected.usd else ""
    doubt = f"; {expected.doubt}" if expected.doubt else ""
    return f"{duration(expected.seconds)}{cost} ({expected.basis}{doubt})"
