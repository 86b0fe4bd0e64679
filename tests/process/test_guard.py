"""The guard acts with no panel open, in its order, once: whoever kills it, and whatever it cannot
read.

The end commands write a file; nothing here shuts anything down. A dollar is a second: the rate is
3600 $/h.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import msgspec
import pytest

from runners.gpus.usage import interval_file
from runners.guard.claims import read_claim
from runners.guard.keeper import guard_lock, keeper_lock
from runners.guard.rule import Stage, read_guard, read_guard_state, read_rule, write_rule
from runners.host.locks import is_held
from runners.lifecycle.supervisor.spawn import poke_supervisor
from runners.model.gpus import GpuInterval, UsageInterval
from runners.model.states import State
from runners.state.layout import ROOT, RunDirectory, StateDirectory
from runners.state.runs import read_run
from tests.command_text import (
    GUARD_DOES_NOTHING,
    MAY_WRITE_RESULTS,
    NO_GUARD,
    NO_RUN_FOR,
    NOT_FETCHED,
    RUNS_STOP_IN,
    cannot_be_read,
    unguarded,
)
from tests.process.conftest import SAFE_PATH, CommandLine, record
from tests.stubs import nvml
from tests.support import eventually

SAVES = """
import signal, sys, time
def save(*_):
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    time.sleep(float(sys.argv[2]))
    open(sys.argv[1], "w").write("weights")
    sys.exit(0)
signal.signal(signal.SIGINT, save)
print("ready", flush=True)
time.sleep(600)
"""


class Guarded:
    """A command line with a guard: what its commands wrote, and how far it is."""

    def __init__(self, cli: CommandLine) -> None:
        self.cli = cli
        self.state: StateDirectory = cli.state
        self.ended = cli.folder / "ended"
        self.warned = cli.folder / "warned"
        self.checkpoint = cli.folder / "checkpoint"

    def set(self, *words: str, countdown: str = "1s", end: str = "") -> str:
        """Set a guard whose end command appends a line to a file."""
        end = end or f"echo end >> {self.ended}"
        warn = f'echo "$FRESNEL_GUARD_TEXT" >> {self.warned}'
        told = ("--countdown", countdown, "--end-command", end, "--warn-command", warn)
        return self.cli.run("guard", "set", *words, *told).stderr

    def train(self, saving_s: float = 0.0) -> RunDirectory:
        """A run that takes its time to save a checkpoint when it is asked to stop."""
        program = (sys.executable, "-S", "-c", SAVES, str(self.checkpoint), str(saving_s))
        return self.cli.command(*program, ready="ready")

    def warnings(self) -> list[str]:
        """What it warned of, once it has: by a process of its own, which may come last."""
        return eventually(lambda: lines(self.warned), what="a warning")

    def stage(self) -> Stage | None:
        """How far it has gone with the rule that is set."""
        view = read_guard(self.state)
        return None if view.progress is None else view.progress.stage

    def reaches(self, stage: Stage) -> None:
        """Wait until it has come so far."""
        eventually(
            lambda: self.stage() is stage, what=f"the guard at {stage}, which is at {self.stage()}"
        )

    def pid(self) -> int:
        """The process that is the guard; one that has just begun has not written its pid."""
        return eventually(self._pid, what="a guard that has written its pid")

    def _pid(self) -> int:
        try:
            pid = int(guard_lock(self.state).read_text())
            return (
                pid
                if self.runs() and b"runners.guard." in Path(f"/proc/{pid}/cmdline").read_bytes()
                else 0
            )
        except (OSError, ValueError):
            return 0

    def runs(self) -> bool:
        """True while a guard lives."""
        return is_held(guard_lock(self.state))

    def kill(self) -> int:
        """SIGKILL to the guard; return once it is gone, whoever may have started another
        meanwhile.
        """
        pid = self.pid()
        os.kill(pid, signal.SIGKILL)
        eventually(lambda: self._pid() != pid, what="the guard gone")
        return pid

    def status(self) -> Any:
        """The guard as `guard --json` shows it; None while none is set."""
        return self.cli.json("guard", exits=None)

    def problems(self) -> list[str]:
        """What it cannot find out or do."""
        return [str(text) for text in self.status()["problems"]]

    def says(self) -> str:
        """What `guard status` says, on both streams."""
        done = self.cli.run("guard", exits=None)
        return done.stdout + done.stderr


@pytest.fixture
def guard(cli: CommandLine) -> Iterator[Guarded]:
    """A guard in the test's own state folder; lifted at the end, and gone."""
    guarded = Guarded(cli)
    yield guarded
    (guarded.state.guard / "guard.json").unlink(missing_ok=True)
    # One that has just seen that it is lifted leaves by itself.
    if pid := guarded._pid():
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    eventually(lambda: not guarded.runs(), what="no guard left over")


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def open_session(cli: CommandLine, budget: str = "1000") -> None:
    cli.run("session", "start", "--rate", "3600", "--since", "now", "--budget", budget)


# ── every reason ──────────────────────────────────────────────────────────────────────────────────


def test_a_spent_budget_warns_stops_the_runs_with_their_checkpoints_and_then_ends(
    guard: Guarded,
) -> None:
    open_session(guard.cli)
    run = guard.train()
    guard.set(
        "--budget-stop",
        "0.4%",
        end=f"cat {run.state} > {guard.ended}.new; mv {guard.ended}.new {guard.ended}",
    )
    guard.reaches(Stage.ENDED)
    ended = json.loads(guard.ended.read_text())
    assert ended["state"] == "stopped", "it had ended before"
    assert ended["ending"]["cause"] == "guard" and ended["ending"]["rule"]
    assert ended["ending"]["detail"].startswith("budget: $")
    assert guard.checkpoint.read_text() == "weights"
    (warning,) = guard.warnings()
    assert (
        warning.startswith("budget: $")
        and f"{RUNS_STOP_IN} 1s" in warning
        and "guard postpone 1h" in warning
    )
    assert "has acted: budget" in guard.says() and "exit code 0" in guard.says()
    (alert,) = [json.loads(line) for line in lines(run.supervisor_events) if '"alert"' in line]
    assert alert["text"] == f"guard: {warning}"
    spent = guard.cli.json("cost")["session_usd"]
    assert spent >= 4


def test_an_aged_session_ends(guard: Guarded) -> None:
    open_session(guard.cli)
    run = guard.train()
    guard.set("--max-age", "2s")
    guard.reaches(Stage.ENDED)
    assert lines(guard.ended) == ["end"] and record(run)["state"] == "stopped"
    assert "age" in guard.warnings()[0]


def test_a_machine_without_a_run_ends_and_one_with_a_run_does_not(guard: Guarded) -> None:
    run = guard.train()
    guard.set("--no-run", "1s", countdown="0")
    started = time.monotonic()
    eventually(lambda: time.monotonic() - started > 1.5)
    assert guard.stage() is Stage.WATCHING and not guard.ended.exists()
    guard.cli.run("stop", run.id, "--wait")
    guard.reaches(Stage.ENDED)
    assert lines(guard.ended) == ["end"] and guard.status()["reason"].startswith(NO_RUN_FOR)


def train_on_gpus(
    guard: Guarded, percent: dict[int, float], monkeypatch: pytest.MonkeyPatch
) -> RunDirectory:
    """A run on two simulated GPUs whose readings of the last and the next minutes are made up."""
    monkeypatch.setenv("FRESNEL_GPUS", "sim:2xMI300X")
    run = guard.cli.launch("--gpus", "2", "--", "sleep", "600")
    eventually(lambda: record(run).get("state") == "running")
    plan = read_run(guard.state, run.id).plan
    assert plan is not None
    now = time.time()
    run.events.write_text(
        f'{{"time": {now - 900}, "type": "start", "epochs": 9}}\n'
        f'{{"time": {now - 600}, "type": "epoch", "epoch": 1}}\n'
    )
    made_up = [
        UsageInterval(
            now - 300 + i,
            1.0,
            tuple(GpuInterval(g.index, g.uuid, percent.get(g.index, 0)) for g in plan.gpus),
        )
        for i in range(600)
    ]
    with interval_file(run.path).open("ab") as file:
        file.write(b"".join(msgspec.json.encode(one) + b"\n" for one in made_up))
    return run


def test_gpus_that_idle_while_a_run_says_it_trains_end_it(
    guard: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = train_on_gpus(guard, {0: 1.0, 1: 4.9}, monkeypatch)
    guard.set("--idle", "60s", countdown="1s")
    guard.reaches(Stage.ENDED)
    assert lines(guard.ended) == ["end"] and record(run)["state"] == "stopped"
    assert "GPUs below 5 % for 1m00s" in guard.warnings()[0]


def test_one_busy_gpu_keeps_the_guard_still(
    guard: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = train_on_gpus(guard, {0: 1.0, 1: 40.0}, monkeypatch)
    guard.set("--idle", "60s", countdown="0")
    began = time.monotonic()
    eventually(lambda: time.monotonic() - began > 1)
    assert (
        guard.stage() is Stage.WATCHING
        and record(run)["state"] == "running"
        and not guard.warned.exists()
    )


# ── killed, postponed, blind ──────────────────────────────────────────────────────────────────────


def test_a_killed_guard_acts_although_no_run_lives_and_no_command_is_given(guard: Guarded) -> None:
    guard.set("--no-run", "3s", countdown="1s")
    assert eventually(lambda: guard.status()["keeper"], what="a keeper")["how"] == "pair"
    first = guard.kill()
    assert guard.pid() != first
    guard.reaches(Stage.ENDED)
    assert lines(guard.ended) == ["end"] and len(guard.warnings()) == 1


def test_the_keeper_itself_takes_the_place_of_a_guard_that_is_killed(guard: Guarded) -> None:
    guard.set("--max-age", "100d")
    lock = keeper_lock(guard.state)
    keeper = eventually(lambda: is_held(lock) and int(lock.read_text() or 0), what="a keeper")
    guard.kill()
    assert guard.pid() == keeper, "nothing had to be started"
    eventually(lambda: is_held(lock) and int(lock.read_text() or 0) not in (0, keeper))


def test_guard_and_keeper_start_each_other_and_leave_with_the_rule(guard: Guarded) -> None:
    guard.set("--max-age", "100d")
    locks = [keeper_lock(guard.state), guard_lock(guard.state)]
    for lock in [*locks, *locks]:
        pids = eventually(lambda: _two_of(locks), what="a guard and a keeper")
        os.kill(pids[locks.index(lock)], signal.SIGKILL)
        eventually(lambda pids=pids: _two_of(locks) not in ([], pids), what="another pair")
    guard.cli.run("guard", "off")
    eventually(lambda: not any(map(is_held, locks)), what="neither left over")


@pytest.mark.parametrize("stage", [Stage.WATCHING, Stage.WARNED, Stage.ENDING])
def test_guard_and_keeper_killed_at_once_act_once_after_the_next_command(
    guard: Guarded, stage: Stage
) -> None:
    enough = guard.cli.folder / "enough"
    end = f"until [ -e {enough} ]; do sleep 0.05; done; echo end >> {guard.ended}"
    watched = "1h" if stage is Stage.WATCHING else "1s"
    guard.set("--no-run", watched, countdown="1h" if stage is Stage.WARNED else "0", end=end)
    guard.reaches(stage)
    locks = [keeper_lock(guard.state), guard_lock(guard.state)]
    pids = eventually(lambda: _two_of(locks), what="a guard and a keeper")
    for kind in (signal.SIGSTOP, signal.SIGKILL):  # stopped, neither starts the other
        for pid in pids:
            os.kill(pid, kind)
    eventually(lambda: not any(map(is_held, locks)), what="neither alive")
    checks = guard.cli.json("doctor", exits=None)
    (check,) = [check for check in checks if check["name"] == "guard"]
    assert check["verdict"] == "WARN" and GUARD_DOES_NOTHING in check["message"]
    eventually(lambda: guard.cli.run("list") and guard.runs(), what="a guard again")
    assert guard.stage() is stage, "it goes on where it was"
    # Now it is time: an hour would be long to wait.
    rule = read_rule(guard.state)
    assert rule is not None
    write_rule(guard.state, msgspec.structs.replace(rule, no_run_s=0.1, countdown_s=0.1))
    enough.touch()
    guard.reaches(Stage.ENDED)
    assert lines(guard.ended) == ["end"] and len(guard.warnings()) == 1


def _two_of(locks: list[Path]) -> list[int]:
    """Who holds both locks; empty while it is not two processes, as in the moment of a change."""
    pids = [int(lock.read_text() or 0) if is_held(lock) else 0 for lock in locks]
    return pids if len({0, *pids}) == 3 else []


def test_a_killed_guard_is_adopted_by_the_next_command_and_goes_on_with_its_countdown(
    guard: Guarded,
) -> None:
    open_session(guard.cli)
    guard.set("--max-age", "1h", countdown="1h")
    guard.reaches(Stage.WARNED)
    progress = read_guard_state(guard.state)
    first = guard.kill()
    eventually(lambda: guard.cli.run("list") and guard.runs())
    assert guard.pid() != first
    assert read_guard_state(guard.state) == progress, (
        "neither warned again nor counted from the beginning"
    )
    assert len(guard.warnings()) == 1


def test_a_killed_guard_is_started_again_by_a_run_s_supervisor(guard: Guarded) -> None:
    open_session(guard.cli)
    run = guard.train()
    guard.set("--max-age", "1h")
    first = guard.kill()
    # It also wakes by itself, every 20 s.
    eventually(
        lambda: poke_supervisor(run) or guard.runs(),
        what="a guard that only the supervisor could start",
    )
    assert guard.pid() != first


def test_killed_at_every_moment_it_does_everything_once(guard: Guarded) -> None:
    open_session(guard.cli)
    run = guard.train(saving_s=1.0)
    # The end takes as long as the kills do: a slow machine must not be done before them.
    enough = guard.cli.folder / "enough"
    end = f"until [ -e {enough} ]; do sleep 0.05; done; echo end >> {guard.ended}"
    guard.set("--max-age", "3s", countdown="1s", end=end)
    call = (
        "import sys; sys.path.insert(0, sys.argv[1]); from runners.guard.daemon import main; main()"
    )
    kills = 0
    while guard.stage() is not Stage.ENDED:
        subprocess.run(
            [sys.executable, *SAFE_PATH, "-c", call, str(ROOT), str(guard.state.root)], check=True
        )
        eventually(guard.runs)
        # Longer after many: on a slow machine each would be dead before its first look.
        wait = time.monotonic() + 0.13 * (kills % 4) * (1 + kills // 20)
        eventually(lambda until=wait: time.monotonic() >= until)
        if guard.stage() is not Stage.ENDED:
            guard.kill()
            kills += 1
        if kills >= 5 and guard.stage() in (Stage.ENDING, Stage.ENDED):
            enough.touch()
        assert kills < 200
    assert kills >= 5
    assert lines(guard.ended) == ["end"] and len(guard.warnings()) == 1
    assert record(run)["state"] == "stopped" and json.loads(run.stop.read_text())["requests"] == 1
    assert guard.checkpoint.read_text() == "weights"

    def said() -> list[str]:
        told = [line for line in lines(guard.state.guard / "guard.jsonl") if '"said"' in line]
        return [json.loads(line)["step"] for line in told]

    eventually(lambda: "finish" in said(), what="the guard's last words")
    # A guard killed between saying it and its claim says it twice.
    assert list(dict.fromkeys(said())) == ["warn", "stop", "end", "finish"]


def test_a_command_that_is_asked_for_by_many_runs_once(tmp_path: Path) -> None:
    gate, out, marker = tmp_path / "gate", tmp_path / "out", tmp_path / "end"
    os.mkfifo(gate)
    script = ROOT / "runners" / "guard" / "run_once.py"
    once = [sys.executable, "-I", "-S", str(script), str(marker)]
    command = f"echo $$ >> {out}; cat {gate}; exit 3"
    children = [subprocess.Popen([*once, "1", command, ""]) for _ in range(8)]
    eventually(lambda: sum(child.poll() is not None for child in children) == 7)
    assert read_claim(marker).alive and read_claim(marker).exit is None
    gate.write_text("go")
    assert sorted(child.wait() for child in children) == [0] * 7 + [3]
    claim = read_claim(marker)
    assert len(lines(out)) == 1 and (claim.attempt, claim.exit, claim.alive) == (1, 3, False)
    assert subprocess.run([*once, "1", command, ""], check=False).returncode == 0
    assert len(lines(out)) == 1, "the same try, asked for once more"


def test_a_guard_with_nothing_to_end_is_postponed_in_its_countdown(guard: Guarded) -> None:
    open_session(guard.cli)
    run = guard.train()
    guard.set("--max-age", "1s", countdown="1h")
    guard.reaches(Stage.WARNED)
    assert 0 < guard.status()["stops_in_s"] <= 3600 and RUNS_STOP_IN in guard.says()
    guard.cli.run("guard", "postpone", "1h")
    guard.reaches(Stage.WATCHING)
    assert "postponed until" in guard.says() and record(run)["state"] == "running"
    found = guard.cli.json("guard")
    assert (
        found["stage"] == "watching" and found["note"] == "postponed" and found["running"] is True
    )
    guard.cli.run("guard", "postpone", "0s")
    guard.reaches(Stage.WARNED)
    # A warning is a process of its own.
    eventually(lambda: len(lines(guard.warned)) == 2)
    guard.cli.run("guard", "off")
    eventually(lambda: not guard.runs())
    assert (
        len(lines(guard.warned)) == 2
        and not guard.ended.exists()
        and record(run)["state"] == "running"
    )


def test_what_it_cannot_read_it_does_not_kill_for_and_says_so(guard: Guarded) -> None:
    open_session(guard.cli)
    run = guard.train()
    session = guard.state.session.read_bytes()
    guard.state.session.write_text("{")
    guard.set("--max-age", "1s", countdown="0")
    eventually(lambda: any(cannot_be_read("session.json") in text for text in guard.problems()))
    assert any(unguarded("the age") in text for text in guard.problems())
    assert "⚠" in guard.says()
    assert guard.stage() is Stage.WATCHING and record(run)["state"] == "running"
    assert guard.cli.json("cost")["guard"]["problems"]
    guard.state.session.write_bytes(session)
    guard.reaches(Stage.ENDED)
    assert lines(guard.ended) == ["end"]


@pytest.mark.parametrize("name", ["progress.json", "guard.json"])
def test_a_guard_whose_own_files_are_damaged_does_nothing(guard: Guarded, name: str) -> None:
    open_session(guard.cli)
    run = guard.train()
    guard.set("--max-age", "1h")
    guard.reaches(Stage.WATCHING)
    guard.cli.run("guard", exits=0)
    (guard.state.guard / name).write_text("{")
    eventually(lambda: cannot_be_read(name) in (guard.state.guard / "guard.log").read_text())
    does_nothing = GUARD_DOES_NOTHING + cannot_be_read(guard.state.guard / name)
    assert any(text.startswith(does_nothing) for text in guard.problems())
    assert guard.cli.json("guard", exits=1)["does_nothing"]
    assert guard.runs() and record(run)["state"] == "running"
    guard.set("--max-age", "1s", countdown="0")
    guard.reaches(Stage.ENDED)


def test_a_guard_that_cannot_live_is_said_to_do_nothing(guard: Guarded) -> None:
    guard.set("--max-age", "100d")
    locks = [keeper_lock(guard.state), guard_lock(guard.state)]
    pids = eventually(lambda: _two_of(locks), what="a guard and a keeper")
    guard.state.guard.chmod(0o777)  # others could write what it runs
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    eventually(lambda: not guard.runs(), what="neither alive")
    done = guard.cli.run("guard", exits=1)
    assert GUARD_DOES_NOTHING in done.stderr and "guard.log" in done.stderr
    assert guard.cli.json("guard", exits=1)["does_nothing"]
    guard.state.guard.chmod(0o700)
    eventually(lambda: guard.cli.run("guard", exits=None).returncode == 0, what="a guard again")


def test_a_guard_that_knows_nothing_of_what_it_watches_is_said_to_do_nothing(
    guard: Guarded,
) -> None:
    guard.set("--budget-stop", "95")
    eventually(lambda: guard.status()["does_nothing"], what="no session, and so no budget")
    assert GUARD_DOES_NOTHING in guard.cli.run("guard", exits=1).stderr
    open_session(guard.cli)
    eventually(lambda: not guard.status()["does_nothing"], what="a budget")
    assert guard.cli.run("guard", exits=0)


def test_a_queue_behind_a_stranger_holds_no_guard_off_without_a_word(
    guard: Guarded, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    taken = "gpu 0 uuid GPU-0\nprocess 0 4194400 10737418240 compute\n"
    nvml.install(monkeypatch, tmp_path, taken)
    run = guard.cli.launch("--gpus", "1", "--", "true")
    guard.set("--no-run", "1s", countdown="0")
    eventually(lambda: any(run.id in text for text in guard.problems()), what="the run named")
    assert guard.cli.status(run)["state"] == "queued"
    assert guard.stage() is Stage.WATCHING and not guard.ended.exists()
    guard.cli.run("stop", run.id, "--wait")
    guard.reaches(Stage.ENDED)


def test_a_damaged_ledger_is_no_silence(guard: Guarded) -> None:
    guard.state.create().ledger.mkdir()
    guard.set("--no-run", "1s", countdown="0")
    eventually(lambda: any(unguarded("`no run`") in text for text in guard.problems()))
    assert guard.stage() is Stage.WATCHING and not guard.ended.exists()


# ── the truth about stopping ──────────────────────────────────────────────────────────────────────


def test_an_end_that_destroys_is_refused_until_the_results_are_fetched(guard: Guarded) -> None:
    open_session(guard.cli)
    run = guard.train()
    refused = guard.cli.run("fetched", run.id, exits=2).stderr
    assert f"{run.id} is {State.RUNNING}: {MAY_WRITE_RESULTS}" in refused
    words = (
        "--max-age",
        "1s",
        "--countdown",
        "0",
        "--destroys",
        "--end-command",
        f"echo end > {guard.ended}",
    )
    told = guard.cli.run("guard", "set", *words)
    assert "fresnel-tui fetched" in told.stderr
    guard.reaches(Stage.HOLDING)
    assert f"{run.id} {NOT_FETCHED}" in guard.status()["note"] and not guard.ended.exists()
    assert guard.cli.json("fetched")["unfetched"] == [run.id]
    done = guard.cli.run("fetched", run.id, "--to", "laptop:results")
    assert "fetched to laptop:results" in done.stderr
    guard.reaches(Stage.ENDED)
    assert lines(guard.ended) == ["end"]
    assert json.loads(run.fetched.read_text())["to"] == "laptop:results"


@pytest.mark.parametrize("way", ["prune", "delete", "empty"])
def test_a_removed_run_that_nobody_fetched_holds_until_it_is_given_up_by_name(
    guard: Guarded, way: str
) -> None:
    run = guard.train()
    guard.cli.run("stop", run.id, "--wait")
    guard.cli.left(run)
    removes = {"prune": ("prune", "--keep", "0"), "delete": ("delete", run.id)}
    done = guard.cli.run(*removes.get(way, ("delete", run.id, "--forever")))
    assert run.id in done.stderr and "--give-up" in done.stderr
    assert not run.path.exists()
    guard.set("--no-run", "1s", "--destroys", countdown="0")
    guard.reaches(Stage.HOLDING)
    assert guard.cli.json("fetched") == {"unfetched": [], "removed": [run.id]}
    assert run.id in guard.status()["note"] and not guard.ended.exists()
    guard.cli.run("fetched", "--give-up", "--all", exits=2)
    guard.cli.run("fetched", "--give-up", run.id)
    guard.reaches(Stage.ENDED)
    assert lines(guard.ended) == ["end"] and guard.cli.json("fetched")["removed"] == []


def test_setting_a_guard_says_what_its_end_saves(guard: Guarded) -> None:
    words = ("--price", "amd-cloud-mi300x", "--since", "now", "--anyway")
    guard.cli.run("session", "start", *words)
    told = guard.set("--max-age", "8h", countdown="10m")
    assert "a powered-off machine is still billed; destroy it" in told
    assert "age 8h00m → warning → 10m00s later" in told


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ([], "say what the guard should watch"),
        (["--max-age", "soon"], "--max-age: expected a length of time"),
        (["--max-age", "0"], "--max-age 0: expected more than nothing"),
        (["--idle", "20s"], "--idle 20s: expected at least 1m"),
        (["--budget-stop", "lots"], "--budget-stop lots: expected US dollars"),
        (["--budget-stop", "95%"], "a part of which budget?"),
        (["--max-age", "8h", "--destroys"], "--destroys goes with --end-command"),
        (["--max-age", "8h", "--webhook", "nowhere"], "--webhook ********: expected an address"),
    ],
)
def test_a_guard_that_makes_no_sense_is_refused(
    guard: Guarded, words: list[str], text: str
) -> None:
    assert text in guard.cli.run("guard", "set", *words, exits=2).stderr
    assert not (guard.state.guard / "guard.json").exists()
    assert guard.status() is None and NO_GUARD in guard.says()


def test_every_step_is_posted_once(guard: Guarded) -> None:
    posted: list[dict[str, Any]] = []

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            posted.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Hook)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        url = f"http://127.0.0.1:{server.server_address[1]}/hook"
        guard.set("--no-run", "0.2s", "--webhook", url, countdown="0.2s")
        guard.reaches(Stage.ENDED)
        eventually(lambda: len(posted) >= 4)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    assert sorted(one["step"] for one in posted) == ["end", "finish", "stop", "warn"]
    assert all(one["reason"].startswith(NO_RUN_FOR) and one["host"] for one in posted)
    assert all(one["reason"] in one["text"] for one in posted)
