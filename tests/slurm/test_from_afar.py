"""A cluster from a laptop: its login node is a machine like any other, and asks its Slurm."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from runners.state.layout import StateDirectory
from tests.process.conftest import CommandLine
from tests.remote.conftest import add, line, rent  # noqa: F401 - fixtures
from tests.remote.machines import RentedMachine
from tests.slurm.lab import PATH, SlurmLab
from tests.support import eventually


@pytest.fixture
def login(
    lab: SlurmLab,
    rent: Callable[..., RentedMachine],  # noqa: F811
    line: CommandLine,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[RentedMachine]:
    """The login node of the cluster, added as `cluster`."""
    machine = rent("cluster")
    machine.environment |= {"SLURM_CONF": str(lab.conf), "PATH": PATH}
    machine.stop()
    machine.start()
    add(line, machine)
    yield machine
    lab.clear()
    for name in ("SLURM_CONF", "PATH"):  # what is left of its runs is ended from here
        monkeypatch.setenv(name, machine.environment[name])


def test_a_run_is_submitted_watched_and_stopped_over_the_line(
    lab: SlurmLab,
    login: RentedMachine,
    line: CommandLine,  # noqa: F811
) -> None:
    """Its log, state and end are those of any run there."""
    program = "echo gpus $CUDA_VISIBLE_DEVICES; sleep 600"
    words = ("--slurm", "--gpus", "2", "--time", "5m", "--", "sh", "-c", program)
    launched = line.run("launch", "--host", "cluster", *words)
    name = launched.stdout.strip().rpartition("/")[2]
    job = line.json("status", "--host", "cluster", name)["job"]
    assert lab.job(job)["JobName"] == name

    def output() -> str:
        return line.run("logs", "--host", "cluster", name).stdout

    eventually(lambda: "gpus 0,1" in output(), what="its output")
    assert line.json("status", "--host", "cluster", name)["state"] == "running"
    shown = line.json("gpus", "--host", "cluster", "--slurm")["partitions"]
    assert {row["partition"]: row["used"] for row in shown}["gpu"] == 2
    line.run("stop", "--host", "cluster", name, "--wait")
    ended = line.json("status", "--host", "cluster", name)
    assert ended["state"] == "stopped"
    assert not StateDirectory(Path(login.state)).live_marker(name).exists()
    eventually(lambda: lab.job(job)["JobState"] not in ("RUNNING", "COMPLETING"))


def test_setting_up_a_login_node_proposes_its_settings(
    login: RentedMachine,
    line: CommandLine,  # noqa: F811
) -> None:
    """As its own Slurm says what it has."""
    facts = line.json("host", "setup", "cluster", "--python", sys.executable)
    assert "partition: gpu" in facts["slurm"]
