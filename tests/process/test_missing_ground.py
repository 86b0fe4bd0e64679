"""What is said and done when the ground is missing: no /proc, or a folder that was deleted."""

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from runners.host import helpers
from runners.host.procfs import is_zombie, start_ticks
from tests.command_text import NO_PROC
from tests.process.conftest import COMMAND, CommandLine, leader, record
from tests.support import CEILING_S, eventually

WITHOUT_PROC = ("unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /proc && "$@"', "sh")


def _can_hide_proc() -> bool:
    if shutil.which("unshare") is None:
        return False
    return subprocess.run([*WITHOUT_PROC, "true"], capture_output=True, check=False).returncode == 0


def _run(*words: str, folder: Path | None = None) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        words,
        cwd=folder,
        env=os.environ,
        capture_output=True,
        text=True,
        timeout=CEILING_S,
        check=False,
    )


@pytest.mark.skipif(not _can_hide_proc(), reason="needs a mount namespace of its own")
def test_without_proc_nothing_is_launched_and_the_reason_is_said(cli: CommandLine) -> None:
    ended = cli.launch("--gpus", "0", "--wait", "--", "true")
    refused = _run(*WITHOUT_PROC, *COMMAND, "launch", "--gpus", "0", "--", "true")
    assert refused.returncode == 4
    assert NO_PROC in refused.stderr and "mount -t proc proc /proc" in refused.stderr
    assert ended.id in _run(*WITHOUT_PROC, *COMMAND, "list").stdout
    assert f"FAIL  processes: {NO_PROC}" in _run(*WITHOUT_PROC, *COMMAND, "doctor").stdout


def test_in_a_deleted_folder_what_needs_none_works(cli: CommandLine, tmp_path: Path) -> None:
    ended = cli.launch("--gpus", "0", "--wait", "--", "true")
    gone = tmp_path / "gone"
    gone.mkdir()

    def there(*words: str) -> "subprocess.CompletedProcess[str]":
        # The shell's own folder goes before the command starts in it.
        return _run(
            "sh", "-c", f'cd {gone} && rmdir {gone} && "$@"; mkdir {gone}', "sh", *COMMAND, *words
        )

    refused = there("launch", "--gpus", "0", "--", "true")
    assert "the current directory has been deleted" in refused.stderr
    assert ended.id in there("list").stdout


def test_a_run_whose_folder_is_deleted_meanwhile_ends_as_it_ends(
    cli: CommandLine, tmp_path: Path
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    words = ("sh", "-c", f"rmdir {gone}; exit 3")
    run = cli.launch("--gpus", "0", "--set", f"working_directory={gone}", "--", *words)
    assert cli.ended(run)["exit_code"] == 3


def test_without_its_state_folder_a_run_ends_by_itself_and_nothing_is_started(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that waits ends at its next look, one that runs with its program, which is left alone."""
    monkeypatch.setenv("FRESNEL_GPUS", "sim:1xH100")
    running = cli.launch("--gpus", "1", "--set", "restart=2", "--", "sleep", "600")
    waiting = cli.launch("--gpus", "1", "--", "true")
    program = leader(running)
    memory = Path(f"/dev/shm/fresnel-tui-{os.getuid()}")
    kept = list(memory.glob(f"{running.id}-*"))
    owner, waiter = (
        eventually(lambda run=run: record(run).get("supervisor_pid")) for run in (running, waiting)
    )
    cli.state.root.rename(cli.folder / "removed")
    shutil.rmtree(cli.folder / "removed", ignore_errors=True)
    os.kill(waiter, signal.SIGUSR1)
    eventually(lambda: start_ticks(waiter) is None, what="the end of the one that waits")
    helpers.run("start-sampler", cli.state.root)
    assert start_ticks(owner) is not None and not is_zombie(program)
    os.kill(program, signal.SIGTERM)
    eventually(lambda: start_ticks(owner) is None, what="the end of the one that ran")
    assert helpers.run("keeper", cli.state.root)[0] == 0, "or systemd starts it every second"
    assert not cli.state.root.exists()
    assert kept and not any(file.exists() for file in kept), "it has secrets"
