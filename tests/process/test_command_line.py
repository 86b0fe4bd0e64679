"""The manners of the command line: hints for first mistakes, help, errors as JSON."""

import json
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from runners.model.kept_secrets import MASK
from tests.command_text import COUNTED_FROM, EXIT_CODES, SESSION_ENDED, UNDER_BUDGET, did_you_mean
from tests.process.conftest import CommandLine
from tui.cli import parsing
from tui.cli.arguments import command_parser, overall_help
from tui.cli.command_table import ALIASES, COMMANDS
from tui.cli.completion import _parsers


@pytest.mark.parametrize(
    ("words", "exits", "said"),
    [
        ("launch train.py", 3, "fresnel-tui launch -- python train.py"),
        ("launch python train.py --lr 3", 2, "fresnel-tui launch -- python train.py --lr 3"),
        (
            "launch --name x torchrun --nproc_per_node=2 train.py",
            2,
            "fresnel-tui launch --name x -- torchrun --nproc_per_node=2 train.py",
        ),
        ("plan exampel", 3, "example"),
        (f"plan {'x' * 300}", 3, "presets: "),
        ("lst", 2, "did you mean `list`"),
        ("train.py --epochs 3", 2, "fresnel-tui launch -- python train.py --epochs 3"),
        ("example", 2, "fresnel-tui launch example"),
        ("list --al --jsno", 2, "did you mean `--json`"),
        ("session strat", 2, "did you mean `start`"),
        ("launch --restart 2 -- true", 2, "--set restart=…"),
        ("plan --on-stall=10m -- true", 2, "--set on_stall=…"),
        ("drain of", 2, "did you mean `off`"),
        ("list -- true", 2, "goes with launch, plan, verify"),
    ],
)
def test_a_first_mistake_gets_the_hint_it_needs(
    cli: CommandLine, words: str, exits: int, said: str
) -> None:
    done = cli.run(*words.split(), exits=exits)
    assert said in done.stderr and done.stdout == ""


def test_a_wrong_flag_shows_the_usage_of_its_own_command(cli: CommandLine) -> None:
    assert "usage: fresnel-tui logs" in cli.run("logs", "last", "--foo", exits=2).stderr
    said = cli.run("guard", "sett", exits=2).stderr
    assert "'postpone'" in said and "'run'" not in said, "what is ours alone is not offered"


@pytest.mark.parametrize(
    "words",
    [
        ("rename", "over", "--json", "over"),
        ("tag", "over", "--json", "good"),
        ("note", "over", "--json", "first", "--no-ui", "second"),
        ("list", "over", "--json", "over"),
        ("wait", "over", "--json", "over"),
    ],
)
def test_flags_may_stand_between_words(cli: CommandLine, words: tuple[str, ...]) -> None:
    cli.ended(cli.command("true", options=("--name", "over")))
    json.loads(cli.run(*words).stdout)


@pytest.mark.parametrize(
    "words",
    ["status last --show-secrets", "launch example -- true", "plan example --set x", "secret -- x"],
)
def test_nothing_of_a_refusal_is_taken_for_a_secret(cli: CommandLine, words: str) -> None:
    assert MASK not in cli.run(*words.split(), exits=2).stderr


def test_help_is_a_word_too(cli: CommandLine) -> None:
    assert EXIT_CODES in cli.run("help").stdout
    assert cli.run("help", "rm").stdout == cli.run("delete", "--help").stdout
    assert did_you_mean("list") in cli.run("help", "lst", exits=2).stderr


def test_errors_are_json_too(cli: CommandLine) -> None:
    wrong = json.loads(cli.run("list", "--foo", "--json", exits=2).stdout)["error"]
    assert wrong["code"] == "wrong_input" and "--foo" in wrong["message"]
    missing = json.loads(cli.run("status", "nobody", "--json", exits=3).stdout)["error"]
    assert missing["code"] == "not_found" and missing["hint"]
    assert json.loads(cli.run("lst", "--json", exits=2).stdout)["error"]["hint"]


def test_the_usual_aliases(cli: CommandLine) -> None:
    run = cli.command("sleep", "60", options=("--name", "sleeper"))
    assert json.loads(cli.run("ls", "--json").stdout)[0]["id"] == run.id
    assert run.id in cli.run("ps").stdout
    killed = cli.json("kill", "sleeper", "--wait")
    assert killed["reason"].startswith("killed by")
    cli.left(run)
    assert cli.json("rm", "sleeper")["deleted"] == [run.id]


def test_every_command_has_examples_and_explains_what_stands_where() -> None:
    for name in COMMANDS:
        parser = command_parser(name)
        assert f"\n  fresnel-tui {name}" in parser.format_help(), name
        for one in _parsers(parser):
            for action in one._actions:
                assert action.help or action.metavar == "ACTION", (one.prog, action.dest)


def test_no_line_of_a_help_is_broken_by_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """But for usages and examples, which are whole as they are typed."""
    monkeypatch.setattr(parsing, "_line_width", lambda: 78)
    broken = [
        line
        for name in COMMANDS
        for one in _parsers(command_parser(name))
        for line in one.format_help().splitlines()
        if len(line) > 80 and not line.startswith(("usage: ", "  fresnel-tui "))
    ]
    assert not broken, broken


def test_the_help_names_every_command_and_the_panel_s_flags() -> None:
    text = overall_help()
    assert all(f"\n  {name} " in text for name in COMMANDS)
    assert all(alias in text for alias in ALIASES)
    assert "--read-only" in text and "exit codes" in text


@pytest.mark.parametrize(("ago_h", "counted"), [(0, False), (3, True)])
def test_a_session_says_since_when_it_counts(cli: CommandLine, ago_h: int, counted: bool) -> None:
    since = (datetime.now() - timedelta(hours=ago_h)).isoformat(timespec="seconds")
    said = cli.run("session", "start", "--rate", "1", "--since", since, "--anyway").stderr
    assert (f"{COUNTED_FROM} " in said) is counted and ("3h00m" in said) is counted


def test_a_session_that_ends_says_what_it_came_to(cli: CommandLine) -> None:
    cli.run("session", "start", "--rate", "3.60", "--gpus", "1", "--since", "now", "--anyway")
    cli.run("session", "budget", "50")
    assert cli.json("session")["budget_usd"] == 50.0
    said = cli.run("session", "end").stderr
    assert SESSION_ENDED in said and "total <$0.01" in said
    assert f"$50.00 {UNDER_BUDGET}" in said
    assert "--price" in cli.run("session", "end", "--price", "3", exits=2).stderr


def test_logs_as_json(cli: CommandLine, tmp_path: Path) -> None:
    run = cli.command("printf", "one\\ntwo \\033[31mred\\nhalf", options=("--name", "writer"))
    cli.ended(run)
    found = cli.json("logs", "writer")
    assert found["lines"] == ["one", "two \x1b[31mred", "half"]
    assert cli.json("logs", "writer", "-n", "2")["lines"] == ["two \x1b[31mred", "half"]
    lines = cli.run("logs", "writer", "-f", "--json").stdout.splitlines()
    assert [json.loads(line)["text"] for line in lines] == found["lines"]


def test_every_mistake_of_set_is_told(cli: CommandLine) -> None:
    Path(cli.folder, "mine.yaml").write_text(
        "launcher: command\ncommand: [echo]\ngpus: 0\nparameters: {lr: 0.1, epochs: {value: "
        "1, minimum: 1}}\n"
    )
    said = cli.run("plan", "./mine.yaml", "--set", "lr=abc", "--set", "epochs=0", exits=2).stderr
    assert "--set lr=abc" in said and "--set epochs=0" in said


def test_what_ssh_starts_ends_at_once_where_nobody_can_speak_to_it(cli: CommandLine) -> None:
    assert not cli.run("host-agent", exits=2).stdout
