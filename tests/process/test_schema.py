"""Every command's JSON is what `schema COMMAND` says it is."""

import json
import subprocess

import jsonschema
import pytest

from tests.command_text import did_you_mean
from tests.process.conftest import CommandLine
from tui.cli.command_table import COMMANDS
from tui.cli.schema import read_schemas, schema_of

SCHEMAS = read_schemas()


def fits(value: object, name: str) -> None:
    jsonschema.validate(value, schema_of(name, SCHEMAS))


def test_every_command_that_speaks_json_is_described() -> None:
    assert set(SCHEMAS["commands"]) == {name for name, one in COMMANDS.items() if one.json}
    for name in SCHEMAS["commands"]:
        jsonschema.Draft202012Validator.check_schema(schema_of(name, SCHEMAS))


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


def _with_json(words: list[str]) -> list[str]:
    at = words.index("--") if "--" in words else len(words)
    return [*words[:at], "--json", *words[at:]]


def test_errors_fit_theirs(cli: CommandLine) -> None:
    error = {**SCHEMAS["$defs"]["error"], "$defs": SCHEMAS["$defs"]}
    for words in (["status", "nobody"], ["launch"], ["nothing"], ["list", "--x"]):
        done: subprocess.CompletedProcess[str] = cli.run(*words, "--json", exits=None)
        assert done.returncode in (2, 3)
        jsonschema.validate(json.loads(done.stdout), error)
