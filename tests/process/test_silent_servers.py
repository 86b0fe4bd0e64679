"""A file server that does not answer: what lies on it is left out, and said; nothing waits for it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from runners.host import mounts
from runners.host.bounded_glob import SearchBudget, acting_budget, bounded_glob
from runners.host.files import ABSENT, absence, is_folder, is_there, modified_at
from runners.host.mounts import real_path
from tests.process.conftest import CommandLine
from tests.silence import silent_folder
from tests.support import eventually


@pytest.fixture
def silent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that nothing is heard of."""
    folder = tmp_path / "server"
    folder.mkdir()
    with silent_folder(folder):
        monkeypatch.setattr(mounts, "_MOUNTS", type(mounts._MOUNTS)())
        yield folder


def test_looks_at_it_end(silent: Path) -> None:
    """Also by a link on the way, and once it is known, at once."""
    link = silent.parent / "data"
    link.symlink_to(silent / "below")
    assert not is_there(silent / "a") and not is_folder(link)
    assert str(silent) in absence(link / "x") and absence(silent.parent / "x") == ABSENT
    assert real_path(f"{silent}/a/../b") == f"{silent}/b"
    budget = SearchBudget()
    assert list(bounded_glob(f"{silent.parent}/**/*.pt", budget)) == []
    assert str(silent) in budget.cut
    budget = SearchBudget()
    (silent.parent / "a.pt").touch()
    assert list(bounded_glob(f"{silent}/*.pt", budget)) == []
    assert list(bounded_glob(f"{silent.parent}/*.pt", budget)) == [f"{silent.parent}/a.pt"]
    assert str(silent) in budget.cut and not budget.is_spent
    assert acting_budget().may_enter(str(silent)), "who restarts a run waits for its checkpoint"


def test_a_run_that_writes_there_takes_nobody_down(
    cli: CommandLine, silent: Path, tmp_path: Path
) -> None:
    """Commands end, and say what they could not look at; the watcher goes on watching."""
    says = f"echo saved {silent}/a.pt; echo logs in {silent}/logs; echo loss 0.5"
    run = cli.command("sh", "-c", f"{says}; exec sleep 600", ready="loss 0.5")
    told = f"checkpoints: the file server of {silent} does not answer"
    assert [row["problem"] for row in cli.json("list")] == [told]
    assert cli.json("status", run.id)["problem"] == told
    for command in ("metrics", "pictures", "cost"):
        cli.run(command, *([] if command == "cost" else [run.id]))
    cli.run("report", run.id, "--output", str(tmp_path / "report.html"))
    before = eventually(lambda: modified_at(run.health))
    eventually(lambda: modified_at(run.health) > before, what="its watcher goes on")
    cli.run("stop", run.id, "--wait")
    assert cli.json("status", run.id)["state"] == "stopped"
