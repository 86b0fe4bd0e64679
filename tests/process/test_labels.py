"""What people write on runs, and what they do to the queue, by the headless commands."""

import re
import subprocess
from pathlib import Path

import pytest

from runners.host.identity import user_name
from runners.lifecycle.control.labels import rename, star, tag, untag
from runners.lifecycle.control.prune import Criteria, prune
from runners.model.endings import EndingCause, ending_text
from runners.model.errors import WrongInput
from runners.model.states import State
from runners.state.labels_file import labels_stamp
from runners.state.layout import RunDirectory
from runners.state.runs import find_run, read_run
from tests.command_text import NOT_QUEUED, NOTE_UNCHANGED, TO_WHAT
from tests.process.conftest import COMMAND, CommandLine
from tests.support import eventually


def done(cli: CommandLine, *options: str) -> RunDirectory:
    run = cli.command("true", options=options)
    cli.ended(run)
    return run


def test_a_renamed_run_is_found_by_its_name_until_another_has_the_old_one(
    cli: CommandLine,
) -> None:
    first = done(cli, "--name", "trial")
    assert cli.json("rename", "trial", "baseline")["launched_as"] == "trial"
    assert cli.json("status", "baseline")["name"] == "baseline"
    assert find_run(cli.state, "trial").id == first.id, "nobody else is called so"
    second = done(cli, "--name", "trial")
    assert find_run(cli.state, "trial").id == second.id
    assert find_run(cli.state, "baseline").id == first.id
    assert "trial" in cli.run("rename", first.id, "--reset").stderr
    assert not first.labels.exists(), "no file without labels"


def test_names_that_could_not_be_typed_are_refused(cli: CommandLine) -> None:
    run, other = done(cli), done(cli)
    for name in ("last", "-x", "two\nlines", "n" * 81, other.id):
        with pytest.raises(WrongInput, match="name"):
            rename(cli.state, read_run(cli.state, run.id), name)
    assert "expected" in cli.run("tag", run.id, "two words", exits=2).stderr
    refused = cli.run("rename", run.id, exits=2).stderr
    assert TO_WHAT in refused and "fresnel-tui rename" in refused
    assert read_run(cli.state, run.id).name == "true" and not run.labels.exists()


def test_a_note_of_several_lines_comes_from_stdin_and_is_one_line_in_a_table(
    cli: CommandLine,
) -> None:
    run = done(cli)
    written = subprocess.run(
        [*COMMAND, "note", run.id, "-"],
        env=cli.environment({}), input="a finding\n\n  and why  \n", text=True, check=True,
        capture_output=True,
    )  # fmt: skip
    assert "a finding" in written.stderr and "and why" in written.stderr
    assert cli.json("status", run.id)["note"] == "a finding\n\n  and why"
    table = cli.run("list", "--columns", "run,note").stdout
    assert "a finding …" in table and "and why" not in table
    said = cli.run("note", run.id, "-", exits=2).stderr
    assert NOTE_UNCHANGED in said and read_run(cli.state, run.id).labels.note


def test_tags_note_and_star_are_kept_shown_and_taken_away(cli: CommandLine) -> None:
    run = done(cli)
    before = labels_stamp(cli.state)
    assert cli.json("tag", run.id, "good", "paper", "good")["tags"] == ["good", "paper"]
    assert labels_stamp(cli.state) != before
    cli.run("note", run.id, "lower", "rate", "than", "planned")
    assert cli.json("star", run.id)["starred"]
    shown = cli.run("status", run.id).stdout
    assert "★ true" in shown and "good, paper" in shown and "lower rate than planned" in shown
    found = cli.json("status", run.id)
    assert (found["tags"], found["starred"]) == (["good", "paper"], True)
    assert prune(cli.state, Criteria(keep=0)).left == {run.id: "is starred"}
    assert cli.json("untag", run.id, "good")["tags"] == ["paper"]
    cli.run("untag", run.id, "--all")
    cli.run("note", run.id, "--clear")
    assert not cli.json("unstar", run.id)["starred"]
    assert not run.labels.exists()


def test_a_group_is_tagged_as_a_whole_and_a_live_run_too(cli: CommandLine, tmp_path: Path) -> None:
    run = cli.command("sleep", "60")
    live = read_run(cli.state, run.id)
    tag(cli.state, live, ["live"])
    rename(cli.state, live, "sleeper")
    star(cli.state, live)
    untag(cli.state, live, ["nothing"])
    found = cli.status(run)
    assert (found["name"], found["tags"], found["state"]) == ("sleeper", ["live"], "running")
    cli.run("stop", "sleeper", "--force", "--wait")
    ended = cli.status(run)
    assert ended["reason"] == f"killed by {user_name()}" and ended["name"] == "sleeper"


def test_damaged_labels_hide_nothing(cli: CommandLine) -> None:
    run = done(cli)
    run.labels.write_text('{"name": 7, "tags"')
    assert cli.json("status", run.id)["name"] == "true"
    assert cli.json("tag", run.id, "good")["tags"] == ["good"]


def test_a_queued_run_gets_another_priority_or_is_cancelled(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FRESNEL_GPUS", "sim:1xH100")
    holder = cli.launch("--gpus", "1", "--", "sleep", "60")
    first, second, third = (cli.launch("--gpus", "1", "--", "sleep", "60") for _ in range(3))
    assert cli.json("priority", third.id, "5")["place"] == 1
    assert cli.json("priority", first.id)["place"] == 2
    assert "place 2" in cli.run("priority", first.id).stderr
    rows = cli.run("list", "state:queued").stdout.splitlines()
    places = {row.split()[0]: re.search(r"#(\d): 1 GPU", row) for row in rows[1:]}
    assert {run: place and place[1] for run, place in places.items()} == {
        third.id: "1",
        first.id: "2",
        second.id: "3",
    }
    assert cli.json("priority", second.id, "--by=2")["priority"] == 2
    assert cli.json("priority", second.id, "--by=-2")["priority"] == 0
    cli.run("priority", second.id, "3", "--by=2", exits=2)
    for words in (("priority", holder.id, "5"), ("cancel", holder.id)):
        refused = cli.run(*words, exits=2).stderr
        assert f"{holder.id} {NOT_QUEUED}: it is {State.RUNNING}" in refused
    assert cli.status(holder)["state"] == "running"
    fourth = cli.launch("--gpus", "1", "--", "sleep", "600")
    assert fourth.id in cli.run("cancel", fourth.id, holder.id, exits=2).stderr
    ended = cli.json("cancel", first.id)
    assert (ended["state"], ended["started"]) == ("cancelled", None)
    cancelled = {"cause": EndingCause.CANCELLED, "by": user_name()}
    assert cancelled.items() <= ended["ending"].items()
    assert ended["reason"] == ending_text(cancelled)
    cli.run("stop", holder.id, "--force", "--wait")
    eventually(lambda: cli.status(third)["state"] == "running", what="the highest priority first")
    assert cli.status(second)["state"] == "queued"
    assert len(cli.json("cancel", "--all")) == 1
    cli.run("stop", third.id, "--force", "--wait")


def test_a_name_too_long_for_a_file_is_a_name(cli: CommandLine) -> None:
    run = done(cli)
    assert rename(cli.state, read_run(cli.state, run.id), "😀" * 80).name == "😀" * 80
