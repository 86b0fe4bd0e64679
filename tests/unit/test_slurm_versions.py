"""What versions of Slurm print, beside what is made of it: all of a line, or that it is not read."""

import time
from pathlib import Path

import pytest

from runners.model.endings import JobEnd, job_end_of
from runners.model.pending import is_understood, job_is_active, job_is_over, job_waits, pending_text
from runners.places.slurm.foreign import row_of_job
from runners.slurm import client, queue
from runners.slurm.accounts import read_budgets
from runners.slurm.job_end import end_in_output, path_of, read_billing, states_in
from runners.slurm.partitions import read_partitions
from runners.slurm.queue import read_rows, seconds_of
from runners.state.job_status import is_over, status_of_job
from runners.state.jobs import JobNote, JobRow, JobTable, read_table, write_job, write_table
from runners.state.layout import StateDirectory
from tests.unit import slurm_recorded as recorded

_RUN = "20261123-020750-demo-7f3a"
_CUTS = 97
"""Every so many characters an answer is cut off, to be read as it is."""


def _job(
    name: str = "a", state: str = "PENDING", tasks: str = "N/A", reason: str = "None", n: int = 12
) -> str:
    fields = (str(n), "12", tasks, state, reason, "gpu", "", "N/A", "UNLIMITED", "1", "", name)
    return "\x1f".join(fields) + "\x1e\n"


@pytest.mark.parametrize("case", recorded.JOB_WORDS, ids=lambda case: case.word)
def test_states_of_jobs(case: recorded.JobWord) -> None:
    """One meaning, or none: what is not understood has not ended."""
    word = case.word.partition(" ")[0].rstrip("+")
    assert job_waits(word) is case.waits
    assert job_is_active(word) is case.is_active
    assert job_is_over(case.word) is case.is_over
    known = case.waits or case.is_active or case.is_over
    assert is_understood(case.word if case.is_over else word) is known
    if not known:
        assert job_end_of(case.word) is None
        shown = row_of_job(JobRow("12", "a", case.word), time.time())
        assert case.word in shown.remark


@pytest.mark.parametrize("node", recorded.NODES)
def test_gpus_of_nodes(node: recorded.Node) -> None:
    """Each counted once, and none of a line that is not understood."""
    line = "|".join(("gpu*", "up", *node[:3], "infinite", "")) + "\n"
    rows, unread = read_partitions(line)
    assert unread == (node.gpus is None)
    found = tuple((row.model, row.total, row.free, row.used, row.down) for row in rows)
    assert found == (node.gpus or ())


@pytest.mark.parametrize("job", recorded.SHOWN_JOBS)
def test_jobs_as_scontrol_shows_them(job: recorded.ShownJob) -> None:
    assert states_in(job.text) == job.states
    assert read_billing(job.text) == job.billing
    assert (path_of("StdOut", job.text), path_of("StdErr", job.text)) == (job.output, job.error)


@pytest.mark.parametrize(("text", "end"), recorded.ENDED)
def test_ends_in_the_output(text: str, end: str | None) -> None:
    assert end_in_output(text, "12") == (end and JobEnd(end))


@pytest.mark.parametrize(("tasks", "is_read"), recorded.TASKS)
def test_lists_of_tasks(tasks: str, is_read: bool) -> None:
    """One that was cut off would name fewer than wait."""
    assert [row.tasks for row in read_rows(_job(tasks=tasks))] == [tasks] * is_read


@pytest.mark.parametrize("name", recorded.NAMES)
def test_names_of_jobs(name: str) -> None:
    """Whatever is in it: the job before and the job after are read, and it is shortened only."""
    rows = read_rows(_job(n=11) + _job(name) + _job(n=13))
    assert [row.number for row in rows] == ["11", "12", "13"]
    assert rows[1].name == name or (len(rows[1].name) <= 1000 and rows[1].name.endswith("…"))


@pytest.mark.parametrize("reason", recorded.REASONS)
def test_reasons(reason: str) -> None:
    (row,) = read_rows(_job(reason=reason))
    assert row.reason == reason
    assert pending_text(reason, "11")


@pytest.mark.parametrize(("text", "seconds"), recorded.LENGTHS)
def test_lengths_of_time(text: str, seconds: float | None) -> None:
    assert seconds_of(text) == seconds


@pytest.mark.parametrize(("line", "budgets"), recorded.SHARES)
def test_budgets(line: str, budgets: tuple[tuple[str, float, float, float], ...]) -> None:
    """No limit is shown of which it is not known how much is used."""
    found = read_budgets(line)
    assert tuple((b.resource, b.limit_h, b.used_h, b.reserved_h) for b in found) == budgets


def test_an_answer_that_is_cut_off_anywhere_is_read_as_far_as_it_is_whole() -> None:
    """Never an exception, and never a row that was not there."""
    jobs = "".join(_job(name, n=n) for n, name in enumerate(recorded.NAMES, 1))
    nodes = "".join("|".join(("p", "up", *node[:3], "1:00", "")) + "\n" for node in recorded.NODES)
    whole, shares = read_rows(jobs), "\n".join(line for line, _ in recorded.SHARES)
    all_gpus = sum(row.total for row in read_partitions(nodes)[0])
    for end in range(0, max(len(jobs), len(nodes)), _CUTS):
        assert set(read_rows(jobs[:end])) <= set(whole)
        assert sum(row.total for row in read_partitions(nodes[:end])[0]) <= all_gpus
        for job in recorded.SHOWN_JOBS:
            assert states_in(job.text[:end]) in (job.states, job.states[:1], [])
        read_budgets(shares[:end])


def test_nothing_is_concluded_from_an_answer_that_is_not_understood(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A format of tomorrow: the run is not taken for gone, and it is said."""
    state = StateDirectory(tmp_path).create()
    run = state.run(_RUN)
    run.path.mkdir()
    write_job(run, JobNote(_RUN, 1000.0, id="12"))
    monkeypatch.setattr(queue, "ask", lambda *_, **__: "12 PENDING (Priority)\n")
    table = queue.refresh(state, every_s=0.0)
    assert (table.unread, table.jobs, table.problem) == (1, (), "")
    assert not is_over(run)
    assert "12" in status_of_job(run, None)[1]
    write_table(state, JobTable(table.asked, table.answered))
    assert is_over(run), "an answer that was understood, and does not name it"


def test_a_long_list_of_tasks_is_asked_for_in_full_and_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every second task of a thousand, which Slurm shortens unless asked not to."""
    tasks = ",".join(map(str, range(0, 1000, 2)))
    tool = tmp_path / "squeue"
    tool.write_text(f"#!/bin/sh\n[ $SLURM_BITSTR_LEN = 0 ] && echo {tasks}\n")
    tool.chmod(0o700)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    answer = client.ask("squeue").strip()
    state = StateDirectory(tmp_path / "state").create()
    write_table(state, JobTable(1.0, 1.0, jobs=read_rows(_job(tasks=answer))))
    state.jobs.touch()
    assert {"12_0", "12_998"} <= set(read_table(state)[1])
    assert read_rows(_job(tasks=f"{tasks},{tasks},{tasks}")) == ()
