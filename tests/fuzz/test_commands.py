"""Random command lines: each ends in words, with a documented exit code, and JSON where it was asked for."""

import argparse
import json
import random
import shutil
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

import jsonschema
import pytest

from runners.model.errors import ExitCode, WrongInput
from runners.model.kept_secrets import MASK
from tests.fuzz.world import EXAMPLES
from tests.process.conftest import CommandLine
from tests.process.conftest import cli as cli
from tests.support import eventually
from tui.cli.arguments import command_parser, parse, split_command
from tui.cli.command_table import ALIASES, COMMANDS
from tui.cli.schema import read_schemas, schema_of
from tui.views.safe import safe

ENDLESS = ("serve", "attach", "demo", "wait", "service")
"""Commands that last as long as a run or a person wants, or change the machine."""
UNTOLD = ("run", "shell")
"""Actions that are somebody's own program, or ours: they have nothing to tell in JSON."""
ENDLESS_FLAGS = ("--watch", "--follow", "-f", "--wait", "--system", "--every", "--do")
ODD = [
    *("", " ", "-", "--", "-x", "@file", "..", "/", "é漢🎉", "\u202egnp", "a\u200bb", "x" * 300),
    *(
        "\x1b[31mred\x1b]0;t\x07",
        "a\nb",
        "${run_dir}",
        "{lr}",
        "%s",
        "*",
        "[",
        "(",
        "'",
        "a=b",
        ",",
    ),
    *("²", "0", "-1", "007", "1_000", "1.5", "9" * 20, "9" * 5000, "1e400", "nan", "-inf", "½"),
]
RUNS = ["over", "failed", "live", "waits", "sweep", "last", "2", "broken", "nobody", "state:failed"]
FILTERS = [
    "loss<0.1",
    "state:done",
    "!is:live",
    "gpu:0",
    "since:7d",
    "best:x>3",
    "loss<",
    "tag:",
    "!",
]
TIMES = ["0", "1s", "90m", "-5m", "1e9h", "nan", "99999999999999d", "now", "today", "2026-13-45"]
HOSTS = ["box", "any", "all", "@label", "a,b"]
FILES = ["/dev/null", "mine.yaml", "/nowhere", "."]
VALUES = {
    "KEY=VALUE": ["lr=1", "lr=1,2", "lr=0..2", "lr=1..1e-9:log", "lr=nan", "lr", "=", "gpus=0..9"],
    "PRESET": ["mine", "./mine.yaml", "example", "bad", "pcdiff", "launch-both", "nobody"],
    "COLUMNS": ["run", "run,state", "best:loss", "age-", "set:lr", "best:", ",", "-"],
    "USD": ["0", "-1", "1.99", "1,5", "95%", "1e28", "none", "amd-cloud-mi300x"],
    "PRESET:COUNT": ["mine:1", "mine", "mine:0", "mine:1e400", "launch-both:2"],
    "CMD": ["true", "exit 3"],
    "URL": ["x", "http://", "file:///etc/passwd"],
    "TAG": ["good", "two words", "a,b", "é漢"],
    **dict.fromkeys(("RUN", "DELETED", "RUN|PATH"), RUNS),
    **dict.fromkeys(("TIME", "WHEN", "AGE"), TIMES),
    **dict.fromkeys(("HOST", "A,B"), HOSTS),
    **dict.fromkeys(("PATH", "FILE", "FILE|URL", "FOLDER"), FILES),
}
PROGRAMS = [
    ["true"],
    ["sh", "-c", "exit 3"],
    ["nowhere"],
    [],
    [""],
    ["--"],
    ["echo", "--json", "{lr}"],
]


class Lines:
    """Command lines by the flags that commands declare, and values right and wrong for each."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.commands = [name for name in COMMANDS if name not in ENDLESS]

    def line(self) -> list[str]:
        """One of them."""
        name = self.chance.choice(self.commands)
        words = self._words(command_parser(name))
        if COMMANDS[name].json and self.chance.random() < 0.5:
            words.insert(self.chance.randint(0, len(words)), "--json")
        if name in ("launch", "plan", "verify") and self.chance.random() < 0.5:
            words += ["--", *self.chance.choice(PROGRAMS)]
        elif self.chance.random() < 0.05:
            words.insert(self.chance.randint(0, len(words)), self.chance.choice(ODD))
        aliases = [alias for alias, meant in ALIASES.items() if meant == name]
        return [self.chance.choice([name, name, *aliases]), *words]

    def _words(self, parser: argparse.ArgumentParser) -> list[str]:
        flags = [a for a in parser._actions if a.option_strings]
        groups = [self._flag(action) for action in flags if action.required]
        groups += [
            self._flag(self.chance.choice(flags)) for _ in range(self.chance.choice([0, 1, 3]))
        ]
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                name = self.chance.choice(list(action.choices))
                return [*chain(*groups), name, *self._words(action.choices[name])]
            if not action.option_strings:
                many = {"?": [0, 1], "*": [0, 1, 3], "+": [1, 2]}.get(str(action.nargs), [1])
                groups += [[self._value(action)] for _ in range(self.chance.choice(many))]
        self.chance.shuffle(groups)
        return [*chain(*groups)]

    def _flag(self, action: argparse.Action) -> list[str]:
        name = self.chance.choice(action.option_strings)
        if name in ENDLESS_FLAGS:
            return []
        if action.nargs == 0:
            return [name]
        value = self._value(action)
        return [f"{name}={value}"] if self.chance.random() < 0.4 else [name, value]

    def _value(self, action: argparse.Action) -> str:
        if self.chance.random() < 0.15:
            return self.chance.choice([*ODD, *FILTERS])
        if action.choices is not None:
            return str(self.chance.choice(list(action.choices)))
        known = VALUES.get(str(action.metavar))
        return self.chance.choice(known or [*ODD, *FILTERS, "loss", "box", "name"])


@pytest.fixture
def world(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    """Runs of every kind, with no programs beside them but the shell's own."""
    programs = cli.folder / "bin"
    programs.mkdir()
    for name in ("sh", "sleep", "true", "echo"):
        (programs / name).symlink_to(str(shutil.which(name)))
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.setenv("HOME", str(cli.folder / "home"))
    monkeypatch.setenv("FRESNEL_GPUS", "sim:4xH100")
    text = "launcher: command\ncommand: 'true'\ngpus: 0\nparameters: {lr: 0.1}\n"
    Path(cli.folder, "mine.yaml").write_text(text)
    presets = cli.folder / "presets"
    presets.mkdir()
    (presets / "mine.yaml").write_text(text)
    (presets / "bad.yaml").write_text("launcher: [\n")
    cli.run("session", "start", "--rate", "8", "--since", "now", "--budget", "100", "--anyway")
    cli.left(cli.command("echo", "loss: 0.5", options=("--name", "over")))
    cli.left(cli.command("sh", "-c", "echo '\033]0;x\a'; exit 3", options=("--name", "failed")))
    cli.run("launch", "mine", "--set", "lr=1,2", "--name", "sweep", "--wait")
    for name, spec in (("20261101-101010-broken-aaa1", "{"), ("20261101-101010-broken-aaa2", "")):
        (cli.state.runs / name).mkdir()
        (cli.state.runs / name / "spec.json").write_text(spec)
    return cli


def _lives(world: CommandLine) -> None:
    """One run that lives and one that waits for its GPUs, whatever has become of those before."""
    world.run("drain", "off")
    world.run("kill", "--all", "--wait", exits=None)
    live = world.launch("--gpus", "4", "--name", "live", "--", "sleep", "900")
    eventually(lambda: world.status(live)["state"] == "running")
    world.launch("--gpus", "1", "--name", "waits", "--", "sleep", "900")


def _labels(world: CommandLine) -> dict[str, object]:
    keys = ("name", "tags", "note", "starred", "priority")
    return {run["id"]: [run.get(key) for key in keys] for run in world.json("list", "--all")}


def _documents(text: str) -> Iterator[object]:
    """One document, or one for each line."""
    try:
        yield json.loads(text)
    except ValueError:
        yield from map(json.loads, text.splitlines())


def _fits(words: Sequence[str], code: int, text: str) -> None:
    """Of what was asked to be JSON, that it is, and what the schema says."""
    ours = split_command(words)[0]
    if "--json" not in ours or {"-h", "--help"} & {*ours}:
        return
    try:
        meant = parse(words)
    except WrongInput:
        meant = None
    if not getattr(meant, "json", True):
        return
    documents = [*_documents(text)]
    assert code or documents or meant is None or getattr(meant, "what", "") in UNTOLD, words
    for document in documents:
        if code and isinstance(document, dict) and "error" in document:
            assert set(document["error"]) == {"code", "message", "hint"}, words
        elif meant is not None and meant.command_name != "schema":
            kind = schema_of(meant.command_name, read_schemas())
            jsonschema.Draft202012Validator(kind).validate(document)


@pytest.mark.parametrize("seed", [1, 2])
def test_every_command_line_ends_in_words(seed: int, world: CommandLine) -> None:
    lines = Lines(seed)
    for number in range(EXAMPLES // 20):
        if number % 100 == 0:
            _lives(world)
        words = lines.line()
        before = (
            _labels(world)
            if COMMANDS[ALIASES.get(words[0], words[0])].declared == "labelling"
            else {}
        )
        done = world.run(*words, exits=None, FRESNEL_SAMPLER_LINGER_S="30")
        said = done.stdout + done.stderr
        assert done.returncode in set(ExitCode), (words, done)
        assert safe(said) == said and MASK not in said, (words, said)
        assert done.returncode == 0 or said, words
        _fits(words, done.returncode, done.stdout)
        if before and done.returncode in (ExitCode.WRONG_INPUT, ExitCode.NOT_FOUND):
            assert _labels(world) == before, words
