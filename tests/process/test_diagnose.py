"""`diagnose` and the verdict in `status`, on runs that really ended."""

import json
import os
from pathlib import Path

from tests.command_text import NOT_ENDED, OUT_OF_MEMORY
from tests.process.conftest import CommandLine

LOG = """\
import sys
print("step 1 loss 0.5")
print("[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 518.00 MiB. GPU 0 has", file=sys.stderr)
for rank in range(8):
    print(f"[rank{rank}]: torch.distributed.DistBackendError: NCCL error in: x.cpp:2094, remote process exited or there was a network error, NCCL version 2.21.5", file=sys.stderr)
sys.exit(1)
"""


def test_a_failed_run_is_explained_by_every_command(cli: CommandLine) -> None:
    (cli.folder / "train.py").write_text(LOG)
    run = cli.command("python3", "train.py")
    cli.ended(run)
    found = cli.json("diagnose", run.id)["diagnosis"]
    assert (found["known"], found["class"], found["rank"]) == (True, "gpu_out_of_memory", 3)
    assert cli.status(run)["reason"] == f"rank 3: {OUT_OF_MEMORY} after step 1 (log line 2)"
    assert "exit 1" in found["looked_at"]
    assert cli.json("status", run.id)["diagnosis"] == found
    text = cli.run("diagnose", run.id).stdout
    assert found["cause"] in text and found["remedy"] in text and "evidence" in text
    assert found["cause"] in cli.run("status", run.id).stdout


def test_a_stop_a_kill_and_a_good_end_are_told_apart(cli: CommandLine) -> None:
    killed = cli.command("sh", "-c", "kill -9 $$")
    good = cli.command("true")
    stopped = cli.command("sleep", "600")
    refused = cli.run("diagnose", stopped.id, exits=2).stderr
    assert (
        f"`{stopped.id}`" in refused and NOT_ENDED in refused and "fresnel-tui logs -f" in refused
    )
    cli.run("stop", stopped.id, "--wait", "--force")
    cli.ended(killed)
    cli.ended(good)
    unknown = cli.json("diagnose", killed.id)["diagnosis"]
    assert (unknown["known"], unknown["class"]) == (False, "killed_unknown")
    assert cli.json("diagnose", good.id)["diagnosis"] is None
    assert cli.json("diagnose", stopped.id)["diagnosis"]["class"] == "stopped"


def test_a_run_whose_turn_never_came_says_whom_it_waited_for(cli: CommandLine) -> None:
    """The first of a chain, how that ended, and commands that work once it is mended."""
    words = ("sh", "-c", "until [ -e go ]; do sleep 0.02; done; exit 3")
    first = cli.launch("--gpus", "0", "--name", "first", "--", *words)
    second = cli.launch("--gpus", "0", "--name", "second", "--after", "first", "--", "true")
    third = cli.launch("--gpus", "0", "--name", "third", "--after", "second", "--", "true")
    (cli.folder / "go").touch()
    cli.ended(third)
    found = cli.json("diagnose", third.id)["diagnosis"]
    assert found["class"] == "not_started"
    assert found["rests_on"] == [f"{first.id} is failed: {cli.status(first)['reason']}"]
    assert f"`fresnel-tui diagnose {first.id}`" in found["remedy"]
    assert f"`fresnel-tui launch --again {third.id} --after second`" in found["remedy"]
    cli.ended(cli.launch("--gpus", "0", "--name", "first", "--", "true"))
    again = cli.launch("--again", second.id, "--after", "first")
    assert cli.ended(again)["state"] == "done"
    plan = json.loads(second.plan.read_text())
    plan["spec"]["after"]["run"] = third.id  # edited by hand: they wait for each other
    second.plan.write_text(json.dumps(plan))
    assert cli.json("diagnose", third.id)["diagnosis"]["class"] == "not_started"
    cli.run("delete", second.id)
    found = cli.json("diagnose", third.id)["diagnosis"]
    assert second.id not in found["rests_on"][0] and "--after" not in found["remedy"]


def test_what_the_reason_says_is_no_cause_besides(cli: CommandLine) -> None:
    """Of what this panel did or saw itself the two are one sentence."""
    run = cli.command("sh", "-c", "sleep 600 & echo started")
    reason = cli.ended(run)["reason"]
    found = cli.json("diagnose", run.id)["diagnosis"]
    assert (found["class"], found["cause"]) == ("left_running", reason)
    shown = cli.run("status", run.id).stdout
    assert shown.count(reason) == 1 and found["remedy"] in shown


def test_a_command_s_own_time_limit_is_the_cause(cli: CommandLine) -> None:
    run = cli.command("nice", "timeout", "0.2", "sleep", "600")
    assert "`timeout 0.2`" in cli.ended(run)["reason"] and cli.status(run)["name"] == "sleep"
    assert cli.json("diagnose", run.id)["diagnosis"]["class"] == "own_time_limit"
    other = cli.command("sh", "-c", "exit 124")
    cli.ended(other)
    assert cli.json("diagnose", other.id)["diagnosis"]["class"] == "unknown"


def test_a_user_s_own_signature_and_a_mistake_in_it(cli: CommandLine) -> None:
    folder = Path(os.environ["XDG_CONFIG_HOME"]) / "fresnel-tui"
    folder.mkdir(parents=True, exist_ok=True)
    entry = (
        "- id: teapot\n  class: teapot_empty\n  cause: The teapot is empty.\n  remedy: Fill it.\n"
        "  patterns: ['teapot \\d is empty']\n  samples: [teapot 3 is empty]\n"
        "  non_matches: [a teapot]\n"
    )
    (folder / "signatures.yaml").write_text(entry)
    run = cli.command("sh", "-c", "echo 'TeaError: teapot 3 is empty'; exit 3")
    cli.ended(run)
    assert cli.json("diagnose", run.id)["diagnosis"]["class"] == "teapot_empty"
    (folder / "signatures.yaml").write_text(entry.replace("samples: [teapot 3", "samples: [pot 3"))
    problem = cli.run("diagnose", run.id, exits=2).stderr
    assert "signatures.yaml" in problem and "teapot" in problem and "sample" in problem
    assert "signatures.yaml" in cli.run("status", run.id).stdout
