"""Rented machines with users of their own, behind a jump host: the guide walked by each of them."""

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.remote.lab import Lab
from tests.remote.network import why_no_network
from tests.remote.pythons import download_needs, find_python, leave_only
from tests.support import CEILING_S

PRESET = """\
launcher: command
command: ["python3", "-c", "{program}"]
working_directory: ${{working_directory}}
parameters:
  data_dir: {{value: data, type: str}}
gpus: 1
"""

# Says who it is, where, in what, and what was pushed for it.
PROGRAM = (
    "import getpass, os, sys; "
    "print(getpass.getuser(), os.getcwd(), sys.version_info[:2], os.listdir(sys.argv[2]))"
)
VERSION = "import sys; print(sys.version_info[:2])"

_INSTALL_S = 10 * CEILING_S


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    """A network with a jump host."""
    if why_no_network():
        pytest.skip(why_no_network())
    lab = Lab(tmp_path / "lab")
    yield lab
    lab.close()


def test_each_user_has_a_panel_of_its_own(lab: Lab) -> None:
    line = lab.line
    for name, user in (("a", "anna"), ("b", "ben")):
        lab.set_up(name)
        machine = lab.machine(name)
        machine.home.chmod(0o700)
        words = ("sh", "-c", "id -un; pwd; ls /home/*")
        run = line.run("launch", "--gpus", "1", "--host", name, "--wait", "--", *words).stdout
        run = run.strip()
        said = line.run("logs", run, "--host", name).stdout
        assert said.splitlines()[:2] == [user, f"/home/{user}/fresnel"]
        assert [one["id"] for one in line.json("list", "--host", name)] == [run]
        output = machine.state / "runs" / run / "output.log"
        assert machine.user is not None
        assert output.stat().st_uid == machine.user.number

        line.run("fetch", run, "--host", name, "--to", "got")
        copy = line.folder / "got" / run / "output.log"
        assert copy.read_text() == said
        assert copy.stat().st_uid == os.getuid()
    assert "at login: ignored" in line.run("host", "test", "a").stdout


@pytest.mark.parametrize("shell", ["fish", "tcsh"])
def test_a_login_shell_of_another_kind(lab: Lab, shell: str) -> None:
    """Neither reads a line as sh does: words arrive byte for byte, and copies go both ways."""
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"no {shell} here: apt-get install {shell}")
    line = lab.line
    lab.set_up("b", shell=program)
    words = ("a b", "'", '"', "$HOME", "!1", "`id`", "*", "~", "\\", "{x,y}", "(", ";", "#", "é")
    show = ("--", "sh", "-c", 'printf "%s\\n" "$@"', "sh", *words)
    run = line.run("launch", "--gpus", "0", "--host", "b", "--wait", *show).stdout.strip()
    assert line.run("logs", run, "--host", "b").stdout.splitlines() == list(words)
    shown = line.run("host", "shell", "b", "--", "printf", "%s\\n", *words).stdout
    assert shown.splitlines() == list(words)
    named = line.run("host", "shell", "b", "--", "sh", "-c", "echo $SHELL; pwd").stdout
    assert named.splitlines() == [program, "/home/ben/fresnel"]
    tested = line.json("host", "test", "b")
    assert {step["step"]: step["ok"] for step in tested["steps"]}["shell"]
    line.run("fetch", run, "--host", "b", "--to", "got")
    # The machine's own, which is not the one that runs the tests where that is newer.
    asked = line.run("host", "shell", "b", "--", "python3", "-c", VERSION).stdout
    _walk(lab, "b", "ben", asked.strip())


def test_a_machine_with_nothing_but_python_3_10(lab: Lab, tmp_path: Path) -> None:
    python = find_python("3.10")
    if python is None:
        pytest.skip("no Python 3.10 with venv here")
    wheels = tmp_path / "wheels"
    if problem := download_needs(python, wheels):
        pytest.skip(f"no packages for Python 3.10 are to be had: {problem}")
    machine = lab.add(
        "old",
        shown=[python.prefix, wheels],
        alter=lambda disk: leave_only(disk, tmp_path / "programs", python.path),
    )
    # pip takes this `false` for "do not": what nothing imports need not be compiled.
    compiles = "[install]\nno-compile = false\n"
    pip = f"[global]\nno-index = true\nfind-links = {wheels}\n{compiles}"
    machine.write(".config/pip/pip.conf", pip)

    setup = lab.line.begin("host", "setup", "old", "--json")
    said, problem_there = setup.communicate(timeout=_INSTALL_S)
    assert setup.returncode == 0, problem_there.decode()
    done = json.loads(said)
    assert done["panel"] == "/home/olga/.local/share/fresnel-tui/bin/fresnel-tui"
    assert "(3.10." in done["python"]
    assert "on Python 3.10." in lab.line.run("host", "test", "old").stdout

    _walk(lab, "old", "olga", "(3, 10)")


def _walk(lab: Lab, name: str, user: str, python: str) -> None:
    """Push a preset, run it, fetch what it left, and end the machine."""
    line = lab.line
    (line.folder / "data").mkdir()
    (line.folder / "data" / "skull.jpg").write_bytes(b"pixels")
    (line.folder / "presets").mkdir()
    (line.folder / "presets" / "tiny.yaml").write_text(PRESET.format(program=PROGRAM))
    line.run("push", "tiny", "--host", name)
    run = line.run("launch", "tiny", "--host", name).stdout.strip()
    assert line.run("wait", run, "--host", name).returncode == 0
    said = line.run("logs", run, "--host", name).stdout
    assert said == f"{user} /home/{user}/fresnel {python} ['skull.jpg']\n"
    refused = line.run("host", "end", name, "--end-command", "true", "--yes", exits=4).stderr
    assert "fetch" in refused
    line.run("fetch", run, "--host", name, "--to", "got")
    assert (line.folder / "got" / run / "output.log").read_text() == said
    line.run("host", "end", name, "--end-command", "true", "--yes")
