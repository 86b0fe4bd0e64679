"""A rented machine that asks for a password and then for a code: somebody answers once."""

from collections.abc import Iterator
from pathlib import Path

import pexpect
import pytest

from tests.remote.lab import Lab
from tests.remote.network import why_no_network
from tests.support import CEILING_S

_ASKING = """\
UsePAM yes
KbdInteractiveAuthentication yes
AuthenticationMethods keyboard-interactive
"""

# The first module asks for the password, pam_stress asks anew, and the third looks at that answer.
_PAM = """\
auth requisite pam_exec.so expose_authtok quiet {folder}/password
auth requisite pam_stress.so
auth requisite pam_exec.so expose_authtok quiet {folder}/code
account required pam_permit.so
session required pam_permit.so
"""


def why_no_pam() -> str:
    """Why no login with two questions can be had here; empty when it can."""
    modules = [Path(top).glob("*/security/pam_stress.so") for top in ("/lib", "/usr/lib")]
    if not any(True for found in modules for _ in found):
        return "no pam_stress, which asks a second question"
    return why_no_network()


@pytest.fixture
def asking(tmp_path: Path) -> Iterator[Lab]:
    """A network with the machine `b`, which asks two questions at every login."""
    if why_no_pam():
        pytest.skip(why_no_pam())
    lab = Lab(tmp_path / "lab")
    services = lab.network.etc("b") / "pam.d"
    services.mkdir()
    folder = tmp_path / "lab" / "machine-b"
    (services / "sshd").write_text(_PAM.format(folder=folder))

    def checks(_: object) -> None:
        for name, right in (("password", "correct horse"), ("code", "123456")):
            program = folder / name
            program.write_text(f"#!/bin/sh\n[ \"$(tr -d '\\000')\" = '{right}' ]\n")
            program.chmod(0o755)

    try:
        lab.set_up("b", _ASKING, checks)
        yield lab
    finally:
        lab.close()


def _connect(lab: Lab, *answers: str) -> "pexpect.spawn[bytes]":
    """`host connect` at a terminal, with these answers to what it asks."""
    line = lab.line
    words = [*line.begins, "host", "connect", "b"]
    child = pexpect.spawn(
        words[0],
        words[1:],
        cwd=str(line.folder),
        env=line.environment({}),
        timeout=CEILING_S,
        echo=False,
    )
    for answer in answers:
        child.expect_exact("assword: ")
        child.waitnoecho()
        child.sendline(answer)
    return child


def test_a_password_and_a_code_are_asked_for_once(asking: Lab) -> None:
    line = asking.line
    refused = line.run("list", "--host", "b", exits=4).stderr
    assert "fresnel-tui host connect b" in refused

    child = _connect(asking, "correct horse", "123456")
    child.expect_exact("b is connected")
    child.expect_exact(pexpect.EOF)
    child.wait()
    assert child.exitstatus == 0

    run = line.run("launch", "--gpus", "0", "--host", "b", "--wait", "--", "id", "-un").stdout
    assert line.run("logs", run.strip(), "--host", "b").stdout == "ben\n"


def test_a_wrong_code_lets_nobody_in(asking: Lab) -> None:
    child = _connect(asking, "correct horse", "000000", "correct horse", "1", "wrong")
    child.expect_exact("Permission denied")
    child.expect_exact("no connection was opened")
    child.expect_exact(pexpect.EOF)
    child.wait()
    assert child.exitstatus == 4
