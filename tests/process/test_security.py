"""Whose the state folder is: private by itself, refused where others may write, and left alone
across hosts.
"""

import errno
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from runners.host.locks import is_held
from runners.lifecycle.control.stop import request_stop
from runners.lifecycle.launch.adopt import adopt, adopt_orphans
from runners.lifecycle.launch.dispatch import dispatch
from runners.model.errors import DeniedError
from runners.model.states import State
from runners.state.layout import StateDirectory
from runners.state.runs import read_run
from tests.command_text import (
    IS_NOT_ADOPTED,
    LEFT_ALONE,
    OPEN_TO_OTHERS,
    OTHERS_MAY_WRITE,
    belongs_to,
    on_host,
)
from tests.process.conftest import CommandLine, events, record
from tests.support import REPOSITORY, eventually, stats_below

NOBODY = 65534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="gives files to another user")
SYSTEM_PYTHON = shutil.which("python3", path="/usr/bin:/usr/local/bin")


def as_nobody(*words: str) -> "subprocess.CompletedProcess[str]":
    """Run a command as a user who owns nothing."""
    ids = (f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
    return subprocess.run(
        ["setpriv", *ids, *words], capture_output=True, text=True, check=False, cwd="/"
    )


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A state folder that other users can reach, unlike those below pytest's own private folder."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    monkeypatch.setenv("FRESNEL_STATE_DIR", str(folder / "state"))
    yield folder / "state"

    def is_gone() -> bool:
        # A run's last helper may still write what it came to.
        shutil.rmtree(folder, ignore_errors=True)
        return not folder.exists()

    eventually(is_gone, what="the folder gone")


@pytest.fixture
def cli(shared: Path, cli: CommandLine) -> CommandLine:
    """The command line on the shared folder: every command that the test starts, and what is
    cleaned up after it.
    """
    assert cli.state.root == shared
    return cli


def modes(folder: Path) -> dict[str, int]:
    """The mode of everything below `folder`, and of itself."""
    return {
        str(place.relative_to(folder)): stat.S_IMODE(status.st_mode)
        for place, status in stats_below(folder).items()
    }


# ── private by itself ─────────────────────────────────────────────────────────────────────────────


def test_everything_is_for_its_owner_alone_whatever_the_umask(cli: CommandLine) -> None:
    before = os.umask(0)
    try:
        run = cli.command(
            "sh", "-c", "echo over; sleep 60", ready="over", FRESNEL_GPUS="sim:1xH100"
        )
        cli.run("gpus", FRESNEL_GPUS="sim:1xH100")
        cli.run("stop", run.id, "--force", "--wait")
        cli.run("drain", "on")
    finally:
        os.umask(before)
    found = modes(cli.state.root)
    assert {mode for mode in found.values() if not mode & 0o100} == {0o600}, found
    assert {mode for mode in found.values() if mode & 0o100} == {0o700}, found


def test_a_folder_that_became_open_is_closed_and_it_is_said_once(
    cli: CommandLine, shared: Path
) -> None:
    cli.ended(cli.command("true"))
    shared.chmod(0o777)
    said = cli.run("launch", "--gpus", "0", "--", "true").stderr
    assert said.count("was open to others; now only you may read it (0700)") == 1
    assert stat.S_IMODE(shared.stat().st_mode) == 0o700
    again = cli.run("launch", "--gpus", "0", "--", "true").stderr
    assert OPEN_TO_OTHERS not in again and str(shared) not in again


def test_a_folder_of_other_things_is_not_closed_but_refused(cli: CommandLine, shared: Path) -> None:
    shared.mkdir()
    (shared / "thesis.tex").touch()
    shared.chmod(0o1777)
    said = cli.run("launch", "--gpus", "0", "--", "true", exits=4).stderr
    assert f"{OTHERS_MAY_WRITE} (mode 1777)" in said and "$FRESNEL_STATE_DIR" in said
    assert stat.S_IMODE(shared.stat().st_mode) == 0o1777 and not (shared / "runs").exists()
    shared.chmod(0o755)
    run = cli.launch("--gpus", "0", "--", "true")
    assert cli.ended(run)["state"] == "done" and stat.S_IMODE(shared.stat().st_mode) == 0o755


# ── refused ───────────────────────────────────────────────────────────────────────────────────────


@as_root
def test_another_user_s_state_folder_is_refused_by_every_command_that_acts(
    cli: CommandLine, shared: Path
) -> None:
    cli.state.create()
    os.chown(shared, NOBODY, NOBODY)
    for words in (
        ["launch", "--gpus", "0", "--", "true"],
        ["prune", "--keep", "0"],
        ["drain", "on"],
        ["drain", "off"],
    ):
        said = cli.run(*words, exits=4).stderr
        assert belongs_to("nobody", "root") in said, words
    assert list((shared / "runs").iterdir()) == []
    os.chown(shared, 0, 0)


@pytest.mark.parametrize("where", ["the run's folder", "runs", "the state folder"])
def test_a_run_in_a_folder_that_others_may_write_is_not_acted_on(
    cli: CommandLine, shared: Path, where: str
) -> None:
    run = cli.command("sleep", "60")
    cli.kill_supervisor(run)
    folder = {"the run's folder": run.path, "runs": shared / "runs", "the state folder": shared}[
        where
    ]
    folder.chmod(0o777)
    said = cli.run("stop", run.id, exits=4).stderr
    assert said.count(f"{OTHERS_MAY_WRITE} (mode 0777)") == 1 and "chmod 700" in said
    assert not run.stop.exists()
    assert adopt_orphans(cli.state) == [] and not is_held(run.supervisor_lock)
    now = read_run(cli.state, run.id)
    assert now.state is State.ORPHANED
    assert IS_NOT_ADOPTED in now.reason and "0777" in now.reason
    with pytest.raises(DeniedError):
        adopt(cli.state, run.id)
    supervise = [
        sys.executable,
        "-I",
        "-S",
        str(REPOSITORY / "runners/lifecycle/supervisor/supervisor.py"),
        str(cli.state.root),
        run.id,
    ]
    refused = subprocess.run(supervise, capture_output=True, text=True, check=False)
    assert refused.returncode == 1 and refused.stderr.startswith("refused: ")
    folder.chmod(0o700)
    cli.run("stop", run.id, "--force", "--wait")
    assert cli.ended(run)["state"] == "stopped"


@as_root
def test_another_user_s_run_is_not_acted_on(cli: CommandLine) -> None:
    run = cli.command("sleep", "60")
    os.chown(run.path, NOBODY, NOBODY)
    said = cli.run("stop", run.id, exits=4).stderr
    assert f"{run.id}: " in said and belongs_to("nobody", "root") in said
    os.chown(run.path, 0, 0)


@as_root
@pytest.mark.skipif(shutil.which("setpriv") is None, reason="needs setpriv")
def test_another_user_sees_nothing_and_supervises_nothing(cli: CommandLine, shared: Path) -> None:
    run = cli.command("echo", "over", ready="over")
    cli.ended(run)
    assert os.strerror(errno.EACCES) in as_nobody("cat", str(run.plan)).stderr
    assert os.strerror(errno.EACCES) in as_nobody("touch", str(shared / "runs" / "mine")).stderr
    supervise = REPOSITORY / "runners/lifecycle/supervisor/supervisor.py"
    if SYSTEM_PYTHON is None or as_nobody("test", "-r", str(supervise)).returncode:
        pytest.skip("no Python, or no source, that another user may read")
    for place in (shared, shared / "runs"):
        place.chmod(0o755)
    eventually(lambda: (run.path / "final.json").exists(), what="its last values kept")
    before = modes(run.path)
    refused = as_nobody(SYSTEM_PYTHON, "-I", "-S", str(supervise), str(shared), run.id)
    assert refused.returncode == 1 and belongs_to("root", "nobody") in refused.stderr
    for place in (shared, shared / "runs"):
        place.chmod(0o700)
    assert modes(run.path) == before


# ── two hosts, one folder ─────────────────────────────────────────────────────────────────────────

ELSEWHERE = {"FRESNEL_HOST": "gpu-box-9"}


def test_another_host_s_run_is_neither_stopped_nor_adopted_nor_pruned(cli: CommandLine) -> None:
    run = cli.command("sleep", "60")
    cli.kill_supervisor(run)
    here = read_run(cli.state, run.id).plan
    assert here is not None
    said = cli.run("stop", run.id, exits=4, **ELSEWHERE).stderr
    assert f"{on_host(run.id, here.origin.host)}, this is gpu-box-9" in said
    assert f"on {here.origin.host}: fresnel-tui stop {run.id}" in said
    assert f"{run.id} {LEFT_ALONE}" in cli.run("stop", "--all", **ELSEWHERE).stderr
    cli.run("list", **ELSEWHERE)
    cli.run("prune", "--keep", "0", **ELSEWHERE)
    assert not run.stop.exists() and not is_held(run.supervisor_lock) and not events(run, "adopted")
    assert adopt_orphans(cli.state) == [run.id]
    assert eventually(lambda: events(run, "adopted"), what="an adoption here")


def test_another_host_s_queue_is_left_alone(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli.run("drain", "on")
    run = cli.launch("--gpus", "0", "--", "true")
    eventually(lambda: cli.status(run)["state"] == "queued", what="a queued run")
    supervisor = eventually(lambda: record(run).get("supervisor_pid"), what="its supervisor")
    # As if the other host had lifted it: nobody here is told, nor looks by itself meanwhile.
    os.kill(supervisor, signal.SIGSTOP)
    cli.state.drain.unlink()
    before = run.plan.read_bytes()
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("FRESNEL_HOST", "gpu-box-9")
        assert dispatch(StateDirectory(cli.state.root)) == [] and run.plan.read_bytes() == before
        with pytest.raises(DeniedError):
            request_stop(cli.state, read_run(cli.state, run.id))
    os.kill(record(run)["supervisor_pid"], signal.SIGCONT)
    dispatch(cli.state)
    assert cli.ended(run)["state"] == "done"
