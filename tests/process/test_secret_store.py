"""`secret` and `--env`: a value reaches its program, and is in nothing that is written or shown."""

import os
import stat
from pathlib import Path

from tests.process.conftest import CommandLine
from tests.support import files_below

_VALUE = "planted-9c1f77"
_SHOWS = ("--", "sh", "-c", "echo given=$LABEL; sleep 0.1")


def kept(cli: CommandLine, name: str) -> None:
    """Keep the value under this name, as if it were piped in."""
    from runners.state.secret_store import keep_secret

    keep_secret(cli.state, name, _VALUE)


def written(folder: Path, besides: Path) -> list[Path]:
    """The files below `folder` that hold the value."""
    files = files_below(folder).items()
    return [path for path, content in files if _VALUE.encode() in content and path != besides]


def test_a_secret_reaches_its_program_and_nothing_else(cli: CommandLine) -> None:
    kept(cli, "LABEL")
    place = cli.state.secrets / "LABEL"
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    assert stat.S_IMODE(place.parent.stat().st_mode) == 0o700
    assert cli.json("secret") == {"secrets": ["LABEL"]}
    length = ("--", "sh", "-c", "echo ${#LABEL}")
    run = cli.command(*length[1:], options=("--env", "LABEL"))
    assert cli.ended(run)["state"] == "done"
    assert run.output.read_text().strip() == str(len(_VALUE))
    assert written(cli.state.root, besides=place) == []
    planned = cli.run("plan", "--env", "LABEL", *length)
    assert _VALUE not in planned.stdout + planned.stderr
    # Launched again it has it still, by its name.
    again = cli.launch("--again", run.id)
    cli.ended(again)
    assert again.output.read_text() == run.output.read_text()
    cli.run("secret", "remove", "LABEL")
    cli.run("secret", "remove", "LABEL", exits=3)
    cli.run("launch", "--env", "LABEL", *length, exits=2)
    cli.run("launch", "--again", run.id, exits=2)


def test_a_preset_names_a_secret(cli: CommandLine) -> None:
    kept(cli, "LABEL")
    (cli.folder / "presets").mkdir()
    preset = cli.folder / "presets" / "own.yaml"
    preset.write_text(
        'launcher: command\ncommand: [sh, -c, "echo ${#TOKEN}"]\ngpus: 0\n'
        'environment: {TOKEN: "${secrets.LABEL}"}\n'.replace("${#TOKEN}", "$${#TOKEN}")
    )
    run = cli.launch("own")
    cli.ended(run)
    assert run.output.read_text().strip() == str(len(_VALUE))
    preset.write_text('launcher: command\ncommand: [echo, "${secrets.LABEL}"]\ngpus: 0\n')
    assert _VALUE not in cli.run("launch", "own", exits=2).stderr


def test_variables_of_the_command_line(cli: CommandLine) -> None:
    shown = cli.command(*_SHOWS[1:], options=("--env", "LABEL=a ${b} c"))
    cli.ended(shown)
    assert shown.output.read_text() == "given=a ${b} c\n"
    of_here = cli.launch("--gpus", "0", "--env", "LABEL", *_SHOWS, LABEL="from here")
    cli.ended(of_here)
    assert of_here.output.read_text() == "given=from here\n"
    cli.run("launch", "--env", "A-B=1", *_SHOWS, exits=2)
    assert "LABEL" not in os.environ
