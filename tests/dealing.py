"""How tests are dealt to several workers: by recorded seconds, what shares a slow fixture together.

`pytest --record-seconds -n 4` writes what each took into `seconds.json`; what stands there only
decides an order, so that a file which is out of date costs time and nothing else.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

CLUSTER = "tests/slurm/"
TOGETHER = (
    *("tests/trainers/", "tests/guides/", "tests/unit/", "tests/architecture/", "tests/pairs/"),
    *("tests/ui/test_stories.py", "tests/process/test_installed.py"),
)
"""Rooms and files that stay whole: trainings, panels and installations are shared by the tests of a
file; what takes milliseconds is not worth dealing one by one. They also compute all the time, where
other tests mostly wait for processes.
"""
SECONDS = Path(__file__).with_name("seconds.json")
SHORT_S = 2.0
"""What takes less is not recorded, and counts as this."""


def unit_of(nodeid: str) -> str:
    """What is dealt as one: a whole file, or a single test; all that shares the one cluster."""
    if nodeid.startswith(CLUSTER):
        return CLUSTER
    return nodeid.partition("::")[0] if nodeid.startswith(TOGETHER) else nodeid


def read_seconds(file: Path = SECONDS) -> dict[str, float]:
    """Recorded seconds by unit; nothing where there is no such file."""
    if not file.is_file():
        return {}
    recorded: dict[str, float] = json.loads(file.read_text(encoding="utf-8"))
    return recorded


class BySeconds(LoadScopeScheduling):
    """The longest first, so that none ends last; one worker for each core takes what computes, the
    others what waits, as long as there is some of it: so the cores are busy from start to end.
    """

    def __init__(self, config: pytest.Config, log: Any, seconds: dict[str, float]) -> None:
        super().__init__(config, log)
        self._seconds = seconds

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid)

    def _assign_work_unit(self, node: WorkerController) -> None:
        cores = min(os.cpu_count() or 1, (len(self.nodes) + 1) // 2)
        computes = self.nodes.index(node) < cores
        self.workqueue.move_to_end(next_unit(self.workqueue, computes, self._seconds), last=False)
        super()._assign_work_unit(node)


def next_unit(waiting: Any, computes: bool, seconds: dict[str, float]) -> str:
    """The longest of the units that suit a worker, or of all once none does."""
    suiting = [unit for unit in waiting if unit.startswith(TOGETHER) == computes]
    return max(suiting or waiting, key=lambda unit: seconds.get(unit, SHORT_S))


class Recorder:
    """Sums what each unit takes, and writes it down when all have run."""

    def __init__(self, file: Path = SECONDS) -> None:
        self._file = file
        self._taken: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count a test's set-up, call or teardown."""
        self._taken[unit_of(report.nodeid)] += report.duration

    def pytest_sessionfinish(self) -> None:
        """Replace what was recorded of the units that ran; forget files that are gone."""
        known = {
            unit: seconds
            for unit, seconds in read_seconds(self._file).items()
            if unit not in self._taken and Path(unit.partition("::")[0]).exists()
        }
        known |= {unit: round(s, 1) for unit, s in self._taken.items() if s >= SHORT_S}
        text = json.dumps(known, indent=0, sort_keys=True, ensure_ascii=False)
        self._file.write_text(text + "\n", encoding="utf-8")


def make_scheduler(config: pytest.Config, log: Any) -> BySeconds | None:
    """The scheduler, unless another way to deal was asked for by `--dist`."""
    return BySeconds(config, log, read_seconds()) if config.getvalue("dist") == "load" else None
