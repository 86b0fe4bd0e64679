"""`probe` on a stand-in that runs out of memory above a batch: what it finds, keeps, leaves."""

import json
import signal
import sys
from pathlib import Path

import pytest

from runners.lifecycle.launch.probe_results import probe_of
from runners.model.gpus import GpuSnapshot
from runners.model.parameters import with_values
from runners.model.run import Run
from runners.model.scaling import describe_batch
from runners.presets.load import load_preset
from runners.probe.trial import TrialLength, try_batch
from runners.state.leases import live_run_ids
from runners.state.runs import list_run_ids
from tests.command_text import (
    ANOTHER_REASON,
    NO_WHOLE_NUMBER,
    OVERWRITES,
    RUNS_OUT_OF_MEMORY,
    not_even,
)
from tests.process.conftest import CommandLine
from tests.support import CEILING_S, eventually

SIMULATED = "simulated"
TRAIN = """\
import sys, time
size, most = int(sys.argv[2]), int(sys.argv[4])
print("loading", flush=True)
if size > most:
    sys.exit("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 5.00 GiB. GPU 0 has")
if size == 13:
    sys.exit("ValueError: thirteen")
for step in range(1, 100000):
    print(f"step {step} loss 0.5", flush=True)
    time.sleep(0.01)
"""
WRITING = (
    """\
import os, sys
folder = sys.argv[sys.argv.index("--out") + 1]
os.makedirs(folder, exist_ok=True)
open(os.path.join(folder, "best.pt"), "w").write("a trial's")
"""
    + TRAIN
)
PRESET = {
    "launcher": "python",
    "interpreter": sys.executable,
    "script": "train.py",
    "working_directory": "${working_directory}",
    "gpus": 0,
    "parameters": {"bs": 4, "most": 11, "lr": 0.1},
    "scaling": {
        "batch": "bs", "learning_rate": "lr", "rule": "linear", "base_batch": 2, "base_rate": 0.1,
    },
    "metrics": {"patterns": ["step (?P<step>\\d+) loss (?P<loss>[0-9.]+)"]},
    "stop": {"ladder": ["SIGINT 600s", "SIGKILL 5s"]},
    "verify": ["batch"],
}  # fmt: skip


def preset(cli: CommandLine, **changes: object) -> str:
    (cli.folder / "train.py").write_text(TRAIN)
    (cli.folder / "p.yaml").write_text(json.dumps(PRESET | changes))
    return str(cli.folder / "p.yaml")


def test_the_largest_batch_is_found_offered_and_kept(cli: CommandLine) -> None:
    path = preset(cli)
    done = cli.run("probe", path, "--steps", "3", "--json")
    found = json.loads(done.stdout)
    assert (found["batch"], found["learning_rate"], found["gpu"]) == (11, 0.55, "CPU")
    assert [(one["batch"], one["fits"]) for one in found["steps"]] == [
        (4, True), (8, True), (10, True), (11, True), (12, False), (16, False),
    ]  # fmt: skip
    assert all(one["samples_per_s"] > 0 for one in found["steps"] if one["fits"])
    assert "11 fits" in done.stderr and "12 does not fit" in done.stderr
    assert not list_run_ids(cli.state), "trials do not stay in the list"
    checks = cli.json("verify", path, "--set", "bs=16", exits=1)["runs"][0]["checks"]
    batch = next(one for one in checks if one["name"] == "batch")
    assert batch["verdict"] == "FAIL" and "at most 11" in batch["advice"]
    assert "11 fit" in cli.run("launch", path, "--set", "bs=16", exits=1).stderr
    planned = cli.json("plan", path, "--set", "bs=16", exits=1)
    assert planned["failing"] and planned["denied"] is None
    notes = "\n".join(planned["notes"])
    assert "bs=11" in notes and RUNS_OUT_OF_MEMORY in notes
    assert "bs=11" in "\n".join(cli.json("plan", path)["notes"])


def test_trials_write_over_no_checkpoint_of_the_preset_s_own_place(cli: CommandLine) -> None:
    (cli.folder / "out").mkdir()
    kept = cli.folder / "out" / "best.pt"
    kept.write_text("mine")
    path = preset(
        cli,
        parameters={"bs": 1, "most": 1, "lr": 0.1, "out": "out"},
        checkpoints=["${parameters.out}/*.pt"],
    )
    assert cli.json("probe", path, "--steps", "1", "--most", "1")["batch"] == 1
    assert kept.read_text() == "mine" and len(list((cli.folder / "out").iterdir())) == 1
    (cli.folder / "train.py").write_text(WRITING)
    cli.run("probe", path, "--steps", "1", "--most", "1")
    assert kept.read_text() == "mine"


def test_another_failure_ends_the_probe_and_its_run_is_named(cli: CommandLine) -> None:
    path = preset(cli, parameters={"bs": 13, "most": 99, "lr": 0.1})
    failed = cli.run("probe", path, exits=1).stderr
    assert ANOTHER_REASON in failed and "fresnel-tui diagnose" in failed
    assert len(list_run_ids(cli.state)) == 1 and not live_run_ids(cli.state)
    nothing = cli.run("probe", path, "--set", "most=0", "--first", "2", exits=2).stderr
    assert not_even("bs=1") in nothing


def _has_stepped(cli: CommandLine) -> bool:
    outputs = [cli.state.run(run).output for run in list_run_ids(cli.state)]
    return any(path.exists() and "step" in path.read_text() for path in outputs)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_who_ends_a_probe_stops_its_trial_and_leaves_nothing(
    cli: CommandLine, number: signal.Signals
) -> None:
    # Under nohup a hang-up is ignored, by what is started too.
    before = signal.signal(number, signal.SIG_DFL)
    try:
        child = cli.begin("probe", preset(cli), "--steps", "100000")
    finally:
        signal.signal(number, before)
    eventually(lambda: _has_stepped(cli), what="a trial that does steps")
    child.send_signal(number)
    assert child.wait(CEILING_S) == 130
    assert child.stderr is not None and b"interrupted" in child.stderr.read()
    assert not live_run_ids(cli.state) and not list_run_ids(cli.state)
    assert not cli.state.probes.exists()


def test_an_interruption_just_after_the_start_leaves_no_trial_running(cli: CommandLine) -> None:
    def interrupt(_: Run) -> None:
        raise KeyboardInterrupt

    spec = load_preset(Path(preset(cli, working_directory=str(cli.folder))))
    with pytest.raises(KeyboardInterrupt):
        try_batch(cli.state, spec, "bs", 4, TrialLength(100_000, 60.0), interrupt)
    assert list_run_ids(cli.state) and not live_run_ids(cli.state)


def test_what_cannot_be_probed_says_why(cli: CommandLine) -> None:
    path = preset(cli, checkpoints=["out/*.pt"])
    refused = cli.run("probe", path, exits=2).stderr
    assert OVERWRITES in refused and "--set checkpoint_dir=" in refused
    path = preset(cli, scaling=None)
    assert "--batch NAME" in cli.run("probe", path, exits=2).stderr
    assert f"`lr` is {NO_WHOLE_NUMBER}" in cli.run("probe", path, "--batch", "lr", exits=2).stderr


def test_what_simulated_gpus_made_up_is_marked_on_every_surface(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FRESNEL_GPUS", "sim:1xH100")
    path = preset(cli, gpus=1, parameters={"bs": 4, "most": 4, "lr": 0.1})
    eventually(lambda: cli.json("gpus"), what="a reading of them")
    found = cli.json("probe", path, "--steps", "3", "--most", "4", "--keep-runs")
    assert {step["simulated"] for step in found["steps"]} == {True}
    assert SIMULATED in found["gpu"]
    (plan, *_) = cli.json("verify", path)["runs"][0]["checks"]
    assert SIMULATED in plan["message"]
    assert all(gpu["simulated"] for gpu in cli.json("gpus"))
    run = list_run_ids(cli.state)[0]
    shown = [["gpus"], ["plan", path], ["verify", path], ["status", run], ["report", run]]
    for words in shown:
        output = cli.run(*words).stdout
        assert SIMULATED in output or ".html" in output, words
    assert cli.json("status", run)["simulated"] is True
    # Real GPUs of that name are offered nothing that was made up.
    real = (GpuSnapshot(0, "GPU-0", found["gpu"].partition(" (")[0], "nvidia"),)
    assert probe_of(cli.state, load_preset(Path(path)), real, 1) is None


def test_a_probe_deals_a_batch_out_to_the_processes_that_are_started(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FRESNEL_GPUS", "sim:4xH100")
    path = preset(cli, gpus=4)
    eventually(lambda: cli.json("gpus"), what="a reading of them")
    found = cli.json("probe", path, "--steps", "3")
    # One process, not one for each GPU: no batch is rounded to multiples of four.
    assert (found["devices"], found["batch"], found["learning_rate"]) == (1, 11, 0.55)
    spec = load_preset(Path(path))
    notes = cli.json("plan", path, "--set", "bs=11")["notes"]
    assert describe_batch(with_values(spec, {"bs": 11}), 1) in notes
    assert "bs=11" in "\n".join(notes), "it is found again for the same GPUs"
