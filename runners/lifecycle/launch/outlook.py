"""A plan together with its estimate and the provenance of what runs.

The estimate reads earlier runs, provenance reads git and the interpreter's folder: the slowest
parts of a launch, which a plan alone does not need.
"""

from pathlib import Path

import msgspec

from runners.cost.estimate import forecast
from runners.cost.rates import device_count
from runners.lifecycle.launch.planning import Planned, make_plan
from runners.lifecycle.launch.provenance import provenance_of
from runners.model.gpus import GpuReading
from runners.model.spec import Price, RunSpec
from runners.scheduling.allocation import Allocation
from runners.state.layout import RunDirectory


def plan_launch(
    spec: RunSpec,
    run: RunDirectory,
    allocation: Allocation,
    reading: GpuReading | None,
    price: Price | None,
) -> Planned:
    """Plan `spec` for one run, with its estimate and provenance.

    Raises WrongInput when a path, program or variable that it names does not exist.
    """
    planned = make_plan(spec, run, allocation, reading, price)
    plan = planned.plan
    folder = Path(plan.working_directory)
    complete = msgspec.structs.replace(
        plan,
        forecast=forecast(run.home, spec, allocation.gpus, price, device_count(plan.gpus)),
        provenance=provenance_of(list(plan.argv), folder, planned.environment, reading),
    )
    return planned._replace(plan=complete)
