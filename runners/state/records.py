"""What is in plan.json, state.json, stop.json and a ledger line, as the supervisor handles it.

Standard library only: the supervisor imports it. The same files are read elsewhere as the structs
of `runners.model`; a test writes each with one and reads it with the other. Reading here never
raises: a damaged field, or one of a newer version, is replaced by a safe value.
"""

import signal
from contextlib import suppress
from typing import Any, Literal, TypedDict

from runners.model.endings import USUAL_RESTARTS, Ending, EndingCause, JobEnd
from runners.model.states import State

Moments = tuple[float, str, "int | None"]

QUEUED, GRANTED, FINAL = "queued", "granted", "final"
"""The phases of a plan: waiting for GPUs, given them, filled in for them."""

_ENDING_TEXTS: "tuple[Literal['by', 'detail', 'rule', 'usd', 'summary', 'error', 'job'], ...]" = (
    *("by", "detail", "rule", "usd", "summary", "error", "job"),
)

# For a plan whose ladder cannot be read: such a run must still be possible to stop.
_LAST_RESORT: "list[RungFields]" = [
    {"how": "SIGTERM", "wait_s": 10.0},
    {"how": "SIGKILL", "wait_s": 5.0},
]


class RungFields(TypedDict):
    """One step of a stop ladder: `stop-file` or a signal's name, and seconds until the next."""

    how: str
    wait_s: float


class StopFields(TypedDict):
    """The plan's stop rule."""

    ladder: list[RungFields]
    target: str


class RestartFields(TypedDict):
    """The plan's restart rule."""

    times: int
    backoff_s: float
    on: list[str]
    boot: bool


class KeepFields(TypedDict):
    """The plan's rule for checkpoints: how many newest and best stay, and one of every how many."""

    last: int
    best: int
    every: int


class PlanFields(TypedDict):
    """What the supervisor needs of a plan; `gpus`, `price` and `origin` are passed on as read."""

    preset: str
    name: str
    group: str
    phase: str
    argv: list[str]
    working_directory: str
    gpus: list[dict[str, Any]]
    checkpoints: list[str]
    price: dict[str, Any] | None
    origin: dict[str, Any]
    stop: StopFields
    restart: RestartFields
    restart_arguments: list[str]
    limit_s: float | None
    limit_usd: str
    time_limit_s: float | None
    cost_limit: str
    output_limit: int | None
    keep: KeepFields | None
    stall_after_s: float | None


class StopProgressFields(TypedDict):
    """How far a stop has come: the rung, its number and how many there are, when the next comes."""

    rung: str
    step: int
    steps: int
    until: float
    asked_by: str
    asked_at: float


class RecordFields(TypedDict, total=False):
    """state.json: see `runners.model.run.RunRecord`."""

    state: State
    reason: str
    attempt: int
    host: str
    boot_id: str
    supervisor_pid: int | None
    waiter_pid: int | None
    waiter_ticks: int | None
    leader_pid: int | None
    started: float | None
    ended: float | None
    exit_code: int | None
    stop: StopProgressFields | None
    began: Moments | None
    finished: Moments | None
    seen: Moments | float | None
    next_attempt: int | None
    next_at: float | None
    followed: list[tuple[int, int]]
    cgroup: str
    ending: Ending | None


class IntentFields(TypedDict):
    """stop.json: who asked for a stop, when, how often and how hard; why, as it is recorded.

    With a `deadline` the whole ladder is walked by that moment.
    """

    time: float
    by: str
    requests: int
    force: bool
    ending: Ending
    deadline: Moments | None


class LedgerFields(TypedDict):
    """A line of the ledger about a run that has ended: see `runners.cost.ledger.RunEntry`."""

    type: str
    run: str
    host: str
    preset: str
    name: str
    state: str
    gpus: list[dict[str, Any]]
    price: dict[str, Any] | None
    began: Moments
    finished: Moments
    seen: Moments | float | None
    exit_code: int | None
    waited: float


def plan_fields(value: object) -> PlanFields:
    """The plan in the JSON value `value`."""
    plan = _object(value)
    spec = _object(plan.get("spec"))
    return {
        "preset": _text(spec.get("preset")),
        "name": _text(spec.get("name")),
        "group": _text(spec.get("group")),
        "phase": phase_of(plan),
        "argv": _texts(plan.get("argv")),
        "working_directory": _text(plan.get("working_directory")) or "/",
        "gpus": [gpu for gpu in _list(plan.get("gpus")) if isinstance(gpu, dict)],
        "checkpoints": _texts(plan.get("checkpoints")),
        "price": plan["price"] if isinstance(plan.get("price"), dict) else None,
        "origin": _object(plan.get("origin")),
        "stop": _stop(_object(spec.get("stop")), _object(spec.get("node")).get("by_slurm") is True),
        "restart": _restart(_object(spec.get("restart"))),
        "restart_arguments": _texts(plan.get("restart_arguments")),
        "limit_s": _number(plan.get("limit_s")),
        "limit_usd": _text(plan.get("limit_usd")),
        "time_limit_s": _number(_object(spec.get("limits")).get("time")),
        "cost_limit": _text(_object(spec.get("limits")).get("cost")),
        "output_limit": _whole(spec.get("output_limit")),
        "keep": _keep(spec.get("keep")),
        "stall_after_s": _number(_object(spec.get("on_stall")).get("after")),
    }


def phase_of(plan: dict[str, Any]) -> str:
    """The phase of a plan as JSON; one that cannot be read is final: nothing waits on a guess."""
    phase = plan.get("phase")
    return str(phase) if phase in (QUEUED, GRANTED) else FINAL


def record_fields(value: object) -> RecordFields:
    """The record in the JSON value `value`; an unknown state counts as one of a live run."""
    record = _object(value)
    if not record:
        return {}
    started = _number(record.get("started"))
    found: RecordFields = {
        "state": _state(record.get("state"), started),
        "reason": _text(record.get("reason")),
        "attempt": max(1, _whole(record.get("attempt")) or 1),
        "host": _text(record.get("host")),
        "boot_id": _text(record.get("boot_id")),
        "started": started,
        "ended": _number(record.get("ended")),
        "stop": _stop_progress(record.get("stop")),
        "began": _moment(record.get("began")),
        "finished": _moment(record.get("finished")),
        "seen": _moment(record.get("seen")) or _number(record.get("seen")),
        "next_attempt": _whole(record.get("next_attempt")),
        "next_at": _number(record.get("next_at")),
        "followed": _followed(record.get("followed")),
        "cgroup": _text(record.get("cgroup")),
        "supervisor_pid": _whole(record.get("supervisor_pid")),
        "waiter_pid": _whole(record.get("waiter_pid")),
        "waiter_ticks": _whole(record.get("waiter_ticks")),
        "leader_pid": _whole(record.get("leader_pid")),
        "exit_code": _whole(record.get("exit_code")),
        "ending": ending_fields(record.get("ending")),
    }
    return found


def intent_fields(value: object) -> IntentFields:
    """The stop intent in the JSON value `value`; a damaged intent is still an intent."""
    intent = _object(value)
    return {
        "time": _number(intent.get("time")) or 0.0,
        "by": _text(intent.get("by")) or "unknown",
        "requests": max(1, _whole(intent.get("requests")) or 1),
        "force": intent.get("force") is True,
        "ending": ending_fields(intent.get("ending")) or {"cause": EndingCause.STOPPED},
        "deadline": _moment(intent.get("deadline")),
    }


def ending_fields(value: object) -> Ending | None:
    """The ending in the JSON value `value`, without what only its supervisor can know of it.

    None where there is none, or its cause is one of a newer version.
    """
    fields = _object(value)
    try:
        ending = Ending(cause=EndingCause(fields.get("cause")))
    except ValueError:
        return None
    seconds, rebooted = _number(fields.get("seconds")), _number(fields.get("rebooted"))
    if seconds is not None:
        ending["seconds"] = seconds
    if rebooted is not None:
        ending["rebooted"] = rebooted
    with suppress(ValueError):
        ending["job_end"] = JobEnd(fields.get("job_end"))
    for name in _ENDING_TEXTS:
        text = _text(fields.get(name))
        if text:
            ending[name] = text
    return ending


def _stop(stop: dict[str, Any], over_nodes: bool) -> StopFields:
    rungs: list[RungFields] = []
    for rung in _list(stop.get("ladder")):
        how, wait_s = _object(rung).get("how"), _number(_object(rung).get("wait_s"))
        # An unknown rung is left out; the ladder goes on with the next one.
        if how == "stop-file" or (isinstance(how, str) and how in signal.Signals.__members__):
            rungs.append({"how": str(how), "wait_s": max(0.0, wait_s or 0.0)})
    # `leader` is the gentlest target: a damaged rule must not signal more than necessary. Over
    # several nodes it is what passes signals on, to the rule's target on each.
    target = "" if over_nodes else _text(stop.get("target"))
    return {"ladder": rungs or list(_LAST_RESORT), "target": target or "leader"}


def _keep(value: object) -> "KeepFields | None":
    keep = _object(value)
    last = _whole(keep.get("last"))
    if not last or last < 1:
        return None  # also where it is damaged: nothing is deleted on a guess
    return {
        "last": last,
        "best": max(0, _whole(keep.get("best")) or 0),
        "every": max(0, _whole(keep.get("every")) or 0),
    }


def _restart(restart: dict[str, Any]) -> RestartFields:
    return {
        "times": max(0, _whole(restart.get("times")) or 0),
        "backoff_s": max(0.0, _number(restart.get("backoff")) or 0.0),
        # A plan of an earlier release names none.
        "on": _texts(restart.get("on", [*USUAL_RESTARTS])),
        "boot": restart.get("boot") is True,
    }


def _stop_progress(value: object) -> StopProgressFields | None:
    stop = _object(value)
    step, until = _whole(stop.get("step")), _number(stop.get("until"))
    if step is None or until is None:
        return None
    return {
        "rung": _text(stop.get("rung")),
        "step": max(1, step),
        "steps": _whole(stop.get("steps")) or step,
        "until": until,
        "asked_by": _text(stop.get("asked_by")),
        "asked_at": _number(stop.get("asked_at")) or 0.0,
    }


def _state(value: object, started: float | None) -> State:
    try:
        return State(value)
    except ValueError:
        # Taken for live: a newer version's state must not make the run impossible to stop or adopt.
        return State.STARTING if started is None else State.RUNNING


def _followed(value: object) -> list[tuple[int, int]]:
    pairs = [pair for pair in _list(value) if isinstance(pair, list) and len(pair) == 2]
    return [(a, b) for a, b in pairs if _whole(a) is not None and _whole(b) is not None]


def _moment(value: object) -> Moments | None:
    fields = _list(value)
    wall = _number(fields[0]) if fields else None
    if wall is None or len(fields) < 3:
        return None
    return wall, _text(fields[1]), _whole(fields[2])


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _texts(value: object) -> list[str]:
    return [word for word in _list(value) if isinstance(word, str)]


def _number(value: object) -> float | None:
    # `bool` is a subclass of `int`, and `true` is not a number in JSON.
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return None
    return float(value) if abs(value) < 1e18 else None  # neither infinite nor NaN


def _whole(value: object) -> int | None:
    # At most 64 bits: system calls, which these pids and times are passed to, overflow above that.
    whole = isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 63
    return value if whole and isinstance(value, int) else None
