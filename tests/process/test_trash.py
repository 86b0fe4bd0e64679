"""`delete` and `undelete`: what goes comes back whole, nothing live goes, money stays counted."""

import os
from pathlib import Path

from runners.cost.ledger import Ledger
from runners.housekeeping import tend
from runners.lifecycle.control.trash import KEPT_S, delete, list_deleted
from runners.state.layout import RunDirectory
from runners.state.runs import find_run, list_run_ids, read_run
from tests.command_text import is_waited_for, no_deleted_run
from tests.process.conftest import CommandLine
from tests.support import eventually


def done(cli: CommandLine, name: str) -> RunDirectory:
    run = cli.command("echo", "text", options=("--name", name))
    cli.left(run)
    return run


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def test_a_deleted_run_is_gone_and_comes_back_whole(cli: CommandLine) -> None:
    first, second = done(cli, "first"), done(cli, "second")
    eventually(lambda: (first.path / "final.json").exists(), what="the final values kept")
    before = contents(first.path)
    gone = cli.run("delete", "first")
    assert gone.stdout.strip() == first.id and f"undelete {first.id}" in gone.stderr
    assert list_run_ids(cli.state) == [second.id] and not first.path.exists()
    assert cli.run("status", "first", exits=3).stdout == ""
    listed = cli.json("undelete")
    assert [(run["id"], run["name"], run["state"]) for run in listed] == [
        (first.id, "first", "done")
    ]
    assert first.id in cli.run("undelete").stdout
    ledger = Ledger(cli.state)
    ledger.poll()
    assert set(ledger.runs) == {first.id, second.id}
    assert no_deleted_run("third") in cli.run("undelete", "third", exits=3).stderr
    assert cli.run("undelete", "first").stdout.strip() == first.id
    assert contents(first.path) == before
    assert find_run(cli.state, "first").id == first.id and list_deleted(cli.state) == []


def test_what_is_live_or_needed_stays(cli: CommandLine) -> None:
    live, ended = cli.command("sleep", "60"), done(cli, "ended")
    found = cli.json("delete", live.id, ended.id, exits=1)
    assert found["deleted"] == [ended.id]
    assert found["kept"] == [{"run": live.id, "reason": "is running"}]
    assert live.path.is_dir() and cli.status(live)["state"] == "running"
    cli.run("drain", "on")
    other = done_while_drained = cli.json("undelete", "last")["restored"][0]
    waiting = cli.launch("--after", other, "--", "true")
    assert is_waited_for(waiting.id) in cli.run("delete", other, exits=1).stderr
    cli.run("cancel", waiting.id)
    cli.run("delete", done_while_drained)
    cli.run("stop", live.id, "--force", "--wait")


def test_forever_and_empty_free_the_disk(cli: CommandLine) -> None:
    first, second = done(cli, "first"), done(cli, "second")
    assert cli.json("delete", "first", "--forever")["forever"]
    assert list(cli.state.trash.iterdir()) == [] and list_deleted(cli.state) == []
    cli.run("delete", "second")
    assert cli.json("undelete", "--empty") == {"removed": [second.id]}
    assert list(cli.state.trash.iterdir()) == []
    assert no_deleted_run(first.id) in cli.run("undelete", first.id, exits=3).stderr


def test_the_trash_is_emptied_of_what_is_old(cli: CommandLine) -> None:
    old, new = done(cli, "old"), done(cli, "new")

    def both_deleted() -> bool:
        # Of one that has just ended a process may still be there for a moment: then it stays.
        left = [one for one in (old, new) if one.path.exists()]
        delete(cli.state, [read_run(cli.state, one.id) for one in left])
        return len(list_deleted(cli.state)) == 2

    eventually(both_deleted, what="both in the trash")
    mark = cli.state.trash / old.id / "deleted.json"
    deleted = list_deleted(cli.state)[0].deleted
    mark.write_text(f'{{"by": "anna", "time": {deleted - KEPT_S - 1}}}')
    tend(cli.state)
    eventually(lambda: [run.id for run in list_deleted(cli.state)] == [new.id], what="the old gone")
    eventually(lambda: os.listdir(cli.state.trash) == [new.id], what="its files gone")  # noqa: PTH208
