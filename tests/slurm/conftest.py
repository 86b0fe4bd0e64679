"""One cluster for all tests of a worker, and one of two nodes for those that need them; each test
has a state folder of its own. Skipped, with the reason, where Slurm is not installed.
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
    """A cluster of one node."""
    yield from _lab(tmp_path_factory, 1)


@pytest.fixture(scope="session")
def lab_of_two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmLab]:
    """A cluster of two nodes."""
    yield from _lab(tmp_path_factory, 2)


@pytest.fixture(scope="session")
def lab_with_accounts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmLab]:
    """A cluster of one node with slurmdbd and its database."""
    yield from _lab(tmp_path_factory, 1, True)


def _lab(
    factory: pytest.TempPathFactory, nodes: int, is_accounted: bool = False
) -> Iterator[SlurmLab]:
    if problem := why_not(is_accounted):
        pytest.skip(problem)
    folder = factory.mktemp("slurm", numbered=True) / "lab"
    with running_lab(folder, nodes, is_accounted) as found:
        yield found


@pytest.fixture
def cluster(lab: SlurmLab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """The login node of a cluster of one node."""
    yield from _cluster(lab, tmp_path, monkeypatch)


@pytest.fixture
def cluster_of_two(
    lab_of_two: SlurmLab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Cluster]:
    """The login node of a cluster of two nodes."""
    yield from _cluster(lab_of_two, tmp_path, monkeypatch)


@pytest.fixture
def accounted(
    lab_with_accounts: SlurmLab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Cluster]:
    """The login node of a cluster with accounting."""
    yield from _cluster(lab_with_accounts, tmp_path, monkeypatch)


def _cluster(lab: SlurmLab, path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """A login node, with eight simulated GPUs where Slurm's own are devices only."""
    monkeypatch.setenv("PATH", PATH)
    monkeypatch.setenv("SLURM_CONF", str(lab.conf))
    monkeypatch.setenv("FRESNEL_GPUS", SIMULATED)
    folder = path / "work"
    folder.mkdir()
    found = Cluster(lab, CommandLine(folder))
    yield found
    lab.clear()
    found.close()
