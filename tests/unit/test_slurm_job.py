"""What a process learns of its Slurm job: its GPUs by number or UUID, and how the job ended."""

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from runners.gpus.sampler import gpus_of_job, problem_of_job
from runners.host.locks import is_held
from runners.host.slurm_job import SlurmJob, slurm_job
from runners.lifecycle.control import start
from runners.lifecycle.launch import submit
from runners.lifecycle.launch.submit import Submission
from runners.lifecycle.supervisor import job_watch
from runners.lifecycle.supervisor.job_ending import (
    end_waiting,
    forget_stop,
    put_back,
    settled_ending,
    starts_anew,
)
from runners.lifecycle.supervisor.record_keeper import RecordKeeper
from runners.lifecycle.supervisor.restarts import next_restart
from runners.lifecycle.supervisor.spawn import spawn_supervisor
from runners.model.endings import Ending, EndingCause, JobEnd, RestartReason, job_end_of
from runners.model.errors import DeniedError
from runners.model.gpus import GpuSnapshot
from runners.model.spec import RestartRule
from runners.model.states import State
from runners.slurm.job_end import end_in_output, end_of_job
from runners.state.jobs import read_job
from runners.state.layout import StateDirectory
from runners.state.records import plan_fields, record_fields
from tests.support import eventually, make_plan, make_run
from tui.views.runs.job_text import job_pairs

StandIn = Callable[[str, str], None]

_INSIDE = {"SLURM_JOB_ID": "12", "SLURMD_NODENAME": "n1"}


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StandIn:
    """Puts a shell script in the place of a program of Slurm."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    def put(name: str, script: str) -> None:
        path = tmp_path / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o700)

    return put


@pytest.mark.parametrize(
    ("environment", "job"),
    [
        ({}, None),
        ({"SLURM_JOB_ID": "x", "SLURMD_NODENAME": "n1"}, None),
        ({"SLURM_JOB_ID": "12", "SLURM_JOB_GPUS": "0"}, SlurmJob("12", "")),
        (_INSIDE, SlurmJob("12", "n1")),
        (
            _INSIDE | {"SLURM_JOB_GPUS": "2,3", "CUDA_VISIBLE_DEVICES": "0,1"},
            SlurmJob("12", "n1", ("2", "3")),
        ),
        (
            _INSIDE | {"SLURM_JOB_GPUS": "2,3", "SLURM_STEP_GPUS": "3"},
            SlurmJob("12", "n1", ("3",)),
        ),
        (_INSIDE | {"ROCR_VISIBLE_DEVICES": "1"}, SlurmJob("12", "n1", ("1",))),
        (
            _INSIDE | {"SLURM_JOB_GPUS": "0", "CUDA_VISIBLE_DEVICES": "MIG-b,MIG-c"},
            SlurmJob("12", "n1", ("MIG-b", "MIG-c")),
        ),
    ],
)
def test_a_job_by_its_variables(environment: dict[str, str], job: SlurmJob | None) -> None:
    """Slurm's own numbers come before what a program is shown, which others may have changed."""
    assert slurm_job(environment) == job


def _gpus(number: int) -> list[GpuSnapshot]:
    return [GpuSnapshot(i, f"GPU-{i}", "H100", "nvidia") for i in range(number)]


@pytest.mark.parametrize(
    ("given", "shown", "found"),
    [
        (("2", "3"), 8, [2, 3]),
        (("2", "3"), 2, [0, 1]),
        (("GPU-1",), 8, [1]),
        ((), 8, []),
        (("9",), 8, []),
    ],
)
def test_the_gpus_of_a_job(given: tuple[str, ...], shown: int, found: list[int]) -> None:
    """By number, by UUID; where the driver shows as many as were given, it is those."""
    job = SlurmJob("12", "n1", given)
    gpus = gpus_of_job(_gpus(shown), job)
    assert [gpu.index for gpu in gpus] == found
    assert (problem_of_job(gpus, job) is None) == bool(found)


def test_an_instance_comes_with_its_card() -> None:
    """MIG instances go by UUID, and their card is shown beside them."""
    card = GpuSnapshot(0, "GPU-a", "A100", "nvidia")
    parts = [GpuSnapshot(0, f"MIG-{name}", "A100", "nvidia", mig_parent="GPU-a") for name in "bcd"]
    gpus = gpus_of_job([card, *parts, *_gpus(3)], SlurmJob("12", "n1", ("MIG-c",)))
    assert [gpu.uuid for gpu in gpus] == ["GPU-a", "MIG-c"]


@pytest.mark.parametrize(
    ("text", "end"),
    [
        ("", None),
        ("*** JOB 11 ON n1 CANCELLED AT 2026-11-23T01:49:27 ***", None),
        ("x\n*** JOB 12 ON n1 CANCELLED AT 2026-11-23T01:49:27 ***\n", JobEnd.CANCELLED),
        ("*** JOB 12 ON n1 CANCELLED AT 2026 DUE TO TIME LIMIT ***", JobEnd.TIME_LIMIT),
        ("*** JOB 12 ON n1 CANCELLED AT 2026 DUE TO PREEMPTION ***", JobEnd.PREEMPTED),
        (
            "*** JOB 12 ON n1 CANCELLED AT 2026 DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR "
            "DETAILS ***",
            JobEnd.NODE_FAILED,
        ),
        ("*** JOB 12 ON n1 CANCELLED AT 2026 DUE TO SOMETHING NEW ***", JobEnd.UNKNOWN),
    ],
)
def test_what_slurm_says_in_the_output(text: str, end: JobEnd | None) -> None:
    """Of this job only, and a reason that is not known is none."""
    assert end_in_output(text, "12") is end


@pytest.mark.parametrize(
    ("word", "end"),
    [
        ("CANCELLED by 1000", JobEnd.CANCELLED),
        ("TIMEOUT", JobEnd.TIME_LIMIT),
        ("OUT_OF_ME+", None),
        ("CANCELLED+", JobEnd.CANCELLED),
        ("RUNNING", None),
        ("", None),
    ],
)
def test_the_words_of_slurm(word: str, end: JobEnd | None) -> None:
    """sacct's, too; a word that it cut off is not guessed."""
    assert job_end_of(word) is end


@pytest.mark.parametrize("code", ["0", "130"])
def test_a_run_that_waits_anew_is_not_judged_by_the_attempt_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    """Its job was put back and is gone now; how its first attempt ended is still there."""
    monkeypatch.setenv("PATH", str(tmp_path))  # no Slurm to ask
    run = StateDirectory(tmp_path / "state").create().run("20261123-020750-demo-7f3a")
    run.path.mkdir(parents=True)
    run.exit.write_text(code)
    record = record_fields({"state": "queued", "attempt": 1, "started": 1000.0})
    state, ending, seen = settled_ending(run, plan_fields({}), record)
    assert (state, ending["cause"], seen) == (State.STOPPED, EndingCause.SLURM, None), "it has run"
    never = record_fields({"state": "queued"})
    state, ending, seen = settled_ending(run, plan_fields({}), never)
    assert (state, ending["cause"], seen) == (State.FAILED, EndingCause.NOT_STARTED, None)


@pytest.mark.parametrize("word", ["FAILED", "COMPLETED", "NODE_FAIL", ""])
def test_a_run_whose_job_does_not_come_back_ended_with_its_last_attempt(
    tmp_path: Path, stand_in: StandIn, word: str
) -> None:
    """Its program may have finished when Slurm put it back: its job's end is no failure of it."""
    stand_in("sacct", f"[ -z '{word}' ] || echo '{word}|12|demo'")
    run = StateDirectory(tmp_path / "state").create().run("20261123-020750-demo-7f3a")
    run.path.mkdir(parents=True)
    run.job.write_text(json.dumps({"name": "demo", "submitted": 1.0, "id": "12"}))
    ended = {"cause": "slurm", "job": "12", "job_end": "node_failed"}
    event = {"time": 1.0, "type": "restart", "ending": ended, "exit_code": 0}
    run.supervisor_events.write_text(json.dumps(event) + "\n")
    record = record_fields({"state": "queued", "attempt": 1, "started": 1000.0})
    state, ending, _ = settled_ending(run, plan_fields({}), record)
    assert (state, ending["job_end"]) == (State.STOPPED, JobEnd.NODE_FAILED)


@pytest.mark.parametrize(
    ("times", "started", "expected"),
    [(2, False, "queued"), (0, False, "stopped"), (2, True, "queued"), (0, True, "stopped")],
)
def test_a_job_that_is_taken_away_before_its_attempt_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: int, started: bool, expected: str
) -> None:
    """That is no stop of anybody here: it waits once more where its rule says so."""
    monkeypatch.setattr(job_watch, "ask_slurm", lambda _: {"end": "preempted"})
    run = StateDirectory(tmp_path / "state").create().run("20261123-020750-demo-7f3a")
    run.path.mkdir(parents=True)
    plan = make_plan(run.id, restart=RestartRule(times=times))
    record = {"state": "queued", "attempt": 1, **({"started": 1000.0} if started else {})}
    run.state.write_text(json.dumps(record))
    keeper = RecordKeeper(run, record_fields(record))
    fields = plan_fields(json.loads(msgspec.json.encode(plan)))
    end_waiting(run, fields, keeper, SlurmJob("12", "n1"), signal.SIGTERM)
    recorded = record_fields(json.loads(run.state.read_text()))
    assert recorded["state"] == expected
    if expected == "stopped":
        assert recorded["ending"]["job_end"] is JobEnd.PREEMPTED


def test_a_job_that_its_node_could_not_start_says_why(tmp_path: Path, stand_in: StandIn) -> None:
    """Slurm 24.11.5 cancels it in root's name; slurmstepd's reason stands in the job's log only."""
    stand_in("sacct", "echo 'CANCELLED by 0|11|demo'")
    run = StateDirectory(tmp_path / "state").create().run("20261123-020750-demo-7f3a")
    run.path.mkdir(parents=True)
    run.home.slurm.mkdir()
    run.job.write_text(json.dumps({"name": "demo", "submitted": 1.0, "id": "11"}))
    state, ending, _ = settled_ending(run, plan_fields({}), record_fields({}))
    assert (state, ending["detail"]) == (State.CANCELLED, "by root")
    (run.home.slurm / "11.log").write_text(
        "slurmstepd-c1: error: container_g_join failed: 11\n"
        "slurmstepd-c1: error: *** JOB 11 ON c1 CANCELLED AT 2026-11-27T21:28:57 ***\n"
    )
    state, ending, _ = settled_ending(run, plan_fields({}), record_fields({}))
    assert state is State.CANCELLED and ending["detail"].startswith("by root")
    assert ending["detail"].endswith("container_g_join failed: 11")


def test_of_jobs_of_one_number_that_of_the_name_is_meant(stand_in: StandIn) -> None:
    """As sacct of 24.11.5 tells of them after a reset of the controller, if asked for all."""
    stand_in(
        "sacct", "case $* in *--duplicates*) echo 'CANCELLED|68|one';; esac\necho 'FAILED|68|two'"
    )
    assert end_of_job("68", "one")[0] is JobEnd.CANCELLED
    assert end_of_job("68", "two")[0] is JobEnd.FAILED


def test_a_stop_of_slurm_s_is_forgotten_with_its_job_and_a_person_s_is_not(tmp_path: Path) -> None:
    run = StateDirectory(tmp_path).create().run("20261123-020750-demo-7f3a")
    run.path.mkdir(parents=True)
    for cause, is_left in (("slurm", False), ("stopped", True)):
        run.stop.write_text(json.dumps({"time": 1.0, "by": "x", "ending": {"cause": cause}}))
        forget_stop(run)
        assert run.stop.exists() is is_left


@pytest.mark.parametrize(("on", "state"), [(("time_limit",), "queued"), (("failure",), "stopped")])
def test_a_run_whose_supervisor_ended_with_its_job_at_the_limit_begins_anew(
    tmp_path: Path, stand_in: StandIn, on: tuple[RestartReason, ...], state: str
) -> None:
    """Whoever looks next has the job put back, where the rule says so."""
    for tool, body in (
        ("sacct", "echo 'TIMEOUT|12|demo'"),
        ("scontrol", f"echo $* >{tmp_path}/asked"),
    ):
        stand_in(tool, body)
    run = StateDirectory(tmp_path / "state").create().run("20261123-020750-demo-7f3a")
    run.path.mkdir(mode=0o700)
    plan = make_plan(run.id, phase="final", restart=RestartRule(times=1, on=on))
    run.plan.write_bytes(msgspec.json.encode(plan))
    run.job.write_text(json.dumps({"name": "demo", "submitted": 1.0, "id": "12"}))
    run.state.write_text(json.dumps({"state": "running", "attempt": 1, "started": 1000.0}))
    spawn_supervisor(run, os.environ, [])
    eventually(lambda: json.loads(run.state.read_text())["state"] == state, what=state)
    eventually(lambda: not is_held(run.supervisor_lock), what="its supervisor gone")
    asked = tmp_path / "asked"
    assert ("requeue 12" in asked.read_text() if asked.exists() else False) is (state == "queued")


@pytest.mark.parametrize(
    ("named", "anew"),
    [
        ({}, ["failure", "node_failed", "preempted", "requeued"]),  # as an earlier release has it
        ({"on": ["time_limit"]}, ["time_limit"]),
        ({"on": ["failure", "preempted"]}, ["failure", "preempted", "requeued"]),
    ],
)
def test_a_run_begins_anew_after_the_ends_that_its_rule_names(
    named: dict[str, object], anew: list[str]
) -> None:
    rule = plan_fields({"spec": {"restart": {"times": 2, **named}}})["restart"]
    found = [
        end for end in JobEnd if starts_anew({"cause": EndingCause.SLURM, "job_end": end}, 2, rule)
    ]
    failed = next_restart(2, rule, {"cause": EndingCause.FAILED}, lambda: True)
    assert sorted([*found, *(["failure"] if failed else [])]) == anew
    assert not any(
        starts_anew({"cause": EndingCause.SLURM, "job_end": end}, 3, rule) for end in JobEnd
    )


def test_a_run_whose_job_cannot_be_put_back_has_ended_and_says_why(
    tmp_path: Path, stand_in: StandIn
) -> None:
    stand_in("scontrol", "echo disabled >&2\nexit 1")
    run = StateDirectory(tmp_path / "state").create().run("20261123-020750-demo-7f3a")
    run.path.mkdir(parents=True)
    run.job.write_text(json.dumps({"name": "demo", "submitted": 1.0, "id": "12"}))
    ending = Ending(cause=EndingCause.SLURM, job="12", job_end=JobEnd.TIME_LIMIT)
    keeper = RecordKeeper(run, record_fields({"state": "stopping", "attempt": 1}))
    put_back(run, plan_fields({}), keeper, ending, 0)
    recorded = record_fields(json.loads(run.state.read_text()))
    assert (recorded["state"], recorded["exit_code"]) == (State.STOPPED, 0)
    assert "disabled" in recorded["ending"]["detail"]


def test_a_job_that_could_not_see_the_state_folder_says_so(
    tmp_path: Path, stand_in: StandIn
) -> None:
    """Slurm says no more than that it failed."""
    stand_in("sacct", "echo 'FAILED|12|demo'")
    run = StateDirectory(tmp_path / "state").create().run("20261123-020750-demo-7f3a")
    run.path.mkdir(parents=True)
    run.home.slurm.mkdir()
    run.job.write_text(json.dumps({"name": "demo", "submitted": 1.0, "id": "12"}))
    never = record_fields({})
    _, ending, _ = settled_ending(run, plan_fields({}), never)
    assert str(run.home.root) in ending["detail"]
    (run.home.slurm / "12.log").touch()
    _, ending, _ = settled_ending(run, plan_fields({}), never)
    assert "detail" not in ending


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        # Slurm 24.11.5: a cluster's own rules (job_submit.lua), a limit of a QOS, a partition.
        (
            "sbatch: error: ERROR: jobs need a project code.\nsbatch: error: Add --comment=PROJECT"
            "\nsbatch: error: Batch job submission failed: Unspecified error",
            "ERROR: jobs need a project code.; Add --comment=PROJECT",
        ),
        (
            "sbatch: error: QOSMaxSubmitJobPerUserLimit\nsbatch: error: Batch job submission "
            "failed: Job violates accounting/QOS policy (job submit limit, user's size and/or "
            "time limits)",
            "the limit of its QOS for jobs in the queue per user is reached "
            "(QOSMaxSubmitJobPerUserLimit)",
        ),
        (
            "sbatch: error: Batch job submission failed: Unspecified error",
            "Batch job submission failed: Unspecified error",
        ),
    ],
)
def test_all_that_a_refusal_says_is_said(
    tmp_path: Path, stand_in: StandIn, answer: str, told: str
) -> None:
    stand_in("sbatch", f'cat >&2 <<"E"\n{answer}\nE\nexit 1\n')
    with pytest.raises(DeniedError) as refused:
        submit.submit_script(StateDirectory(tmp_path), tmp_path / "script")
    assert refused.value.message.endswith(f": {told}")


def test_what_a_site_says_of_a_job_that_it_takes_is_kept_with_its_number(
    tmp_path: Path, stand_in: StandIn
) -> None:
    """Its rules say it beside the number, a wrapper of sbatch before it."""
    stand_in("sbatch", "echo verified\necho '12;west'\necho 'sbatch: warned' >&2")
    state = StateDirectory(tmp_path / "state").create()
    run = state.run("20261120-101500-demo-7f3a")
    run.path.mkdir()
    submit.submit(state, Submission("demo", (run.id,), ""), {run.id: {}})
    job = read_job(run)
    assert job is not None and job.id == "12"
    assert job.remark == "verified; warned"
    record = make_run(State.QUEUED, id=run.id, directory=str(run.path))
    assert ("said at its launch", job.remark) in job_pairs(record, state)


def test_several_jobs_of_a_launch_are_submitted_with_pauses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The controller has others to serve."""
    done: list[object] = []
    monkeypatch.setattr(start.time, "sleep", done.append)
    monkeypatch.setattr(submit, "submit", lambda _, job, __: done.append(job.name))
    jobs = [Submission(name, (name,), "") for name in ("a", "b", "c")]
    monkeypatch.setattr(submit, "submissions", lambda *_: jobs)
    start._submit(StateDirectory(tmp_path), ())
    pause = start._BETWEEN_JOBS_S
    assert pause > 0 and done == [0.0, "a", pause, "b", pause, "c"]
