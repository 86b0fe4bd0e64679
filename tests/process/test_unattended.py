"""Programs that call without a terminal keep to what the user's settings allow them."""

import json
import os
import pty
import subprocess
from pathlib import Path

import msgspec
import pytest

from runners.host.identity import UNATTENDED
from runners.lifecycle.launch.unattended import denied_unattended
from runners.model.spec import GpuRequest, NodePlace, RunSpec
from runners.places.here import run_headless
from tests.process.conftest import COMMAND, CommandLine, record

ASLEEP = ("--gpus", "1", "--", "sleep", "300")
DENIED = 4


@pytest.fixture
def limited(cli: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("FRESNEL_GPUS", "sim:4xH100")
    return cli


def allow(**keys: object) -> None:
    """Write these limits into the user's settings."""
    folder = Path(os.environ["XDG_CONFIG_HOME"]) / "fresnel-tui"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "settings.yaml").write_text(f"unattended: {json.dumps(keys)}\n")


def at_a_terminal(cli: CommandLine, *words: str) -> int:
    """How a command exits whose errors somebody could read."""
    window, own = pty.openpty()
    done = subprocess.run(
        [*COMMAND, *words],
        cwd=cli.folder,
        env=cli.environment({}),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=own,
        check=False,
    )
    os.close(own)
    os.close(window)
    return done.returncode


def test_gpus_of_all_runs_that_programs_launched_count_together(limited: CommandLine) -> None:
    allow(gpus=2)
    for _ in range(2):
        run = limited.launch(*ASLEEP)
    assert json.loads(run.plan.read_text())["origin"]["attended"] is False
    refused = limited.json("launch", *ASLEEP, exits=DENIED)["error"]
    assert refused["code"] == "denied" and "2" in refused["message"]
    # A plan says what a launch would.
    assert limited.json("plan", *ASLEEP, exits=DENIED)["denied"] == refused["message"]
    assert at_a_terminal(limited, "launch", *ASLEEP) == 0
    limited.run("stop", run.id, "--force", "--wait")
    limited.launch(*ASLEEP)
    limited.run("launch", *ASLEEP, exits=DENIED)


def test_all_gpus_are_counted_before_they_are_taken(limited: CommandLine) -> None:
    allow(gpus=3)
    limited.run("launch", "--gpus", "all", "--", "true", exits=DENIED)


def test_what_is_paid_for_needs_a_limit_of_cost(limited: CommandLine) -> None:
    allow(cost=10)
    quick = ("--gpus", "1", "--", "sleep", "300")
    limited.launch(*quick)  # nothing is rented: nothing is spent
    limited.run("stop", "last", "--force", "--wait")
    limited.run("session", "start", "--price", "1.99")
    limited.run("launch", *quick, exits=DENIED)
    limited.launch("--set", "limits.cost=6", *quick)
    limited.run("launch", "--set", "limits.cost=6", *quick, exits=DENIED)
    limited.launch("--set", "limits.cost=4", *quick)
    assert at_a_terminal(limited, "launch", *quick) == 0


def test_only_the_commands_that_are_named(limited: CommandLine) -> None:
    allow(commands=["launch", "list"])
    run = limited.launch(*ASLEEP)
    limited.run("list")
    limited.run("ls")
    assert limited.json("stop", run.id, exits=DENIED)["error"]["code"] == "denied"
    assert record(run)["state"] == "running"
    assert at_a_terminal(limited, "stop", run.id, "--force") == 0


def test_limits_that_cannot_be_read_allow_nothing(limited: CommandLine) -> None:
    allow(gpus="many")
    refused = limited.json("launch", *ASLEEP, exits=2)["error"]
    assert "unattended.gpus" in refused["message"]
    assert at_a_terminal(limited, "list") == 0


@pytest.mark.parametrize(("said", "code"), [("1", DENIED), ("0", 0)])
def test_another_machine_says_whether_a_person_asks(
    limited: CommandLine, said: str, code: int
) -> None:
    """A command that is run over a line has no terminal; what it launches hears nothing of it."""
    allow(gpus=0)
    words = ("launch", "--gpus", "1", "--", "env")
    limited.run(*words, exits=code, **{UNATTENDED: said})
    if code == 0:
        limited.run("wait", "last", **{UNATTENDED: "0"})
        assert UNATTENDED not in limited.run("logs", "last").stdout


def test_what_a_person_has_done_by_a_command_of_ours_is_not_a_program_s(
    limited: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The panel runs some in processes of their own, which have no terminal."""
    run = limited.launch(*ASLEEP)
    allow(commands=["list"])
    monkeypatch.setattr("runners.host.identity._answer", False)
    assert run_headless(["note", run.id, "seen"]).problem
    monkeypatch.setattr("runners.host.identity._answer", True)
    assert not run_headless(["note", run.id, "seen"]).problem


def test_gpus_of_all_nodes_of_a_job_count(
    limited: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    allow(gpus=3)
    monkeypatch.setattr("runners.host.identity._answer", False)
    node = NodePlace(2, 0, "first", 29500, by_slurm=True)
    spec = RunSpec(preset="demo", name="demo", launcher="torchrun", gpus=GpuRequest(count=2))
    assert denied_unattended(limited.state, [spec], None) is None
    several = msgspec.structs.replace(spec, node=node)
    assert denied_unattended(limited.state, [several], None) is not None
