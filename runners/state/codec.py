"""Files of the state folder as structs: decoded, or None.

Plans and records that are damaged or of another version are read as far as they can be.
"""

import msgspec

from runners.host.files import read_json
from runners.model.plan import LaunchPlan
from runners.model.run import Pause, QueueStatus, RunRecord, StopIntent
from runners.model.spec import RunSpec
from runners.state.decoding import json_decoder, read
from runners.state.layout import RunDirectory
from runners.state.records import intent_fields, plan_fields, record_fields


class OutlinedGpu(msgspec.Struct):
    """A GPU in the outline of a plan."""

    uuid: str
    logical: int = 0
    index: int = 0
    name: str = ""
    simulated: bool = False
    share_memory: int | None = None
    node: int = 0


class OutlinedOrigin(msgspec.Struct):
    """Host, time and Slurm job of a launch, in the outline of its plan."""

    host: str = ""
    created: float = 0.0
    job: str = ""


class OutlinedRestart(msgspec.Struct):
    """How often a run is started again, in the outline of its spec."""

    times: int = 0


class OutlinedSpec(msgspec.Struct):
    """What was asked for, in the outline of a plan."""

    preset: str = ""
    name: str = ""
    group: str = ""
    restart: OutlinedRestart = msgspec.field(default_factory=OutlinedRestart)


class PlanOutline(msgspec.Struct, frozen=True):
    """The few fields of a plan that are read for thousands of runs at a time."""

    spec: OutlinedSpec = msgspec.field(default_factory=OutlinedSpec)
    phase: str = ""
    gpus: list[OutlinedGpu] = []
    origin: OutlinedOrigin = msgspec.field(default_factory=OutlinedOrigin)

    @property
    def is_queued(self) -> bool:
        """True while the run waits for GPUs."""
        return self.phase == "queued"


for _kind in (PlanOutline, LaunchPlan, RunRecord, StopIntent, QueueStatus, Pause, RunSpec):
    json_decoder(_kind)


def read_plan(run: RunDirectory) -> LaunchPlan | None:
    """The run's plan, or None."""
    return read(run.plan, LaunchPlan)


def read_outline(run: RunDirectory) -> PlanOutline | None:
    """The outline of the run's plan; of a damaged one what can be read, None when nothing can."""
    outline = read(run.plan, PlanOutline)
    if outline is not None:
        return outline
    # The usual way failed, so this plan is damaged or newer: its GPUs still count as held.
    value = read_json(run.plan)
    if value is None:
        return None
    fields = plan_fields(value)
    gpus = [OutlinedGpu(gpu["uuid"]) for gpu in fields["gpus"] if isinstance(gpu.get("uuid"), str)]
    host = fields["origin"].get("host")
    origin = OutlinedOrigin(host if isinstance(host, str) else "")
    spec = OutlinedSpec(fields["preset"], fields["name"])
    return PlanOutline(spec, fields["phase"], gpus, origin)


def read_record(run: RunDirectory) -> RunRecord | None:
    """The run's record; of a damaged one, or one with an unknown state, what can be read."""
    record = read(run.state, RunRecord)
    if record is not None:
        return record
    fields = record_fields(read_json(run.state))
    return msgspec.convert(fields, RunRecord) if fields else None


def read_intent(run: RunDirectory) -> StopIntent | None:
    """The request to stop the run, or None.

    A damaged file is a request too: whoever wrote it wanted a stop.
    """
    if not run.stop.exists():
        return None
    intent = read(run.stop, StopIntent)
    return intent or msgspec.convert(intent_fields(read_json(run.stop)), StopIntent)


def read_waits(run: RunDirectory) -> QueueStatus | None:
    """Why a queued run waits, or None."""
    return read(run.waits, QueueStatus)


def read_pause(run: RunDirectory) -> Pause | None:
    """Who of us paused the run, or None."""
    return read(run.pause, Pause)


def read_spec(run: RunDirectory) -> RunSpec | None:
    """What the run is: the spec in its plan, or of a damaged plan the one kept beside it."""
    plan = read_plan(run)
    return read(run.spec, RunSpec) if plan is None else plan.spec
