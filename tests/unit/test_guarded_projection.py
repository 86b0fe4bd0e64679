"""What a run will have cost, while something is about to end it before its own end."""

import json
import time
from decimal import Decimal
from pathlib import Path

import msgspec
import pytest

from runners.cost.run_costs import ProjectionBasis, RunCost
from runners.guard.rule import GuardState, Stage, new_rule, postpone, write_guard_state, write_rule
from runners.host.clock import moment_now
from runners.model.run import Run
from runners.model.spec import Price
from runners.model.states import State
from runners.state.layout import StateDirectory
from tests.support import make_run
from tui.views.runs.run_text import projection_text
from tui.views.runs.run_view import view_run

MINUTES = 600.0


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """$6 an hour; a step takes a second, and 36,000 are left: $60 by its pace."""
    state = StateDirectory(tmp_path).create()
    live = make_run(price=Price("6", "gpu", "preset"), gpus=1, started=time.time() - 60)
    folder = state.run(live.id).path
    folder.mkdir()
    lines = [{"v": 1, "type": "start", "time": time.time() - 60, "steps": 36_000}]
    lines += [
        {"v": 1, "type": "metrics", "time": time.time() - 60 + at, "step": at, "loss": 1.0}
        for at in range(60)
    ]
    (folder / "events.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return msgspec.structs.replace(live, directory=str(folder))


def would(run: Run) -> RunCost:
    found = view_run(run).money.would
    assert found is not None
    return found


def test_a_countdown_of_the_guard_bounds_what_a_run_will_have_cost(
    run: Run, tmp_path: Path
) -> None:
    state = StateDirectory(tmp_path)
    assert would(run).basis is ProjectionBasis.PACE
    rule = new_rule(max_age_s=3600.0, countdown_s=MINUTES)
    write_rule(state, rule)
    write_guard_state(state, GuardState(rule.id, Stage.WATCHING, moment_now()))
    assert would(run).projected == pytest.approx(Decimal(60), abs=1)
    write_guard_state(state, GuardState(rule.id, Stage.WARNED, moment_now(), "age 1h"))
    found = would(run)
    assert found.basis is ProjectionBasis.GUARD
    assert found.projected == pytest.approx(Decimal("1.1"), abs=Decimal("0.02"))
    assert found.remaining_s == pytest.approx(MINUTES, abs=60)
    assert projection_text(found).endswith("when the guard stops it")
    postpone(state, 3600.0)
    assert would(run).basis is ProjectionBasis.PACE


def test_a_limit_of_its_own_bounds_it_too(run: Run) -> None:
    assert run.plan is not None
    plan = msgspec.structs.replace(run.plan, limit_s=MINUTES, limit_usd="1")
    (Path(run.directory) / "plan.json").write_bytes(msgspec.json.encode(plan))
    found = would(msgspec.structs.replace(run, plan=plan))
    assert found.projected == pytest.approx(Decimal(1), abs=Decimal("0.05"))
    assert found.remaining_s == pytest.approx(MINUTES - 60, abs=60)
    assert found.basis is ProjectionBasis.LIMIT
    late = msgspec.structs.replace(plan, limit_s=1e6)
    (Path(run.directory) / "plan.json").write_bytes(msgspec.json.encode(late))
    assert would(msgspec.structs.replace(run, plan=late)).basis is ProjectionBasis.PACE


def test_a_run_that_ends_before_the_guard_acts_costs_what_its_pace_tells(
    run: Run, tmp_path: Path
) -> None:
    rule = new_rule(max_age_s=3600.0, countdown_s=1e6)
    write_rule(StateDirectory(tmp_path), rule)
    warned = GuardState(rule.id, Stage.WARNED, moment_now(), "age 1h")
    write_guard_state(StateDirectory(tmp_path), warned)
    assert would(run).basis is ProjectionBasis.PACE


def test_a_run_that_is_being_stopped_does_not_come_to_its_end(run: Run) -> None:
    found = would(msgspec.structs.replace(run, state=State.STOPPING))
    assert found.cost is not None and found.projected is None
