"""A run's use of its GPUs, kept though no panel is open, shown afterwards, and held against what is free."""

import json
import re

import msgspec
import pytest

from runners.model.gpus import RunUsage
from runners.placement.usage import decode_usage, interval_file, read_recent, usage_file
from tests.process.conftest import CommandLine
from tests.support import eventually


def test_peak_and_use_are_known_though_nobody_looked(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FRESNEL_GPUS", "sim:2xH100")
    run = cli.launch("--gpu-ids", "1", "--name", "demo", "--", "sleep", "300")
    eventually(lambda: len(read_recent(cli.state)) >= 3, what="some seconds of history")
    cli.run("stop", run.id, "--force", "--wait")
    usage = eventually(lambda: decode_usage(run.path), what="usage.json")
    (use,) = cli.json("status", run.id)["usage"]
    assert (use["index"], use["uuid"], use["logical"], use["simulated"]) == (1, "SIM-H100-1", 0, True)
    assert use["peak_memory"] > 0 and use["mean_utilization"] is not None and use["energy_wh"] > 0
    assert interval_file(run.path).exists()
    text = cli.run("status", run.id).stdout
    assert re.search(r"GPU 1: peak VRAM \S+ of 79\.6G, mean use \d+%, \d+\.\d Wh \(simulated\)", text)

    monster = msgspec.structs.replace(usage.gpus[0], peak_memory=200 << 30)
    usage_file(run.path).write_bytes(msgspec.json.encode(RunUsage(run.id, usage.time, (monster,))))
    words = ("--gpu-ids", "1", "--name", "demo", "--", "sleep", "300")
    warning = f"this run peaked at 200.0 GiB last time (run {run.id})"
    assert warning in cli.run("plan", *words).stdout
    assert warning in cli.run("launch", *words).stderr
    assert warning not in cli.run("plan", "--gpus", "0", *words[2:]).stdout


def test_a_run_on_the_cpu_has_no_use_of_gpus(cli: CommandLine) -> None:
    run = cli.command("true")
    assert cli.ended(run)["usage"] == []
    assert json.loads(cli.run("list", "--json").stdout)[0]["usage"] == []
