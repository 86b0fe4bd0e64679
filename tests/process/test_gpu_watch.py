"""`gpus`: complete, with the host, and every second until interrupted."""

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from runners.gpus.client import read_gpus
from runners.gpus.sampler_lock import owner_of
from runners.host.locks import is_held
from tests.process.conftest import CommandLine
from tests.stubs import nvml as stub
from tests.support import eventually

SCENE = """\
driver 570.86.15
gpu 0 uuid GPU-whole
gpu 0 utilization 98
gpu 0 power 640250
gpu 0 clock 1755
gpu 0 throttle 0x44
gpu 0 ecc 3
process 0 4194400 1073741824 compute
gpu 1 uuid GPU-cut
mig 1 MIG-aaaa 10737418240 1024
mig 1 MIG-bbbb 10737418240 2048
"""


@pytest.fixture
def scene(cli: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return stub.install(monkeypatch, tmp_path, SCENE)


def test_json_tells_everything(cli: CommandLine, scene: Path) -> None:
    run = cli.launch("--gpu-ids", "MIG-aaaa", "--", "sleep", "300")
    whole, cut, first, second = cli.json("gpus")
    assert (whole["uuid"], whole["utilization"], whole["power_w"], whole["clock_mhz"]) == (
        "GPU-whole",
        98,
        640.25,
        1755,
    )
    assert (whole["throttle"], whole["ecc_errors"]) == (["power cap", "thermal (hardware)"], 3)
    (process,) = whole["processes"]
    assert (process["pid"], process["outside"], process["memory_used"]) == (4194400, True, 1 << 30)
    assert cut["mig_parent"] is None and first["mig_parent"] == second["mig_parent"] == "GPU-cut"
    assert (first["run"], first["runs"][0]["mapping"]) == (run.id, "GPU 1 → device 0")
    around = cli.json("gpus", "--host")
    assert (around["backend"], around["driver"], around["problem"], around["stale"]) == (
        "nvml",
        "570.86.15",
        None,
        False,
    )
    assert around["cpu"]["cpu_count"] and len(around["gpus"]) == 4
    text = cli.run("gpus", "--host").stdout
    assert "1 MIG 0" in text and "▼cap ▼heat ⚠ECC 3" in text and "pid 4194400 outside 1.0G" in text


def test_a_host_without_gpus_is_a_row_too(cli: CommandLine) -> None:
    assert cli.json("gpus") == []
    around = cli.json("gpus", "--host")
    assert around["gpus"] == [] and around["cpu"]["memory_total"]


def test_watch_prints_a_json_line_for_every_reading_until_interrupted(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FRESNEL_GPUS", "sim:2xH100")
    child = cli.begin("gpus", "--watch", "--json")
    assert child.stdout is not None
    found: list[dict[str, Any]] = [json.loads(child.stdout.readline()) for _ in range(3)]
    assert len({line["time"] for line in found}) == 3
    assert [gpu["simulated"] for gpu in found[0]["gpus"]] == [True, True]
    child.send_signal(signal.SIGINT)
    assert eventually(lambda: child.poll() is not None) and child.returncode == 130


def test_watch_in_text_and_a_driver_in_trouble(cli: CommandLine, scene: Path) -> None:
    child = cli.begin("gpus", "--watch")
    assert child.stdout is not None
    assert b"CPU" in child.stdout.readline()
    # A sampler that has only just started is said to be one.
    assert any(b"held by" in line for line in child.stdout)
    stub.write_scenario(scene, "system 18\n")
    while (
        b"driver/library version mismatch: reboot or reload the driver"
        not in child.stdout.readline()
    ):
        pass


def test_an_xid_is_told_with_the_gpu_and_with_the_run_that_held_it(
    cli: CommandLine, scene: Path
) -> None:
    alone = "gpu 0 uuid GPU-whole\n"
    stub.write_scenario(scene, alone)
    run = cli.launch("--gpu-ids", "0", "--name", "unlucky", "--", "sleep", "300")
    assert cli.json("gpus")[0]["xid"] is None
    stub.write_scenario(scene, alone + "xid 1 0 79\n")
    found = eventually(lambda: cli.json("gpus")[0]["xid"], what="the Xid")
    assert (found["code"], found["meaning"].partition(":")[0]) == (79, "fell off the bus")
    assert found["time"].startswith("20") and found["time"].endswith("+00:00")
    assert f"⚠Xid 79: {found['meaning'].partition(':')[0]}" in cli.run("gpus").stdout
    eventually(
        lambda: (
            [xid["code"] for use in cli.json("status", run.id)["usage"] for xid in use["xids"]]
            == [79]
        ),
        what="the Xid in the run's usage",
    )
    assert f"⚠ Xid 79: {found['meaning'].partition(':')[0]} at " in cli.run("status", run.id).stdout
    owner = owner_of(cli.state)
    assert owner is not None
    os.kill(owner.pid, signal.SIGKILL)
    eventually(lambda: not is_held(cli.state.sampler_lock))
    killed = time.time()
    eventually(
        lambda: (reading := read_gpus(cli.state)).time > killed and not reading.problem,
        what="a new sampler",
    )
    after = cli.json("gpus")[0]["xid"]
    assert after == found, "the driver tells an error once, the next sampler still knows it"
