"""GPUs: never one for two, shown to the program by its own vendor's variables, and freed whatever
dies.
"""

import json
import os
import signal
import sys
from collections import Counter
from typing import Any

import pytest

from runners.host.locks import is_held
from runners.model.endings import EndingCause
from runners.state.layout import RunDirectory
from runners.state.leases import held_leases, live_run_ids
from runners.state.runs import list_run_ids
from tests.command_text import asked_for, no_gpu
from tests.process.conftest import CommandLine, record
from tests.support import eventually

SHOW = ("sh", "-c", "env | grep -E '^[A-Z]+_(VISIBLE|DEVICE_ORD)' | sort")
LAUNCH_ONE = ("launch", "--no-queue", "--gpus", "1", "--", "sleep", "300")


@pytest.mark.parametrize(
    ("gpus", "options", "shown"),
    [
        ("sim:8xMI300X", ["--gpu-ids", "3,1"], "HIP_VISIBLE_DEVICES=3,1\n"),
        (
            "sim:8xH100",
            ["--gpu-ids", "3,1"],
            "CUDA_DEVICE_ORDER=PCI_BUS_ID\nCUDA_VISIBLE_DEVICES=3,1\n",
        ),
        ("sim:4xH100", ["--gpus", "2"], "CUDA_DEVICE_ORDER=PCI_BUS_ID\nCUDA_VISIBLE_DEVICES=0,1\n"),
        (
            "sim:2xH100",
            ["--gpus", "all"],
            "CUDA_DEVICE_ORDER=PCI_BUS_ID\nCUDA_VISIBLE_DEVICES=0,1\n",
        ),
        ("sim:4xH100", ["--gpus", "0"], "CUDA_VISIBLE_DEVICES=-1\n"),
        ("none", [], "CUDA_VISIBLE_DEVICES=-1\n"),
    ],
)
def test_a_program_sees_its_gpus_and_no_others(
    cli: CommandLine, gpus: str, options: list[str], shown: str
) -> None:
    inherited = {
        "CUDA_VISIBLE_DEVICES": "7",
        "HIP_VISIBLE_DEVICES": "7",
        "ROCR_VISIBLE_DEVICES": "7",
    }
    run = cli.launch(*options, "--", *SHOW, FRESNEL_GPUS=gpus, **inherited)
    assert cli.ended(run)["state"] == "done"
    assert run.output.read_text() == shown


def test_who_holds_what_is_shown_and_freed(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FRESNEL_GPUS", "sim:4xH100")
    run = cli.json("launch", "--gpu-ids", "3,1", "--name", "mine", "--", "sleep", "300")
    assert (run["gpus"], run["simulated"]) == ([3, 1], True)
    held = {gpu["index"]: gpu["runs"] for gpu in cli.json("gpus")}
    assert [held[i] for i in (0, 2)] == [[], []]
    assert held[3][0]["run"] == held[1][0]["run"] == run["id"]
    assert (held[3][0]["logical"], held[1][0]["logical"]) == (0, 1)
    refused = cli.run("launch", "--no-queue", "--gpus", "3", "--", "true", exits=4)
    assert f"{asked_for('3 GPUs')}, 2 of 4 free" in refused.stderr and run["id"] in refused.stderr
    assert refused.stdout == ""
    cli.run("stop", "mine", "--force", "--wait")
    cli.run("launch", "--no-queue", "--gpus", "all", "--wait", "--", "true")


def test_twenty_at_once_for_four_gpus_never_share_one(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FRESNEL_GPUS", "sim:4xMI300X")
    cli.run("gpus")
    children = [cli.begin(*LAUNCH_ONE) for _ in range(20)]
    ended = [(*child.communicate(), child.returncode) for child in children]
    assert Counter(code for _, _, code in ended) == {0: 4, 4: 16}
    runs = {out.decode().strip() for out, _, code in ended if code == 0}
    given = [_plan(cli, run_id)["gpus"][0]["index"] for run_id in runs]
    assert sorted(given) == [0, 1, 2, 3]
    for _, said, code in ended:
        assert code == 0 or all(run_id in said.decode() for run_id in runs), (
            "a refusal names the holders"
        )
    assert set(list_run_ids(cli.state)) == runs, "a refused launch leaves nothing behind"
    assert {uuid: len(leases) for uuid, leases in held_leases(cli.state).items()} == {
        f"SIM-MI300X-{i}": 1 for i in range(4)
    }


def _plan(cli: CommandLine, run_id: str) -> Any:
    return json.loads(cli.state.run(run_id).plan.read_text())


@pytest.mark.parametrize("moment", ["directory", "lock", "marker", "plan", "state", "exit"])
def test_a_launch_killed_at_any_moment_blocks_no_gpu(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """The command (a panel is no different) is SIGKILLed the instant the file of that moment
    appears.
    """
    monkeypatch.setenv("FRESNEL_GPUS", "sim:1xH100")
    cli.run("gpus")
    child = cli.begin(
        "launch", "--no-queue", "--gpus", "1", "--wait", "--", "sh", "-c", "echo began; sleep 300"
    )
    files = {
        "directory": "runs/*",
        "lock": "runs/*/run.lock",
        "marker": "live/*",
        "plan": "runs/*/plan.json",
        "state": "runs/*/state.json",
        "exit": "runs/*/leader",
    }
    eventually(lambda: any(cli.state.root.glob(files[moment])))
    child.send_signal(signal.SIGKILL)
    child.wait()
    cli.run("list")
    runs = list_run_ids(cli.state)
    # Before it is marked live it is undone by the next command; from then on it is a run.
    assert len(runs) == 1 or (not runs and moment in ("directory", "lock", "plan"))
    for run in map(cli.state.run, runs):
        found = _begun_or_ended(cli, run)
        if found["state"] == "running":
            eventually(lambda run=run: run.output.read_bytes() == b"began\n")
            cli.run("stop", run.id, "--force", "--wait")
            assert cli.status(run)["state"] == "stopped"
        else:
            assert found["ending"]["cause"] == EndingCause.INTERRUPTED
    eventually(lambda: not live_run_ids(cli.state) and not held_leases(cli.state))
    left = [path.name for path in (*cli.state.runs.iterdir(), *cli.state.launching.iterdir())]
    assert left == runs, "nothing is left of one that was undone"
    cli.run("launch", "--no-queue", "--gpus", "1", "--wait", "--", "true")


def _begun_or_ended(cli: CommandLine, run: RunDirectory) -> dict[str, Any]:
    """A run as JSON once it runs or has failed."""
    return eventually(lambda: (now := cli.status(run))["state"] in ("running", "failed") and now)


def test_a_lease_stands_while_any_process_of_the_run_lives(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """torchrun closes inherited descriptors for its ranks: the lock goes, the mark stays."""
    monkeypatch.setenv("FRESNEL_GPUS", "sim:1xH100")
    script = "import os, time; os.closerange(3, 256); print('ready', flush=True); time.sleep(300)"
    run = cli.launch("--gpus", "1", "--", sys.executable, "-S", "-c", script)
    eventually(lambda: "ready" in run.output.read_text())
    cli.kill_supervisor(run)
    os.kill(record(run)["waiter_pid"], signal.SIGKILL)
    eventually(lambda: not is_held(run.run_lock))
    assert run.id in cli.run("launch", "--no-queue", "--gpus", "1", "--", "true", exits=4).stderr


def test_what_is_asked_for_by_name_is_denied_by_name(cli: CommandLine) -> None:
    said = cli.run(
        "launch", "--gpu-ids", "9", "--", "true", exits=4, FRESNEL_GPUS="sim:2xH100"
    ).stderr
    assert no_gpu(9) in said
    assert not list_run_ids(cli.state)


def test_a_plan_that_would_wait_says_so_and_still_is_a_plan(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FRESNEL_GPUS", "sim:1xH100")
    run = cli.launch("--gpus", "1", "--", "sleep", "300")
    done = cli.run("plan", "--gpus", "1", "--json", "--", "echo", "hi")
    assert json.loads(done.stdout)["argv"][-1] == "hi"
    assert f"held by {run.id}" in done.stdout
