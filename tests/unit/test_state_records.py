"""What one side writes the other reads: the supervisor's dictionaries, the front ends' structs."""

import json
from typing import Any, get_type_hints

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from runners.cost.ledger import RunEntry
from runners.lifecycle.supervisor.ledger_entry import ledger_fields
from runners.model.endings import Ending, EndingCause, ending_text
from runners.model.plan import AssignedGpu
from runners.model.run import RunRecord, StopIntent, StopProgress
from runners.model.spec import DEFAULT_STOP, Price, RestartRule, Retention
from runners.model.states import State
from runners.state.codec import read_intent, read_record
from runners.state.layout import StateDirectory
from runners.state.records import (
    LedgerFields,
    RecordFields,
    StopProgressFields,
    intent_fields,
    plan_fields,
    record_fields,
)
from tests.support import make_plan

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=12,
)
RECORD = RunRecord(
    State.STOPPING,
    "stop asked by anna",
    2,
    "here",
    "boot-1",
    10,
    11,
    12,
    13,
    1000.0,
    None,
    3,
    StopProgress("SIGINT", 2, 4, 1010.0, "anna", 1005.0),
    followed=((20, 21),),
    next_attempt=3,
    next_at=1020.0,
    cgroup="/user.slice/x.scope",
    ending={
        "cause": EndingCause.LIMIT,
        "seconds": 60.0,
        "rebooted": 1000.0,
        "by": "its limit",
        "detail": "as it is said",
        "rule": "7f3a",
        "usd": "5",
        "summary": "out of memory",
        "error": "ValueError",
    },
)


def _names(kind: Any) -> set[str]:
    return {field.name for field in msgspec.structs.fields(kind)}


def test_both_sides_name_the_same_fields() -> None:
    assert set(get_type_hints(RecordFields)) == _names(RunRecord)
    assert set(get_type_hints(StopProgressFields)) == _names(StopProgress)
    assert _names(RunEntry) <= set(get_type_hints(LedgerFields)) | {"type"}


def test_a_record_survives_both_ways() -> None:
    fields = record_fields(json.loads(msgspec.json.encode(RECORD)))
    assert msgspec.json.decode(json.dumps(fields), type=RunRecord) == RECORD


def test_a_plan_is_read_by_the_supervisor_as_it_was_written() -> None:
    plan = make_plan(
        argv=("python", "train.py"),
        gpus=(AssignedGpu(0, "GPU-0", "H100", 0),),
        restart=RestartRule(times=2, backoff_s=5.0, boot=True),
        restart_arguments=("--resume", "${checkpoint}"),
        keep=Retention(last=2, every=10),
        limit_s=60.0,
        limit_usd="5",
        output_limit=1 << 20,
        phase="granted",
        price=Price("1.99", "gpu", "preset"),
        checkpoints=("/x/*.pt",),
    )
    fields = plan_fields(json.loads(msgspec.json.encode(plan)))
    assert fields["argv"] == ["python", "train.py"] and fields["phase"] == "granted"
    assert fields["gpus"][0]["uuid"] == "GPU-0" and fields["checkpoints"] == ["/x/*.pt"]
    assert (fields["limit_s"], fields["output_limit"]) == (60.0, 1 << 20)
    assert fields["restart"] == {
        "times": 2,
        "backoff_s": 5.0,
        "on": ["failure", "preempted", "node_fail"],
        "boot": True,
    }
    assert fields["restart_arguments"] == ["--resume", "${checkpoint}"]
    assert fields["keep"] == {"last": 2, "best": 1, "every": 10}
    assert [rung["how"] for rung in fields["stop"]["ladder"]] == [
        rung.how for rung in DEFAULT_STOP.ladder
    ]
    assert fields["stop"]["target"] == plan.spec.stop.target


def test_the_supervisor_s_ledger_line_is_one_that_the_ledger_reads(tmp_path: Any) -> None:
    run = StateDirectory(tmp_path).create().run("run-1")
    plan = plan_fields(
        json.loads(msgspec.json.encode(make_plan(price=Price("1.99", "gpu", "preset"))))
    )
    record = record_fields({"state": "done", "started": 1000.0, "ended": 1060.0, "exit_code": 0})
    line = msgspec.json.decode(json.dumps(ledger_fields(run, plan, record)), type=RunEntry)
    assert (line.run, line.preset, line.state, line.exit_code) == ("run-1", "demo", "done", 0)
    assert line.began.wall == 1000.0 and line.finished is not None and line.finished.wall == 1060.0
    assert ledger_fields(run, plan, {"state": State.FAILED}) is None, "it never started"


def test_a_damaged_intent_is_still_an_intent(tmp_path: Any) -> None:
    run = StateDirectory(tmp_path).create().run("r")
    run.path.mkdir()
    run.stop.write_text('{"requests": "many", "ending": {"cause": "of a newer version"}}')
    assert read_intent(run) == StopIntent(0.0, "unknown", 1)


def test_why_a_stop_was_asked_for_survives_both_ways() -> None:
    ending = Ending(cause=EndingCause.GUARD, rule="7f3a", detail="age: 2h of 1h")
    intent = StopIntent(1.0, "anna", 2, True, ending)
    fields = intent_fields(json.loads(msgspec.json.encode(intent)))
    assert ending_text(fields["ending"]) == ending_text(ending) == "guard: age: 2h of 1h"
    again = msgspec.json.decode(json.dumps(fields), type=StopIntent)
    assert {**again.ending, **ending} == again.ending and again.force


def test_a_state_of_a_newer_version_is_a_run_that_lives(tmp_path: Any) -> None:
    run = StateDirectory(tmp_path).create().run("r")
    run.path.mkdir()
    run.state.write_text('{"state": "paused", "started": 5.0, "supervisor_pid": 7, "attempt": "x"}')
    record = read_record(run)
    assert record is not None and (record.state, record.attempt) == (State.RUNNING, 1)
    assert (record.started, record.supervisor_pid) == (5.0, 7)


@given(JSON)
def test_nothing_that_is_json_is_too_damaged(value: Any) -> None:
    plan, record, intent = plan_fields(value), record_fields(value), intent_fields(value)
    assert plan["stop"]["ladder"] and plan["working_directory"] and intent["requests"] >= 1
    assert not record or isinstance(record["state"], State)


@given(st.fixed_dictionaries({}, optional=dict.fromkeys(get_type_hints(RecordFields), JSON)))
def test_every_field_of_a_record_may_be_damaged(value: dict[str, Any]) -> None:
    fields = record_fields(value)
    if fields:
        msgspec.convert(json.loads(json.dumps(fields)), RunRecord)


@given(
    st.fixed_dictionaries(
        {}, optional=dict.fromkeys(("stop", "restart", "argv", "gpus", "limit_s"), JSON)
    )
)
def test_every_field_of_a_plan_may_be_damaged(value: dict[str, Any]) -> None:
    plan = plan_fields({**value, "spec": value})
    assert all(rung["wait_s"] >= 0 for rung in plan["stop"]["ladder"])
    assert plan["restart"]["times"] >= 0
