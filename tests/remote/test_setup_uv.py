"""Setting up a rented machine whose only Python is too old: uv brings one, or says why not."""

import json
import platform
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.command_text import NO_INTERPRETER, NO_LINGERING, NO_PYTHON, NO_UV
from tests.remote.lab import Lab
from tests.remote.network import FarMachine, why_no_network
from tests.remote.pythons import OtherPython, download_needs, find_python, leave_only
from tests.remote.users import MachineDisk
from tests.support import CEILING_S

_INSTALL_S = 10 * CEILING_S
_OLD, _NEW = "3.9", "3.12"
# As logind answers a user who may not have lingering.
_LOGINCTL = '#!/bin/sh\n[ "$1" = show-user ] && echo no && exit\nexit 1\n'


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    """A network with a jump host."""
    if why_no_network():
        pytest.skip(why_no_network())
    lab = Lab(tmp_path / "lab")
    yield lab
    lab.close()


def test_uv_brings_a_python_where_there_is_only_an_old_one(lab: Lab, tmp_path: Path) -> None:
    old, new = find_python(_OLD), find_python(_NEW)
    if old is None or new is None:
        pytest.skip(f"no Python {_OLD} and {_NEW} here")
    wheels = tmp_path / "wheels"
    if problem := download_needs(new, wheels, "uv"):
        pytest.skip(f"uv and the panel's packages are not to be had: {problem}")

    def only_old(disk: MachineDisk) -> None:
        leave_only(disk, tmp_path / "programs", old.path)
        loginctl = tmp_path / "programs" / "loginctl"
        loginctl.write_text(_LOGINCTL)
        loginctl.chmod(0o755)

    machine = lab.add("old", shown=[old.prefix, new.prefix, wheels], alter=only_old)
    machine.write(".config/pip/pip.conf", "[global]\nno-index = true\n")
    code, said, problem = _set_up(lab)
    assert code == 1
    assert "no Python 3.10 there: bringing uv" in problem
    assert f"old {NO_PYTHON}, {NO_UV}" in problem

    machine.write(".config/pip/pip.conf", f"[global]\nno-index = true\nfind-links = {wheels}\n")
    settings = f'no-index = true\nfind-links = ["{wheels}"]\npython-downloads = "never"\n'
    machine.write(".config/uv/uv.toml", settings)
    code, said, problem = _set_up(lab)
    assert code == 1
    assert f"{NO_INTERPRETER} {_NEW}" in problem

    _as_if_downloaded(machine, new)
    code, said, problem = _set_up(lab)
    assert code == 0, problem
    done = json.loads(said)
    assert f"({_NEW}." in done["python"]
    assert f"{NO_LINGERING}: fresnel-tui doctor --host old" in done["at_logout"]
    words = ("launch", "--gpus", "0", "--host", "old", "--wait", "--", "python3", "-V")
    run = lab.line.run(*words).stdout.strip()
    assert lab.line.run("logs", run, "--host", "old").stdout.startswith(f"Python {_OLD}.")


def _set_up(lab: Lab) -> tuple[int, str, str]:
    """`host setup old`: its exit code, what it said, and what it complained of."""
    setup = lab.line.begin("host", "setup", "old", "--json")
    said, problem = setup.communicate(timeout=_INSTALL_S)
    return setup.returncode, said.decode(), problem.decode()


def _as_if_downloaded(machine: FarMachine, python: OtherPython) -> None:
    """Leave a Python where uv keeps those that it downloaded."""
    said = subprocess.run([python.path, "-V"], capture_output=True, text=True, check=True).stdout
    name = f"cpython-{said.split()[1]}-linux-{platform.machine()}-gnu"
    kept = machine.home / ".local" / "share" / "uv" / "python" / name
    kept.mkdir(parents=True)
    for part in python.prefix.iterdir():
        (kept / part.name).symlink_to(part)
    machine.own(machine.home / ".local")
