"""Containers, as far as that is a pid namespace of their own: one that is started again, one that
was made anew under another name, two that share a state folder.
"""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from runners.host.locks import is_held
from runners.host.procfs import command_of, marked_processes, read_processes
from runners.state.layout import RunDirectory
from runners.state.runs import list_run_ids
from tests.process.conftest import COMMAND, CommandLine, record
from tests.support import eventually

NAMESPACE = (
    *("unshare", *(() if os.geteuid() == 0 else ("--map-root-user",))),
    *("--pid", "--fork", "--mount-proc", "--kill-child"),
)
Start = Callable[..., "subprocess.Popen[bytes]"]
LAUNCH = '"$@" launch --gpus 0'
STAYS = "exec sleep 600"


def _has_namespaces() -> bool:
    with suppress(OSError):
        return (
            subprocess.run([*NAMESPACE, "true"], capture_output=True, check=False).returncode == 0
        )
    return False


pytestmark = pytest.mark.skipif(
    not _has_namespaces(), reason="unshare cannot make a pid namespace here"
)


@pytest.fixture
def start(cli: CommandLine) -> Iterator[Start]:
    """Start a container whose first process is a shell's script; `"$@"` in it is our command."""
    begun = []

    def begin(script: str, **environment: str) -> "subprocess.Popen[bytes]":
        child = subprocess.Popen(
            [*NAMESPACE, "sh", "-c", script, "sh", *COMMAND],
            cwd=cli.folder,
            env=cli.environment(environment),
            stdin=subprocess.DEVNULL,
        )
        begun.append(child)
        return child

    yield begin
    for child in begun:
        child.kill()
        child.wait()


def written(cli: CommandLine, name: str) -> Any:
    """What a container has written there, once that is whole."""

    def look() -> Any:
        with suppress(OSError, ValueError):
            return json.loads((cli.folder / name).read_text())

    return eventually(look, what=name)


def launched(cli: CommandLine, count: int) -> list[RunDirectory]:
    """The runs, oldest first, once there are so many and each has begun."""

    def look() -> list[RunDirectory] | None:
        runs = [cli.state.run(run_id) for run_id in list_run_ids(cli.state)]
        has_begun = [bool(record(run).get("started")) for run in runs]
        return runs if sum(has_begun) == count else None

    return eventually(look, what="the runs")


def end(container: "subprocess.Popen[bytes]", *runs: RunDirectory) -> None:
    """End a container with everything in it."""
    container.kill()
    container.wait()
    for run in runs:
        eventually(lambda run=run: not is_held(run.run_lock) and not is_held(run.supervisor_lock))


@pytest.mark.parametrize("name", ["", "box-made-anew"])
def test_a_container_that_starts_again_has_restarted(
    cli: CommandLine, start: Start, name: str
) -> None:
    survives = "--set restart.boot=true"
    first = start(f"{LAUNCH} -- sleep 600; {LAUNCH} {survives} -- sleep 600; {STAYS}")
    plain, lasting = launched(cli, 2)
    end(first, plain, lasting)
    named = {"FRESNEL_HOST": name} if name else {}
    start(f'"$@" list --json >listed; {STAYS}', **named)
    found = {run["id"]: run for run in written(cli, "listed")}
    assert (found[plain.id]["state"], found[plain.id]["ending"]["cause"]) == ("lost", "rebooted")
    eventually(lambda: record(lasting).get("attempt") == 2, what="its second attempt")
    eventually(lambda: record(lasting)["state"] == "running", what="that it runs")
    assert marked_processes(lasting.id)


def test_a_container_beside_it_leaves_a_run_alone(cli: CommandLine, start: Start) -> None:
    """Of the same name, as with the host's network: its supervisor was killed, it goes on there."""
    start(f"{LAUNCH} -- sleep 600; {STAYS}")
    (run,) = launched(cli, 1)
    for pid in read_processes():
        words = command_of(pid)
        if run.id in words and any(word.endswith("/supervisor.py") for word in words):
            os.kill(pid, signal.SIGKILL)
    eventually(lambda: not is_held(run.supervisor_lock), what="the supervisor's lock free")
    before = run.state.read_bytes()
    start(f'"$@" stop {run.id} --force; "$@" list --json >listed; {STAYS}')
    (found,) = written(cli, "listed")
    assert found["state"] == "running" and "another container" in found["reason"]
    assert run.state.read_bytes() == before and is_held(run.run_lock)
    assert cli.state.live_marker(run.id).exists()


def test_a_session_since_boot_begins_with_the_container(cli: CommandLine, start: Start) -> None:
    """The machine below it may have been up for months, which nobody has paid for."""
    before = time.time()
    start(f'"$@" session start --price 2; {STAYS}')
    session = eventually(lambda: next(cli.state.host.glob("session.json"), None))
    # Clock ticks are hundredths of a second.
    assert json.loads(session.read_text())["started"] >= before - 0.1


def test_what_has_ended_and_nobody_takes_away_is_said(cli: CommandLine, start: Start) -> None:
    """`sleep` as a container's first process waits for none of the orphans that become its own."""
    orphans = "for n in $(seq 110); do sh -c 'true & exec true'; done"
    look = 'until grep -q "ended processes" found; do "$@" doctor --json >found; done'
    start(f"({orphans}; {look}; mv found doctored) & {STAYS}")
    found = {check["name"]: check["verdict"] for check in written(cli, "doctored")}
    assert found["ended processes"] == "WARN"


def test_another_container_s_run_cannot_be_paused_from_here(cli: CommandLine, start: Start) -> None:
    """It was said to be paused, and went on."""
    start(f"{LAUNCH} -- sleep 600; {STAYS}")
    (run,) = launched(cli, 1)
    start(f'"$@" pause {run.id} 2>said; echo $? >code; {STAYS}')
    assert written(cli, "code") == 4
    assert run.id in (cli.folder / "said").read_text() and not run.pause.exists()
