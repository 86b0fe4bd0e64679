"""Reminders that the limit of a run's Slurm job comes near."""

import json
from pathlib import Path

import pytest

from runners.guard.watcher import LimitReminder
from runners.health.signs import Outlook
from runners.state.deadline import JOB_LIMIT, Deadline
from runners.state.jobs import JobNote, write_job
from runners.state.layout import RunDirectory, StateDirectory

_BEGAN = 1000.0
_LIMIT_S = 36_000.0


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    directory = StateDirectory(tmp_path).run("20261123-020750-demo-7f3a")
    directory.path.mkdir(parents=True)
    write_job(directory, JobNote(directory.id, 900.0, "12", began=_BEGAN))
    return directory


def _due(
    reminder: LimitReminder, left_s: float, limit: str = JOB_LIMIT, is_final: bool = True
) -> str:
    outlook = Outlook(Deadline(left_s, limit, is_final), eta_s=7200.0, fraction=0.41)
    return reminder.due(outlook, _BEGAN + _LIMIT_S - left_s)


def test_at_half_and_an_hour_before_each_once(run: RunDirectory) -> None:
    """Also by another watcher; what is missing is offered, where it is late."""
    reminder = LimitReminder(run)
    assert not _due(reminder, 20_000.0)
    half = _due(reminder, 17_000.0)
    assert "41 %" in half and "extend" not in half, "it will be done in time"
    assert not _due(LimitReminder(run), 16_000.0)
    assert f"extend {run.id} 66m" in _due(LimitReminder(run), 3600.0)
    assert not _due(LimitReminder(run), 60.0)
    lines = run.supervisor_events.read_text().splitlines()
    assert [json.loads(line)["limit"] for line in lines] == ["half", "hour"]


def test_a_job_that_begins_anew_is_reminded_anew(run: RunDirectory) -> None:
    """And one watched late hears of it once; other limits are not its own."""
    assert not _due(LimitReminder(run), 60.0, "its time limit")
    reminder = LimitReminder(run)
    assert _due(reminder, 60.0)
    assert not _due(reminder, 50.0)
    write_job(run, JobNote(run.id, 900.0, "12", began=_BEGAN + 5.0))
    assert _due(reminder, 40.0)


def test_nothing_is_missing_where_the_run_begins_anew_then(run: RunDirectory) -> None:
    said = _due(LimitReminder(run), 3600.0, is_final=False)
    assert "41 %" in said and "extend" not in said
