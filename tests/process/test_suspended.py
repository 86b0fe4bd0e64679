"""A machine that was suspended, as a time namespace shows one: the boot's clock is hours ahead."""

import json
import subprocess
import sys
from collections.abc import Sequence

import pytest

from runners.cost.sessions import start_session
from runners.guard.rule import Stage, lift, new_rule, set_rule
from tests.process.conftest import COMMAND, CommandLine

HOURS = 10
SUSPENDED = ("unshare", "--time", "--boottime", str(HOURS * 3600), "--fork")


@pytest.fixture(autouse=True)
def time_namespaces() -> None:
    if subprocess.run([*SUSPENDED, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no time namespace may be made here")


def after_it(cli: CommandLine, *words: str, begins: Sequence[str] = COMMAND) -> str:
    """What a command says after the machine was suspended; what it starts finds it so too."""
    done = subprocess.run(
        [*SUSPENDED, *begins, *words],
        cwd=cli.folder,
        env=cli.environment({}),
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout + done.stderr


def test_a_guard_takes_no_hours_in_suspend_for_idle_ones(cli: CommandLine) -> None:
    state = cli.state.create()
    set_rule(state, new_rule(no_run_s=1800.0, countdown_s=0.0))
    look = (
        "from runners.guard.daemon import Guard; from runners.guard.rule import read_rule; "
        "from runners.state.layout import StateDirectory; state = StateDirectory(); "
        "print(Guard(state).step(read_rule(state)).stage)"
    )
    assert after_it(cli, look, begins=(sys.executable, "-c")).strip() == Stage.WATCHING
    lift(state)


def test_a_session_counts_it_and_says_for_how_long(cli: CommandLine) -> None:
    state = cli.state.create()
    start_session(state, "2", 1, "now", uuids=("GPU-0",))
    assert cli.json("cost")["suspended_s"] == 0
    found = json.loads(after_it(cli, "cost", "--json"))
    assert found["suspended_s"] == pytest.approx(HOURS * 3600, abs=60)
    assert found["session_usd"] == pytest.approx(2 * HOURS, abs=0.1)
    assert f"{HOURS}h00m" in after_it(cli, "cost")
