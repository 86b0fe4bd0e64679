"""After a reboot (faked in what is on disk): what waited waits, what may goes on."""

import json
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from runners.host.locks import is_held
from runners.host.procfs import marked_processes
from runners.lifecycle.supervisor.queue_wait import requeue
from runners.state.layout import RunDirectory
from tests.command_text import QUEUED_AGAIN
from tests.process.conftest import CommandLine, events, record
from tests.process.test_kills import KILLED_ONCE_IT_HAS_BEGUN
from tests.support import eventually

# Counts from its newest checkpoint, a file a count, until there are thirty.
COUNTER = (
    'n=$(cat "$2" 2>/dev/null || echo 0); '
    "while [ $n -lt 30 ]; do n=$((n+1)); echo count $n; "
    "echo $n > $FRESNEL_RUN_DIR/.draft; mv $FRESNEL_RUN_DIR/.draft $FRESNEL_RUN_DIR/c_$n.txt; "
    "while [ -e $FRESNEL_RUN_DIR/hold ] && [ $n -ge 10 ]; do sleep 0.05; done; done"
)
SURVIVES = "restart={times: 0, boot: true, arguments: [--resume, '${checkpoint}']}"


def reboot(cli: CommandLine, run: RunDirectory, *more: Path) -> None:
    """Everything of the run dies, and what is on disk, `more` too, is of another boot."""
    if is_held(run.supervisor_lock):
        cli.kill_supervisor(run)
    for pid in {*marked_processes(run.id), record(run).get("waiter_pid")} - {None}:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    eventually(lambda: not is_held(run.run_lock), what="the run's lock free")
    for path in (run.state, run.plan, *more):
        path.write_text(path.read_text().replace(_boot(), "another-boot"))
    run.exit.unlink(missing_ok=True)


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def test_a_run_whose_preset_survives_a_boot_goes_on_from_its_checkpoint(cli: CommandLine) -> None:
    options = ["--set", SURVIVES, "--set", "checkpoints=${run_dir}/c_*.txt"]
    (cli.folder / "hold").touch()
    script = COUNTER.replace("$FRESNEL_RUN_DIR/hold", str(cli.folder / "hold"))
    run = cli.launch("--gpus", "0", *options, "--", "sh", "-c", script, "train")
    eventually((run.path / "c_10.txt").exists, what="ten counts")
    reboot(cli, run)
    assert QUEUED_AGAIN in str(cli.status(run)["reason"])
    (cli.folder / "hold").unlink()
    cli.run("service", "boot")
    ended = cli.ended(run)
    assert (ended["state"], ended["attempt"]) == ("done", 2), ended
    before = (run.path / "output.1.log").read_text().split("\n")
    after = run.output.read_text().split("\n")
    counted = [line for line in (*before, *after) if line.startswith("count")]
    assert counted == [f"count {n}" for n in range(1, 31)], "no count lost, none repeated"
    assert any("restarted" in event["text"] for event in events(run, "alert"))


def test_one_whose_start_was_not_recorded_any_more_takes_no_other_run_s_checkpoint(
    cli: CommandLine, run_with: Callable[..., RunDirectory]
) -> None:
    another = cli.folder / "c_99.txt"
    another.write_text("99")
    os.utime(another, (time.time() - 3600,) * 2)
    shell = 'echo "${1:-anew}"; until [ -e go ]; do sleep 0.05; done'
    run = run_with(
        KILLED_ONCE_IT_HAS_BEGUN, 0, shell, SURVIVES, f"checkpoints={cli.folder}/c_*.txt"
    )
    eventually(lambda: not is_held(run.supervisor_lock) and run.output.read_text())
    reboot(cli, run)
    (cli.folder / "go").touch()
    cli.run("service", "boot")
    ended = cli.ended(run)
    assert (ended["state"], ended["attempt"]) == ("done", 2), ended
    assert run.output.read_text() == "anew\n"


def test_without_the_word_of_its_preset_it_is_lost(cli: CommandLine) -> None:
    run = cli.command("sh", "-c", "echo up; sleep 300", ready="up")
    reboot(cli, run)
    cli.run("service", "boot")
    eventually(lambda: not cli.state.live_marker(run.id).exists(), what="its ending recorded")
    assert (cli.status(run)["state"], "restarted" in cli.status(run)["reason"]) == ("lost", True)


def test_what_a_run_waited_for_before_a_boot_is_forgotten(cli: CommandLine) -> None:
    """Second in line, it would look for GPUs a minute later; the first one may be gone."""
    first = cli.launch("--gpus", "0", "--", "sleep", "300")
    waiting = cli.launch("--gpus", "0", "--after", first.id, "--", "true")
    reboot(cli, waiting)
    waiting.waits.write_text('{"reason": "GPU 0 held by another", "place": 2}')
    requeue(waiting)
    assert not waiting.waits.exists()


def test_what_waited_in_the_queue_waits_again(cli: CommandLine) -> None:
    first = cli.launch("--gpus", "0", "--", "sleep", "300")
    waiting = cli.launch("--gpus", "0", "--after", first.id, "--", "sh", "-c", "echo went")
    eventually(lambda: cli.status(waiting)["state"] == "queued", what="a run that waits")
    reboot(cli, waiting)
    cli.run("service", "boot")
    eventually(lambda: is_held(waiting.supervisor_lock), what="a supervisor again")
    assert cli.status(waiting)["state"] == "queued"
    eventually(
        lambda: json.loads(waiting.plan.read_text())["origin"]["boot_id"] == _boot(),
        what="a plan of this boot",
    )


def test_what_waits_after_a_boot_waits_on_when_its_supervisor_is_killed(cli: CommandLine) -> None:
    """Its next attempt needs GPUs as the first one did: it does not begin without."""
    run = cli.command("sh", "-c", "echo up; sleep 300", options=["--set", SURVIVES], ready="up")
    reboot(cli, run)
    cli.run("drain", "on")
    cli.run("service", "boot")
    eventually(lambda: record(run)["attempt"] == 2, what="a run that waits again")
    cli.kill_supervisor(run)
    cli.run("list")
    eventually(lambda: len(events(run, "adopted")) == 1, what="another supervisor")
    eventually(lambda: is_held(run.supervisor_lock) and run.waits.exists(), what="it looks")
    assert (cli.status(run)["state"], marked_processes(run.id)) == ("queued", [])
    cli.run("drain", "off")
    eventually(lambda: run.output.exists() and run.output.read_text() == "up\n", what="its turn")
    assert json.loads(run.plan.read_text())["phase"] == "final"
