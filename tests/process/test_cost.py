"""Money on the command line: sessions, shares, the ledger that outlives its runs, estimates learnt
from runs.
"""

import csv
import io
import json
import sys
import time
from decimal import Decimal

import pytest

from runners.cost.ledger import Ledger, check_ledger
from runners.host.clock import Moment
from runners.host.exit_status import read_exit_status
from runners.host.locks import is_held
from runners.lifecycle.launch.adopt import adopt_orphans
from tests.clouds import serving
from tests.command_text import (
    EARLIER_SESSION,
    NOT_ENTERED,
    PRESETS_ESTIMATE,
    RENTED_OUT,
    UNDER_BUDGET,
    cannot_be_read,
)
from tests.process.conftest import CommandLine, record
from tests.process.test_one_cost import ago, open_session, write_run
from tests.support import eventually

EIGHT = {"FRESNEL_GPUS": "sim:8xMI300X"}
REPORTS = """
import json, os, sys, time
def emit(**event):
    with open(os.environ["FRESNEL_RUN_DIR"] + "/events.jsonl", "a") as file:
        file.write(json.dumps(event) + chr(10))
now = time.time()
emit(time=now, type="start", epochs=4, steps=4)
for epoch in (1, 2, 3, 4):
    emit(time=now + (900 if epoch > 1 else 0) + epoch * 60, type="epoch", epoch=epoch, step=epoch)
"""


@pytest.fixture
def eight(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    """A command line on a machine with eight simulated MI300X."""
    for name, value in EIGHT.items():
        monkeypatch.setenv(name, value)
    return cli


def export(cli: CommandLine) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(cli.run("cost", "export", "--csv").stdout)))


def test_shares_and_idle_make_up_the_session(eight: CommandLine) -> None:
    eight.run(
        "session", "start", "--price", "amd-cloud-mi300x", "--since", "now", "--budget", "100"
    )
    first = eight.launch("--gpus", "2", "--", "sleep", "300")
    eight.run("launch", "--gpus", "1", "--wait", "--", "sleep", "0.2")
    found = eight.json("cost")
    assert (
        found["usd_per_hour"] == 15.92
        and found["budget_usd"] == 100
        and found["price_date"] == "2026-05-28"
    )
    assert "destroy it" in found["stopping"] and "simulated" in found["basis"]
    eight.run("stop", first.id, "--wait")
    eight.run("session", "end")
    session, *runs = sorted(export(eight), key=lambda row: row["kind"], reverse=True)
    assert session["kind"] == "session" and session["state"] == "ended" and len(runs) == 2
    assert abs(
        sum(Decimal(row["usd"]) for row in (*runs, {"usd": session["idle_usd"]}))
        - Decimal(session["usd"])
    ) < (Decimal("0.000005")), "six places each"
    assert {row["simulated"] for row in runs} == {"True"} and {row["gpu"] for row in runs} == {
        "AMD Instinct MI300X"
    }


def test_the_ledger_outlives_the_runs(cli: CommandLine) -> None:
    cli.run("session", "start", "--rate", "3.60", "--since", "now")
    run = cli.command("true", options=["--name", "short"])
    cli.left(run)
    cli.run("session", "end")
    began, finished = (Moment(*record(run)[key]) for key in ("began", "finished"))
    assert (
        began.boot
        and began.boot == finished.boot
        and (finished.boot_ns or 0) > (began.boot_ns or 0) > 0
    )
    before = export(cli)
    cli.run("prune", "--keep", "0")
    assert not run.path.exists() and export(cli) == before
    (row,) = [row for row in before if row["kind"] == "run"]
    assert (row["id"], row["name"], row["state"], row["usd_per_hour"]) == (
        *(run.id, "short", "done"),
        "3.60",
    )
    assert "command" in cli.json("cost")["presets"]


def test_a_run_that_the_ledger_lacks_is_entered_before_it_is_pruned(cli: CommandLine) -> None:
    run = cli.command("true", options=["--price", "3.60"])
    cli.left(run)
    before = export(cli)
    cli.state.ledger.unlink()
    cli.run("prune", "--keep", "0", "--dry-run")
    assert not cli.state.ledger.exists()
    cli.run("prune", "--keep", "0")
    assert export(cli) == before
    kept = cli.command("true", options=["--price", "3.60"])
    cli.left(kept)
    cli.state.ledger.unlink()
    cli.state.ledger.mkdir()
    refused = cli.run("prune", "--keep", "0").stderr
    assert kept.id in refused and NOT_ENTERED in refused
    assert cannot_be_read("ledger.jsonl") in cli.run("cost").stderr
    assert kept.path.exists(), "its money would be forgotten"


def test_a_line_that_the_disk_refused_is_entered_by_the_next_command(cli: CommandLine) -> None:
    cli.run("session", "start", "--rate", "3600", "--since", "now")
    hold = cli.folder / "hold"
    hold.touch()
    run = cli.command("sh", "-c", f"echo up; while [ -e {hold} ]; do sleep 0.05; done", ready="up")
    kept = cli.state.ledger.rename(cli.state.ledger.with_suffix(".kept"))
    cli.state.ledger.mkdir()  # nothing can be appended
    hold.unlink()
    cli.ended(run)
    cli.state.ledger.rmdir()
    kept.rename(cli.state.ledger)
    stray = cli.state.unlisted / "not a run"
    stray.touch()
    ledger = Ledger(cli.state, since=time.time() + 1e6)
    ledger.poll()
    assert run.id not in ledger.runs, "reading writes nothing"
    cli.run("list")
    ledger.poll()
    assert run.id in ledger.runs, "also where only the newest are read, however many came after it"
    assert list(cli.state.unlisted.iterdir()) == [stray], "once"


def test_a_line_that_was_lost_long_ago_is_entered_by_the_next_command(cli: CommandLine) -> None:
    state = cli.state.create()
    open_session(state, ago(1000), None)
    # One run shares its GPU with an early one, of which so many came after that no list is near it.
    early, late = "20261120-101500-a-0001", "20261120-111500-b-0001"
    write_run(state, early, ago(900), ago(100))
    for at in range(80):
        write_run(state, f"20261120-10{at // 60 + 20}{at % 60:02d}-x-0001", ago(990), ago(980))
    write_run(state, late, ago(900), ago(100))
    cli.run("cost")
    shared = 400 * 2 / 3600  # alone it would be twice that
    assert cli.json("status", late)["cost_usd"] == pytest.approx(shared, abs=0.01)
    kept = [line for line in state.ledger.read_bytes().splitlines(True) if b"-a-0001" not in line]
    for lost in ("cut", "another file", "boot"):
        if lost == "another file":
            state.ledger.unlink()
        state.ledger.write_bytes(b"".join(kept))
        if lost == "boot":
            state.ledger_checked.write_text(f"another-boot {state.ledger.stat().st_ino} 0")
        found = cli.json("status", late)["cost_usd"]
        assert found == pytest.approx(shared, abs=0.01), lost
        assert early.encode() in state.ledger.read_bytes()
        assert state.is_ledger_checked()
    # Nothing is lost: nothing is read or written for it.
    before = state.ledger_checked.stat()
    cli.run("list")
    assert state.ledger_checked.stat() == before


def test_many_lost_lines_wait_for_the_disk_once(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = cli.state.create()
    for at in range(20):
        write_run(state, f"20261120-1015{at:02d}-x-0001", ago(990), ago(980))
    synced: list[int] = []
    monkeypatch.setattr("runners.host.files.os.fsync", synced.append)
    check_ledger(state)
    assert len(synced) == 1 and len(state.ledger.read_bytes().splitlines()) == 20


def test_a_run_that_ended_while_nobody_watched_pays_until_its_last_sign_of_life(
    cli: CommandLine,
) -> None:
    run = cli.command("cat", str(gate := cli.folder / "gate"), options=["--price", "3.60"])
    cli.ended(run)  # without the gate it fails at once
    gate.touch()
    run = cli.command(
        "sh",
        "-c",
        f"echo on; while [ -e {gate} ]; do sleep 0.01; done",
        options=["--price", "3.60"],
    )
    cli.kill_supervisor(run)
    gate.unlink()
    eventually(run.exit.exists)
    exited = read_exit_status(run.exit)
    assert exited is not None and exited.moment is not None
    ended = exited.moment
    eventually(lambda: time.time() > ended.wall + 1)
    adopt_orphans(cli.state)
    eventually(lambda: record(run).get("ended"))
    eventually(lambda: not is_held(run.supervisor_lock))
    seen, began = Moment(*record(run)["seen"]), Moment(*record(run)["began"])
    # By the boot's clock too, which nobody sets: the waiter noted both with the exit status.
    assert seen == ended and seen.boot == began.boot
    assert seen.boot_ns is not None and began.boot_ns is not None and seen.boot_ns > began.boot_ns
    assert began.wall <= seen.wall and seen.wall + 1 < record(run)["ended"]
    ledger = Ledger(cli.state)
    ledger.poll()
    line = ledger.runs[run.id]
    assert line.seen == seen and line.state == "done"
    adopt_orphans(cli.state)
    assert sum(run.id in row["id"] for row in export(cli)) == 1


def test_a_session_begins_where_the_one_before_it_ended(cli: CommandLine) -> None:
    cli.run("session", "start", "--rate", "2", "--budget", "100")
    changed = cli.json("session", "budget", "--budget", "150")
    assert changed["budget_usd"] == 150
    assert f"{UNDER_BUDGET} of $150.00" in cli.run("session", "end").stderr
    cli.run("session", "start", "--rate", "3")
    first, second = cli.json("cost")["sessions"]
    assert cli.run("cost").stdout.count(", open") == 1
    assert second["started"] == first["ended"], "since boot, but no minute is paid twice"
    cli.run("session", "end")
    refused = cli.run("session", "start", "--rate", "3", "--since", "2020-01-01T00:00", exits=2)
    assert EARLIER_SESSION in refused.stderr and "--since 20" in refused.stderr
    assert cli.run("session", "budget", "--budget", "9", exits=3).stderr.startswith(
        "fresnel-tui: no session is open"
    )
    assert len([row for row in export(cli) if row["kind"] == "session"]) == 2


def test_a_damaged_session_is_said_loudly_and_counts_nothing(cli: CommandLine) -> None:
    cli.run("session", "start", "--rate", "2")
    cli.state.session.write_text("{")
    done = cli.run("cost")
    assert cannot_be_read("session.json") in done.stderr
    assert cli.json("cost")["session_usd"] is None


def test_a_machine_that_its_cloud_names_needs_no_price(
    eight: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = eight.run("session", "start", "--budget", "100", exits=2)
    assert "amd-cloud-mi300x, tensorwave-mi300x" in refused.stderr, "those that may be it are named"
    with serving() as cloud:
        cloud.is_digitalocean(2756294, "atl1")
        monkeypatch.setenv("FRESNEL_METADATA", cloud.url)
        done = eight.run("session", "start", "--budget", "100")
    assert f"price amd-cloud-mi300x: DigitalOcean {RENTED_OUT}" in done.stderr
    found = eight.json("cost")
    assert (found["provider"], found["instance"], found["usd_per_hour"]) == (
        "DigitalOcean",
        "2756294",
        15.92,
    )


def test_an_estimate_is_learnt_from_what_ran(eight: CommandLine) -> None:
    cli = eight
    (cli.folder / "train.py").write_text(REPORTS)
    preset = {
        "launcher": "python",
        "interpreter": sys.executable,
        "script": "train.py",
        "working_directory": str(cli.folder),
        "parameters": {"epochs": 4, "seed": 0},
        "gpus": 1,
        "price": 3.6,
        "estimate": {"time": "1m"},
    }
    path = cli.folder / "learner.yaml"
    path.write_text(json.dumps(preset))
    before = cli.run("plan", str(path)).stdout
    assert f"1m00s, would cost $0.06 {PRESETS_ESTIMATE}" in before
    launched = cli.run("launch", str(path))
    assert f"estimate: 1m00s, would cost $0.06 {PRESETS_ESTIMATE}" in launched.stderr
    cli.ended(cli.state.run(launched.stdout.strip()))
    after = cli.json("plan", str(path), "--set", "epochs=11")["forecast"]
    assert (
        after["basis"] == "from 1 earlier run on AMD Instinct MI300X (simulated)"
        and after["epoch_s"] == 60
    )
    assert 660 <= after["seconds"] < 700, (
        "one minute for the first, the pause not in it, and ten for the others"
    )
    table = cli.json("cost", "plan", f"{path}:3", "--budget", "1")
    assert table["lines"][0]["count"] == 3 and table["total_usd"] == table["lines"][0]["usd"] > 0.36
    assert table["left_usd"] == pytest.approx(1 - table["total_usd"])
    swept = cli.run("launch", str(path), "--set", "seed=1,2")
    assert swept.stderr.count("estimate: ") == 1
