"""`launch --resume`: from a run's newest checkpoint or a file; what it goes on from is said."""

import json
import os
import sys
from pathlib import Path

import pytest

from runners.lifecycle.control.relaunch import relaunch_spec
from runners.lifecycle.control.resume import as_told_before
from runners.state.layout import RunDirectory
from runners.state.runs import read_run
from tests.command_text import NO_CHECKPOINT, STOP_IT_FIRST, WHICH_PRESET, batches, resumed_at
from tests.process.conftest import CommandLine, leader
from tests.support import eventually
from tui.views.runs.form_plan import form_plan
from tui.views.runs.launch_choices import old_choice

PRESET = """\
launcher: command
shell: true
command: >-
  from() { while [ $# -gt 0 ]; do [ "$1" = --resume ] && cat "$2"; shift; done; };
  n=$(from "$0" "$@"); echo "from $${n:-nothing}"; mkdir -p $FRESNEL_RUN_DIR/c;
  echo $(( $${n:-0} + 5 )) > $FRESNEL_RUN_DIR/c/e.txt; [ -z "$HOLD" ] || sleep 300
gpus: 0
parameters:
  resume: {value: null, type: str}
  batch: 64
scaling: {batch: batch}
resume: {parameter: resume}
checkpoints: ["${run_dir}/c/*.txt"]
"""


def preset(cli: CommandLine) -> str:
    (cli.folder / "count.yaml").write_text(PRESET)
    return str(cli.folder / "count.yaml")


def said(run: RunDirectory) -> str:
    return run.output.read_text().strip()


def test_a_run_is_resumed_from_its_newest_checkpoint_and_names_its_parent(cli: CommandLine) -> None:
    first = cli.launch(preset(cli), "--wait")
    told = cli.run("launch", "--resume", first.id, "--set", "batch=32", "--wait")
    second = cli.state.run(told.stdout.strip())
    assert (said(first), said(second)) == ("from nothing", "from 5")
    assert f"resumes {first.id}: " in told.stderr and str(first.path / "c" / "e.txt") in told.stderr
    assert batches(64, 32) in told.stderr
    spec = json.loads(second.plan.read_text())["spec"]
    assert (spec["parent"], spec["resumed_from"]) == (first.id, str(first.path / "c" / "e.txt"))
    third = cli.launch("--resume", second.id, "--wait")
    assert said(third) == "from 10"


EPOCHS = """\
launcher: command
shell: true
command: >-
  mkdir -p $FRESNEL_RUN_DIR/c; echo "Epoch 1/3 loss: 0.5"; echo 1 > $FRESNEL_RUN_DIR/c/epoch_1.txt;
  echo "Epoch 2/3 loss: 0.4"; echo "Epoch 3/3"; exit 3; :
gpus: 0
parameters:
  resume: {value: null, type: str}
  epochs: 3
resume: {parameter: resume}
checkpoints: ["${run_dir}/c/*.txt"]
"""


@pytest.mark.parametrize(
    ("asked", "place"), [((), (1, 3)), (("--set", "epochs=9"), (1, 9)), (("--set", "x=3"), (1, 0))]
)
def test_what_is_left_is_from_the_checkpoint_to_the_end_of_the_new_plan(
    cli: CommandLine, asked: tuple[str, ...], place: tuple[int, int]
) -> None:
    (cli.folder / "epochs.yaml").write_text(EPOCHS.replace("  epochs: 3", "  epochs: 3\n  x: 1"))
    first = cli.launch(str(cli.folder / "epochs.yaml"), "--wait", exits=1)
    done, total = place
    told = cli.run("launch", "--resume", first.id, *asked, "--wait", exits=1).stderr
    assert resumed_at(done, total) in told


def test_a_preset_goes_on_from_a_file(cli: CommandLine, tmp_path: Path) -> None:
    file = tmp_path / "kept.txt"
    file.write_text("40\n")
    assert said(cli.launch(preset(cli), "--resume", str(file), "--wait")) == "from 40"
    refused = cli.run("launch", "--resume", str(file), exits=2).stderr
    assert WHICH_PRESET in refused and f"fresnel-tui launch PRESET --resume {file}" in refused


def test_a_run_is_meant_where_a_folder_is_called_as_it_is(cli: CommandLine) -> None:
    (cli.folder / "trial").mkdir()
    first = cli.launch(preset(cli), "--name", "trial", "--wait")
    again = cli.launch("--resume", "trial", "--wait")
    assert json.loads(again.spec.read_text())["parent"] == first.id


@pytest.mark.parametrize(
    "flags",
    [
        ("--parallel", "2"),
        ("--sampler", "tpe"),
        ("--early-stop", "median"),
        ("--samples", "3"),
    ],
)
def test_one_run_goes_on_and_is_no_sweep(cli: CommandLine, flags: tuple[str, ...]) -> None:
    first = cli.launch(preset(cli), "--wait")
    for more in ((), ("--set", "batch=16,32")):
        refused = cli.run("launch", "--resume", first.id, *flags, *more, exits=2).stderr
        assert "--resume" in refused and f"leave {flags[0]} away" in refused


def test_what_cannot_be_resumed_says_why(cli: CommandLine) -> None:
    live = cli.launch(preset(cli), HOLD="1")
    eventually(lambda: leader(live) and "from" in live.output.read_text())
    refused = cli.run("launch", "--resume", live.id, exits=2).stderr
    assert f"{STOP_IT_FIRST}: `fresnel-tui stop {live.id} --wait`" in refused
    bare = cli.command("true")
    cli.run("wait", bare.id)
    refused = cli.run("launch", "--resume", bare.id, exits=3).stderr
    assert NO_CHECKPOINT in refused and "--set 'checkpoints=" in refused


PROGRAM = """
import argparse, pathlib
parser = argparse.ArgumentParser()
parser.add_argument("--FLAG", default=None)
given = vars(parser.parse_args())["FLAG".replace("-", "_")]
print("from", given, flush=True)
pathlib.Path("ck").mkdir(exist_ok=True)
pathlib.Path("ck/last.txt").write_text("5")
print("Saved checkpoint to ck/last.txt")
"""


@pytest.mark.parametrize("flag", ["resume_from_checkpoint", "resume"])
def test_a_command_of_one_s_own_is_resumed_by_the_flag_of_its_source(
    cli: CommandLine, flag: str
) -> None:
    (cli.folder / "own.py").write_text(PROGRAM.replace("FLAG", flag))
    places = ("--set", 'checkpoints=["ck/*.txt"]')
    first = cli.launch("--wait", "--gpus", "0", *places, "--", sys.executable, "own.py")
    file = str(cli.folder / "ck" / "last.txt")
    # What the launch form proposes on `r`: the words, and why these.
    proposed = old_choice(cli.state, read_run(cli.state, first.id), resume=True).entry.specs
    (plan,) = form_plan(cli.state, proposed).runs
    assert dict(plan.pairs)["command"].endswith(f"own.py --{flag} {file}")
    assert any(name == "note" and f"--{flag}" in text for name, text in plan.pairs)
    second = cli.launch("--resume", first.id, "--wait")
    assert said(second).splitlines()[0] == f"from {file}"
    spec = json.loads(second.plan.read_text())["spec"]
    assert spec["resume"]["arguments"] == [f"--{flag}", "${checkpoint}"]
    assert spec["resumed_from"] == file


def test_a_command_without_such_a_flag_is_not_resumed_and_its_checkpoint_is_named(
    cli: CommandLine,
) -> None:
    (cli.folder / "own.py").write_text(PROGRAM.replace("FLAG", "lr"))
    places = ("--set", 'checkpoints=["ck/*.txt"]')
    first = cli.launch("--wait", "--gpus", "0", *places, "--", sys.executable, "own.py")
    refused = cli.run("launch", "--resume", first.id, exits=2).stderr
    last = cli.folder / "ck" / "last.txt"
    saved = last.stat().st_mtime
    assert str(last) in refused and "--set 'resume=" in refused
    rule = ("--set", 'resume={arguments: [--lr, "${checkpoint}"]}')
    again = cli.launch("--wait", "--gpus", "0", *places, *rule, "--", sys.executable, "own.py")
    # Said once, it is remembered: of other runs of the program too, in its folder alone.
    for told in (again, first):
        if told is first:
            os.utime(last, (saved, saved))  # as if no other run had written there since
        second = cli.launch("--resume", told.id, "--wait")
        assert said(second).splitlines()[0] == f"from {last}"
    spec = json.loads(second.plan.read_text())["spec"]
    assert spec["resume"]["arguments"] == ["--lr", "${checkpoint}"]
    elsewhere = relaunch_spec(cli.state, read_run(cli.state, first.id))
    assert as_told_before(cli.state, elsewhere, cli.folder / "other") == elsewhere
