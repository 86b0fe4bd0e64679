"""Logouts, a shutdown and a boot under a real systemd: `make logouts`, as root on Debian or Ubuntu.

A Debian in a container of its own (debootstrap, systemd-nspawn: `apt install debootstrap
systemd-container`), with logind, an sshd and two users; in it, this checkout's wheel. Whoever logs
in there comes by ssh, as at a machine that is rented.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from runners.model.endings import EndingCause
from tests.packages import build
from tests.support import REPOSITORY, eventually

TOOLS = ("debootstrap", "systemd-nspawn", "unshare", "nsenter", "ssh", "ssh-keygen")
PACKAGES = "systemd,systemd-sysv,dbus,dbus-user-session,libpam-systemd,openssh-server,python3"
USER = "anna"
GPUS = "sim:4xH100"
LASTING_S = 15.0
"""A user's own systemd ends ten seconds after the last logout (logind.conf(5), UserStopDelaySec)."""
PROGRAM = "import time\nfor step in range(10**6): print('step', step, flush=True); time.sleep(1)\n"
# A hierarchy of control groups of its own, as systemd wants it, whatever this machine has.
BOOT = (
    "umount -R /sys/fs/cgroup; mount -t cgroup2 none /sys/fs/cgroup; mkdir -p /sys/fs/cgroup/box; "
    "echo $$ >/sys/fs/cgroup/box/cgroup.procs; exec systemd-nspawn --directory=$1 --boot "
    "--register=no --keep-unit --private-network --machine=box"
)


class Machine:
    """The container: made once, booted and shut down as often as needed."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "root"
        self.key = folder / "key"
        self.home = self.root / "home" / USER
        self._console = folder / "console.log"
        self._booted: subprocess.Popen[bytes] | None = None

    def make(self, wheel: Path) -> None:
        """Install Debian, once, and what is to be tested."""
        if not (self.root / "usr/bin/python3").exists():
            include = f"--include={PACKAGES}"
            words = ["debootstrap", "--variant=minbase", include, "stable", str(self.root)]
            subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
        if not self.key.exists():
            subprocess.run(["ssh-keygen", "-q", "-N", "", "-f", self.key], check=True)
        if not self.home.is_dir():
            self._inside("useradd", "-m", "-s", "/bin/bash", USER)
        for home, name in (("root", "root"), (f"home/{USER}", USER)):
            keys = self.root / home / ".ssh" / "authorized_keys"
            keys.parent.mkdir(mode=0o700, exist_ok=True)
            shutil.copy(self.key.with_suffix(".pub"), keys)
            self._inside("chown", "-R", f"{name}:", f"/{home}/.ssh")
        (python,) = (self.root / "usr/bin").glob("python3.[0-9]*[0-9]")
        packages = self.root / "usr/local/lib" / python.name / "dist-packages"
        shutil.rmtree(packages, ignore_errors=True)
        version = python.name.removeprefix("python")
        subprocess.run(
            [
                *(sys.executable, "-m", "pip", "install", "--quiet", "--no-compile"),
                *("--target", packages, "--python-version", version, "--only-binary=:all:", wheel),
            ],
            check=True,
        )
        command = self.root / "usr/local/bin/fresnel-tui"
        command.write_text("#!/usr/bin/python3\nfrom fresnel_tui import main\nmain()\n")
        command.chmod(0o755)
        (self.home / "train.py").write_text(PROGRAM)
        # Of everything in that user's systemd: what a boot starts again has no shell.
        settings = self.home / ".config/environment.d/gpus.conf"
        settings.parent.mkdir(parents=True, exist_ok=True)
        settings.write_text(f"FRESNEL_GPUS={GPUS}\n")
        self._inside("chown", "-R", f"{USER}:", f"/home/{USER}/.config")

    def _inside(self, *command: str) -> None:
        subprocess.run(["chroot", self.root, *command], check=True)

    def boot(self) -> None:
        """Boot it, and wait until one can log in."""
        with self._console.open("wb") as console:
            self._booted = subprocess.Popen(
                ["unshare", "--mount", "sh", "-c", BOOT, "boot", self.root],
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=console,
                start_new_session=True,
            )
        eventually(lambda: self.ssh("root", "true").returncode == 0, what="a login")

    def shut_down(self) -> float:
        """Have it shut down; the seconds that took."""
        assert self._booted is not None
        self.ssh("root", "systemd-run --quiet --on-active=1 systemctl poweroff")
        began = time.monotonic()
        self._booted.wait(120)
        return time.monotonic() - began

    def end(self) -> None:
        """Have it shut down, if it runs."""
        if self._booted is not None and self._booted.poll() is None:
            os.killpg(self._booted.pid, signal.SIGTERM)
            self._booted.wait(120)

    def ssh(self, user: str, command: str) -> "subprocess.CompletedProcess[str]":
        """Log in, run a command, log out."""
        first = f"/proc/{self._booted.pid if self._booted else 0}"
        children = Path(first, "task", Path(first).name, "children").read_text().split()
        options = ["-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-q"]
        return subprocess.run(
            [
                *("nsenter", "--target", *children[:1], "--net", "ssh", *options, "-i", self.key),
                *(f"{user}@127.0.0.1", f"export FRESNEL_GPUS={GPUS}; {command}"),
            ],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    def fresnel(self, *words: str) -> str:
        """What a command of ours says, on both streams."""
        done = self.ssh(USER, f"fresnel-tui {' '.join(words)}")
        return done.stdout + done.stderr

    def runs(self) -> dict[str, Any]:
        """The runs by their names."""
        found = json.loads(self.ssh(USER, "fresnel-tui list --json").stdout)
        return {run["name"]: run for run in found}

    def launch(self, name: str, gpus: int = 1, *options: str) -> str:
        """Launch a run that would go on for days; what is said of it."""
        given = ("launch", "--name", name, "--gpus", str(gpus), *options)
        return self.fresnel(*given, "--", "python3", "train.py")

    @contextmanager
    def logins(self, kills: bool, lingers: bool, scopes: bool = True) -> Iterator[None]:
        """A boot with this configuration, and without any run."""
        self.boot()
        settings = self.root / "etc/systemd/logind.conf.d/kill.conf"
        settings.parent.mkdir(exist_ok=True)
        settings.write_text(f"[Login]\nKillUserProcesses={'yes' if kills else 'no'}\n")
        self.ssh("root", f"loginctl {'enable' if lingers else 'disable'}-linger {USER}")
        (self.root / "usr/bin/systemd-run").chmod(0o755 if scopes else 0o700)
        shutil.rmtree(self.home / ".local", ignore_errors=True)
        self.shut_down()
        self.boot()
        try:
            yield
        finally:
            self.end()


def after_logout(machine: Machine) -> tuple[str, str, str]:
    """What a launch says, and state and cause of the run some time after the logout."""
    said = machine.launch("run")
    time.sleep(LASTING_S)
    run = machine.runs()["run"]
    return said, run["state"], (run["ending"] or {}).get("cause", "")


def check_survival(machine: Machine) -> None:
    """Where logind kills nobody, and where lingering is on, a run goes on."""
    for kills, lingers in ((False, False), (False, True), (True, True)):
        with machine.logins(kills, lingers):
            said, state, _ = after_logout(machine)
            assert state == "running" and "logout" not in said, (kills, lingers, said, state)


def check_ends(machine: Machine) -> None:
    """Where a logout ends it, the launch says so before, and the run afterwards."""
    for lingers, scopes in ((False, True), (True, False)):
        with machine.logins(kills=True, lingers=lingers, scopes=scopes):
            said, state, cause = after_logout(machine)
            assert "last logout" in said, said
            assert (state, cause) == ("stopped", EndingCause.LOGOUT), (state, cause)
            assert "WARN  logout" in machine.fresnel("doctor")


def check_shutdown(machine: Machine) -> None:
    """A shutdown starts nothing and waits for nothing; a boot brings back what is to come back."""
    with machine.logins(kills=True, lingers=True):
        machine.fresnel("service", "install")
        machine.launch("survives", 1, "--set", "restart.boot=true")
        machine.launch("plain")
        machine.launch("waits", 4)
        machine.fresnel("guard", "set", "--no-run", "5h")
        took = machine.shut_down()
        assert took < 30, f"the shutdown took {took:.0f} s"
        machine.boot()
        eventually(lambda: machine.runs()["survives"]["state"] == "running", what="it goes on")
        runs = machine.runs()
        assert runs["plain"]["ending"]["cause"] == EndingCause.PREEMPTED, runs["plain"]
        assert runs["survives"]["attempt"] == 2 and runs["waits"]["state"] == "queued", runs
        machine.fresnel("stop", "survives")
        eventually(lambda: machine.runs()["waits"]["state"] == "running", what="the next one")


def main() -> None:
    """Make the machine and check all of it; exits with the number of what failed."""
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if os.geteuid() != 0 or missing:
        sys.exit(f"make logouts needs root and {', '.join(TOOLS)}; not here: {', '.join(missing)}")
    folder = REPOSITORY / "build" / "logouts"
    folder.mkdir(parents=True, exist_ok=True)
    machine = Machine(folder)
    machine.make(build(folder / "dist", "wheel"))
    checks: tuple[Callable[[Machine], None], ...] = (check_survival, check_ends, check_shutdown)
    failed = 0
    try:
        for check in checks:
            try:
                check(machine)
                print(f"ok      {check.__doc__}")
            except AssertionError as error:
                failed += 1
                print(f"FAILED  {check.__doc__}\n        {error}")
    finally:
        machine.end()
    sys.exit(failed)


if __name__ == "__main__":
    main()
