"""What a cluster charges for its jobs: what they were given, without the time that they waited."""

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec
import pytest

from runners.cost.ledger import Ledger, RunEntry, line_of
from runners.cost.sessions import Session, start_session
from runners.cost.statement import Statement, make_statement
from runners.host.clock import Moment
from runners.host.files import read_json
from runners.lifecycle.supervisor.ledger_entry import ledger_fields
from runners.model.cluster import PlaceKeys, SlurmKeys
from runners.model.plan import AssignedGpu
from runners.model.spec import Price
from runners.state.jobs import JobNote, write_job
from runners.state.layout import StateDirectory
from runners.state.records import plan_fields, record_fields
from runners.state.runs import read_run
from tests.support import make_plan

_GPUS = tuple(AssignedGpu(i, f"GPU-{i}", "A100", i) for i in range(2))
_NOON = 1_795_435_200.0


def _line(price: Price, waited: float = 0.0, gpus: tuple[AssignedGpu, ...] = _GPUS) -> RunEntry:
    ends = Moment(_NOON + 7200.0)
    return RunEntry("r", "n1", "p", "r", "done", gpus, price, Moment(_NOON), ends, waited=waited)


def _statement(line: RunEntry, *sessions: Session) -> Statement:
    return Statement(sessions, [line], Moment(_NOON + 9000.0))


@pytest.mark.parametrize(
    ("price", "gpus", "cost"),
    [
        (Price("3", "gpu", "cluster"), _GPUS, 12),
        (Price("3", "gpu", "cluster"), (), 0),
        (Price("0.5", "unit", "cluster", units=22.0), _GPUS, 22),
        (Price("0.5", "unit", "cluster", units=4.0), (), 4),
        (Price("0.5", "unit", "cluster"), _GPUS, 0),
    ],
)
def test_a_job_costs_what_it_was_given(
    price: Price, gpus: tuple[AssignedGpu, ...], cost: int
) -> None:
    """By GPU, or by unit of its bill, also without GPUs; everywhere the same."""
    statement = _statement(_line(price, gpus=gpus))
    assert statement.run_costs() == {"r": Fraction(cost)}
    spending = statement.spending()
    assert sum(spent for spent, _ in spending.days.values()) == cost
    assert spending.presets == {"p": Fraction(cost)}
    assert statement.course("r")[-1][1] == cost
    assert statement.would_cost("r") is None
    assert statement.gpu_hours("r") == 2 * len(gpus)


def test_waiting_between_attempts_costs_nothing() -> None:
    statement = _statement(_line(Price("3", "gpu", "cluster"), waited=3600.0))
    assert statement.run_costs() == {"r": Fraction(6)}
    assert statement.gpu_hours("r") == 2


def test_a_job_is_no_part_of_a_session_of_the_machine_that_submits() -> None:
    """Its host is a node, and it is counted where its ledger is."""
    state = StateDirectory().create()
    session = start_session(state, "8", 4, "now", uuids=("GPU-0",))
    session = msgspec.structs.replace(session, began=Moment(_NOON))
    line = _line(Price("3", "gpu", "cluster"))
    statement = make_statement(Ledger(state), [line], Moment(_NOON + 9000.0))
    assert statement.run_costs() == {"r": Fraction(12)}
    account = _statement(line, session).account(session)
    assert account.shares == {} and account.idle == account.total


@pytest.mark.parametrize("price", [None, Price("3", "gpu", "cluster"), Price("3", "gpu", "flag")])
@pytest.mark.parametrize("notes", [{}, {"first": 1500.0, "waited": 600.0}])
def test_a_supervisor_enters_an_ended_job_as_whoever_reads_it_later(
    tmp_path: Path, price: Price | None, notes: dict[str, Any]
) -> None:
    state = StateDirectory(tmp_path).create()
    run = state.run("20261120-101500-demo-7f3a")
    run.path.mkdir()
    slurm = PlaceKeys(slurm=SlurmKeys())
    plan = make_plan(run.id, price=price, gpus=_GPUS, directory=str(run.path), place=slurm)
    run.plan.write_bytes(msgspec.json.encode(plan))
    record = {"state": "done", "started": 4000.0, "ended": 9000.0, "exit_code": 0}
    run.state.write_text(json.dumps(record))
    write_job(run, JobNote(run.id, 1000.0, id="12", began=4000.0, **notes))
    entered = ledger_fields(
        run, plan_fields(read_json(run.plan)), record_fields(read_json(run.state))
    )
    found = msgspec.json.decode(json.dumps(entered), type=RunEntry)
    assert found == line_of(read_run(state, run.id))
