"""Where a run hangs: its stacks on request, by each way there is, and before it is killed."""

import json
import sys
from pathlib import Path

import psutil
import pytest

from runners.diagnosis.stack_parts import find_py_spy
from runners.diagnosis.stacks import newest_stacks, stack_text
from runners.host.procfs import process_state
from tests.command_text import NO_STACKS
from tests.process.conftest import STUBBORN, CommandLine, events, leader
from tests.support import SLEEPS_IN, eventually

HANGS = f"""
import signal, sys, time
{STUBBORN.split("while")[0]}
def wait_for_ever():
    while True: time.sleep(60)
wait_for_ever()
"""
ANSWERS = """
import faulthandler, os, signal, time
folder = os.path.join(os.environ["FRESNEL_RUN_DIR"], "stacks")
os.makedirs(folder, exist_ok=True)
file = open(os.path.join(folder, f"answer.{os.getpid()}.txt"), "ab", buffering=0)
faulthandler.register(signal.SIGUSR2, file=file)
def wait_by_itself():
    print("ready", flush=True)
    time.sleep(600)
wait_by_itself()
"""


@pytest.fixture
def no_py_spy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """py-spy is there and may not look, as for a user who is not root."""
    folder = tmp_path / "bin"
    folder.mkdir()
    denied = "#!/bin/sh\necho 'Error: Permission denied (os error 13)' >&2\nexit 1\n"
    (folder / "python").symlink_to(sys.executable)
    (folder / "py-spy").write_text(denied)
    (folder / "py-spy").chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(folder / "python"))


def test_a_trainer_of_ours_tells_its_stack_where_nobody_may_trace_it(
    cli: CommandLine, no_py_spy: None
) -> None:
    from runners.diagnosis.stacks import take_stacks

    run = cli.command(sys.base_prefix + "/bin/python3", "-c", ANSWERS, ready="ready")
    (found,) = take_stacks(run, "a test").ranks
    assert (found.how, found.place.split(" in ")[-1]) == ("its own handler", "wait_by_itself")
    assert cli.status(run)["state"] == "running"
    silent = cli.command("sh", "-c", "echo ready; while :; do sleep 600; done", ready="ready")
    pid = leader(silent)
    # It has only just begun its `sleep`, and runs until it waits for it.
    eventually(lambda: psutil.Process(pid).children() and process_state(pid) == "S")
    (found,) = take_stacks(silent, "a test").ranks
    assert found.how == "" and "not permitted" in found.problem
    assert "sleeps" in found.state, "the shell is not the program"


@pytest.mark.skipif(find_py_spy() is None, reason="py-spy is not installed")
def test_stacks_of_a_run_are_shown_saved_and_shown_again_once_it_has_ended(
    cli: CommandLine,
) -> None:
    (cli.folder / "train.py").write_text(HANGS)
    run = cli.command(sys.executable, "train.py", ready="ready")
    text = cli.run("stacks", run.id).stdout
    assert "py-spy" in text and "wait_for_ever" in text and SLEEPS_IN in text
    cli.run("stop", run.id, "--force", "--wait")
    saved = cli.json("stacks", run.id)
    assert [one["place"].split(" in ")[-1] for one in saved["ranks"]] == ["wait_for_ever"]
    short = cli.command("true")
    cli.ended(short)
    refused = cli.run("stacks", short.id, exits=3).stderr
    assert NO_STACKS in refused and f"{short.path}/stacks" in refused


def test_a_stop_that_comes_to_sigkill_saves_the_stacks_first(cli: CommandLine) -> None:
    (cli.folder / "train.py").write_text(HANGS)
    (cli.folder / "hang.yaml").write_text(
        f"launcher: python\ninterpreter: {json.dumps(sys.executable)}\nscript: train.py\n"
        "arguments: [SIGINT, SIGTERM]\ngpus: 0\nstop: {ladder: [SIGTERM 0.2s, SIGKILL 5s]}\n"
    )
    run = cli.launch("./hang.yaml")
    eventually(lambda: "ready" in run.output.read_text(), what="a program that hangs")
    cli.run("stop", run.id, "--wait")
    dump = newest_stacks(run.path)
    assert dump is not None and dump.why == "before SIGKILL"
    (one,) = dump.ranks
    assert one.place.endswith("in wait_for_ever") and "wait_for_ever" in stack_text(dump, one)
    assert [event["rung"] for event in events(run, "stop")] == ["SIGTERM", "SIGKILL"]


def test_where_nobody_may_look_python_itself_tells_as_it_is_killed(
    cli: CommandLine, no_py_spy: None
) -> None:
    from runners.diagnosis.stacks import take_stacks

    (cli.folder / "train.py").write_text(HANGS)
    run = cli.command(sys.base_prefix + "/bin/python3", "train.py", ready="ready")
    (one,) = take_stacks(run, "a test", last=True).ranks
    assert one.how == "SIGABRT" and one.place.endswith("in wait_for_ever")
    assert cli.ended(run)["exit_code"] == 134


def test_a_stop_by_force_waits_for_no_stacks(cli: CommandLine) -> None:
    run = cli.command(sys.executable, "-c", STUBBORN, "SIGTERM", ready="ready")
    cli.run("stop", run.id, "--force", "--wait")
    assert newest_stacks(run.path) is None
