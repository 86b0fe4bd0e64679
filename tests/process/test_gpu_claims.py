"""GPUs that runs of other users, or of another state folder, hold before their programs use them."""

import json
import os
from pathlib import Path

import pytest

from runners.host.gpu_claims import GpuClaims, claimed, claims_folder
from tests.process.conftest import CommandLine, events
from tests.screen_text import STRANGER
from tests.stubs import nvml as stub
from tests.support import eventually


@pytest.fixture
def scene(cli: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Two GPUs on which no driver shows anything; the variables of somebody else."""
    stub.install(monkeypatch, tmp_path, "gpu 0 utilization 0\ngpu 1 utilization 0\n")
    return {"FRESNEL_STATE_DIR": str(tmp_path / "other")}


def chosen(cli: CommandLine, scene: dict[str, str]) -> list[int]:
    """Which GPU somebody else would be given now."""
    plan = json.loads(cli.run("plan", "--json", "--gpus", "1", "--", "true", **scene).stdout)
    return [gpu if isinstance(gpu, int) else gpu["index"] for gpu in plan["gpus"]]


def test_a_gpu_that_another_state_folder_s_run_holds_is_not_given(
    cli: CommandLine, scene: dict[str, str]
) -> None:
    run = cli.launch("--gpu-ids", "0", "--", "sleep", "600")
    eventually(lambda: claimed(lambda _: False), what="its claim")
    assert chosen(cli, scene) == [1]
    refused = cli.run("plan", "--gpu-ids", "0", "--", "true", exits=None, **scene).stdout
    assert STRANGER in refused and STRANGER in cli.run("gpus", **scene).stdout
    assert STRANGER not in cli.run("gpus").stdout
    cli.kill_supervisor(run)
    cli.run("list")
    eventually(lambda: claimed(lambda _: False), what="the claim of its adopter")
    cli.run("stop", run.id, "--force", "--wait")
    eventually(lambda: not [*claims_folder().iterdir()], what="nothing claimed")
    assert chosen(cli, scene) == [0]


def test_who_takes_it_all_the_same_is_told(cli: CommandLine, scene: dict[str, str]) -> None:
    other = GpuClaims("20261126-101500-other-7f3a")
    other.take(["GPU-stub-0"])
    run = cli.launch("--gpu-ids", "0", "--set", "gpus.allow_foreign=true", "--", "sleep", "600")
    eventually(lambda: events(run, "alert"), what="a word on it")
    other.release()
    assert not claimed(lambda one: one == run.id)


def test_what_is_no_claim_is_left_alone(scene: dict[str, str], tmp_path: Path) -> None:
    assert claimed(lambda _: False) == {}
    folder = claims_folder()
    folder.mkdir()
    os.mkfifo(folder / "GPU-0~fifo")
    (folder / "GPU-0~link").symlink_to(tmp_path / "scenario")
    (folder / "GPU-0~unlocked").touch()
    (folder / "odd").touch()
    assert claimed(lambda _: False) == {}
    claims = GpuClaims("run")
    claims.take(["GPU-0"])
    assert [*claimed(lambda _: False)] == ["GPU-0"] and not claimed(lambda run: run == "run")
    os.utime(folder / "GPU-0~unlocked", (0, 0))
    GpuClaims("later").take([])
    assert not (folder / "GPU-0~unlocked").exists(), "its supervisor was killed long ago"
    claims.release()
    assert not (folder / "GPU-0~run").exists()
