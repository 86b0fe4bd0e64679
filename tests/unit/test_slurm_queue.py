"""What squeue prints, as rows; why jobs wait, in words; the script that is submitted."""

import json
import os
import subprocess
import time
import tracemalloc
from pathlib import Path

import msgspec
import pytest

from runners.cost.rates import device_count
from runners.lifecycle.launch.plan_costs import with_time_limit
from runners.model import pending
from runners.model.cluster import SlurmKeys
from runners.model.errors import WrongInput
from runners.model.pending import pending_text
from runners.model.plan import AssignedGpu, on_all_nodes
from runners.model.run import RunRecord
from runners.model.spec import GpuRequest, PlaceKeys, RestartRule, RunSpec
from runners.model.states import State
from runners.slurm import queue
from runners.slurm.expected_start import count_before, read_start
from runners.slurm.options import duration_text, ladder_s, options_of, over_nodes, script_of
from runners.slurm.queue import read_rows, seconds_of
from runners.state.deadline import deadline_of
from runners.state.job_status import WaitingJobs, is_over, row_of, status_of_job
from runners.state.jobs import (
    JobNote,
    JobRow,
    JobTable,
    expand_tasks,
    forget_table,
    names_of,
    read_table,
    write_job,
    write_table,
)
from runners.state.layout import RunDirectory, StateDirectory
from tests.support import make_plan, make_run
from tui.snapshot import feed

_RUN = "20261123-020750-demo-7f3a"
_LIMIT = "the time limit of its Slurm job"


def _line(*fields: str) -> str:
    *others, name = fields
    return "\x1f".join((*others, "/state/slurm/script.sh", name)) + "\x1e"


_RUNNING = _line(
    *("398276", "398276", "N/A", "RUNNING", "None", "gpu", "n1", "1795397281"),
    *("3:00", "4294901758", _RUN),
)
_ARRAY = _line(
    *("40", "40", "2-4,7%2", "PENDING", "JobArrayTaskLimit", "gpu", "", "N/A"),
    *("1-02:00:00", "4294901757", "sweep"),
)
_TASK = _line(
    *("42", "40", "1", "RUNNING", "None", "gpu", "n2", "1795397281", "UNLIMITED", "1", "sweep")
)


def test_rows_of_squeue() -> None:
    """A job, an array that waits, and one of its tasks that runs."""
    job, array, task = read_rows("\n".join((_RUNNING, _ARRAY, _TASK)))
    assert (job.number, job.state, job.nodes, job.limit_s) == ("398276", "RUNNING", "n1", 180.0)
    assert names_of(job)[0] == "398276"
    assert set(names_of(array)) >= {"40_2", "40_3", "40_4", "40_7"}
    assert set(names_of(task)) >= {"40_1", "42"}
    assert task.limit_s is None


@pytest.mark.parametrize(
    "line",
    ["nonsense\x1e", _RUNNING[:20] + "\x1e", _line(*["x"] * 11), _ARRAY.replace("%", ",...%")],
)
def test_a_line_that_is_not_whole_is_left_out(line: str) -> None:
    """And those beside it are read."""
    assert [row.number for row in read_rows(f"{line}\n{_TASK}")] == ["42"]


@pytest.mark.parametrize(
    ("text", "tasks"),
    [
        ("0-3%2", [0, 1, 2, 3]),
        ("[1,5-9:2]", [1, 5, 7, 9]),
        ("N/A", []),
        ("", []),
        ("7-2", []),
        ("0-999999999", list(range(100_000))),
    ],
)
def test_tasks_of_an_array(text: str, tasks: list[int]) -> None:
    """Bounded, whatever it says."""
    assert expand_tasks(text) == tasks


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1-02:03:04", 93784.0), ("3:04", 184.0), ("UNLIMITED", None), ("INVALID", None), ("", None)],
)
def test_lengths_of_time(text: str, seconds: float | None) -> None:
    """As Slurm prints them."""
    assert seconds_of(text) == seconds


def test_a_length_of_time_for_slurm() -> None:
    """Whole minutes, one at least."""
    assert [duration_text(s) for s in (5, 90, 93784)] == ["1", "2", "1564"]


@pytest.mark.parametrize(
    "reason",
    [
        "Priority",
        "DependencyNeverSatisfied",
        "JobHeldUser",
        "QOSMaxGRESPerUser",
        "AssocGrpCPUMinutesLimit",
        "ReqNodeNotAvail, UnavailableNodes:n[1-3]",
        "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority "
        "partitions",
    ],
)
def test_why_a_job_waits(reason: str) -> None:
    """In words of ours, and its own number where something is done with it."""
    found = pending_text(reason, "4711")
    assert reason not in found and "JOB" not in found
    assert not found.startswith("Slurm")


@pytest.mark.parametrize(
    ("reason", "text"),
    [
        ("QOSMaxGRESPerUser", "of its QOS for GPUs and other devices per user"),
        ("QOSMaxJobsPerUserLimit", "of its QOS for jobs per user"),
        ("AssocGrpCPURunMinutesLimit", "of its account for minutes of CPUs at once"),
        ("AssocMaxWallDurationPerJobLimit", "of its account for time per job"),
        ("MaxMemPerAccount", "of the cluster for memory per account"),
    ],
)
def test_a_limit_is_named(reason: str, text: str) -> None:
    """Whose it is, of what, and per what."""
    assert pending_text(reason, "").startswith(f"the limit {text} is reached")


@pytest.mark.parametrize(
    ("reason", "never"),
    [("QOSMaxWallDurationPerJobLimit", True), ("QOSMaxGRESPerUser", False)],
)
def test_a_limit_for_each_job_is_not_waited_for(reason: str, never: bool) -> None:
    """Nothing that ends lets a job start that asks for more than any may have."""
    assert pending_text(reason, "").endswith(pending._OF_ONE) is never


def test_a_job_that_was_put_back_and_held(tmp_path: Path) -> None:
    """Slurm 24.11.5, after `scontrol requeuehold`."""
    assert pending_text("job requeued in held state", "7").startswith("held")


@pytest.mark.parametrize("problem", ["", "timed out"])
def test_why_a_job_waits_comes_before_its_number(tmp_path: Path, problem: str) -> None:
    """A narrow table cuts what follows."""
    run = _job(tmp_path, id="612")
    row = JobRow("612", _RUN, "PENDING", "Resources")
    write_table(run.home, JobTable(1001.0, 1001.0, problem, jobs=(row,)))
    _, why = status_of_job(run, None)
    assert why.startswith("Slurm does not answer" if problem else pending_text("Resources", "612"))
    assert why.index("612") > 20


def test_a_suspended_job_is_said_to_be_so(tmp_path: Path) -> None:
    """Its run stands still, whatever it recorded last."""
    run = _job(tmp_path, id="12")
    write_table(run.home, JobTable(1001.0, 1001.0, jobs=(JobRow("12", _RUN, "SUSPENDED"),)))
    state, why = status_of_job(run, RunRecord(State.RUNNING))
    assert (state, "suspended" in why) == (State.RUNNING, True)


def test_a_body_that_waits_for_gpus_on_its_node_says_for_which(tmp_path: Path) -> None:
    """Its job has begun, and its time runs."""
    run = _job(tmp_path, id="12")
    row = JobRow("12", _RUN, "RUNNING", nodes="c1")
    write_table(run.home, JobTable(1001.0, 1001.0, jobs=(row,)))
    run.waits.write_text('{"reason": "GPU-0", "place": 1, "time": 1.0}')
    state, why = status_of_job(run, RunRecord(State.QUEUED))
    assert (state, "GPU-0" in why) == (State.STARTING, True)


def test_a_reason_that_is_not_known_is_shown_as_it_is() -> None:
    """Nothing is guessed."""
    assert "SomethingNew" in pending_text("SomethingNew", "")


def test_the_script_takes_the_run_of_its_task(tmp_path: Path) -> None:
    """A shell runs it: the task's number chooses, and none means the first."""
    text = script_of(["--job-name=a b"], ["echo", "it is"], ["one", "two"])
    assert '#SBATCH --job-name="a b"\n' in text
    (tmp_path / "script").write_text(text)
    for task, run in (("", "one"), ("1", "two")):
        said = subprocess.run(
            ["sh", tmp_path / "script"],
            env={"SLURM_ARRAY_TASK_ID": task} if task else {},
            capture_output=True,
            text=True,
            check=True,
        )
        assert said.stdout == f"it is {run} --job\n"


def test_options_of_a_run() -> None:
    """Those of the preset, and what goes with each job of ours."""
    keys = SlurmKeys(partition="gpu", time=3600.0, cpus_per_gpu=8, array_limit=2, exclusive=True)
    spec = RunSpec("demo", "demo", "command", gpus=GpuRequest(count=2), place=PlaceKeys(slurm=keys))
    found = options_of(spec, "demo", "/o/%A_%a.log", tasks=3)
    wanted = ["--array=0-2%2", "--gres=gpu:2", "--partition=gpu", "--time=60"]
    assert set(found) >= {*wanted, "--cpus-per-gpu=8", "--exclusive", "--no-requeue"}
    again = msgspec.structs.replace(spec, restart=RestartRule(times=1))
    assert "--requeue" in options_of(again, "demo", "/o")
    failed_only = msgspec.structs.replace(spec, restart=RestartRule(times=1, on=("failure",)))
    assert "--no-requeue" in options_of(failed_only, "demo", "/o")


def test_a_job_is_warned_as_long_before_its_limit_as_its_stop_takes() -> None:
    """Of a limit that is hardly longer, at its half: a warning at once would end it unrun."""
    spec = RunSpec("demo", "demo", "command", place=PlaceKeys(slurm=SlurmKeys()))
    for limit_s, warned_s in ((None, ladder_s(spec)), (3600.0, ladder_s(spec)), (45.0, 30)):
        keys = SlurmKeys(time=limit_s)
        found = options_of(msgspec.structs.replace(spec, place=PlaceKeys(slurm=keys)), "demo", "")
        assert f"--signal=B:USR2@{warned_s}" in found
    limited = with_time_limit(spec, 5.0)[0].place.slurm
    assert limited is not None and limited.time is not None
    assert limited.time - ladder_s(spec) >= 5.0


def test_several_nodes_are_asked_for_and_counted() -> None:
    """As many GPUs on each, one task on each, and a launcher that can meet the others."""
    keys = SlurmKeys(nodes=3)
    spec = RunSpec(
        "demo", "demo", "torchrun", gpus=GpuRequest(count=2), place=PlaceKeys(slurm=keys)
    )
    found = options_of(spec, "demo", "")
    assert {"--nodes=3", "--ntasks=3", "--ntasks-per-node=1", "--gres=gpu:2"} <= set(found)
    here = tuple(AssignedGpu(index, f"GPU-{index}", "H100", index) for index in range(2))
    gpus = on_all_nodes(here, over_nodes(spec).node)
    assert device_count(gpus) == 6
    assert len({gpu.uuid for gpu in gpus}) == 6 and gpus[:2] == here
    for unfit in ({"launcher": "python"}, {"terminal": True}):
        with pytest.raises(WrongInput):
            over_nodes(msgspec.structs.replace(spec, **unfit))


def test_keys_over_the_settings() -> None:
    """What a preset says comes first."""
    keys = SlurmKeys(time=60.0).over(SlurmKeys(partition="gpu", time=90.0))
    assert (keys.partition, keys.time) == ("gpu", 60.0)


def _job(tmp_path: Path, **note: object) -> RunDirectory:
    run = StateDirectory(tmp_path).run(_RUN)
    run.path.mkdir(parents=True)
    write_job(run, JobNote(_RUN, 1000.0, **note))  # type: ignore[arg-type]
    return run


def test_a_silent_controller_concludes_nothing(tmp_path: Path) -> None:
    """The run is queued as before, and the silence is said."""
    run = _job(tmp_path, id="12")
    silent = JobTable(5000.0, 2000.0, "squeue does not answer", 2)
    write_table(run.home, silent)
    state, reason = status_of_job(run, None)
    assert state == "queued"
    assert silent.problem in reason
    assert not is_over(run)
    write_table(run.home, JobTable(5001.0, 5001.0))
    assert is_over(run)


def test_a_job_whose_number_was_lost_is_found_by_its_name(tmp_path: Path) -> None:
    """The answer to sbatch never came."""
    run = _job(tmp_path)
    write_table(run.home, JobTable(1001.0, 1001.0, jobs=(JobRow("7", _RUN, "PENDING"),)))
    row = row_of(run, JobNote(_RUN, 1000.0))
    assert row is not None and row.number == "7"


def test_of_two_jobs_of_one_name_the_one_that_lives_is_meant(tmp_path: Path) -> None:
    """Submitted anew, with the answer lost: what the first came to says nothing of the second."""
    run = _job(tmp_path, id="", submissions=2)
    rows = (JobRow("9", _RUN, "PENDING"), JobRow("7", _RUN, "TIMEOUT"))
    for jobs in (rows, rows[::-1]):
        write_table(run.home, JobTable(9000.0, 9000.0, jobs=jobs))
        row = row_of(run, JobNote(_RUN, 1000.0))
        assert row is not None and row.number == "9"
    write_table(run.home, JobTable(1030.0, 1030.0, jobs=rows[1:]))
    assert not is_over(run), "an answer as old as that does not know the second"


def test_an_earlier_answer_is_not_kept_beside_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a hundred thousand jobs two tables are too much memory."""
    state = StateDirectory(tmp_path)
    state.slurm.mkdir()
    rest = _RUNNING.partition("\x1f")[2]
    lines = "\n".join(f"{n}\x1f{rest}" for n in range(3000))
    earlier = JobTable(1.0, 1.0, jobs=queue.read_rows(lines))
    held: list[int] = []

    def read(output: str, scripts: object) -> tuple[JobRow, ...]:
        held.append(tracemalloc.get_traced_memory()[0])
        return ()

    monkeypatch.setattr(queue, "ask", lambda *_, **__: lines)
    monkeypatch.setattr(queue, "read_rows", read)
    queue.refresh(state, every_s=0.0)  # so that what it imports late is not counted
    write_table(state, earlier)
    del earlier
    forget_table(state)
    tracemalloc.start()
    try:
        queue.refresh(state, every_s=0.0)
    finally:
        tracemalloc.stop()
    assert held[1] < len(lines), "no row of the earlier answer"


def test_a_number_that_was_given_again_is_another_job(tmp_path: Path) -> None:
    """A controller that crashed does not remember the last ones: what became of those is ours."""
    run = _job(tmp_path, id="12")
    write_table(run.home, JobTable(1001.0, 1001.0, jobs=(JobRow("12", "else", "CANCELLED"),)))
    assert row_of(run, JobNote(_RUN, 1000.0, id="12")) is None
    assert not is_over(run)
    assert status_of_job(run, None)[0] == "queued"


def test_a_damaged_table_is_none(tmp_path: Path) -> None:
    """And costs nothing but its content."""
    run = _job(tmp_path, id="12")
    write_table(run.home, JobTable(1.0, 1.0))
    run.home.jobs.write_text('{"asked": "NaN", "jobs": [7]}')
    assert read_table(run.home)[0] == JobTable()


def test_when_slurm_ends_a_job(tmp_path: Path) -> None:
    """As it says itself; before it is asked, by what it was asked for and when the job began."""
    keys = SlurmKeys(time=3600.0)
    directory = _job(tmp_path, id="12", began=900.0)
    plan = make_plan(_RUN, directory=str(directory.path), place=PlaceKeys(slurm=keys))
    run = make_run(plan=plan, directory=str(directory.path))
    assert deadline_of(run, now=1000.0) == (3500.0, _LIMIT, True)
    row = JobRow("12", _RUN, "RUNNING", ends=8200.0, limit_s=7200.0)
    write_table(directory.home, JobTable(1001.0, 1001.0, jobs=(row,)))
    assert deadline_of(run, now=1000.0) == (7200.0, _LIMIT, True), "it was extended"
    back = JobRow("12", _RUN, "PENDING", limit_s=7200.0)
    write_table(directory.home, JobTable(1001.5, 1001.5, jobs=(back,)))
    assert deadline_of(run, now=1000.0) is None, "put back, it has none until it begins"
    write_table(directory.home, JobTable(1001.7, 1001.7, jobs=(row,)))
    assert run.plan is not None
    rule = RestartRule(times=1, on=("time_limit",))
    spec = msgspec.structs.replace(run.plan.spec, restart=rule)
    again = msgspec.structs.replace(run, plan=msgspec.structs.replace(plan, spec=spec))
    assert deadline_of(again, now=1000.0) == (7200.0, _LIMIT, False), "it begins anew then"
    endless = JobRow("12", _RUN, "RUNNING", ends=8200.0)
    write_table(directory.home, JobTable(1002.0, 1002.0, jobs=(endless,)))
    assert deadline_of(run, now=1000.0) is None
    directory.plan.write_text('{"limit_s": 600.0, "limit_usd": "2.50"}')
    limited = make_run(
        plan=msgspec.structs.replace(plan, limit_s=600.0),
        directory=str(directory.path),
        started=time.time() - 100.0,
    )
    found = deadline_of(limited, now=1000.0)
    assert found is not None and 400.0 < found.in_s <= 500.0 and "$2.50" in found.limit


def test_a_waiting_job_is_read_again_only_when_something_of_it_has_changed(tmp_path: Path) -> None:
    """Its folder, or what Slurm says of it; while Slurm is silent, always."""
    directory = _job(tmp_path, id="12")
    plan = make_plan(_RUN, place=PlaceKeys(slurm=SlurmKeys()))
    run = make_run(State.QUEUED, id=_RUN, plan=plan, directory=str(directory.path))
    waits = JobRow("12", _RUN, "PENDING", "Priority")
    write_table(directory.home, JobTable(9000.0, 9000.0, jobs=(waits,)))
    jobs = WaitingJobs(directory.home)
    assert not jobs.keep(run), "it was written a moment ago"
    os.utime(directory.path, (1000.0, 1000.0))
    assert jobs.keep(run) and jobs.unchanged() == {_RUN}
    for other in (
        JobTable(9030.0, 9030.0, jobs=(msgspec.structs.replace(waits, reason="Resources"),)),
        JobTable(9030.0, 9000.0, "no answer", jobs=(waits,)),
        JobTable(9030.0, 9030.0),
    ):
        write_table(directory.home, other)
        assert not jobs.unchanged()
    write_table(directory.home, JobTable(9060.0, 9060.0, jobs=(waits,)))
    assert jobs.unchanged() == {_RUN}, "another answer, which says the same"
    directory.stop.touch()
    assert not jobs.unchanged()
    assert not jobs.keep(make_run(id=_RUN, plan=plan)), "one that runs is read every second"


def test_what_comes_before_a_job_and_when_it_may_start() -> None:
    """By priority, then by number; what cannot be read is not counted, and no start is none."""
    job = JobRow("50", _RUN, "PENDING", "Priority", priority=7.0)
    assert count_before("9 60\n7 49\n7 50\n7 51\n5 3\nN/A x\n", job) == 2
    assert count_before("9 60\n", msgspec.structs.replace(job, priority=None)) is None
    assert read_start("1795397281\n1795397200\n") == 1795397200.0
    assert read_start("N/A\n") is None


def test_the_first_screen_does_not_wait_for_all_that_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What has begun is in it, the newest of the others too; the next snapshot has all."""
    monkeypatch.setattr(feed, "_FIRST_LIVE", 2)
    state = StateDirectory(tmp_path).create()
    names = [f"20261123-02075{n}-demo-7f3a" for n in range(5)]
    for name in names:
        state.run(name).path.mkdir()
        state.live_marker(name).touch()
    state.run(names[0]).state.write_text(json.dumps({"state": "running", "attempt": 1}))
    found = feed.SnapshotFeed(state, read_only=True)
    first = found.first_snapshot(30.0)
    assert first is not None
    assert {view.run.id for view in first.runs} == {names[0], *names[-2:]}
    assert set(names[1:]) <= set(first.letters), "those that are read later have theirs"
    second = found._take()
    assert {view.run.id for view in second.runs} == set(names)


def test_a_job_that_was_renamed_is_known_by_its_script() -> None:
    """By a plugin of the cluster, or by hand; the script of one submitted anew has another name."""
    line = _RUNNING.replace(_RUN, "renamed")
    for script, scripts, name in (
        (f"{_RUN}.sh", {_RUN}, _RUN),
        (f"{_RUN}.again.sh", {_RUN}, _RUN),
        (f"{_RUN}.sh", {"another"}, "renamed"),
        ("script.sh", {_RUN}, "renamed"),
    ):
        (row,) = read_rows(line.replace("script.sh", script), scripts)
        assert row.name == name
