"""`metrics` and what `status` says of a program that knows nothing of us."""

import csv
import io
import json

from runners.host.files import append_event
from tests.command_text import CHOOSE_ONE, NO_EXPRESSION, READER_OF_A_PRESET, at_least, no_run
from tests.process.conftest import CommandLine
from tests.support import CEILING_S, eventually

LINES = (
    "import sys, time\nfor i in range(1, 41): print(f'step {i}/40 | loss: {1 / i:.4f} | "
    "acc: {i / 40}', flush=True)\n"
)
WAITS = LINES + "time.sleep(600)\n"


def test_a_program_that_knows_nothing_of_us_has_metrics(cli: CommandLine) -> None:
    cli.run("session", "start", "--rate", "2", "--since", "now")
    run = cli.command("python3", "-c", LINES)
    assert cli.ended(run)["state"] == "done"
    table = cli.run("metrics", "last")
    assert [line.split()[0] for line in table.stdout.splitlines()] == [
        "metric",
        "loss",
        "acc",
        "cost",
    ]
    assert "guessed" in table.stderr and "pairs" in table.stderr
    found = cli.json("metrics", run.id, "--name", "^loss$")
    assert (found["readers"], found["guessed"], found["run"]) == (["pairs"], True, run.id)
    (loss,) = found["metrics"]
    assert (
        loss["steps"] == list(range(1, 41))
        and loss["values"][1] == 0.5
        and loss["higher_is_better"] is False
    )
    status = cli.json("status", run.id)
    assert status["metrics"]["loss"] == 0.025 and status["progress"]["fraction"] == 1.0
    assert status["metric_readers"] == ["pairs"]


def test_csv_is_long_and_cut_to_the_last(cli: CommandLine) -> None:
    run = cli.command("python3", "-c", LINES)
    cli.ended(run)
    rows = list(
        csv.reader(
            io.StringIO(
                cli.run("metrics", run.id, "--csv", "--last", "2", "--name", "loss|acc").stdout
            )
        )
    )
    assert rows[0] == ["metric", "step", "epoch", "time", "value"]
    assert [row[:2] for row in rows[1:]] == [
        ["loss", "39"],
        ["loss", "40"],
        ["acc", "39"],
        ["acc", "40"],
    ]


def test_events_with_a_lost_loss_are_valid_json(cli: CommandLine) -> None:
    run = cli.command("true")
    cli.ended(run)
    append_event(run.events, "metrics", step=1, epoch=1, values={"loss": None, "lr": 0.1})
    text = cli.run("metrics", run.id, "--json").stdout
    assert "NaN" not in text
    loss = next(one for one in json.loads(text)["metrics"] if one["name"] == "loss")
    assert loss["values"] == [None] and loss["source"] == "events" and loss["times"][0] > 1e9


def test_mistakes_are_told(cli: CommandLine) -> None:
    run = cli.command("true")
    cli.ended(run)
    assert no_run("nobody") in cli.run("metrics", "nobody", exits=3).stderr
    assert f"--name (: {NO_EXPRESSION}" in cli.run("metrics", run.id, "--name", "(", exits=2).stderr
    assert (
        f"--json and --csv: {CHOOSE_ONE}"
        in cli.run("metrics", run.id, "--json", "--csv", exits=2).stderr
    )
    assert f"--last 0: {at_least(1)}" in cli.run("metrics", run.id, "--last", "0", exits=2).stderr
    nothing = cli.run("metrics", run.id)
    assert not nothing.stdout and READER_OF_A_PRESET in nothing.stderr


def test_a_preset_names_its_reader_and_its_own_patterns(cli: CommandLine) -> None:
    (cli.folder / "presets").mkdir()
    (cli.folder / "presets" / "mine.yaml").write_text(
        "launcher: command\ncommand: [sh, -c, 'echo it 0 L=0.5; echo it 1 L=0.25']\ngpus: 0\n"
        "metrics:\n  patterns:\n    - {line: 'it (?P<step>\\d+) L=(?P<l>\\S+)', offset: "
        "{step: 1}}\n"
        "  rename: {l: loss}\n"
    )
    run = cli.launch("mine")
    cli.ended(run)
    found = cli.json("metrics", run.id)
    assert (found["readers"], found["guessed"]) == (["patterns"], False)
    assert [(m["name"], m["steps"], m["values"]) for m in found["metrics"]] == [
        ("loss", [1, 2], [0.5, 0.25])
    ]


def test_a_live_run_s_list_row_knows_its_loss_and_watch_ends_with_the_run(cli: CommandLine) -> None:
    run = cli.command("python3", "-c", WAITS, ready="step 40/40")
    status = eventually(
        lambda: (s := cli.status(run))["metrics"] and s, what="metrics of the output"
    )
    assert status["progress"]["step"] == 40 and status["metrics"]["acc"] == 1.0
    assert "0.025" in cli.run("list").stdout
    watching = cli.begin("metrics", run.id, "--watch")
    assert watching.stdout is not None
    eventually(lambda: b"loss" in watching.stdout.readline(), what="the table")  # type: ignore[union-attr]
    cli.run("stop", run.id, "--force", "--wait", exits=None)
    assert watching.wait(CEILING_S) == 0
