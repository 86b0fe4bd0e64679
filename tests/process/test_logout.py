"""Logging out: what systemd would do to a run, and the scope a supervisor is started in where that
helps.

There is no systemd where tests run: programs named like its own stand in for it, in real processes.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest

from runners.doctor import logout
from runners.doctor.logout import LogoutVerdict, in_container, judge_logout
from runners.guard.keeper import GuardKeeper, read_keeper, start_keeper
from runners.guard.rule import lift, new_rule, set_rule
from runners.host import detach as detaching
from runners.host import systemd
from runners.host.identity import boot_id
from runners.host.ownership import user_name_of
from runners.lifecycle.control.start import start_together
from runners.lifecycle.launch import plan_notes
from runners.lifecycle.launch.adopt import adopt_orphans
from runners.lifecycle.launch.planner import plan_runs
from runners.presets.load import command_spec
from runners.state.layout import RunDirectory
from tests.command_text import LOGOUT_WOULD_END_IT, no_answer_in
from tests.process.conftest import CommandLine, events
from tests.support import eventually

WORKS = """
while :; do case "$1" in --) shift; break;; -*) shift;; *) break;; esac; done
exec "$@"
"""
FAILS_AT_LAUNCH = (
    'case "$*" in *--unit=*) echo "Failed to connect to bus" >&2; exit 1;; esac' + WORKS
)
HANGS_AT_LAUNCH = 'case "$*" in *--unit=*) sleep 600;; esac' + WORKS
HANGS = "sleep 600\n"
SERVICE = (
    'case "$*" in *--property=Restart=*) while [ "$1" != -- ]; do shift; done; shift; "$@" & '
    "exit;; esac"
)

Fake = Callable[[str, str], Path]


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fake:
    """Put a shell script in front of a program of this name; its calls are written to NAME.calls
    beside it.
    """
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")

    def place(name: str, script: str) -> Path:
        path = folder / name
        path.write_text(f'#!/bin/sh\necho "$*" >>{folder / name}.calls\n{script}')
        path.chmod(0o700)
        return folder / f"{name}.calls"

    return place


@pytest.fixture
def bus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fake: Fake) -> None:
    """A user's systemd seems to run, and logind says that it kills what stays in a session."""
    runtime = tmp_path / "runtime"
    runtime.mkdir()
    (runtime / "bus").touch()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    monkeypatch.setattr(systemd, "this_user", lambda: "anna")  # root is never killed at logout
    fake("loginctl", "echo yes\n")


def launched(cli: CommandLine) -> RunDirectory:
    """A run started from this process, which the fakes and shortened waits reach."""
    run = cli.state.run(start_together(cli.state, [command_spec(["sleep", "60"])])[0].id)
    eventually(lambda: run.leader.exists(), what="the program")
    return run


def detached(run: RunDirectory) -> dict[str, object]:
    """How its supervisor was detached."""
    return eventually(lambda: events(run, "detached"), what="how it was detached")[-1]


# ── the verdict ───────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fake: Fake) -> Path:
    """A root folder on which systemd runs, whose logind answers no questions; we are in a login
    session of anna's.
    """
    root = tmp_path / "root"
    (root / "run/systemd/system").mkdir(parents=True)
    (root / "usr/lib/systemd").mkdir(parents=True)
    (root / "usr/lib/systemd/logind.conf").write_text(
        "[Login]\n#KillUserProcesses=no\n#KillExcludeUsers=root\n"
    )
    monkeypatch.setattr(systemd, "session_of_ours", lambda: "session")
    monkeypatch.setattr(systemd, "this_user", lambda: "anna")
    for name in ("loginctl", "busctl"):
        fake(name, "exit 1\n")
    return root


def configure(machine: Path, name: str, text: str) -> None:
    """Write a file of logind's configuration."""
    path = machine / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"[Login]\n{text}\n")


def test_without_systemd_nothing_ends_runs(tmp_path: Path) -> None:
    verdict = judge_logout(tmp_path)
    assert verdict.outcome == "safe" and "on this machine" in verdict.reason
    (tmp_path / ".dockerenv").touch()
    assert in_container(tmp_path) and "in a container" in judge_logout(tmp_path).reason


def test_the_default_is_the_one_the_shipped_file_shows(machine: Path) -> None:
    assert judge_logout(machine).outcome == "safe"
    configure(machine, "usr/lib/systemd/logind.conf", "#KillUserProcesses=yes")
    verdict = judge_logout(machine)
    assert verdict.outcome == "killed" and "enable-linger" in verdict.advice
    configure(machine, "usr/lib/systemd/logind.conf", "")
    assert judge_logout(machine).outcome == "unknown"


def test_drop_ins_are_read_in_their_order(machine: Path) -> None:
    configure(machine, "etc/systemd/logind.conf", "KillUserProcesses=no")
    configure(machine, "usr/lib/systemd/logind.conf.d/50-site.conf", "KillUserProcesses=yes")
    assert judge_logout(machine).outcome == "killed"
    configure(machine, "etc/systemd/logind.conf.d/90-ours.conf", "KillUserProcesses=no")
    assert judge_logout(machine).outcome == "safe"
    configure(machine, "etc/systemd/logind.conf.d/90-ours.conf", "")
    configure(machine, "etc/systemd/logind.conf.d/50-site.conf", "KillUserProcesses=no")
    assert judge_logout(machine).outcome == "safe", (
        "a name in /etc stands for the same name elsewhere"
    )


def test_logind_itself_is_believed_first(machine: Path, fake: Fake) -> None:
    fake("busctl", "echo b true\n")
    assert judge_logout(machine).outcome == "killed"
    fake("loginctl", "echo no\n")
    assert judge_logout(machine).outcome == "safe"


def test_lingering_an_excluded_user_and_no_session_are_safe(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(machine, "etc/systemd/logind.conf", "KillUserProcesses=yes")
    assert judge_logout(machine).outcome == "killed"
    (machine / "var/lib/systemd/linger").mkdir(parents=True)
    (machine / "var/lib/systemd/linger/anna").touch()
    monkeypatch.setattr(systemd, "why_no_scope", lambda: "")
    assert judge_logout(machine).outcome == "safe"
    (machine / "var/lib/systemd/linger/anna").unlink()
    configure(
        machine, "etc/systemd/logind.conf", "KillUserProcesses=yes\nKillExcludeUsers=root anna"
    )
    assert judge_logout(machine).outcome == "safe"
    configure(machine, "etc/systemd/logind.conf", "KillUserProcesses=yes")
    monkeypatch.setattr(systemd, "session_of_ours", lambda: "")
    assert judge_logout(machine).outcome == "safe"


def test_lingering_alone_keeps_nothing_alive_in_a_session_that_is_killed(
    machine: Path, monkeypatch: pytest.MonkeyPatch, fake: Fake
) -> None:
    configure(machine, "etc/systemd/logind.conf", "KillUserProcesses=yes")
    (machine / "var/lib/systemd/linger").mkdir(parents=True)
    (machine / "var/lib/systemd/linger/anna").touch()
    fake("systemd-run", WORKS)
    runtime = machine / "run/user/1000"
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    assert "dbus-user-session" in judge_logout(machine).advice
    runtime.mkdir(parents=True)
    (runtime / "bus").touch()
    assert judge_logout(machine).outcome == "safe"
    (runtime / "bus").unlink()
    configure(machine, "etc/systemd/logind.conf", "KillUserProcesses=no")
    assert judge_logout(machine).outcome == "safe"


def test_below_the_user_s_own_systemd_a_run_ends_whatever_logind_says(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(systemd, "session_of_ours", lambda: "user")
    verdict = judge_logout(machine)
    assert verdict.outcome == "killed" and "loginctl enable-linger anna" in verdict.advice


@pytest.mark.parametrize("outcome", ["killed", "safe"])
def test_a_plan_says_that_a_logout_would_end_the_run(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch, outcome: Literal["killed", "safe"]
) -> None:
    verdict = LogoutVerdict(outcome, "why", "`do that`")
    monkeypatch.setattr(plan_notes, "is_booted", lambda: True)
    monkeypatch.setattr(logout, "judge_logout", lambda: verdict)
    plan = plan_runs(cli.state, [command_spec(["true"])])[0].plan
    assert any(note.endswith("why; `do that`") for note in plan.notes) is (outcome == "killed")


@pytest.mark.parametrize("on", [True, False])
def test_what_starts_the_guard_again_lasts_as_long_as_its_user_s_systemd(
    monkeypatch: pytest.MonkeyPatch, on: bool
) -> None:
    monkeypatch.setattr(systemd, "lingers", lambda: on)
    said = GuardKeeper("systemd", "a.service").describe()
    assert "a.service" in said and ("logout" in said) is not on


@pytest.mark.parametrize("outcome", ["killed", "safe"])
def test_a_second_process_beside_the_guard_ends_at_the_same_logout(
    monkeypatch: pytest.MonkeyPatch, outcome: Literal["killed", "safe"]
) -> None:
    monkeypatch.setattr(logout, "judge_logout", lambda: LogoutVerdict(outcome, "why"))
    assert ("logout" in GuardKeeper().describe()) is (outcome == "killed")


# ── the scope ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.usefixtures("bus")
def test_a_supervisor_gets_a_scope_of_its_own(cli: CommandLine, fake: Fake) -> None:
    calls = fake("systemd-run", WORKS)
    first, second = launched(cli), launched(cli)
    assert (
        detached(first)["how"] == "scope" and detached(first)["unit"] == f"fresnel-{first.id}.scope"
    )
    assert cli.status(second)["state"] == "running", "the locks were inherited through systemd-run"
    said = calls.read_text().splitlines()
    assert sum("--unit=" not in line for line in said) == 1, "tried once, then remembered"
    assert f"--user --scope --quiet --collect --unit=fresnel-{first.id} --" in said[1]
    cli.kill_supervisor(first)
    adopt_orphans(cli.state)
    adopted = eventually(lambda: events(first, "detached")[1:], what="the adopting supervisor")[0]
    assert str(adopted["unit"]).startswith(f"fresnel-{first.id}-adopted-"), (
        "the first scope still has that name"
    )


@pytest.mark.usefixtures("bus")
def test_without_lingering_a_machine_that_kills_nobody_gets_no_scope(
    cli: CommandLine, fake: Fake
) -> None:
    fake("systemd-run", WORKS)
    fake("loginctl", "echo no\n")
    said = detached(launched(cli))
    assert said["how"] == "setsid" and LOGOUT_WOULD_END_IT in str(said["reason"])


@pytest.mark.usefixtures("bus")
@pytest.mark.parametrize(
    ("script", "why"),
    [(FAILS_AT_LAUNCH, "failed with exit code 1"), (HANGS_AT_LAUNCH, "did not answer")],
    ids=["fails", "hangs"],
)
def test_a_scope_that_fails_at_the_launch_is_replaced_by_setsid(
    cli: CommandLine, fake: Fake, monkeypatch: pytest.MonkeyPatch, script: str, why: str
) -> None:
    monkeypatch.setattr(detaching, "_SCOPE_WITHIN_S", 0.3)
    calls = fake("systemd-run", script)
    run = launched(cli)
    said = detached(run)
    assert said["how"] == "setsid" and why in str(said["reason"])
    assert cli.status(run)["state"] == "running"
    assert detached(launched(cli))["how"] == "setsid"
    assert len(calls.read_text().splitlines()) == 2, (
        "one probe, one launch, and then no more until the next boot"
    )


@pytest.mark.usefixtures("bus")
def test_a_probe_that_hangs_is_given_up(
    cli: CommandLine, fake: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(systemd, "_PATIENCE_S", 0.2)
    fake("systemd-run", HANGS)
    said = detached(launched(cli))
    assert said["how"] == "setsid" and no_answer_in(0.2) in str(said["reason"])


@pytest.mark.usefixtures("bus")
def test_what_was_remembered_of_another_boot_is_asked_again(tmp_path: Path, fake: Fake) -> None:
    remembered = tmp_path / "scope.json"
    calls = fake("systemd-run", WORKS)
    for known, expected in (("another boot", 1), (boot_id(), 1)):
        remembered.write_text(
            json.dumps({"boot_id": known, "works": known == boot_id(), "why": ""})
        )
        assert systemd.probe_scope(remembered).works
        assert len(calls.read_text().splitlines()) == expected
    systemd.probe_scope(remembered, again=True)
    assert len(calls.read_text().splitlines()) == 2


def test_without_a_user_s_systemd_nothing_is_tried(
    tmp_path: Path, fake: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = fake("systemd-run", WORKS)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "nothing"))
    assert not systemd.probe_scope(tmp_path / "scope.json").works
    assert not calls.exists()


def test_a_slow_supervisor_is_waited_for_and_no_second_one_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(detaching, "_SCOPE_WITHIN_S", 0.05)
    # Ends when it is continued, which happens only after it was stopped and looked at.
    code = (
        "import os, signal\nsignal.signal(signal.SIGCONT, lambda *_: "
        "os._exit(0))\nprint('ready', flush=True)\n"
        "while True: signal.pause()"
    )
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as child:
        try:
            assert child.stdout is not None and child.stdout.readline() == b"ready\n"
            assert detaching._arrives(child, command)
        finally:
            child.poll() is None and os.kill(child.pid, signal.SIGKILL)


def test_the_name_of_a_user_without_one() -> None:
    assert user_name_of(0) == "root" and user_name_of(3_999_999) == "user 3999999"


# ── what starts the guard again ───────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("script", "how"), [(SERVICE + WORKS, "systemd"), (FAILS_AT_LAUNCH, "pair")]
)
def test_a_guard_s_keeper_is_a_service_where_the_user_s_systemd_takes_one(
    cli: CommandLine, fake: Fake, bus: None, script: str, how: str
) -> None:
    calls = fake("systemd-run", script)
    set_rule(cli.state, new_rule(max_age_s=1e6))
    start_keeper(cli.state)
    keeper = eventually(lambda: read_keeper(cli.state), what="a keeper")
    assert keeper.how == how
    if how == "systemd":
        call = calls.read_text().splitlines()[-1]
        assert "Restart=always" in call and f"--unit={keeper.unit.removesuffix('.service')}" in call
        assert "--setenv=PATH " in call, "by name: values on a command line are everybody's to read"
    lift(cli.state)
    eventually(lambda: read_keeper(cli.state) is None, what="the keeper gone")
