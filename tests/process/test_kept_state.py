"""State folders of other versions: an older one is read whole, of a newer one what is understood.

`tests/kept/state-0.2` was written by version 0.2.0 on a host named gpu-box: a session at $1.99 per
hour and GPU, with a run that reported metrics, one that failed, one that was killed, and a sweep of
two. `state-0.3` was written by `tests/keep_state.py`: beside such runs one that was restarted, one
that its limit ended, one that lived and one that waited for it when the machine was lost. They are
never written again: what a later version cannot read of them, it breaks.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from runners.state.layout import StateDirectory
from tests.process.conftest import CommandLine
from tests.support import REPOSITORY, eventually

KEPT = REPOSITORY / "tests" / "kept"
RUNS = {
    "first": ("done", "completed"),
    "broken": ("failed", "failed"),
    "long": ("stopped", "stopped"),
    "sweep-lr1": ("done", "completed"),
    "sweep-lr2": ("done", "completed"),
}
RUNS_0_3 = {
    "first": ("done", "completed"),
    "broken": ("failed", "failed"),
    "flaky": ("done", "completed"),
    "capped": ("stopped", "limit"),
    "again": ("done", "completed"),
    "sweep-lr1e-4": ("done", "completed"),
    "sweep-lr3e-4": ("done", "completed"),
    "alive": ("lost", "rebooted"),
    "next": ("failed", "refused"),
}
BEST = {"loss": 0.3, "val_psnr": 26.5}


@pytest.fixture
def version(request: pytest.FixtureRequest) -> str:
    """Which version's folder: what `parametrize` says, or 0.2."""
    return str(getattr(request, "param", "0.2"))


@pytest.fixture
def kept(
    cli: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> CommandLine:
    """The command line on a copy of the folder, on the host and at the place that wrote it."""
    shutil.copytree(KEPT / f"state-{version}", tmp_path / "kept")
    for plan in (tmp_path / "kept").glob("runs/*/plan.json"):
        plan.write_text(plan.read_text().replace("/srv/anna/state", str(tmp_path / "kept")))
    monkeypatch.setenv("FRESNEL_STATE_DIR", str(tmp_path / "kept"))
    monkeypatch.setenv("FRESNEL_HOST", "gpu-box")
    monkeypatch.setenv("FRESNEL_GPUS", "sim:2xH100")
    cli.state = StateDirectory()
    return cli


def rows(cli: CommandLine) -> dict[str, Any]:
    return {row["name"]: row for row in cli.json("list", "--all")}


def edit(file: Path, **changes: object) -> None:
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))


def test_what_version_0_2_wrote_is_read_whole(kept: CommandLine) -> None:
    found = rows(kept)
    endings = {name: (row["state"], row["ending"]["cause"]) for name, row in found.items()}
    assert endings == RUNS
    first = kept.json("status", "first")
    assert (first["tags"], first["starred"], first["note"]) == (["good"], True, "kept for tests")
    assert first["checkpoint"]["path"].endswith("checkpoints/last.bin")
    assert {name: best["value"] for name, best in first["best"].items()} == BEST
    assert found["sweep-lr1"]["group"] == found["sweep-lr2"]["group"] != ""
    assert found["broken"]["exit_code"] == 3
    assert "epoch 6/6 loss 0.3" in kept.run("logs", "first").stdout
    assert {metric["name"] for metric in kept.json("metrics", "first")["metrics"]} >= {"val_psnr"}
    costs = {run["id"].split("-")[2]: run["cost_usd"] for run in kept.json("cost")["runs"]}
    assert costs["long"] == 0.000951 and kept.json("cost")["session_usd"] is None


@pytest.mark.parametrize("version", ["0.3"], indirect=True)
def test_what_version_0_3_left_on_a_lost_machine_is_read_whole(kept: CommandLine) -> None:
    """The run that lived is lost with the machine, and what waited for it is told why it is not run."""
    rows(kept)  # Whoever looks first takes the queue up.
    found = eventually(lambda: all(row["ending"] for row in rows(kept).values()) and rows(kept))
    endings = {name: (row["state"], row["ending"]["cause"]) for name, row in found.items()}
    assert endings == RUNS_0_3
    assert (found["flaky"]["attempt"], found["broken"]["exit_code"]) == (2, 3)
    assert found["capped"]["ending"]["seconds"] == 1.0 and found["next"]["priority"] == 5
    assert found["sweep-lr1e-4"]["group"] == found["sweep-lr3e-4"]["group"] != ""
    first = kept.json("status", "first")
    assert (first["tags"], first["starred"], first["note"]) == (["good"], True, "kept")
    assert {name: best["value"] for name, best in first["best"].items()} == BEST
    cost = kept.json("cost")
    assert cost["budget_usd"] == 100 and cost["session_usd"] > 0
    assert "(not started)" in kept.run("status", "next").stdout


def test_it_goes_on_with_it(kept: CommandLine) -> None:
    """Runs beside it, a session after it, labels and deletions in it."""
    kept.run("session", "start", "--price", "2")
    run = kept.launch("--gpus", "1", "--", "true")
    kept.run("wait", run.id)
    kept.run("note", "broken", "seen")
    kept.run("delete", "long")
    kept.run("session", "end")
    found = rows(kept)
    assert found["broken"]["note"] == "seen" and found["true"]["state"] == "done"
    assert "long" not in found


def test_a_newer_version_s_words_cost_at_most_their_run(kept: CommandLine) -> None:
    """Keys that are not known are passed over; a state that is not known is said to be unreadable."""
    folders = {row["name"]: kept.state.run(row["id"]).path for row in kept.json("list", "--all")}
    for name in ("plan.json", "state.json", "spec.json", "labels.json"):
        edit(folders["first"] / name, invented="by a later version")
    with (folders["first"] / "events.jsonl").open("a") as events:
        events.write('{"type": "hologram", "time": 1795440700.1, "image": "x"}\n')
    edit(folders["broken"] / "state.json", state="hibernating")
    edit(folders["sweep-lr1"] / "state.json", ending={"cause": "abducted"})
    with kept.state.ledger.open("a") as ledger:
        ledger.write('{"type": "voucher", "usd": "5"}\n')
    found = rows(kept)
    assert set(found) == set(RUNS)
    assert {name: best["value"] for name, best in found["first"]["best"].items()} == BEST
    assert found["long"]["state"] == "stopped" and found["sweep-lr2"]["state"] == "done"
    assert "state.json" in found["broken"]["reason"]
    assert found["sweep-lr1"]["ending"] is None
    kept.json("cost")
