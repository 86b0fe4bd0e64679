"""How a run's end is judged: a stop that was asked for, an exit code, a signal, the kernel's kills,
what the program itself said; and what still holds its GPUs.
"""

import json
import time
from types import SimpleNamespace
from typing import Any

import pytest

from runners.host import helpers
from runners.host.files import write_json
from runners.host.memory_group import MemoryLimit
from runners.lifecycle.supervisor import exit_report
from runners.lifecycle.supervisor.exit_report import (
    add_doubts,
    judge_ending,
    judge_unstarted,
    still_held,
)
from runners.model.endings import Ending, EndingCause, JobEnd, ending_text
from runners.model.states import State
from runners.state.layout import RunDirectory
from runners.state.records import PlanFields, intent_fields, plan_fields

ASKED = {"by": "anna", "force": True, "ending": {"cause": "stopped"}}
BUDGET = {"by": "guard", "ending": {"cause": "guard", "rule": "budget"}}
NO_CAUSE = {"class": "none", "summary": "", "lasting": False, "rank": None}


@pytest.fixture
def run(run: RunDirectory) -> RunDirectory:
    run.output.write_text("step 1\n")
    return run


@pytest.fixture(autouse=True)
def world(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The edges: the kernel's counts, the Slurm job, what the diagnosis answers."""
    world = SimpleNamespace(kills={"": None}, job=None, job_kills=None, answer=NO_CAUSE)
    monkeypatch.setattr(exit_report, "memory_kills", lambda group: world.kills.get(group))
    monkeypatch.setattr(exit_report, "slurm_job", lambda: world.job)
    monkeypatch.setattr(exit_report, "job_memory_kills", lambda _: world.job_kills)
    monkeypatch.setattr(helpers, "run", lambda *_, **__: (0, json.dumps(world.answer)))
    return world


@pytest.mark.parametrize(("code", "signal"), [(0, None), (3, None), (None, None), (-15, "SIGTERM")])
def test_a_stop_that_was_asked_for_is_no_failure(
    run: RunDirectory, code: int | None, signal: str | None
) -> None:
    state, ending = judge_ending(run, intent_fields(ASKED), code)
    assert (state, ending["cause"]) == (State.STOPPED, EndingCause.STOPPED)
    assert (ending["by"], ending["forced"]) == ("anna", True)
    assert ending.get("signal") == signal
    assert "error" not in ending and "diagnosis" not in ending


def test_what_the_exit_code_says(run: RunDirectory) -> None:
    assert judge_ending(run, None, 0) == (State.DONE, {"cause": EndingCause.COMPLETED})
    for code in (1, 2, 255):
        state, ending = judge_ending(run, None, code)
        assert (state, ending["cause"]) == (State.FAILED, EndingCause.FAILED)
        assert "signal" not in ending and "memory_kills" not in ending
    state, ending = judge_ending(run, None, -11)
    assert (state, ending["cause"]) == (State.FAILED, EndingCause.SIGNALLED)
    assert ending["signal"] == "SIGSEGV"


def test_without_a_code_it_is_what_the_program_left(run: RunDirectory) -> None:
    state, ending = judge_ending(run, None, None)
    assert (state, ending["cause"]) == (State.UNSEEN, EndingCause.UNSEEN)
    run.output.write_text("")
    state, ending = judge_ending(run, None, None)
    assert (state, ending["cause"]) == (State.LOST, EndingCause.UNKNOWN)


def test_the_kernels_kills_count_for_a_run_that_it_killed(
    run: RunDirectory, world: SimpleNamespace
) -> None:
    world.kills = {"/mine": 2, "/none": 0}
    assert judge_ending(run, None, -9, "/mine")[1]["memory_kills"] == 2
    assert "memory_kills" not in judge_ending(run, None, -9, "/none")[1]
    assert "memory_kills" not in judge_ending(run, None, -9)[1]
    # A kill earlier in the same group is not what ended this one: counted, and its own failure.
    ending = judge_ending(run, None, 1, "/mine")[1]
    assert (ending["cause"], ending["memory_kills"]) == (EndingCause.FAILED, 2)


def test_in_a_container_those_count_that_came_while_it_lived(
    run: RunDirectory, world: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = MemoryLimit(8 << 30, None)
    monkeypatch.setattr(exit_report, "group_kills", lambda: world.ours)
    monkeypatch.setattr(exit_report, "memory_limit", lambda: limit)
    world.ours = 3
    assert "memory_kills" not in judge_ending(run, None, -9, "", 3)[1]
    ending = judge_ending(run, None, -9, "", 2)[1]
    assert (ending["memory_kills"], ending["memory_limit"]) == (1, 8 << 30)
    assert "8.0 GiB" in ending_text(ending, 137)
    ending = judge_ending(run, None, 1, "", 1)[1]
    assert (ending["cause"], ending["memory_kills"]) == (EndingCause.FAILED, 2)
    assert "8.0 GiB" in ending_text(ending, 1)
    assert "memory_kills" not in judge_ending(run, None, -9, "", None)[1], "not counted before"


def test_slurm_killed_it_for_memory(run: RunDirectory, world: SimpleNamespace) -> None:
    world.job, world.job_kills = SimpleNamespace(id="412"), 1
    state, ending = judge_ending(run, None, -9)
    assert (state, ending["cause"]) == (State.FAILED, EndingCause.SLURM)
    assert (ending["job"], ending["job_end"]) == ("412", JobEnd.OUT_OF_MEMORY)
    # One step was killed and the program ended by itself: counted, and its own failure.
    ending = judge_ending(run, None, 1)[1]
    assert (ending["cause"], ending["memory_kills"]) == (EndingCause.FAILED, 1)
    assert "job_end" not in ending
    world.job_kills = 0
    ending = judge_ending(run, None, -9)[1]
    assert ending["cause"] == EndingCause.SIGNALLED and "memory_kills" not in ending


def test_the_diagnosis_is_kept_whole_and_a_damaged_one_is_not(
    run: RunDirectory, world: SimpleNamespace
) -> None:
    world.answer = {"class": "gpu_oom", "summary": "no memory", "lasting": True, "rank": 2}
    ending = judge_ending(run, None, 1)[1]
    assert (ending["diagnosis"], ending["summary"]) == ("gpu_oom", "no memory")
    assert ending["lasting"] is True and ending["rank"] == 2
    world.answer = NO_CAUSE
    ending = judge_ending(run, None, 1)[1]
    assert "lasting" not in ending and "rank" not in ending
    for damaged in ([], {"class": "x"}, {**NO_CAUSE, "rank": "first"}):
        world.answer = damaged
        assert judge_ending(run, None, 1)[0] is State.FAILED


ROOT_CAUSE = (
    "Root Cause (first observed failure):\n  rank      : {} (local)\n  exitcode  : {} (pid)\n"
)


def test_the_error_is_kept_and_the_rank_that_torchrun_names(
    run: RunDirectory, world: SimpleNamespace
) -> None:
    run.output.write_text("[rank1]: ValueError: no such layer\n" + ROOT_CAUSE.format(1, 3))
    ending = judge_ending(run, None, 1)[1]
    assert ending["error"] == "ValueError: no such layer" and ending["rank"] == 1
    assert "rank_code" not in ending  # it says no more than the exception
    run.output.write_text(ROOT_CAUSE.format(3, -9))
    ending = judge_ending(run, None, 1)[1]
    assert "error" not in ending and (ending["rank"], ending["rank_code"]) == (3, 137)
    world.answer = {**NO_CAUSE, "rank": 5}  # the diagnosis saw more than torchrun
    ending = judge_ending(run, None, 1)[1]
    assert ending["rank"] == 5 and "rank_code" not in ending
    assert "rank" not in judge_ending(run_without_report(run), None, 0)[1]


def run_without_report(run: RunDirectory) -> RunDirectory:
    run.output.write_text("step 2\n")
    return run


def test_one_that_waited_is_cancelled_and_one_between_attempts_stopped(run: RunDirectory) -> None:
    write_json(run.stop, ASKED)
    state, ending = judge_unstarted(run, has_started=False)
    assert (state, ending["cause"]) == (State.CANCELLED, EndingCause.CANCELLED)
    assert ending["by"] == "anna"
    state, ending = judge_unstarted(run, has_started=True)
    assert (state, ending["cause"]) == (State.STOPPED, EndingCause.STOPPED)
    write_json(run.stop, BUDGET)
    state, ending = judge_unstarted(run, has_started=False)
    assert (state, ending["cause"]) == (State.CANCELLED, EndingCause.GUARD)
    run.stop.unlink()  # a signal asked
    state, ending = judge_unstarted(run, has_started=False)
    assert state is State.CANCELLED and "by" not in ending


def plan_of(*gpus: dict[str, Any]) -> PlanFields:
    return plan_fields({"gpus": list(gpus)})


def reading(at: float, *processes: dict[str, Any]) -> dict[str, Any]:
    return {"time": at, "gpus": [{"index": 3, "uuid": "GPU-a", "processes": list(processes)},
                                 {"index": 4, "uuid": "GPU-b", "processes": list(processes)}]}  # fmt: skip


def test_what_still_holds_its_gpu_is_named(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exit_report, "_FREED_WITHIN_S", 0.0)
    mine = {"index": 3, "uuid": "GPU-a"}
    later = time.time() + 100
    own, other = {"pid": 7, "run": run.id}, {"pid": 8, "run": "another"}
    write_json(run.home.gpu_reading, reading(later, own, other))
    assert still_held(run, plan_of(mine)) == [(3, 7)]
    assert still_held(run, plan_of(mine | {"simulated": True})) == []
    assert still_held(run, plan_of()) == []
    write_json(run.home.gpu_reading, reading(later, other))
    assert still_held(run, plan_of(mine)) == []
    # A reading from before its end says nothing, nor does none.
    write_json(run.home.gpu_reading, reading(time.time() - 1, own))
    assert still_held(run, plan_of(mine)) == []
    run.home.gpu_reading.unlink()
    assert still_held(run, plan_of(mine)) == []


def test_it_waits_for_a_reading_from_after_the_end(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, own = {"index": 3, "uuid": "GPU-a"}, {"pid": 7, "run": run.id}
    now = time.time()
    # Before its end; after it and still held; free.
    readings = [reading(now - 1, own), reading(now + 100, own), reading(now + 101)]
    slept: list[float] = []

    def next_reading(seconds: float) -> None:
        slept.append(seconds)
        write_json(run.home.gpu_reading, readings[len(slept)])

    monkeypatch.setattr(exit_report.time, "sleep", next_reading)
    write_json(run.home.gpu_reading, readings[0])
    assert still_held(run, plan_of(mine)) == []
    assert len(slept) == 2
    # Where the sampler stopped long ago, nobody waits.
    write_json(run.home.gpu_reading, reading(now - 1000, own))
    assert still_held(run, plan_of(mine)) == [] and len(slept) == 2


TRACEBACK = (
    'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\n    main()\n'
)
REPORT = (
    f"{TRACEBACK}RuntimeError: no data\n{TRACEBACK}torch.distributed.elastic.multiprocessing.errors."
    "ChildFailedError: \n=====\ntrain.py FAILED\n-----\nFailures:\n  <NO_OTHER_FAILURES>\n-----\n"
    "Root Cause (first observed failure):\n[0]:\n  time      : now\n  host      : vm\n"
    "  rank      : 0 (local_rank: 0)\n  exitcode  : 1 (pid: 7)\n  error_file: <N/A>\n=====\n"
)


@pytest.mark.parametrize(
    "output, error",
    [
        (f"{TRACEBACK}ValueError: lr < 0\n", "ValueError: lr < 0"),
        (f"step 1\n{TRACEBACK}torch.OutOfMemoryError: full\nfinished\nbye\n",
         "torch.OutOfMemoryError: full"),
        (REPORT, "RuntimeError: no data"),
        (f"{TRACEBACK}KeyboardInterrupt\n", ""),
        (f"Exception ignored in: <function f>\n{TRACEBACK}AssertionError: can only test\n", ""),
        (f"{TRACEBACK}ValueError: one bad file, skipped\n" + "step\n" * 6, ""),
        ("ValueError: printed, no traceback\n", ""),
        (f"{TRACEBACK}", ""),
    ],
)  # fmt: skip
def test_a_shell_that_exits_with_0_hides_no_error(
    run: RunDirectory, output: str, error: str
) -> None:
    run.output.write_text(output)
    for argv in (["stdbuf", "-oL", "/usr/bin/bash", "-c", "a | tee b"], ["./train.sh"]):
        ending = Ending(cause=EndingCause.COMPLETED)
        add_doubts(ending, run, argv, [])
        assert ending.get("error", "") == error
    ending = Ending(cause=EndingCause.COMPLETED)
    add_doubts(ending, run, ["python", "train.py"], [])
    assert "error" not in ending


def test_the_full_disk_is_kept(run: RunDirectory, world: SimpleNamespace) -> None:
    world.answer = {**NO_CAUSE, "class": "disk_full", "summary": "full", "disk": "/data"}
    assert judge_ending(run, None, 1)[1]["disk"] == "/data"
