"""A real sshd on loopback, for tests of what happens over a connection and when it is cut."""

import getpass
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from tests.support import REPOSITORY, eventually, free_port

SSHD = shutil.which("sshd", path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin")


class Sshd:
    """A server of our own on loopback: own host key, own port, one key of ours."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(mode=0o700)
        for name in ("host", "mine"):
            subprocess.run(
                ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True
            )
        port = free_port()
        (folder / "sshd_config").write_text(
            f"Port {port}\nListenAddress 127.0.0.1\nHostKey {folder}/host\n"
            f"AuthorizedKeysFile {folder}/mine.pub\nKexAlgorithms curve25519-sha256\n"
            f"PidFile {folder}/pid\nStrictModes no\nUsePAM no\nPasswordAuthentication "
            "no\nPermitRootLogin yes\n"
        )
        (folder / "ssh_config").write_text(
            f"Host box\nHostName 127.0.0.1\nPort {port}\nUser "
            f"{getpass.getuser()}\nIdentityFile {folder}/mine\n"
            f"IdentitiesOnly yes\nUserKnownHostsFile {folder}/known\nStrictHostKeyChecking "
            "accept-new\nLogLevel ERROR\n"
        )
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(exist_ok=True)  # Debian's sshd asks for it
        self.folder = folder
        assert SSHD is not None
        self.process = subprocess.Popen(
            [SSHD, "-D", "-e", "-f", folder / "sshd_config"], stderr=subprocess.DEVNULL
        )

        def answers() -> bool:
            with socket.socket() as probe:
                return probe.connect_ex(("127.0.0.1", port)) == 0

        eventually(answers, what="sshd listening")

    def command(self, *words: str) -> list[str]:
        """The client's command line for a program in a terminal over there."""
        kept = [
            f"{name}={os.environ[name]}"
            for name in os.environ
            if name.startswith(("FRESNEL_", "XDG_", "HOME"))
        ]
        there = ["env", *kept, f"PYTHONPATH={REPOSITORY}", "LANG=C.UTF-8", *words]
        return ["ssh", "-F", str(self.folder / "ssh_config"), "-tt", "box", " ".join(there)]


@contextmanager
def running_sshd(folder: Path) -> Iterator[Sshd]:
    """A server that ends with the block, its sessions too; the test is skipped without sshd."""
    if SSHD is None or shutil.which("ssh") is None:
        pytest.skip("no sshd here")
    server = Sshd(folder)
    try:
        yield server
    finally:
        for process in psutil.Process(server.process.pid).children(recursive=True):
            process.kill()
        server.process.kill()
        server.process.wait()
