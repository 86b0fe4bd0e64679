"""Whose a process is that a driver tells of: in a container the driver's numbers are the host's."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from runners.gpus.backends.gpu_processes import ProcessTable
from tests.support import begun

RUN = "20261121-101500-gaussian-7f3a"


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[int, int]]:
    """Two processes of one run: the first has the driver's device open, the second does not."""
    device = tmp_path / "nvidia0"
    device.touch()
    environment = os.environ | {"FRESNEL_RUN_ID": RUN}
    with device.open("rb") as file:
        user = begun(["sleep", "60"], stdin=file, env=environment)
    other = begun(["sleep", "60"], stdin=subprocess.DEVNULL, env=environment)
    yield user.pid, other.pid
    for child in (user, other):
        child.kill()
        child.wait()


def _table(
    tmp_path: Path, namespace: str, pids: tuple[int, ...], devices: str = "nvidia"
) -> ProcessTable:
    proc = tmp_path / "proc"
    (proc / "self/ns").mkdir(parents=True)
    (proc / "self/ns/pid").symlink_to(namespace)
    for pid in pids:
        (proc / str(pid)).symlink_to(f"/proc/{pid}")
    return ProcessTable(str(tmp_path / devices), proc)


def test_in_a_container_a_number_alone_makes_no_process_ours(
    tmp_path: Path, pair: tuple[int, int]
) -> None:
    table = _table(tmp_path, "pid:[4026532000]", pair)
    ours, namesake = (table.describe(pid, 1 << 30) for pid in pair)
    assert (ours.run, ours.outside, ours.memory_used) == (RUN, False, 1 << 30)
    assert (namesake.run, namesake.outside, namesake.command) == (None, True, None)
    assert table.describe(4194400, 5).outside


@pytest.mark.parametrize(
    ("namespace", "devices"), [("pid:[4026531836]", "nvidia"), ("pid:[4026532000]", "none")]
)
def test_on_the_host_or_without_device_files_a_number_is_enough(
    tmp_path: Path, pair: tuple[int, int], namespace: str, devices: str
) -> None:
    table = _table(tmp_path, namespace, pair, devices)
    assert [table.describe(pid, None).run for pid in pair] == [RUN, RUN]
