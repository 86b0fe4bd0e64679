"""Fetching over a line that breaks, and what carries a copy: `python tests/bench/remote_copies.py`.

A real sshd on a loopback port. First a fetch of 60 MB at 3 MB/s with a cut every 10 s, by rsync and
by the stream; then rsync, the stream and sftp beside one another on a line of 25 ms each way.
"""

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import msgspec

from runners.places.ssh.registry import RemoteRegistry
from runners.places.ssh.rsync import make_copier
from runners.places.ssh.ssh import Ssh
from tests.process.conftest import CommandLine
from tests.remote.conftest import add, put_away
from tests.remote.machines import RentedMachine, Wire

WRITER = (
    "import os; folder = os.environ['FRESNEL_RUN_DIR']; "
    "[open(f'{folder}/curve_{i}.csv', 'wb').write(os.urandom(100_000)) for i in range(50)]; "
    "open(f'{folder}/model.onnx', 'wb').write(os.urandom(55_000_000))"
)
EVERY_S = 10.0


def main() -> None:
    """Fetch, measure, print."""
    with tempfile.TemporaryDirectory(prefix="fresnel-bench-") as name:
        folder = Path(name)
        os.environ["FRESNEL_STATE_DIR"] = str(folder / "state")
        (folder / "work").mkdir()
        line = CommandLine(folder / "work")
        machine = RentedMachine(folder / "machine")
        try:
            print(f"load {os.getloadavg()[0]:.1f}")
            for way in ("rsync", "stream"):
                _fetch(line, machine, way)
            _compare(line, machine, folder)
        finally:
            put_away(line)
            machine.wire.close()
            machine.stop()


def _over(line: CommandLine, machine: RentedMachine, way: str, wire: Wire) -> Ssh:
    """The machine, reached over this line."""
    machine.wire.close()
    machine.wire = wire
    registry = RemoteRegistry(line.state)
    if "rented" in registry.names():
        Ssh(registry, registry.find("rented")).disconnect()
        registry.forget("rented")
    registry.save(msgspec.structs.replace(add(line, machine), has_rsync=way == "rsync"))
    return Ssh(registry, registry.find("rented"))


def _fetch(line: CommandLine, machine: RentedMachine, way: str) -> None:
    wire = Wire(machine.port, rate=3e6)
    _over(line, machine, way, wire)
    words = ("launch", "--gpus", "0", "--wait", "--host", "rented", "--", "python3", "-c", WRITER)
    run = line.run(*words).stdout.strip()
    over, cuts = threading.Event(), 0
    begun = time.monotonic()
    fetch = line.begin("fetch", run, "--host", "rented", "--to", f"got-{way}", "--json")
    while fetch.poll() is None:
        if not over.wait(0.1) and time.monotonic() - begun > EVERY_S * (cuts + 1):
            cuts += 1
            wire.cut()
    took = time.monotonic() - begun
    said, _ = fetch.communicate()
    (result,) = msgspec.json.decode(said)
    print(
        f"fetch by {way}: 1 call, {cuts} cuts, {took:.0f} s, exit {fetch.returncode}, "
        f"{result['files']} files, {result['bytes'] / 1e6:.1f} MB said"
    )


def _compare(line: CommandLine, machine: RentedMachine, folder: Path) -> None:
    many, one = machine.home / "many", machine.home / "one"
    for place in (many, one):
        place.mkdir()
    for i in range(1000):
        (many / f"{i:04}.txt").write_bytes(os.urandom(4000))
    (one / "large.pt").write_bytes(os.urandom(60_000_000))
    for place in (many, one):
        sizes = {path.name: path.stat().st_size for path in place.iterdir()}
        for way in ("rsync", "stream", "sftp"):
            ssh = _over(line, machine, way, Wire(machine.port, delay_s=0.025))
            ssh.run("true")  # the shared connection is there
            here = folder / f"{place.name}-{way}"
            here.mkdir()
            begun = time.monotonic()
            copy: Callable[[], object] = lambda: make_copier(ssh).bring(str(place), sizes, here)  # noqa: B023, E731
            if way == "sftp":
                copy = lambda: _by_sftp(ssh, place, sizes, here)  # noqa: B023, E731
            copy()
            took = time.monotonic() - begun
            assert all((here / name).stat().st_size == size for name, size in sizes.items())
            print(f"{place.name}: {len(sizes)} files by {way}: {took:.1f} s")


def _by_sftp(ssh: Ssh, place: Path, sizes: dict[str, int], here: Path) -> None:
    orders = "".join(f"reget -p {place}/{name} {here}/{name}\n" for name in sizes)
    options = [word for word in ssh.command("keep")[1:] if word != "-T"]
    if "-p" in options:
        options[options.index("-p")] = "-P"
    argv = ["sftp", "-q", *options, "-b", "-", ssh.host.address]
    subprocess.run(argv, input=orders, text=True, check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
