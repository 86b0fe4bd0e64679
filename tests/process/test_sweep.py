"""Sweeps by the command line: a grid in the queue, so many at a time, judged and compared."""

import json
import shlex
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

from runners.state.runs import read_run
from tests.command_text import EXISTS_ALREADY, WITH_A_SWEEP, at_a_time, starts_now
from tests.process.conftest import CommandLine
from tests.support import eventually

PROGRAM = """\
import os, sys, time
value = float(sys.argv[2])
for epoch in range(1, 9):
    print(f"epoch: {epoch}/8 | loss: {value / epoch if value < 5 else value:.4f}", flush=True)
while value >= 5 and not os.path.exists("end"):
    time.sleep(0.05)
"""


def flags(plan: dict[str, Any]) -> list[str]:
    argv: list[str] = plan["argv"]
    return argv[argv.index("--lr") :]


def test_a_grid_becomes_a_group_that_runs_so_many_at_a_time(cli: CommandLine) -> None:
    Path(cli.folder, "go.sh").write_text("until [ -e go ]; do sleep 0.05; done; echo loss: $1\n")
    done = cli.run(
        "launch", "--gpus", "0", "--name", "my grid", "--set", "lr=1,2", "--set", "seed=0..1",
        "--parallel", "1", "--", "sh", "go.sh", "{lr}", "--seed", "{seed}",
    )  # fmt: skip
    ids = done.stdout.split()
    assert len(ids) == 4 and at_a_time(4, 1) in done.stderr
    assert starts_now(1, 3) in done.stderr
    group = read_run(cli.state, ids[0]).plan.spec.group  # type: ignore[union-attr]
    assert group.startswith("my grid-") and group in done.stderr
    names = [read_run(cli.state, run_id).name for run_id in ids]
    assert names == [f"my grid-lr{lr}-seed{seed}" for lr in (1, 2) for seed in (0, 1)]

    def states() -> list[str]:
        return [str(read_run(cli.state, run_id).state) for run_id in ids]

    eventually(lambda: states() == ["running", "queued", "queued", "queued"], what="one at a time")
    assert "1 at a time" in read_run(cli.state, ids[1]).reason
    Path(cli.folder, "go").touch()
    eventually(lambda: states() == ["done"] * 4, what="all of them, one after the other")
    spans = [read_run(cli.state, run_id) for run_id in ids]
    ordered = sorted(spans, key=lambda run: run.started or 0)
    for one, other in pairwise(ordered):
        assert (one.ended or 0) <= (other.started or 0) + 0.5
    assert len(cli.json("status", group)) == 4
    words = shlex.split(done.stderr.split("`")[1])
    assert words[:2] == ["fresnel-tui", "compare"]
    found = cli.json(*words[1:])
    assert {"lr", "seed"} <= {row["name"] for row in found["settings"]}
    by_word = {row["id"] for row in cli.json("list", "set:lr=1")}
    assert by_word == set(ids[:2]), "a value that no flag names is a setting too"
    again = cli.json("plan", "--again", ids[0])
    assert not again["spec"]["swept"], "by itself it is in no sweep"


def test_what_is_hopeless_is_stopped_when_asked(cli: CommandLine) -> None:
    Path(cli.folder, "train.py").write_text(PROGRAM)
    done = cli.run(
        "launch", "--gpus", "0", "--name", "judged", "--set", "lr=1,2,3,9",
        "--early-stop", "median", "--", sys.executable, "train.py", "--lr", "{lr}",
    )  # fmt: skip
    ids = done.stdout.split()
    last = cli.ended(cli.state.run(ids[-1]))
    assert last["state"] == "stopped" and last["reason"].startswith("hopeless by the median rule")
    assert [cli.ended(cli.state.run(one))["state"] for one in ids[:3]] == ["done"] * 3
    eventually(lambda: not list(cli.state.sweeps.glob("*.json")), what="the watch is over")
    ranked = cli.json("compare", "judged")["ranking"]
    assert ranked[0] == ids[0] and ranked[-1] == ids[-1]


def test_a_preset_is_swept_by_its_parameters_and_texts_keep_their_commas(cli: CommandLine) -> None:
    Path(cli.folder, "mine.yaml").write_text(
        "launcher: command\ncommand: [echo]\ngpus: 0\n"
        "parameters: {lr: 0.1, words: 'a', kind: {value: x, choices: [x, y]}}\n"
    )
    plans = cli.json("plan", "./mine.yaml", "--set", "lr=0.1,0.2", "--set", "words=a,b",
                     "--set", "kind=x,y")  # fmt: skip
    assert [flags(plan) for plan in plans] == [
        ["--lr", lr, "--words", "a,b", "--kind", kind] for lr in ("0.1", "0.2") for kind in "xy"
    ]
    sampled = cli.json("plan", "./mine.yaml", "--set", "lr=0.01..0.1:log", "--samples", "3")
    assert len({flags(plan)[1] for plan in sampled}) == 3
    assert (
        f"--parallel {WITH_A_SWEEP}"
        in cli.run("plan", "./mine.yaml", "--parallel", "2", exits=2).stderr
    )
    wrong = cli.run("plan", "./mine.yaml", "--set", "lr=0.1,zero", exits=2).stderr
    assert "expected a number" in wrong


def test_a_command_is_launched_again_with_changed_flags(cli: CommandLine) -> None:
    first = cli.command("echo", "--lr", "3e-4", "--amp", options=("--name", "first"))
    cli.ended(first)
    argv = flags(cli.json("plan", "--again", "first", "--set", "lr=5"))
    assert argv == ["--lr", "5", "--amp"]
    argv = flags(cli.json("plan", "--again", "first", "--", "--lr", "7", "--wd", "0.1"))
    assert argv == ["--lr", "7", "--amp", "--wd", "0.1"]
    several = cli.json("plan", "--again", "first", "--set", "lr=1,2")
    assert [flags(plan)[1] for plan in several] == ["1", "2"]
    said = cli.run("plan", "--again", "first", "--set", "nothing=5", exits=2).stderr
    assert "lr, amp" in said and "-- --flag value" in said
    said = cli.run("launch", "--again", "first", "--json", "--", "train.py", exits=2)
    assert "expected a flag" in json.loads(said.stdout)["error"]["message"]


def test_what_a_run_was_launched_with_is_saved_as_a_preset(cli: CommandLine) -> None:
    run = cli.command("echo", "--lr", "3e-4", "$HOME", options=("--name", "first"))
    cli.ended(run)
    saved = cli.json("presets", "save", "my-best", "--from", "first")
    assert Path(saved["path"]).is_file()
    argv = cli.json("plan", "my-best")["argv"]
    assert argv[-3:] == ["--lr", "3e-4", "$HOME"]
    refused = cli.run("presets", "save", "my-best", "--from", "first", exits=2).stderr
    assert f"my-best.yaml {EXISTS_ALREADY}" in refused
    cli.run("presets", "save", "my-best", "--from", "first", "--overwrite")
