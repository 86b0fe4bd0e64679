"""What a rented machine costs over a line of 50 ms and 10 Mbit/s: `sudo python
tests/bench/remote_link.py`.

A real sshd in a network namespace, so that its bytes can be counted, behind a wire that delays and
slows down in this process (netem is not in every kernel). Needs root and ip. Prints the first
snapshot after connecting, what an idle machine says a second, and how far behind a log of a million
lines a second is shown.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import msgspec

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from runners.places.snapshot import PlaceSnapshot
from runners.places.ssh.host_keys import pin_key
from runners.places.ssh.link import Link
from runners.places.ssh.output_mirror import MirroredLog
from runners.places.ssh.registry import RemoteHost, RemoteRegistry
from runners.places.ssh.snapshot_updates import LAYOUT, SnapshotReader
from runners.places.ssh.ssh import Ssh
from runners.state.layout import StateDirectory
from tests.remote.machines import RentedMachine, Wire

_SPACE = f"fresnel{os.getpid() % 10000}"
_HERE, _THERE = f"fa{os.getpid() % 10000}", f"fb{os.getpid() % 10000}"
_IDLE_S = 60.0
_LOG_S = 15.0

# A million lines a second, each with the time at which it was written.
_WRITER = """
import os, time
while True:
    begun = time.time()
    line = (f"step {begun:.3f} loss 0.123456 lr 1e-4 images/s 1234\\n").encode()
    os.write(1, line * 50000)
    time.sleep(max(0, begun + 0.05 - time.time()))
"""


class Watcher:
    """Takes snapshots; when the first came."""

    is_over = False

    def __init__(self) -> None:
        self.first: float | None = None
        self.reader = SnapshotReader()
        self.snapshot: PlaceSnapshot | None = None

    def request(self) -> dict[str, object]:
        """Everything, then what changes."""
        return {"do": "watch", "layout": LAYOUT}

    def take(self, message: object) -> int:
        """Note when it came."""
        self.snapshot = self.reader.take(message.fields) or self.snapshot  # type: ignore[attr-defined]
        self.first = self.first or time.monotonic()
        return 0


def main() -> None:
    """Measure, print, and take everything away again."""
    with tempfile.TemporaryDirectory(prefix="fresnel-bench-") as folder:
        os.environ["FRESNEL_STATE_DIR"] = f"{folder}/state"
        _shape()
        try:
            _measure(Path(folder))
        finally:
            _run("ip", "netns", "del", _SPACE)


def at_rest(folder: Path, environment: dict[str, str]) -> tuple[int, float]:
    """Runs of a machine with this environment, and bytes a second of its link when nothing happens.

    Needs root and ip.
    """
    os.environ["FRESNEL_STATE_DIR"] = f"{folder}/here"
    _shape()
    try:
        machine, ssh, _, _ = _far(folder, environment)
        watcher, link = Watcher(), Link(ssh)
        link.subscribe(watcher)
        link.start()
        while watcher.first is None:
            time.sleep(0.005)
        time.sleep(_IDLE_S)  # all that it has is told
        before = _carried()
        time.sleep(_IDLE_S)
        rate = (_carried() - before) / _IDLE_S
        link.stop()
        machine.stop()
        return len(watcher.snapshot.runs) if watcher.snapshot else 0, rate
    finally:
        _run("ip", "netns", "del", _SPACE)


def _far(
    folder: Path, environment: dict[str, str]
) -> tuple[RentedMachine, Ssh, RemoteRegistry, RemoteHost]:
    machine = RentedMachine(folder / "machine", "far", listen="0.0.0.0", space=_SPACE)
    if environment:
        machine.environment |= environment
        machine.stop()
        machine.start()
    registry = RemoteRegistry(StateDirectory().create())
    host = RemoteHost(
        "far",
        "root@127.0.0.1",
        Wire(machine.port, "10.203.7.2", delay_s=0.025, rate=10e6 / 8).port,
        options=(f"IdentityFile={machine.key}", "IdentitiesOnly=yes"),
        command=str(machine.install()),
        folder=str(machine.home / "fresnel"),
    )
    host = msgspec.structs.replace(host, fingerprint=pin_key(registry, host))
    registry.save(host)
    return machine, Ssh(registry, host), registry, host


def _measure(folder: Path) -> None:
    machine, ssh, registry, host = _far(folder, {})
    for turn in range(3):
        watcher, begun = Watcher(), time.monotonic()
        link = Link(ssh)
        link.subscribe(watcher)
        link.start()
        while watcher.first is None:
            time.sleep(0.005)
        print(f"first snapshot {turn + 1}: {watcher.first - begun:.2f} s after the first packet")
        if turn < 2:
            link.stop()
    before = _carried()
    time.sleep(_IDLE_S)
    print(f"idle: {(_carried() - before) / _IDLE_S:.0f} bytes/s on the line, both ways, IP and all")
    _follow(ssh, link, registry, host, folder)
    link.stop()
    machine.stop()


def _follow(ssh: Ssh, link: Link, registry: RemoteRegistry, host: RemoteHost, folder: Path) -> None:
    words = ["launch", "--gpus", "0", "--name", "fast", "--host", "far", "--"]
    here = [sys.executable, "-m", "fresnel_tui"]
    subprocess.run([*here, *words, sys.executable, "-c", _WRITER], check=True, capture_output=True)
    log = MirroredLog(folder / "mirror" / "output.log", "fast", "far")
    link.subscribe(log)
    time.sleep(3.0)
    behind = []
    before, until = _carried(), time.monotonic() + _LOG_S
    while time.monotonic() < until:
        time.sleep(0.1)
        lines = log.path.read_bytes()[-400:].split(b"\n")
        last = [line for line in lines[:-1] if line.startswith(b"step ")]
        if last:
            behind.append(time.time() - float(last[-1].split()[1]))
    rate = (_carried() - before) * 8 / _LOG_S / 1e6
    behind.sort()
    print(
        f"a million lines a second: behind by {behind[len(behind) // 2]:.2f} s in the middle, "
        f"{behind[-1]:.2f} s at most; {rate:.1f} Mbit/s on the line"
    )
    subprocess.run([*here, "kill", "fast", "--host", "far"], check=False, capture_output=True)


def _shape() -> None:
    _run("ip", "netns", "add", _SPACE)
    _run("ip", "link", "add", _HERE, "type", "veth", "peer", "name", _THERE)
    _run("ip", "link", "set", _THERE, "netns", _SPACE)
    _run("ip", "addr", "add", "10.203.7.1/24", "dev", _HERE)
    _run("ip", "link", "set", _HERE, "up")
    inside = ("ip", "netns", "exec", _SPACE)
    _run(*inside, "ip", "addr", "add", "10.203.7.2/24", "dev", _THERE)
    _run(*inside, "ip", "link", "set", _THERE, "up")
    _run(*inside, "ip", "link", "set", "lo", "up")


def _carried() -> int:
    """Bytes that went over the line so far, both ways."""
    folder = Path("/sys/class/net") / _HERE / "statistics"
    return sum(int((folder / name).read_text()) for name in ("rx_bytes", "tx_bytes"))


def _run(*words: str) -> None:
    subprocess.run(words, check=True)


if __name__ == "__main__":
    main()
