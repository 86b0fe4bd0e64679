"""A driver that hangs: what it said last is no word on who is there now, so no GPU is free."""

from pathlib import Path

import pytest

from runners.gpus.client import latest
from runners.model.states import State
from tests.command_text import NOT_LOADED, NOT_READ
from tests.process.conftest import CommandLine
from tests.stubs import nvml
from tests.support import eventually


@pytest.fixture
def hung(cli: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    """Two GPUs that were read once, and whose driver answers no more."""
    folder = tmp_path / "driver"
    folder.mkdir()
    scene = nvml.install(monkeypatch, folder, "gpu 0 utilization 0\ngpu 1 utilization 0\n")
    eventually(lambda: [gpu["unread"] for gpu in cli.json("gpus")] == [None, None])
    nvml.write_scenario(scene, "gpu 0 utilization hang\ngpu 1 power hang\n")
    eventually(lambda: (found := latest(cli.state)) is not None and found.gpus[0].unread)
    return cli


def test_nothing_is_put_on_a_gpu_that_nobody_reads(hung: CommandLine) -> None:
    assert all(gpu["unread"] for gpu in hung.json("gpus"))
    shown = hung.run("gpus").stdout
    assert NOT_READ in shown and "  free" not in shown
    # Planned, launched, queued: each says why.
    for words in (
        ("launch", "--no-queue", "--gpus", "1"),
        ("launch", "--no-queue", "--gpu-ids", "0"),
        ("launch", "--no-queue", "--gpus", "all"),
    ):
        refused = hung.run(*words, "--", "true", exits=4)
        assert NOT_READ in refused.stderr
    assert not hung.json("plan", "--gpus", "1", "--", "true")["gpus"]
    planned = hung.run("plan", "--gpus", "1", "--", "true")
    assert NOT_READ in planned.stdout + planned.stderr
    run = hung.launch("--gpus", "1", "--", "true")
    assert hung.status(run)["state"] == State.QUEUED
    assert NOT_READ in hung.status(run)["reason"]
    # On the CPU it runs.
    assert hung.ended(hung.command("true"))["state"] == State.DONE


def test_a_session_is_not_opened_for_gpus_that_nobody_reads(hung: CommandLine) -> None:
    for price in ("--price", "--rate"):
        refused = hung.run("session", "start", price, "2", exits=2)
        assert NOT_READ in refused.stderr
    assert not hung.state.session.exists()
    hung.run("session", "start", "--price", "2", "--gpus", "2")
    assert hung.json("cost")["usd_per_hour"] == 4


def test_a_library_that_does_not_load_is_not_said_to_lack(
    cli: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "libnvidia-ml.so.1").write_bytes(b"\x7fELF, and no more")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    monkeypatch.setenv("FRESNEL_GPUS", "nvml")

    def problem() -> str:
        return cli.json("gpus", "--host")["problem"] or ""

    # Until the sampler has begun there is another one.
    eventually(lambda: NOT_LOADED in problem())
    assert "install" not in problem()
