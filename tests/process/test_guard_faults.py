"""A guard in bad company: a full disk, an end command that fails, a webhook that does not listen,
results of another session, another host's runs, a queue that never starts.
"""

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import msgspec
import pytest

from runners.guard.claims import END, marker_of, read_claim
from runners.guard.daemon import Guard
from runners.guard.keeper import guard_lock
from runners.guard.observe import GuardObserver
from runners.guard.reserved import SLOT, read_slots, write_reserved
from runners.guard.rule import (
    GuardState,
    Stage,
    lift,
    new_rule,
    read_guard,
    read_guard_state,
    read_rule,
    set_rule,
    write_guard_state,
    write_rule,
)
from runners.host.clock import Moment, moment_now
from runners.host.locks import is_held
from runners.host.webhook import post_json
from runners.model.run import Run
from runners.state.layout import StateDirectory
from tests.command_text import GUARD_ACTS_ALL_THE_SAME, NOT_GUARDED, WEBHOOK_IS_DEAF, command_failed
from tests.process.conftest import CommandLine, record
from tests.support import eventually
from tui.views.money.guard_text import too_late_text


@pytest.fixture
def guarded(cli: CommandLine) -> Iterator[CommandLine]:
    """A command line whose guard is gone when the test ends."""
    yield cli
    lift(cli.state)
    eventually(lambda: not is_held(guard_lock(cli.state)), what="no guard left over")


def stage(state: StateDirectory) -> Stage | None:
    view = read_guard(state)
    return None if view.progress is None else view.progress.stage


def says(cli: CommandLine) -> str:
    done = cli.run("guard", exits=None)
    return done.stdout + done.stderr


# ── a full disk ───────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def small_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A file system of 4 MiB of its own, with the state folder on it."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(disk)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting a small file system takes root")
    monkeypatch.setenv("FRESNEL_STATE_DIR", str(disk / "state"))
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=False)


def fill(disk: Path) -> None:
    """Take every last byte."""
    with (disk / "ballast").open("ab", buffering=0) as file:
        for size in (65536, 4096, 512, 1):
            try:
                while file.write(b"x" * size) == size:
                    pass
            except OSError:
                continue
    assert os.statvfs(disk).f_bavail == 0


def test_on_a_full_disk_it_says_so_and_acts_all_the_same(
    small_disk: Path, guarded: CommandLine, tmp_path: Path
) -> None:
    cli, ended, warned = guarded, tmp_path / "ended", tmp_path / "warned"
    run = cli.command("sh", "-c", "echo ready; sleep 600", ready="ready")
    cli.run("session", "start", "--rate", "1", "--since", "now")
    cli.run(
        "guard", "set", "--max-age", "1h", "--countdown", "2s",
        "--warn-command", f"echo warned >> {warned}", "--end-command", f"echo end >> {ended}",
    )  # fmt: skip
    fill(small_disk)
    eventually(
        lambda: any(GUARD_ACTS_ALL_THE_SAME in text for text in cli.json("guard")["problems"]),
        what="a word on the full disk",
    )
    checks = {one["name"]: one for one in cli.json("doctor", exits=None)}
    assert checks["guard"]["verdict"] == "WARN" and "is full" in checks["guard"]["message"]
    assert any("is full" in problem for problem in cli.json("cost")["guard"]["problems"])
    # Now it is time: an hour would be long to wait.
    rule = read_rule(cli.state)
    assert rule is not None
    write_rule(cli.state, msgspec.structs.replace(rule, max_age_s=0.1))
    eventually(lambda: stage(cli.state) is Stage.ENDED, what="the guard at its end")
    eventually(warned.exists, what="the warning, which is a process of its own")
    assert ended.read_text() == "end\n" and warned.read_text() == "warned\n"
    assert not (run.path / "live").exists() and "has acted" in says(cli)
    (small_disk / "ballast").unlink()
    eventually(lambda: "is full" not in says(cli), what="room again")
    assert ended.read_text() == "end\n", "once"


def test_reserved_slots_survive_a_torn_write_and_a_disk_without_room(tmp_path: Path) -> None:
    path = tmp_path / "progress.json"
    for turn in range(1, 6):
        write_reserved(path, {"turn": turn})
        assert path.stat().st_size == 2 * SLOT and read_slots(path)[-1]["value"] == {"turn": turn}
    content = bytearray(path.read_bytes())
    content[0:40] = b"\0" * 40  # the newest is torn: turn 5 stands in the first slot
    path.write_bytes(content)
    assert read_slots(path)[-1]["value"] == {"turn": 4}
    write_reserved(path, {"turn": 6})
    assert read_slots(path)[-1]["value"] == {"turn": 6}


# ── commands ──────────────────────────────────────────────────────────────────────────────────────


def test_an_end_command_that_fails_is_tried_again_and_stays_an_alarm(guarded: CommandLine) -> None:
    cli, tries = guarded, guarded.folder / "tries"
    end = f"echo try >> {tries}; test $(wc -l < {tries}) -ge 2"
    cli.run("guard", "set", "--no-run", "0.2s", "--countdown", "0", "--end-command", end)

    def failed() -> GuardState | None:
        found = read_guard_state(cli.state)
        return found if found is not None and found.failed is not None else None

    eventually(failed, what="a first try that failed")
    # The pause is half a minute: the guard sleeps through it, however long it is looked at.
    guard = int(guard_lock(cli.state).read_text())
    os.kill(guard, signal.SIGSTOP)
    view, told = read_guard(cli.state), says(cli)
    assert stage(cli.state) is Stage.ENDING and view.is_urgent and "has acted" not in told
    assert f"{command_failed('end', 1)}; try 2 in" in told
    # It is over as soon as it is said to have begun long ago.
    lift(cli.state)
    os.kill(guard, signal.SIGCONT)
    eventually(lambda: not is_held(guard_lock(cli.state)))
    progress = view.progress
    assert progress is not None and progress.failed is not None and view.rule is not None
    failed = progress.failed._replace(boot_ns=(progress.failed.boot_ns or 0) - 60 * 10**9)
    write_guard_state(cli.state, msgspec.structs.replace(progress, failed=failed))
    (cli.state.guard / "guard.json").write_bytes(msgspec.json.encode(view.rule))
    eventually(lambda: cli.run("guard") and stage(cli.state) is Stage.ENDED)
    assert tries.read_text() == "try\ntry\n" and "exit code 0" in says(cli)


def test_the_exit_code_of_a_warn_command_is_said(guarded: CommandLine) -> None:
    words = ("--max-age", "1h", "--countdown", "1h", "--warn-command", "exit 7")
    guarded.run("guard", "set", *words)
    eventually(lambda: command_failed("warn", 7) in says(guarded))


def test_while_the_end_command_runs_it_is_too_late_and_that_is_said(guarded: CommandLine) -> None:
    words = ("--no-run", "0.2s", "--countdown", "0", "--end-command", "sleep 600")
    guarded.run("guard", "set", *words)
    eventually(lambda: stage(guarded.state) is Stage.ENDING)
    rule = read_rule(guarded.state)
    assert rule is not None
    marker = marker_of(guarded.state, rule.id, END)
    # Its lock is held a moment before its pid stands in it.
    pid = eventually(lambda: read_claim(marker).alive and read_claim(marker).pid)
    late = too_late_text(guarded.state)
    assert str(pid) in late
    for words in (("postpone", "1h"), ("off",)):
        told = guarded.run("guard", *words).stderr
        assert late in told
        assert "postponed until" not in told
        if words != ("off",):
            assert late in guarded.run("launch", "--gpus", "0", "--", "true").stderr
    os.killpg(pid, 9)


def test_what_runs_after_it_has_acted_is_said_to_be_unguarded(guarded: CommandLine) -> None:
    guarded.run("guard", "set", "--no-run", "0.2s", "--countdown", "0")
    eventually(lambda: stage(guarded.state) is Stage.ENDED)
    assert not guarded.json("guard", exits=0)["does_nothing"], "it has done what it was set for"
    done = guarded.run("launch", "--gpus", "0", "--", "sleep", "600")
    assert NOT_GUARDED in done.stderr and "fresnel-tui guard set" in done.stderr
    assert NOT_GUARDED in guarded.run("status", done.stdout.strip()).stderr
    assert read_guard(guarded.state).is_urgent
    assert guarded.json("guard", exits=1)["does_nothing"]


@pytest.mark.parametrize("content", [b"\0" * 512, b'{"attempt":1,"pid', b"", None])
def test_a_damaged_marker_starts_no_end_command_a_second_time(
    tmp_path: Path, content: bytes | None
) -> None:
    state, ended = StateDirectory(tmp_path / "state").create(), tmp_path / "ended"
    rule = new_rule(max_age_s=1e9, countdown_s=0.0, end_command=f"echo end >> {ended}")
    set_rule(state, rule)
    marker = marker_of(state, rule.id, END)
    assert not read_claim(marker).damaged, "blank: it has not begun"
    if content is None:
        marker.unlink()
    else:
        marker.write_bytes(content)
    begun = GuardState(rule.id, Stage.ENDING, moment_now(), "age", cycle=1, attempt=1)
    write_guard_state(state, begun)
    guard = Guard(state)
    guard.step(rule)
    for child in guard.children:
        child.wait()
    assert not ended.exists()
    assert any("damaged" in problem for problem in read_guard(state).problems)
    # After a power cut, which is how a marker is torn: from the warning on, and then the end.
    earlier = Moment(moment_now().wall - 60, "the boot before", 10**15)
    write_guard_state(state, msgspec.structs.replace(begun, since=earlier))
    rule = msgspec.structs.replace(rule, max_age_s=0.1)
    warned = guard.step(rule)
    assert (warned.stage, warned.cycle) == (Stage.WARNED, 2)
    eventually(lambda: guard.step(rule).stage is Stage.ENDED, what="its end")
    assert ended.read_text() == "end\n"


@pytest.mark.parametrize(
    ("written", "step"),
    [
        (GuardState("", Stage.ENDED, cycle=1, note="every run has ended"), "finish"),
        (GuardState("", Stage.WATCHING, cycle=1, note="its reason is gone"), "cancel"),
        (GuardState("", Stage.ENDING, cycle=1, attempt=1, note="exit code 1"), "failed"),
    ],
)
def test_what_a_guard_killed_before_it_spoke_had_to_say_the_next_one_says_once(
    tmp_path: Path, written: GuardState, step: str
) -> None:
    state = StateDirectory(tmp_path / "state").create()
    rule = new_rule(no_run_s=3600.0, countdown_s=60.0, end_command="true")
    set_rule(state, rule)
    now = moment_now()
    failed = now if step == "failed" else None
    write_guard_state(
        state, msgspec.structs.replace(written, rule=rule.id, since=now, failed=failed)
    )
    for _ in range(2):
        guard = Guard(state)
        guard.step(rule)
        guard.step(rule)
    told = [json.loads(line) for line in (state.guard / "guard.jsonl").read_text().splitlines()]
    assert [line["step"] for line in told if line["type"] == "said"] == [step]
    assert written.note in next(line["text"] for line in told if line["type"] == "said")


def test_an_error_that_nobody_foresaw_ends_no_guard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = StateDirectory(tmp_path / "state").create()
    set_rule(state, new_rule(no_run_s=0.2, countdown_s=0.0))
    usual, failed = GuardObserver.live_runs, list[int]()

    def live_runs(observer: GuardObserver) -> list[Run]:
        if len(failed) < 2:
            failed.append(1)
            raise ZeroDivisionError("odd")
        view = read_guard(state)
        if view.progress is not None and view.progress.stage is Stage.ENDED:
            lift(state)
        return usual(observer)

    monkeypatch.setattr(GuardObserver, "live_runs", live_runs)
    guard = Guard(state)
    seen = list[tuple[str, ...]]()
    monkeypatch.setattr(time, "sleep", lambda _: seen.append(read_guard(state).problems))
    while read_rule(state) is not None:
        guard.run()
    assert any("odd" in problem for problem in seen[0])
    assert "finish" in (state.guard / "guard.jsonl").read_text()


# ── results, hosts, queues ────────────────────────────────────────────────────────────────────────


def test_results_of_an_earlier_session_and_of_a_wrong_clock_are_protected(
    guarded: CommandLine,
) -> None:
    cli = guarded
    cli.run("session", "start", "--rate", "1", "--since", "now")
    run = cli.command("true")
    cli.ended(run)
    cli.run("session", "end")
    cli.run("session", "start", "--rate", "2", "--since", "now")
    session = json.loads(cli.state.session.read_bytes())
    session["started"] += 7200  # opened while the clock was two hours fast
    cli.state.session.write_text(json.dumps(session))
    assert cli.json("fetched")["unfetched"] == [run.id]
    ended = cli.folder / "ended"
    words = ("--no-run", "0.2s", "--countdown", "0", "--destroys", "--end-command")
    cli.run("guard", "set", *words, f"echo end > {ended}")
    eventually(lambda: stage(cli.state) is Stage.HOLDING)
    assert not ended.exists()
    cli.run("fetched", run.id)
    eventually(ended.exists)


def test_no_run_looks_at_this_host_and_past_a_queue_that_cannot_start(
    guarded: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli = guarded
    run = cli.command("true")
    cli.ended(run)
    (line,) = cli.state.ledger.read_text().splitlines()
    elsewhere = {**json.loads(line), "host": "elsewhere"}

    def another_ends() -> None:
        now = time.time()
        elsewhere.update(run=f"x-{now}", finished=[now, "boot", None])
        with cli.state.ledger.open("a") as file:
            file.write(json.dumps(elsewhere) + "\n")

    cli.run("drain", "on")
    waiting = cli.launch("--gpus", "0", "--", "sleep", "600")
    assert record(waiting).get("state") in (None, "queued", "starting")
    cli.run("guard", "set", "--no-run", "3s", "--countdown", "1h")
    eventually(lambda: another_ends() or stage(cli.state) is Stage.WARNED, what="a warning")


# ── webhooks ──────────────────────────────────────────────────────────────────────────────────────


class Hook:
    """A webhook that answers as it is told, one answer after the other."""

    def __init__(self, *answers: int) -> None:
        self.answers = list(answers)
        self.posted: list[dict[str, Any]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                content = self.rfile.read(int(self.headers["Content-Length"]))
                outer.posted.append(json.loads(content))
                code = outer.answers.pop(0) if len(outer.answers) > 1 else outer.answers[0]
                self.send_response(code)
                if code == 302:
                    self.send_header("Location", f"{outer.url}/elsewhere")
                self.end_headers()

            def do_GET(self) -> None:
                outer.posted.append({"method": "GET"})
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()


@pytest.mark.parametrize(
    ("answers", "taken", "tries", "words"),
    [
        ((204,), True, 1, "HTTP 204"),
        ((500, 503, 200), True, 3, "HTTP 200"),
        ((500,), False, 4, "HTTP 500"),
        ((403,), False, 1, "HTTP 403"),
        ((302,), False, 1, "not followed"),
    ],
)
def test_a_webhook_is_tried_again_and_a_redirect_is_no_success(
    answers: tuple[int, ...], taken: bool, tries: int, words: str
) -> None:
    hook = Hook(*answers)
    done = post_json(hook.url, {"text": "x"}, pauses=(0.0, 0.0, 0.0))
    hook.server.shutdown()
    assert (done.taken, done.tries) == (taken, tries) and words in done.answer
    assert len(hook.posted) == tries and {"method": "GET"} not in hook.posted


def test_a_deaf_webhook_is_a_problem_of_the_guard(guarded: CommandLine) -> None:
    hook = Hook(403)
    words = ("--no-run", "0.2s", "--countdown", "1h", "--webhook", hook.url)
    guarded.run("guard", "set", *words)
    eventually(lambda: f"{WEBHOOK_IS_DEAF}: HTTP 403" in says(guarded))
    hook.server.shutdown()
    assert {"kind", "name", "host", "message", "text", "content", "time"} <= hook.posted[0].keys()


def test_a_message_that_a_killed_guard_has_claimed_is_told_by_the_next(
    guarded: CommandLine,
) -> None:
    hook = Hook(200)
    rule = new_rule(max_age_s=1e6, webhook=hook.url)
    set_rule(guarded.state, rule)
    claim = guarded.state.guard / rule.id / "said end-1 1"
    claim.write_text(json.dumps({"kind": "guard", "text": "the end"}))
    guarded.run("guard")
    eventually(lambda: [one["text"] for one in hook.posted] == ["the end"])
    eventually(claim.with_name(claim.name + " told").exists)
    hook.server.shutdown()
    assert read_guard_state(guarded.state) is not None
