"""Every command's JSON is what `schema COMMAND` says it is."""

import json
import re
import subprocess
from typing import Any

import jsonschema
import pytest

from runners.model.endings import EndingCause
from runners.model.health import Condition
from runners.model.states import State
from tests.command_text import did_you_mean
from tests.process.conftest import CommandLine
from tests.support import REPOSITORY, eventually
from tui.cli.arguments import command_parser
from tui.cli.command_table import COMMANDS
from tui.cli.schema import read_schemas, schema_of

SCHEMAS = read_schemas()


def fits(value: object, name: str) -> None:
    jsonschema.Draft202012Validator(schema_of(name, SCHEMAS)).validate(value)


def test_every_command_that_speaks_json_is_described() -> None:
    assert set(SCHEMAS["commands"]) == {name for name, one in COMMANDS.items() if one.json}
    # All at once: what they share is in each of them, and checking it takes a quarter of a second.
    every = {"allOf": list(SCHEMAS["commands"].values()), "$defs": SCHEMAS["$defs"]}
    jsonschema.Draft202012Validator.check_schema(every)
    for name in SCHEMAS["commands"]:
        assert schema_of(name, SCHEMAS)["$schema"].endswith("/draft/2020-12/schema")


def test_closed_sets_have_the_members_that_programs_are_told_of() -> None:
    kinds = SCHEMAS["$defs"]
    assert set(kinds["state"]["enum"]) == set(State)
    assert set(kinds["ending"]["properties"]["cause"]["enum"]) == set(EndingCause)
    assert set(kinds["health"]["properties"]["condition"]["enum"]) == set(Condition)


def test_the_schema_of_one_command_is_printed(cli: CommandLine) -> None:
    assert cli.json("schema", "ls")["title"] == "fresnel-tui list --json"
    assert set(cli.json("schema")) >= {"commands", "$defs"}
    assert did_you_mean("list") in cli.run("schema", "lits", exits=3).stderr


@pytest.fixture
def world(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    """An ended run with metrics, a live one and a queued one, on one simulated GPU."""
    monkeypatch.setenv("FRESNEL_GPUS", "sim:1xH100")
    failed = cli.command(
        "sh", "-c", "echo 'epoch: 1/1 | loss: 0.5'; exit 3", options=("--name", "over")
    )
    cli.ended(failed)
    live = cli.launch("--gpus", "1", "--name", "live", "--", "sleep", "600")
    assert cli.status(live)["state"] == "running"
    cli.launch("--gpus", "1", "--name", "waits", "--", "sleep", "600")
    return cli


LOOKING = """\
list
status over
status live
plan --gpus 1 -- true
plan example
verify example
remedy over
logs over
metrics over
diagnose over
stacks live
logs over --ranks
pictures over
monitor
gpus
gpus --host
priority waits
tag over
tag over good
note over text
star over live
unstar over
rename over baseline
fetched
drain
cost
cost export
cost plan example:2 --budget 5
prices
session
guard
guard off
presets
presets schema
doctor
completion bash
service unit example
service boot
report over -o over.html
compare over live
presets save mine --from over
schema
prune --keep 0 --dry-run
cancel waits
stop live --force
delete baseline
undelete
undelete last
kill live --wait
wait live
undelete --empty
"""


@pytest.mark.timeout(300)
def test_what_commands_print_fits_their_schema(world: CommandLine) -> None:
    for line in LOOKING.splitlines():
        words = line.split()
        done = world.run(*_with_json(words), exits=None)
        assert done.returncode in (0, 1), (line, done)
        value = json.loads(done.stdout)
        fits(value, words[0])
        if words[0] in ("list", "status", "stop"):
            assert value, line


ABOUT_RUNS = {
    name
    for name, schema in SCHEMAS["commands"].items()
    for form in schema.get("anyOf", ())
    if form.get("items", {}).get("$ref", "").endswith(("/run", "/labels", "/plan"))
}
"""Commands that say something of each run: their document is an object, or a list of them."""
PAIR = """\
runs:
  - {preset: one, name: left}
  - {preset: one, name: right}
"""


def test_the_page_names_every_command_that_speaks_of_each_run() -> None:
    page = (REPOSITORY / "docs" / "scripts.md").read_text()
    (sentence,) = [part for part in page.split("\n\n") if part.startswith("One run that is named")]
    assert set(re.findall(r"`([a-z]+)`", sentence)) == ABOUT_RUNS


@pytest.fixture
def groups(cli: CommandLine) -> CommandLine:
    """Presets of a run, of a group of two and of a group of one."""
    presets = cli.folder / "presets"
    presets.mkdir()
    (presets / "one.yaml").write_text("launcher: command\ncommand: [sleep, '600']\ngpus: 0\n")
    (presets / "pair.yaml").write_text(PAIR)
    (presets / "lone.yaml").write_text("runs:\n  - {preset: one, name: lonely}\n")
    return cli


def test_a_launch_and_its_plan_are_an_object_or_a_list_for_a_group(groups: CommandLine) -> None:
    for command in ("plan", "launch"):
        assert isinstance(groups.json(command, "one"), dict)
        assert [len(groups.json(command, group)) for group in ("pair", "lone")] == [2, 1]


MORE = {"tag": ["good"], "untag": ["good"], "stop": ["--force"]}
OF_ONE = {"status", "tag", "untag", "best"}
"""Commands that take the name of one run or of one group."""
IN_TURN = (
    # What changes nothing, or can be taken back, before what ends the runs.
    ("status", "best", "star", "unstar", "tag", "untag", "pause", "continue", "stop", "wait"),
    ("kill",),
    ("cancel",),
)


def test_every_command_about_runs_is_looked_at_below() -> None:
    named = [name for commands in IN_TURN for name in commands]
    assert sorted(named) == sorted(ABOUT_RUNS - {"launch", "up", "plan", "rename", "note"})


@pytest.mark.parametrize("commands", IN_TURN, ids=" ".join)
def test_one_run_that_is_named_is_an_object_and_all_else_a_list(
    groups: CommandLine, commands: tuple[str, ...]
) -> None:
    cli = groups
    waits = commands == ("cancel",)
    cli.run("drain", "on" if waits else "off")
    for preset in ("pair", "lone"):
        cli.run("launch", preset)
    *names, newest = [cli.json("launch", "one")["id"] for _ in range(3)]
    begun = "queued" if waits else "running"
    eventually(lambda: {run["state"] for run in cli.json("list")} == {begun})

    def document(command: str, *names: str) -> Any:
        value = cli.json(command, *names, *MORE.get(command, ()), exits=None)
        fits(value, command)
        return value

    for command in commands:
        if command == "wait":
            cli.run("kill", "--all", "--wait")
        assert [len(document(command, group)) for group in ("pair", "lone")] == [2, 1], command
        assert document(command, "one")["id"] == newest, command
        if command not in OF_ONE:
            assert [run["id"] for run in document(command, *names)] == names, command
        if "--all" in command_parser(command).format_usage() and command != "untag":
            # Those that were named may take a moment to end.
            eventually(lambda c=command: not document(c, "--all"), what=f"{command} with none left")


def _with_json(words: list[str]) -> list[str]:
    at = words.index("--") if "--" in words else len(words)
    return [*words[:at], "--json", *words[at:]]


def test_errors_fit_theirs(cli: CommandLine) -> None:
    error = {**SCHEMAS["$defs"]["error"], "$defs": SCHEMAS["$defs"]}
    for words in (["status", "nobody"], ["launch"], ["nothing"], ["list", "--x"]):
        done: subprocess.CompletedProcess[str] = cli.run(*words, "--json", exits=None)
        assert done.returncode in (2, 3)
        jsonschema.validate(json.loads(done.stdout), error)
