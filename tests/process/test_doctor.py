"""`doctor`: what it looks at, what it says when something is wrong, and its exit code."""

import json
import os
import resource
import sys
from pathlib import Path

import pytest

from runners.doctor import checks, resources, state_checks
from runners.doctor.host_facts import read_host
from runners.host.procfs import MARK
from runners.model.gpus import GpuReading, GpuSnapshot
from runners.state.layout import StateDirectory
from tests.command_text import OTHERS_MAY_WRITE
from tests.process.conftest import CommandLine
from tests.support import begun

ALWAYS = {
    "Python", "terminal", "GPUs", "sampler", "logout", "systemd scope", "shared memory",
    "open files", "clock",
    "state folder", "disk", "file system", "locks", "left over", "processes", "memory", "network",
    "helpers", "packages",
}  # fmt: skip


@pytest.fixture
def state() -> StateDirectory:
    return StateDirectory().create()


def test_a_healthy_machine_passes(cli: CommandLine) -> None:
    found = json.loads(cli.run("doctor", "--json", FRESNEL_GPUS="sim:2xH100").stdout)
    named = {check["name"] for check in found}
    assert named >= ALWAYS and named - ALWAYS <= {"disks", "GPU driver", "cuDNN"}
    assert {check["verdict"] for check in found} <= {"PASS", "WARN"}
    words = {check["name"]: check["message"] for check in found}
    assert (
        words["GPUs"].startswith("2 × ") and words["sampler"] == "runs" and words["locks"] == "hold"
    )
    said = cli.run("doctor", FRESNEL_GPUS="sim:2xH100").stdout
    assert "PASS  Python: " in said and "PASS  state folder: " in said


def test_a_state_folder_that_cannot_be_used_fails(cli: CommandLine) -> None:
    cli.state.root.mkdir()
    (cli.state.root / "thesis.tex").touch()
    cli.state.root.chmod(0o777)
    found = cli.json("doctor", exits=1)
    folder = next(check for check in found if check["name"] == "state folder")
    assert (
        folder["verdict"] == "FAIL"
        and OTHERS_MAY_WRITE in folder["message"]
        and "0777" in folder["message"]
    )
    assert "FRESNEL_STATE_DIR" in folder["advice"]
    assert (cli.state.root.stat().st_mode & 0o777) == 0o777, (
        "a folder of other things is left as it is"
    )
    (cli.folder / "file").touch()
    said = cli.run("doctor", exits=1, FRESNEL_STATE_DIR=str(cli.folder / "file" / "below")).stdout
    assert "FAIL  state folder: " in said and "Not a directory" in said


def test_a_process_that_an_ended_run_left_behind_is_named(cli: CommandLine) -> None:
    run = cli.command("echo", "over", ready="over")
    cli.ended(run)
    environment = {**os.environ, MARK: run.id}
    with begun(["sleep", "60"], env=environment) as left:
        try:
            found = [check for check in cli.json("doctor") if check["name"] == "left over"]
        finally:
            left.kill()
    assert [check["verdict"] for check in found] == ["WARN"]
    assert run.id in found[0]["message"] and f"pid {left.pid} is alive" in found[0]["message"]


def test_a_live_run_in_a_folder_open_to_others_is_named(cli: CommandLine) -> None:
    run = cli.command("sleep", "60")
    run.path.chmod(0o777)
    found = [check for check in cli.json("doctor") if check["name"] == "run folder"]
    run.path.chmod(0o700)
    assert len(found) == 1 and found[0]["verdict"] == "WARN" and run.id in found[0]["message"]


def test_gpus_that_cannot_be_read_are_said_one_by_one() -> None:
    trouble = GpuReading(0.0, "here", "nvml", problem="Driver/library version mismatch")
    assert [(check.verdict, check.message) for check in checks.check_gpus(trouble)] == [
        ("WARN", trouble.problem)
    ]
    lost = (
        GpuSnapshot(0, "GPU-0", "H100", "nvidia"),
        GpuSnapshot(1, "GPU-1", "H100", "nvidia", error="GPU is lost"),
    )
    found = list(checks.check_gpus(GpuReading(0.0, "here", "nvml", gpus=lost, driver="580.1")))
    assert [check.verdict for check in found] == ["PASS", "WARN"]
    assert "driver 580.1" in found[0].message and found[1].name == "GPU 1"


def test_what_is_short_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert resources.judge_shared_memory(read_host(tmp_path)).verdict == "WARN"
    (tmp_path / "dev/shm").mkdir(parents=True)
    monkeypatch.setattr(resources, "SMALL_SHM", 1 << 60)
    assert "--shm-size" in resources.judge_shared_memory(read_host(tmp_path)).advice
    for limits, verdict in (
        ((256, 2048), "WARN"),
        ((256, 8192), "PASS"),  # a run raises its own to what it may have
        ((256, resource.RLIM_INFINITY), "PASS"),
    ):
        monkeypatch.setattr(resource, "getrlimit", lambda _what, limits=limits: limits)
        assert resources.judge_open_files(read_host()).verdict == verdict
    monkeypatch.setattr(resources, "LITTLE_ROOM", 1 << 60)
    assert state_checks.check_room(tmp_path).verdict == "WARN"
    monkeypatch.setattr(resources, "NO_ROOM", 1 << 60)
    full = state_checks.check_room(tmp_path)
    assert full.verdict == "FAIL" and "prune" in full.advice


def test_a_network_file_system_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(
        "22 1 254:0 / / rw - ext4 /dev/vda rw\n"
        f"30 22 0:45 / {tmp_path} rw shared:1 - nfs4 server:/home rw,vers=4.2\n"
        f"31 22 0:46 / {tmp_path}er rw - tmpfs tmpfs rw\n"
    )
    assert state_checks.filesystem_of(tmp_path / "below", mounts) == "nfs4"
    assert state_checks.filesystem_of(Path("/"), mounts) == "ext4"
    monkeypatch.setattr(state_checks, "filesystem_of", lambda _root: "nfs4")
    assert state_checks.check_filesystem(tmp_path).verdict == "WARN"


def test_files_of_the_future_are_a_warning(state: StateDirectory) -> None:
    assert not list(state_checks.check_future(state))
    later = state.root.stat().st_mtime + 86_400
    os.utime(state.runs, (later, later))
    assert [check.verdict for check in state_checks.check_future(state)] == ["WARN"]


def test_locks_that_do_not_hold_fail(
    state: StateDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_checks.fcntl, "flock", lambda *_: None)
    assert state_checks.check_locks(state.root).verdict == "FAIL"
    assert not list(state.root.glob(".locks*"))


def test_a_terminal_too_small_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "isatty", lambda _number: True)
    monkeypatch.setenv("TERM", "xterm-256color")
    for size, verdict in (
        (os.terminal_size((80, 24)), "PASS"),
        (os.terminal_size((79, 24)), "WARN"),
    ):
        monkeypatch.setattr(os, "get_terminal_size", lambda _number, size=size: size)
        assert checks.check_terminal().verdict == verdict
    monkeypatch.setenv("TERM", "dumb")
    assert checks.check_terminal().verdict == "WARN"
    assert checks.check_python().message.endswith(f"({sys.executable})")
