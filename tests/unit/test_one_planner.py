"""What `plan` answers is what `launch` does: the same verdict, GPUs, argv, environment, words."""

import itertools
import json
import os
import re
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, event, example, given, settings
from hypothesis import strategies as st

from runners.gpus import client
from runners.gpus.backends.simulated import open_backend
from runners.gpus.driver_setting import parse
from runners.host import files
from runners.host.identity import host_name
from runners.lifecycle.control import start
from runners.lifecycle.control.start import start_together
from runners.lifecycle.launch import dispatch
from runners.lifecycle.launch.planner import PlannedRun, plan_runs
from runners.lifecycle.supervisor.kept_environment import forget_environment
from runners.model.errors import DeniedError, FresnelError
from runners.model.gpus import GpuReading
from runners.model.masked_plan import travelling
from runners.model.plan import LaunchPlan
from runners.model.spec import RunSpec
from runners.presets.catalogue import resolve_runs
from runners.scheduling.queue_order import Waiting
from runners.state.codec import read_plan, read_waits
from runners.state.layout import RunDirectory, StateDirectory
from runners.state.runs import list_run_ids

GPU_WISHES: tuple[Any, ...] = (
    0,
    1,
    2,
    "all",
    {"ids": "0"},
    {"ids": "1,0"},
    {"count": 1, "required": True},
    {"count": 1, "model": "A100"},
    {"count": 1, "memory": "300G"},
    {"count": 1, "share": {"memory": "30G"}},
    {"ids": "0", "share": {"memory": "50G"}},
)
PROGRAMS: tuple[dict[str, Any], ...] = (
    {"launcher": "command", "command": "sleep 1"},
    {"launcher": "command", "command": "echo ${gpu_ids} ${port}", "shell": True},
    {"launcher": "command", "command": "no-such-program-at-all"},
    {"launcher": "python", "script": "train.py"},
    {"launcher": "python", "script": "train.py", "needs": {"packages": ["no_such_package_x"]}},
    {"launcher": "python", "module": "http.server", "arguments": ["${gpu_count}"]},
    {"launcher": "torchrun", "script": "train.py", "arguments": ["--out", "${run_dir}"]},
    {"launcher": "python", "script": "gone.py"},
)
EXTRAS: tuple[dict[str, Any], ...] = (
    {},
    {},
    {},
    {},
    {},
    {"environment": {"WHERE": "${run_dir}/out", "MY_TOKEN": "hush", "N": "${processes}"}},
    {"price": 2.5, "limits": {"cost": 5}},
    {"limits": {"cost": 5}},
    {"priority": 3, "working_directory": "${working_directory}"},
    {"parameters": {"lr": 0.1, "steps": 40}, "estimate": {"time": "2h"}},
)


@st.composite
def presets(draw: st.DrawFn) -> dict[str, Any]:
    """The keys of one preset; some of them can never be launched."""
    program = draw(st.sampled_from(PROGRAMS[:2]) | st.sampled_from(PROGRAMS))
    return {**program, **draw(st.sampled_from(EXTRAS)), "gpus": draw(st.sampled_from(GPU_WISHES))}


class Step(msgspec.Struct, frozen=True):
    """One launch: presets (several are a group), how many of them at once, whether it may wait,
    and which runs end before it, counted from the oldest.
    """

    presets: list[dict[str, Any]]
    parallel: int | None
    queue: bool
    ends: frozenset[int]


def steps() -> st.SearchStrategy[Step]:
    members = st.lists(presets(), min_size=1, max_size=1) | st.lists(
        presets(), max_size=3, min_size=2
    )
    parallel = st.sampled_from((None, None, None, 1))
    return st.builds(
        Step, members, parallel, st.booleans(), st.frozensets(st.integers(0, 3), max_size=1)
    )


class House:
    """A state folder whose supervisors are locks that this process holds."""

    def __init__(self, folder: Path, machine: str) -> None:
        self.state = StateDirectory(folder / "state").create()
        self.presets = folder / "presets"
        self.presets.mkdir()
        self.locks: dict[str, list[int]] = {}
        self.environments: dict[str, dict[str, str]] = {}
        os.environ["FRESNEL_GPUS"] = machine
        backend = open_backend(parse(machine), self.state)
        gpus = backend.snapshots(time.time())
        reading = GpuReading(time.time(), host_name(), "simulated", gpus, setting=machine)
        self.state.gpu_reading.write_bytes(msgspec.json.encode(reading))

    def spawn(
        self, run: RunDirectory, environment: Mapping[str, str], locks: Sequence[int]
    ) -> None:
        """In the place of the supervisor's start: keeps its locks, as that would."""
        self.locks[run.id] = [os.dup(descriptor) for descriptor in locks]
        self.environments[run.id] = dict(environment)

    def end(self, run_id: str) -> None:
        """As a run ends: its locks are free, and nobody looks for it any more."""
        for descriptor in self.locks.pop(run_id):
            os.close(descriptor)
        self.state.live_marker(run_id).unlink()
        forget_environment(self.state.run(run_id))

    def specs(self, step: Step) -> list[RunSpec]:
        """The specs of a launch, as its presets' files give them."""
        members = []
        for i, keys in enumerate(step.presets):
            (self.presets / f"p{i}.yaml").write_text(json.dumps(keys))
            members.append({"preset": f"p{i}", "name": f"member{i}"})
        if len(members) == 1:
            return resolve_runs("p0")
        (self.presets / "group.yaml").write_text(json.dumps({"runs": members}))
        specs = resolve_runs("group")
        return [msgspec.structs.replace(spec, parallel=step.parallel) for spec in specs]


@pytest.fixture
def houses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator["HouseMaker"]:
    """Makes a new house for every example; what they wrote need not survive a power cut."""
    monkeypatch.setattr(client, "FRESH_S", 1e9)
    monkeypatch.setattr(files.os, "fsync", lambda descriptor: None)
    monkeypatch.setattr(dispatch, "poke_supervisor", lambda run: True)
    maker = HouseMaker(tmp_path, monkeypatch)
    yield maker
    maker.leave()


class HouseMaker:
    """One house after the other."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.monkeypatch = folder, monkeypatch
        self.count = itertools.count()
        self.house: House | None = None

    def make(self, machine: str) -> House:
        self.leave()
        folder = self.folder / f"house{next(self.count)}"
        folder.mkdir()
        self.monkeypatch.chdir(folder)
        self.house = House(folder, machine)
        (folder / "train.py").touch()
        self.monkeypatch.setattr(start, "spawn_supervisor", self.house.spawn)
        return self.house

    def leave(self) -> None:
        """End what is left, and remove it."""
        if self.house is not None:
            for run_id in list(self.house.locks):
                self.house.end(run_id)
            shutil.rmtree(self.house.presets.parent)
            self.house = None


def told(plan: LaunchPlan) -> dict[str, Any]:
    """A plan without what two plans of one launch differ in: id, moment, a free port."""
    text = msgspec.json.encode(plan).decode().replace(plan.run, "RUN")
    if plan.port is not None:
        text = _without(text, plan.port)
    found: dict[str, Any] = json.loads(text)
    del found["origin"]["created"]
    return found


def given_to(environment: Mapping[str, str], plan: LaunchPlan) -> dict[str, str]:
    found = {name: value.replace(plan.run, "RUN") for name, value in environment.items()}
    if plan.port is None:
        return found
    return {name: _without(value, plan.port) for name, value in found.items()}


def _without(text: str, port: int) -> str:
    # Whole numbers only: a port's digits may stand in somebody's token by chance.
    return re.sub(rf"(?<!\w){port}(?!\w)", "0", text)


def words_of(error: FresnelError) -> tuple[type[FresnelError], int, str, str | None]:
    return type(error), error.exit_code, error.message, error.hint


def launch_as_planned(house: House, step: Step) -> None:
    specs = house.specs(step)
    before = list_run_ids(house.state)
    planned: Sequence[PlannedRun] = ()
    refusal: FresnelError | None
    try:
        planned = plan_runs(house.state, specs)
        refusal = next(filter(None, (run.refusal(step.queue) for run in planned)), None)
    except FresnelError as error:
        refusal = error
    for run in planned:
        assert "~" not in getattr(run.decision, "reason", ""), "an id that only we know"
    assert list_run_ids(house.state) == before, "planning writes nothing"
    if refusal is not None:
        event("denied" if isinstance(refusal, DeniedError) else "refused as wrong")
        with pytest.raises(FresnelError) as found:
            start_together(house.state, specs, step.queue)
        assert words_of(found.value) == words_of(refusal)
        assert list_run_ids(house.state) == before, "what is refused leaves nothing behind"
        return
    runs = start_together(house.state, specs, step.queue)
    for run, expected in zip(runs, planned, strict=True):
        directory = house.state.run(run.id)
        plan = read_plan(directory)
        assert plan is not None
        assert told(plan) == told(expected.plan)
        waits = read_waits(directory)
        if isinstance(expected.decision, Waiting):
            event("waits")
            assert waits is not None and waits.reason == expected.decision.reason
            assert plan.phase == "queued"
        else:
            event(f"starts on {len(plan.gpus)} GPUs")
            assert waits is None
            assert given_to(house.environments[run.id], plan) == given_to(
                expected.planned.environment | travelling(expected.planned.secrets), expected.plan
            )


ALONE = {"launcher": "command", "command": "sleep 1", "gpus": 1}


@example("sim:1xMI300X", [Step([ALONE, ALONE], None, True, frozenset())])
@example("sim:2xH100", [Step([ALONE, {**ALONE, "gpus": 5}], None, True, frozenset())])
@settings(
    max_examples=100,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    machine=st.sampled_from(("sim:1xMI300X", "sim:2xH100", "sim:3xMI300X", "none")),
    launches=st.lists(steps(), min_size=1, max_size=4),
)
def test_a_launch_does_what_its_plan_said(
    houses: HouseMaker, machine: str, launches: list[Step]
) -> None:
    house = houses.make(machine)
    for step in launches:
        live = sorted(house.locks)
        for number in step.ends:
            if number < len(live):
                house.end(live[number])
        launch_as_planned(house, step)
