"""Planted secrets: every kind in every place reaches the program, and no file and no screen."""

import json
import shlex
import subprocess
from typing import Any

import pytest
import yaml

from runners.model.kept_secrets import MASK
from runners.state.layout import RunDirectory, config_dir
from tests.command_text import was_secret
from tests.process.conftest import CommandLine
from tests.secret_kinds import Secret, secrets_of
from tests.support import files_below

# Writes what it was given beside the state folder; fails first where it is to be started again.
DUMP = (
    "import json, os, sys, pathlib\n"
    "given = sys.argv[1:]\n"
    "out = pathlib.Path(next(word for word in given if word.endswith('.out.json')))\n"
    "files = [pathlib.Path(w).read_text() for w in given if w.endswith('config.yaml')]\n"
    "seen = json.loads(out.read_text()) if out.exists() else []\n"
    "out.write_text(json.dumps([*seen, {'argv': given, 'env': dict(os.environ), 'files': "
    "files}]))\n"
    "sys.exit(1 if '--fails-first' in given and not seen else 0)\n"
)


def _named(secret: Secret) -> str:
    return secret.name.replace("-", "_")


def _literal(value: str) -> str:
    return value.replace("${", "$${")


class Planted:
    """A preset with secrets in one place, and what is launched of it."""

    def __init__(self, cli: CommandLine, name: str, place: int) -> None:
        self.cli, self.name, self.secrets = cli, name, secrets_of(place)
        self.out = cli.folder / f"{name}.out.json"
        self.preset: dict[str, Any] = {
            "launcher": "python",
            "script": str(cli.folder / "dump.py"),
            "interpreter": "${python}",
            "arguments": [str(self.out)],
            "gpus": 0,
        }
        self.options: list[str] = []
        self.inherited: dict[str, str] = {}

    def launch(self) -> RunDirectory:
        folder = self.cli.folder / "presets"
        folder.mkdir(exist_ok=True)
        (folder / f"{self.name}.yaml").write_text(yaml.safe_dump(self.preset))
        return self.cli.launch(self.name, *self.options, **self.inherited)

    def given(self) -> str:
        """Everything that the program got, at its last attempt, as text."""
        last = json.loads(self.out.read_text())[-1]
        texts = [*last["argv"], *last["env"].values(), *last["files"]]
        return "\n".join(texts).replace('\\"', '"')


def _places(cli: CommandLine) -> list[Planted]:
    made: list[Planted] = []

    def plant(name: str) -> Planted:
        made.append(Planted(cli, name, len(made)))
        return made[-1]

    variables = plant("variables")
    variables.preset["environment"] = {_named(s): s.value for s in variables.secrets}
    override = plant("override")
    for s in override.secrets:
        override.options += ["--set", f"environment.{_named(s)}={json.dumps(s.value)}"]
    values = plant("values")
    values.preset["parameters"] = {
        _named(s): {"value": s.value, "type": "str"} for s in values.secrets
    }
    given = plant("given")
    given.preset["parameters"] = {_named(s): {"value": "x", "type": "str"} for s in given.secrets}
    for s in given.secrets:
        given.options += ["--set", f"{_named(s)}={json.dumps(s.value)}"]
    joined = plant("joined")
    joined.preset["arguments"] += [f"--{s.name}={s.value}" for s in joined.secrets]
    split = plant("split")
    split.preset["arguments"] += [w for s in split.secrets for w in (f"--{s.name}", s.value)]
    assigned = plant("assigned")
    assigned.preset["arguments"] += [f"{s.name}={s.value}" for s in assigned.secrets]
    scripted = plant("scripted")
    scripted.preset["arguments"] += [
        f"export {_named(s)}={shlex.quote(s.value)}; train" for s in scripted.secrets
    ]
    restarted = plant("restarted")
    restarted.preset["arguments"] += ["--fails-first", "--out", "x"]
    restarted.preset["checkpoints"] = str(restarted.out)
    restarted.preset["restart"] = {
        "times": 1,
        "backoff": "0.05s",
        "arguments": ["${checkpoint}"] + [f"--{s.name}={s.value}" for s in restarted.secrets],
    }
    copied = plant("copied")
    (cli.folder / "config.yaml").write_text(
        yaml.safe_dump({"lr": 0.1, **{_named(s): s.value for s in copied.secrets}}, width=1000)
    )
    copied.preset["config"] = {
        "file": str(cli.folder / "config.yaml"),
        "flag": "",
        "parameters": {"lr": {}},
    }
    copied.options = ["--set", "lr=0.2"]
    repeated = plant("repeated")
    repeated.preset["parameters"] = {
        _named(s): {"value": s.value, "type": "str"} for s in repeated.secrets
    }
    repeated.preset["arguments"] += [
        f"--also=${{parameters.{_named(s)}}}" for s in repeated.secrets
    ]
    inherited = plant("inherited")
    inherited.inherited = {_named(s): s.value for s in inherited.secrets}
    return made


def _own_commands(cli: CommandLine) -> list[tuple[RunDirectory, Planted]]:
    """A command after `--`, and one that its shell filled in from a secret variable."""
    found = []
    for number, name in enumerate(("own", "filled"), 20):
        planted = Planted(cli, name, number)
        words = [w for s in planted.secrets for w in (f"--{s.name}", s.value)]
        if name == "filled":
            planted.inherited = {f"V{i}_TOKEN": s.value for i, s in enumerate(planted.secrets)}
            words = [f"--v{i}={s.value}" for i, s in enumerate(planted.secrets)]
        command = ["python3", str(cli.folder / "dump.py"), str(planted.out), *words]
        run = cli.launch("--gpus", "0", "--", *command, **planted.inherited)
        found.append((run, planted))
    return found


def _uncommitted(cli: CommandLine) -> list[Secret]:
    """Secrets in a change of a tracked file that nobody has committed."""
    settings = cli.folder / "settings.py"
    settings.write_text("x = 1\n")
    for words in (
        ["init", "-q", "."],
        ["add", "settings.py"],
        ["-c", "user.email=a@b", "-c", "user.name=a", "commit", "-qm", "a"],
    ):
        subprocess.run(["git", *words], cwd=cli.folder, check=True)
    secrets = secrets_of(30)
    settings.write_text("x = 1\n" + "".join(f"{_named(s)} = {s.value!r}\n" for s in secrets))
    return secrets


def _shown(cli: CommandLine, runs: list[RunDirectory]) -> dict[str, str]:
    """What every command prints of the runs, and what it writes for others."""
    commands: list[list[str]] = []
    for run in runs:
        commands += [[command, run.id] for command in ("status", "diagnose", "metrics", "remedy")]
        commands += [
            ["status", run.id, "--json"],
            ["plan", "--again", run.id],
            ["report", run.id, "-o", str(cli.folder / f"{run.id}.html")],
            ["presets", "save", f"saved-{run.id}", "--from", run.id],
        ]
    both = [runs[0].id, runs[4].id]
    commands += [["list", "--all"], ["list", "--all", "--json"]]
    commands += [["compare", *both], ["compare", *both, "--json"]]
    commands += [["cost"], ["cost", "--json"], ["cost", "export"]]
    for preset in sorted((cli.folder / "presets").glob("*.yaml")):
        name = preset.stem
        commands += [["plan", name], ["plan", name, "--json"]]
        commands += [["service", "unit", name], ["verify", name]]
    said = cli.run_each(commands)
    assert all(said)
    shown = {" ".join(words): text for words, text in zip(commands, said, strict=True)}
    shown |= {f"{run.id}.html": (cli.folder / f"{run.id}.html").read_text() for run in runs}
    for path in (config_dir() / "presets").glob("saved-*"):
        shown[path.name] = path.read_text()
    assert any(name.startswith("saved-") for name in shown)
    return shown


def test_no_planted_secret_is_written_or_shown_and_each_reaches_its_program(
    cli: CommandLine,
) -> None:
    (cli.folder / "dump.py").write_text(DUMP)
    everything = _uncommitted(cli)
    places = _places(cli)
    started = [(planted.launch(), planted) for planted in places] + _own_commands(cli)
    for run, planted in started:
        assert cli.ended(run)["state"] == "done", (planted.name, run.output.read_text())
        got = planted.given()
        missing = [s for s in planted.secrets if s.value not in got and s.bare not in got]
        assert not missing, (planted.name, missing)
        assert MASK not in got, planted.name
        everything += planted.secrets
    assert len({s.bare for s in everything}) == len(everything) >= 40 * 12
    texts = {
        str(path): content.decode("utf-8", "replace")
        for path, content in files_below(cli.state.root).items()
    }
    texts |= _shown(cli, [run for run, _ in started])
    seen = {
        (where, secret.name, secret.bare)
        for where, text in texts.items()
        for secret in everything
        if secret.bare in text
    }
    assert not seen, "\n".join(map(str, sorted(seen)))


def test_a_command_s_secret_is_gone_with_its_run_and_can_be_given_again(cli: CommandLine) -> None:
    words = ["sh", "-c", 'echo "$*"', "train", "--token=hush-hush-1"]
    first = cli.launch("--gpus", "0", "--", *words)
    assert cli.ended(first)["state"] == "done"
    assert first.output.read_text() == "--token=hush-hush-1\n"
    refused = cli.run("launch", "--again", first.id, exits=2)
    assert was_secret("command") in refused.stderr and "-- --flag" in refused.stderr
    again = cli.launch("--again", first.id, "--", "--token=hush-hush-2")
    assert cli.ended(again)["state"] == "done"
    assert again.output.read_text() == "--token=hush-hush-2\n"
    assert "hush" not in again.plan.read_text() + again.spec.read_text()


def test_a_waiting_command_keeps_its_secret_though_its_supervisor_is_killed(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FRESNEL_GPUS", "sim:1xH100")
    cli.run("drain", "on")
    run = cli.launch("--gpus", "1", "--", "sh", "-c", 'echo "$*"', "train", "--token=hush-hush-3")
    cli.kill_supervisor(run)
    assert "hush" not in run.plan.read_text() + run.spec.read_text()
    cli.run("list")
    cli.run("drain", "off")
    assert cli.ended(run)["state"] == "done"
    assert run.output.read_text() == "--token=hush-hush-3\n"
