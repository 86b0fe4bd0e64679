"""`list` finds, sorts and shows what is asked for; `status` says everything about one run."""

import sys

from tests.command_text import NO_METRIC, NO_SETTING, NONE_MATCHES, did_you_mean
from tests.process.conftest import CommandLine
from tests.support import eventually


def trained(cli: CommandLine, name: str, *losses: float) -> None:
    """A run that printed these losses and has ended, its final values kept."""
    script = "; ".join(f"print('step: {i} | loss: {x}')" for i, x in enumerate(losses, 1))
    options = ("--gpus", "0", "--name", name)
    run = cli.launch(*options, "--", sys.executable, "-c", script)
    cli.ended(run)
    eventually((run.path / "final.json").exists, what="its last values kept")


def names(cli: CommandLine, *words: str) -> list[str]:
    return [run["name"] for run in cli.json("list", *words)]


def test_which_run_was_best_is_one_command(cli: CommandLine) -> None:
    trained(cli, "first", 0.9, 0.4, 0.6)
    trained(cli, "second", 0.8, 0.1, 0.7)
    trained(cli, "third", 0.7, 0.5)
    assert names(cli) == ["third", "second", "first"], "the newest first, as in the panel"
    assert names(cli, "--sort", "best:loss") == ["second", "first", "third"]
    assert names(cli, "--sort", "best:loss-", "--limit", "1") == ["third"]
    assert names(cli, "--all", "--limit", "1") == names(cli)[:1]
    assert names(cli, "best:loss<0.45", "--sort", "name") == ["first", "second"]
    assert names(cli, "--name", "ir", "--since", "1h") == ["third", "first"]
    table = cli.run("list", "--sort", "best:loss", "--columns", "name,last:loss,best:loss").stdout
    assert [line.split() for line in table.splitlines()] == [
        ["name", "last:loss", "best:loss"],
        ["second", "0.7", "0.1"],
        ["first", "0.6", "0.4"],
        ["third", "0.5", "0.5"],
    ]
    cli.run("tag", "second", "good")
    assert names(cli, "tag:good") == ["second"]
    none = cli.run("list", "--state", "failed")
    assert not none.stdout and NONE_MATCHES in none.stderr
    assert cli.json("list", "--state", "failed") == []
    unknown = cli.run("list", "los<0.3").stderr
    assert f"{NO_METRIC} `los`: {did_you_mean('loss')}" in unknown and NONE_MATCHES in unknown
    assert NO_METRIC not in cli.run("list", "loss<0.001", "age<2h", "best:loss>9").stderr


def test_runs_are_found_shown_and_sorted_by_their_settings(cli: CommandLine) -> None:
    for name, words in (
        ("low", ("python3", "-c", "pass", "--lr", "1e-4", "--opt=adam")),
        ("high", ("python3", "-c", "pass", "--lr", "0.01", "--opt=sgd")),
        ("none", ("true",)),
    ):
        cli.ended(cli.launch("--gpus", "0", "--name", name, "--", *words))
    assert names(cli, "lr=0.0001") == names(cli, "set:lr<1e-3") == names(cli, "opt=adam") == ["low"]
    assert names(cli, "set:lr", "--sort", "set:lr") == ["low", "high"]
    assert names(cli, "--sort", "set:lr-") == ["high", "low", "none"]
    table = cli.run("list", "--sort", "name", "--columns", "name,set:lr").stdout
    assert [line.split() for line in table.splitlines()] == [
        ["name", "set:lr"],
        ["high", "0.01"],
        ["low", "1e-4"],
        ["none", "—"],
    ]
    assert f"{NO_SETTING} `lrr`: {did_you_mean('lr')}" in cli.run("list", "set:lrr<1").stderr
    assert did_you_mean("state:") in cli.run("list", "stat:done", exits=2).stderr


def test_what_cannot_be_asked_is_said(cli: CommandLine) -> None:
    for words, told in (
        (("--state", "fialed"), "expected queued"),
        (("--sort", ","), "a column is missing"),
        (("--columns", "colour"), "no column `colour`"),
        (("--since", "soon"), "is no time"),
        (("--limit", "-1"), "expected 0 or more"),
    ):
        assert told in cli.run("list", *words, exits=2).stderr


def test_status_says_what_ran_where_when_and_what_ended_it(cli: CommandLine) -> None:
    script = "print('step: 1 | loss: 0.5'); raise ValueError('the data is gone')"
    run = cli.launch("--gpus", "0", "--name", "lost", "--", sys.executable, "-c", script)
    cli.ended(run)
    text = cli.run("status", run.id).stdout
    for words in (f"{sys.executable} -c", str(cli.folder), "created", "ended", "name", "python"):
        assert words in text, words
    # Before the error, some versions of Python show the line of the program, too.
    (line,) = (
        number
        for number, text in enumerate(run.output.read_text().splitlines(), 1)
        if text.startswith("ValueError")
    )
    assert f"ValueError: the data is gone (line {line} of output.log)" in text
    found = cli.json("status", run.id)
    assert found["command"][0] == sys.executable and found["command"][-1] == script
    assert found["working_directory"] == str(cli.folder) and found["user"]
    assert found["error"] == {"text": "ValueError: the data is gone", "line": line}
