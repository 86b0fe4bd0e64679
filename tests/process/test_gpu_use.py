"""A run's use of its GPUs, kept though no panel is open, shown afterwards, and held against what
is free.
"""

import json
import os
import re
import signal
from pathlib import Path

import msgspec
import pytest

from runners.gpus.sampler_lock import owner_of
from runners.gpus.usage import decode_usage, interval_file, read_recent, usage_file
from runners.host.locks import is_held
from runners.lifecycle.supervisor.spawn import poke_supervisor
from runners.model.gpus import GpuUse, RunUsage
from tests.process.conftest import CommandLine, record
from tests.stubs import nvml as stub
from tests.support import eventually


def test_peak_and_use_are_known_though_nobody_looked(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FRESNEL_GPUS", "sim:2xH100")
    run = cli.launch("--gpu-ids", "1", "--name", "demo", "--", "sleep", "300")
    began = eventually(lambda: record(run).get("started"), what="a run that has begun")
    eventually(
        lambda: len([one for one in read_recent(cli.state) if one.time > began]) >= 3,
        what="some seconds of history",
    )
    cli.run("stop", run.id, "--force", "--wait")
    usage = eventually(lambda: decode_usage(run.path), what="usage.json")
    (use,) = cli.json("status", run.id)["usage"]
    assert (use["index"], use["uuid"], use["logical"], use["simulated"]) == (
        1,
        "SIM-H100-1",
        0,
        True,
    )
    assert use["peak_memory"] > 0 and use["mean_utilization"] is not None and use["energy_wh"] > 0
    assert interval_file(run.path).exists()
    text = cli.run("status", run.id).stdout
    assert re.search(
        r"GPU 1: peak VRAM \S+ of 79\.6G, mean use \d+%, (<0\.1|\d+(\.\d+)?) Wh \(simulated\)", text
    )

    monster = msgspec.structs.replace(usage.gpus[0], peak_memory=200 << 30)
    usage_file(run.path).write_bytes(msgspec.json.encode(RunUsage(run.id, usage.time, (monster,))))
    words = ("--gpu-ids", "1", "--name", "demo", "--", "sleep", "300")
    warning = f"this run peaked at 200.0 GiB last time (run {run.id}, simulated)"
    assert warning in cli.run("plan", *words).stdout
    assert warning in cli.run("launch", *words).stderr
    assert warning not in cli.run("plan", "--gpus", "0", *words[2:]).stdout


def test_a_run_on_the_cpu_has_no_use_of_gpus(cli: CommandLine) -> None:
    run = cli.command("true")
    assert cli.ended(run)["usage"] == []
    assert json.loads(cli.run("list", "--json").stdout)[0]["usage"] == []


@pytest.fixture
def scene(cli: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two GPUs of a stand-in NVML."""
    return stub.install(monkeypatch, tmp_path, "gpu 0 utilization 50\ngpu 1 utilization 60\n")


def test_a_sampler_killed_while_nobody_reads_is_followed_by_another(
    cli: CommandLine, scene: Path
) -> None:
    run = cli.launch("--gpu-ids", "1", "--", "sleep", "300")
    first = eventually(lambda: owner_of(cli.state), what="a sampler")
    os.kill(first.pid, signal.SIGKILL)
    eventually(lambda: not is_held(cli.state.sampler_lock))
    recent = read_recent(cli.state)
    # As if the supervisor's next look came, and the last sampler had not started a moment ago.
    os.utime(cli.state.sampler_lock, (1, 1))
    poke_supervisor(run)
    second = eventually(lambda: owner_of(cli.state), what="another sampler, which nobody asked for")
    assert second.pid != first.pid
    eventually(lambda: len(read_recent(cli.state)) > len(recent) + 2, what="the history to go on")
    scene.write_text("gpu 0 utilization 50\ngpu 1 memory_used 33333333333\n")
    eventually(lambda: read_recent(cli.state)[-1].gpus["GPU-stub-1"].memory_used == 33333333333)
    cli.run("stop", run.id, "--force", "--wait")
    eventually(
        lambda: _peak(cli, run.id) == 33333333333, what="the new peak in the run's usage.json"
    )


def test_a_run_that_waited_is_warned_of_the_gpu_it_gets(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FRESNEL_GPUS", "sim:1xH100")
    words = ("--gpus", "1", "--name", "demo", "--", "sleep", "300")
    past = cli.launch("--gpus", "0", *words[2:])
    cli.run("stop", past.id, "--force", "--wait")
    use = GpuUse(
        0,
        "SIM-H100-0",
        "NVIDIA H100 80GB HBM3",
        0,
        simulated=True,
        peak_memory=200 << 30,
        seconds=9.0,
    )
    usage_file(past.path).write_bytes(msgspec.json.encode(RunUsage(past.id, 1.0, (use,))))
    holder = cli.launch("--gpus", "1", "--name", "holder", "--", "sleep", "300")
    waiting = cli.json("launch", *words)
    assert waiting["state"] == "queued"
    note = f"this run peaked at 200.0 GiB last time (run {past.id}, simulated): it may run out of memory"
    assert note not in cli.run("status", waiting["id"]).stdout
    cli.run("stop", holder.id, "--force", "--wait")
    eventually(
        lambda: note in cli.run("status", waiting["id"]).stdout,
        what="the warning with the granted run",
    )


def _peak(cli: CommandLine, run_id: str) -> int | None:
    usage = decode_usage(cli.state.run(run_id).path)
    return usage.gpus[0].peak_memory if usage else None
