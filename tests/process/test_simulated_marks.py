"""Under simulated GPUs every surface that says something of them marks it as made up."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from runners.gpus.usage import read_recent
from tests.process.conftest import CommandLine, record
from tests.screen_text import FOOTER, GPUS_PANE, MONEY, PLAN
from tests.served import Page, Served, until
from tests.support import eventually

MADE_UP = re.compile(r"H100|VRAM|mean use|device\d+/|GiB on each GPU")
"""What is only said of a GPU: its model, its memory, its use."""
MARK = "simulated"
PRESET = """\
launcher: command
command: [sh, -c, "echo 'epoch: 1/1 | loss: 0.5'; until test -e seen; do sleep 0.1; done"]
gpus: 1
"""
COMMANDS = """\
list --all
status over
status live
plan one
verify one
metrics over
diagnose over
remedy over --all
monitor
gpus
gpus --host
cost
cost export
cost plan one:2
session
doctor
compare over live
stacks live
priority live
logs over
launch one --no-queue --name again
report over -o over.html
fetched
wait over
"""

PAGES = (
    ("", GPUS_PANE),
    ("n", PLAN),
    ("1\r", "simulated: no such GPU exists"),
    ("2i", "created"),
    ("ji", "created"),
    ("m", "device0"),
    (" k =", "runs compared"),
    ("$", MONEY),
)
"""Keys, and what then stands on the screen of the panel in a browser."""
SIZE = 160, 50


@pytest.fixture
def world(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    """A run that has ended and one that lives, on simulated GPUs, in a session."""
    monkeypatch.setenv("FRESNEL_GPUS", "sim:3xH100")
    (cli.folder / "presets").mkdir()
    (cli.folder / "presets" / "one.yaml").write_text(PRESET)
    cli.run("session", "start", "--rate", "2", "--since", "now", "--anyway")
    over = cli.launch("one", "--name", "over")
    began = eventually(lambda: record(over).get("started"), what="a run that has begun")
    eventually(
        lambda: len([one for one in read_recent(cli.state) if one.time > began]) >= 3,
        what="some seconds of history",
    )
    (cli.folder / "seen").touch()
    cli.run("wait", over.id)
    live = cli.launch("--gpus", "1", "--name", "live", "--", "sleep", "600")
    eventually(lambda: cli.json("status", over.id)["usage"], what="what the run made of its GPU")
    eventually(lambda: cli.json("status", live.id)["state"] == "running")
    return cli


def unmarked(value: Any, marked: bool = False) -> Iterator[Any]:
    """Whatever a document says of a GPU where neither it nor what it stands in is marked."""
    if isinstance(value, dict):
        marked = marked or value.get(MARK) is True
        for name, inside in value.items():
            yield from unmarked(name, marked)
            yield from unmarked(inside, marked)
    elif isinstance(value, list):
        for inside in value:
            yield from unmarked(inside, marked)
    elif isinstance(value, str) and MADE_UP.search(value) and not marked and MARK not in value:
        yield value


@pytest.mark.timeout(300)
def test_every_command_marks_what_is_made_up_in_text_and_json(world: CommandLine) -> None:
    found: dict[str, list[Any]] = {}
    seen = 0
    for line in COMMANDS.splitlines():
        words = line.split()
        said = world.run(*words, exits=None)
        rows = [row for row in (said.stdout + said.stderr).splitlines() if MADE_UP.search(row)]
        seen += len(rows)
        # A table in CSV says it in a column of its own.
        csv = MARK in said.stdout.partition("\n")[0] if line == "cost export" else False
        bare = [row for row in rows if MARK not in row and not csv]
        answer = world.run(*words, "--json", exits=None).stdout
        bare += unmarked(json.loads(answer)) if answer else []
        if bare:
            found[line] = bare
    assert found == {}
    assert seen > 15, "these commands do speak of GPUs"
    page = (world.folder / "over.html").read_text()
    assert MADE_UP.search(page) and MARK in page


@pytest.mark.timeout(300)
async def test_every_page_in_a_browser_marks_what_is_made_up(world: CommandLine) -> None:
    served, page = Served(), Page(*SIZE)
    bare, seen = [], 0
    try:
        async with served.visitor() as client, served.socket(client, SIZE) as socket:
            for keys, pattern in PAGES:
                for key in keys:
                    await socket.send_json(["stdin", key])
                await until(socket, page, pattern)
                is_of_gpus = MADE_UP.search(page.text) is not None
                seen += is_of_gpus
                if is_of_gpus and MARK not in page.text:
                    bare.append(page.text)
                if keys:
                    await socket.send_json(["stdin", "\x1b"])
                    await until(socket, page, rf"(?s)\A(?!.*(?:{pattern}))")
                await until(socket, page, FOOTER)
    finally:
        served.process.kill()
        served.process.communicate()
    assert bare == []
    assert seen, "these pages do speak of GPUs"
