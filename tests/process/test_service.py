"""`service`: the unit for after a boot, and classic units; no systemd is asked for here."""

import configparser
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.process.conftest import CommandLine

UNIT = Path(".config/systemd/user/fresnel-tui.service")


def read_unit(text: str) -> configparser.ConfigParser:
    """A unit as an INI file; keys may come more than once, of which the last is kept."""
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string(text)
    return unit


def test_a_unit_is_installed_shown_and_removed(cli: CommandLine, tmp_path: Path) -> None:
    assert cli.run("service", "status", exits=3, HOME=str(tmp_path)).stderr.startswith("not inst")
    cli.run("service", "install", exits=None, HOME=str(tmp_path))
    unit = read_unit((tmp_path / UNIT).read_text())
    assert unit["Service"]["KillMode"] == "process", "what it starts outlives it"
    assert str(UNIT) in cli.run("service", "status", HOME=str(tmp_path)).stdout
    # What the unit runs works, from its folder and with nothing of this environment.
    done = subprocess.run(
        shlex.split(unit["Service"]["ExecStart"]),
        cwd=unit["Service"]["WorkingDirectory"],
        env={"FRESNEL_STATE_DIR": str(cli.state.root), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "0 runs taken over" in done.stderr
    enabled = tmp_path / UNIT.parent / "default.target.wants" / UNIT.name
    enabled.parent.mkdir(exist_ok=True)
    enabled.is_symlink() or enabled.symlink_to(tmp_path / UNIT)
    cli.run("service", "remove", HOME=str(tmp_path))
    assert not (tmp_path / UNIT).exists() and not enabled.is_symlink()


def test_a_classic_unit_runs_the_preset_s_command(cli: CommandLine) -> None:
    marks = cli.folder / "100% $HOME 'quoted'"
    (cli.folder / "p.yaml").write_text(
        "launcher: command\nshell: true\n"
        f'command: printf %s "$GREETING" > {shlex.quote(str(marks))}\n'
        "gpus: 0\nenvironment: {GREETING: 'say \"hi\" \\ 5%', MY_TOKEN: hidden}\n"
        "restart: {times: 3, backoff: 10s}\nstop: {ladder: [stop-file 60s, SIGINT 30s]}\n"
    )
    told = cli.run("service", "unit", "p.yaml")
    unit = read_unit(told.stdout)["Service"]
    assert (unit["Restart"], unit["RestartSec"], unit["KillSignal"]) == (
        "on-failure",
        "10s",
        "SIGINT",
    )
    assert unit["TimeoutStopSec"] == "95s"
    assert "hidden" not in told.stdout and "MY_TOKEN" in told.stderr
    # systemd halves %% and $$; what is left reads as a shell reads it.
    words = [w.replace("%%", "%").replace("$$", "$") for w in shlex.split(unit["ExecStart"])]
    (greeting,) = [
        line.split("=", 1)[1]
        for line in told.stdout.splitlines()
        if line.startswith('Environment="GREETING')
    ]
    value = shlex.split(greeting)[0].split("=", 1)[1].replace("%%", "%")
    subprocess.run(
        words, cwd=cli.folder, env={"GREETING": value, "PATH": "/bin:/usr/bin"}, check=True
    )
    assert marks.read_text() == 'say "hi" \\ 5%'


PORTED = """\
launcher: torchrun
interpreter: {python}
script: train.py
gpus: 0
environment: {{MY_PORT: "${{port}}"}}
parameters: {{resume: {{value: null, type: str}}, out: {{value: "${{run_dir}}/x", type: str}}}}
resume: {{parameter: resume, auto: auto-or-new}}
"""


def test_a_classic_unit_resumes_takes_a_free_port_and_has_a_folder_of_its_own(
    cli: CommandLine,
) -> None:
    (cli.folder / "p.yaml").write_text(PORTED.format(python=sys.executable))
    (cli.folder / "train.py").write_text("")
    text = cli.run("service", "unit", "p.yaml").stdout
    assert str(cli.state.root) not in text, "the folder of a run that never was"
    unit = read_unit(text)["Service"]
    folder = cli.folder / "p-service"
    command = unit["ExecStart"].replace("%%", "%").replace("$$", "$").replace("\\\\", "\\")
    # A stand-in of Python that says how it is called, as systemd would call it.
    says = cli.folder / "says"
    says.write_text(f'#!/bin/sh\n[ "$1" = -c ] && exec {sys.executable} "$@"\necho "$MY_PORT $@"\n')
    says.chmod(0o755)
    words = [word.replace(sys.executable, str(says)) for word in shlex.split(command)]
    ports = set()
    for _ in range(3):
        subprocess.run(shlex.split(unit["ExecStartPre"]), check=True)
        done = subprocess.run(words, capture_output=True, text=True, check=True, env={})
        port, *called = done.stdout.split()
        assert f"--master-port={port}" in called and called[-2:] == ["--resume", "auto-or-new"]
        assert called[called.index("--out") + 1] == str(folder / "x")
        ports.add(port)
    assert len(ports) > 1 and folder.is_dir()
    if shutil.which("systemd-analyze"):
        (cli.folder / "p.service").write_text(text)
        subprocess.run(["systemd-analyze", "verify", cli.folder / "p.service"], check=True)


@pytest.mark.parametrize(
    ("words", "said"),
    [(["unit"], "which preset?"), (["install", "example"], "example")],
)
def test_what_does_not_go_together_is_said(cli: CommandLine, words: list[str], said: str) -> None:
    assert said in cli.run("service", *words, exits=2).stderr
