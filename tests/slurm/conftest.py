"""One cluster for all tests of a worker, each with a state folder of its own; skipped, with the
reason, where Slurm is not installed.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.process.conftest import CommandLine
from tests.slurm.cluster import Cluster
from tests.slurm.lab import PATH, SlurmLab, running_lab, why_not

SIMULATED = "sim:8xH100"


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmLab]:
    """The cluster."""
    if why_not():
        pytest.skip(why_not())
    with running_lab(tmp_path_factory.mktemp("slurm", numbered=True) / "lab") as cluster:
        yield cluster


@pytest.fixture
def cluster(lab: SlurmLab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """The cluster's login node, with eight simulated GPUs where Slurm's own are devices only."""
    monkeypatch.setenv("PATH", PATH)
    monkeypatch.setenv("SLURM_CONF", str(lab.conf))
    monkeypatch.setenv("FRESNEL_GPUS", SIMULATED)
    folder = tmp_path / "work"
    folder.mkdir()
    found = Cluster(lab, CommandLine(folder))
    yield found
    lab.clear()
    found.close()
