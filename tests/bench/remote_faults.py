"""What goes wrong with rented machines, each fault made for real.

`python tests/bench/remote_faults.py [ROW …]`. A real sshd on a loopback port each; mounts need root.
"""

import os
import random
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import msgspec
import psutil

from runners.places.ssh.node_groups import find_group
from runners.places.ssh.registry import RemoteRegistry
from tests.process.conftest import CommandLine
from tests.remote.conftest import add, put_away
from tests.remote.lab import Lab as NetworkLab
from tests.remote.machines import RentedMachine, Wire
from tests.support import eventually

_AHEAD = "import time; now = time.time; time.time = lambda: now() + 18000\n"


class Lab:
    """A command line, and machines that end with it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        os.environ["FRESNEL_STATE_DIR"] = str(folder / "state")
        (folder / "work").mkdir()
        self.line = CommandLine(folder / "work")
        self.machines: list[RentedMachine] = []

    def rent(self, name: str = "rented", **how: str) -> RentedMachine:
        """A machine that was added and set up."""
        machine = RentedMachine(self.folder / f"machine-{name}", name, **how)
        self.machines.append(machine)
        add(self.line, machine)
        return machine

    def runs(self, machine: RentedMachine) -> list[str]:
        """The runs that were made there."""
        folder = machine.state / "runs"
        return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []

    def close(self) -> None:
        """End everything."""
        for machine in self.machines:
            self.line.run("kill", "--all", "--host", machine.name, exits=None)
        put_away(self.line)
        for machine in self.machines:
            machine.wire.close()
            machine.stop()


@contextmanager
def tmpfs(place: Path, size: str) -> Iterator[None]:
    """A small disk at `place`."""
    place.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", place], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", place], check=True)


def fill(place: Path, left: int) -> None:
    """Leave so many bytes free."""
    found = os.statvfs(place)
    (place / "fill").write_bytes(bytes(found.f_bavail * found.f_frsize - left))


def agent_killed(lab: Lab) -> str:
    """The agent is killed five times while a log is followed."""
    lab.rent()
    program = "for i in $(seq 900); do echo line $i; sleep 0.02; done"
    lab.line.run("launch", "--gpus", "0", "--host", "rented", "--", "sh", "-c", program)
    followed = lab.folder / "followed"
    with followed.open("wb") as file:
        follower = lab.line.begin("logs", "-f", "last", "--host", "rented", stdout=file)
        for _ in range(5):
            before = followed.stat().st_size
            eventually(lambda before=before: followed.stat().st_size > before)
            for process in psutil.process_iter(["cmdline"]):
                words = process.info["cmdline"] or []
                if "host-agent" in words and str(lab.folder) in process.environ().get("HOME", ""):
                    process.kill()
            time.sleep(1)
        follower.wait(120)
    numbers = [int(text.split()[1]) for text in followed.read_text().splitlines()]
    return f"{len(numbers)} lines, {'in order' if numbers == list(range(1, 901)) else 'WRONG'}"


def launches_over_cuts(lab: Lab) -> str:
    """16 launches, each over a line that is cut one to three times at random moments."""
    machine, chance, right = lab.rent(), random.Random(7), 0
    for i in range(16):
        before = set(lab.runs(machine))
        words = ("launch", "--gpus", "0", "--host", "rented", "--", "true", str(i))
        child = lab.line.begin(*words)
        for _ in range(chance.randint(1, 3)):
            time.sleep(chance.uniform(0.05, 0.8))
            machine.wire.cut()
        said, _ = child.communicate(timeout=240)
        made = set(lab.runs(machine)) - before
        right += made == {said.decode().strip()}
    return f"{right} of 16 started exactly once, with the id that was printed"


def client_killed(lab: Lab) -> str:
    """The client of a launch is killed at a random moment."""
    machine, chance, counts = lab.rent(), random.Random(3), []
    for i in range(6):
        before = len(lab.runs(machine))
        child = lab.line.begin("launch", "--gpus", "0", "--host", "rented", "--", "true", str(i))
        time.sleep(chance.uniform(0.2, 1.5))
        child.kill()
        child.wait()
        time.sleep(3)
        counts.append(len(lab.runs(machine)) - before)
    return f"runs started: {counts}"


def key_changed(lab: Lab) -> str:
    """The key changed; what the hint advises is done as it stands there."""
    machine = lab.rent()
    machine.new_host_key()
    refused = lab.line.run("list", "--host", "rented", exits=4).stderr
    advised = refused.partition("`fresnel-tui ")[2].partition("`")[0]
    lab.line.run(*shlex.split(advised))
    host = RemoteRegistry(lab.line.state).find("rented")
    kept = host.port == machine.wire.port and len(host.options) == 2
    return f"refused; done as the hint says, port and options are kept: {kept}"


def disk_full_there(lab: Lab) -> str:
    """No room there: push, launch, host test."""
    machine = lab.rent()
    with tmpfs(machine.home / "fresnel", "1m"), tmpfs(machine.home / ".local", "2m"):
        lab.line.run("list", "--host", "rented")
        (lab.line.folder / "presets").mkdir()
        (lab.line.folder / "data").mkdir()
        (lab.line.folder / "data" / "large").write_bytes(os.urandom(3 << 20))
        preset = "launcher: command\ncommand: [ls]\ngpus: 0\n"
        preset += "parameters: {data_dir: {value: data, type: str}}\n"
        (lab.line.folder / "presets" / "mine.yaml").write_text(preset)
        pushed = lab.line.run("push", "mine", "--host", "rented", exits=None)
        fill(machine.home / ".local", 20 << 10)
        words = ("launch", "--gpus", "0", "--host", "rented", "--", "/bin/true")
        launched = lab.line.run(*words, exits=None)
        left = lab.line.run("list", "--host", "rented", "--json").stdout.strip()
        fill(machine.home / "fresnel", 0)
        tested = lab.line.run("host", "test", "rented", exits=None)
        lines = [
            next(line[-110:] for line in done.stderr.splitlines() if line.startswith("fresnel-tui"))
            for done in (pushed, launched, tested)
        ]
        said = f"push {pushed.returncode}: {lines[0]} | launch {launched.returncode}: {lines[1]}"
        return f"{said} | list {left} | test {tested.returncode}: {lines[2]}"


def disk_full_here(lab: Lab) -> str:
    """No room here for what is fetched."""
    lab.rent()
    program = "import os; path = os.environ['FRESNEL_RUN_DIR'] + '/m.onnx'; "
    program += "open(path, 'wb').write(bytes(9_000_000))"
    words = ("launch", "--gpus", "0", "--wait", "--host", "rented", "--", "python3", "-c", program)
    run = lab.line.run(*words).stdout.strip()
    with tmpfs(lab.folder / "small", "4m"):
        words = ("fetch", run, "--host", "rented", "--to", str(lab.folder / "small"))
        done = lab.line.run(*words, exits=None)
        return f"{done.returncode}: {done.stderr.strip().splitlines()[0]}"


def clock_ahead(lab: Lab) -> str:
    """The clock there is five hours ahead."""
    machine = lab.rent()
    machine.write("ahead/sitecustomize.py", _AHEAD)
    launcher = machine.home / "bin" / "fresnel-tui"
    text = launcher.read_text()
    launcher.write_text(text.replace("PYTHONPATH=", f"PYTHONPATH={machine.home}/ahead:"))
    tested = lab.line.run("host", "test", "rented").stdout
    return next(line for line in tested.splitlines() if "clock" in line)


def one_session(lab: Lab) -> str:
    """One session on a connection: launch, logs, fetch."""
    lab.rent(more="MaxSessions 1")
    words = ("launch", "--gpus", "0", "--wait", "--host", "rented", "--", "echo", "up")
    run = lab.line.run(*words).stdout.strip()
    lab.line.run("logs", run, "--host", "rented")
    lab.line.run("fetch", run, "--host", "rented", "--to", "got")
    return "launch, logs, fetch: right"


def ipv6(lab: Lab) -> str:
    """An address as people write it: add, test, launch, fetch by rsync."""
    machine = lab.rent()
    wire = Wire(machine.port, listen="::1")
    registry = RemoteRegistry(lab.line.state)
    before = registry.find("rented")
    user = before.address.partition("@")[0]
    lab.line.run(
        "host", "add", "rented", f"{user}@[::1]:{wire.port}", *machine.options, "--replace"
    )
    after = registry.find("rented")
    registry.save(msgspec.structs.replace(before, address=after.address, port=after.port))
    lab.line.run("host", "test", "rented")
    words = ("launch", "--gpus", "0", "--wait", "--host", "rented", "--", "echo", "up")
    run = lab.line.run(*words).stdout.strip()
    lab.line.run("fetch", run, "--host", "rented", "--to", "got")
    wire.close()
    return f"{after.address} port {after.port == wire.port}: add, test, launch, fetch right"


def frozen(lab: Lab) -> str:
    """What copies there stands still: how long until somebody says so."""
    machine = lab.rent()
    registry = RemoteRegistry(lab.line.state)
    registry.save(msgspec.structs.replace(registry.find("rented"), has_rsync=False))
    words = ("launch", "--gpus", "0", "--wait", "--host", "rented", "--", "echo", "up")
    run = lab.line.run(*words).stdout.strip()
    launcher = machine.home / "bin" / "fresnel-tui"
    text = launcher.read_text()
    launcher.write_text(
        text.replace(
            "#!/bin/sh\n",
            '#!/bin/sh\n[ "$2" = send ] && { printf "\\n\\036fresnel-tui link 1\\n"; exec sleep 600; }\n',
        )
    )
    begun = time.monotonic()
    fetch = lab.line.begin("fetch", run, "--host", "rented", "--to", "got")
    _, problem = fetch.communicate(timeout=300)
    return f"after {time.monotonic() - begun:.0f} s, {fetch.returncode}: {problem.decode().strip()[:150]!r}"


def node_unreached(lab: Lab) -> str:
    """A node's line is dead while the other stands still: when is it an alert."""
    machines = [lab.rent("a"), lab.rent("b")]
    program = ("sh", "-c", "echo up; sleep 300")
    lab.line.run("launch", "--hosts", "a,b", "--gpus", "0", "--name", "both", "--", *program)
    time.sleep(25)
    machines[1].wire.close()
    begun = time.monotonic()
    alert = eventually(lambda: find_group(lab.line.state, "both").alert, 90)
    took = time.monotonic() - begun
    lab.line.run("nodes", "stop", "both", "--force", exits=None)
    return f"after {took:.0f} s: {alert}"


def node_cable(_: Lab) -> str:
    """The same with a cable that is pulled, behind a jump host, in a network of its own."""
    with tempfile.TemporaryDirectory(prefix="fresnel-bench-") as name:
        net = NetworkLab(Path(name) / "lab")
        try:
            for machine in "ab":
                net.set_up(machine)
                net.machine(machine).write("fresnel/here", "")
            program = ("sh", "-c", "echo up; sleep 300")
            words = ("launch", "--hosts", "a,b", "--gpus", "0", "--name", "both", "--", *program)
            net.line.run(*words)
            time.sleep(25)
            net.network.unplug("b")
            begun = time.monotonic()
            alert = eventually(lambda: find_group(net.line.state, "both").alert, 120)
            took = time.monotonic() - begun
            net.network.plug("b")
            eventually(lambda: not find_group(net.line.state, "both").alert, 120)
            net.line.run("nodes", "stop", "both", "--force", exits=None)
            return f"after {took:.0f} s: {alert}; gone when it was plugged in again"
        finally:
            net.close()


ROWS: tuple[Callable[[Lab], str], ...] = (
    agent_killed,
    launches_over_cuts,
    client_killed,
    key_changed,
    disk_full_there,
    disk_full_here,
    clock_ahead,
    one_session,
    ipv6,
    frozen,
    node_unreached,
    node_cable,
)


def main() -> None:
    """Make every fault, and print what came of it."""
    wanted = sys.argv[1:]
    for row in ROWS:
        if wanted and row.__name__ not in wanted:
            continue
        with tempfile.TemporaryDirectory(prefix="fresnel-bench-") as name:
            lab = Lab(Path(name))
            try:
                print(f"{row.__name__} (load {os.getloadavg()[0]:.1f}): {row(lab)}", flush=True)
            except Exception as error:
                print(f"{row.__name__}: FAILED: {str(error)[-600:]}", flush=True)
            finally:
                lab.close()


if __name__ == "__main__":
    main()
