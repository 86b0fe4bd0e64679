"""The guide to a rented machine from top to bottom with the real tiny Gaussian trainer: `sudo
OMP_NUM_THREADS=1 python tests/bench/rented_guide.py`.

add, setup, push, launch, watch while the line is cut, fetch (while it runs, with a byte flipped, a
file cut off, onto a full disk), end. Needs root (a small disk is mounted in a namespace of its
own), sshd and torch. Prints each step, what it said, and the seconds that it took.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.process.conftest import COMMAND, CommandLine
from tests.remote.conftest import put_away
from tests.remote.machines import RentedMachine

_QUIET_S = 15.0
_SETTINGS = ("epochs=3", "max_images=8", "image_size=32")


class Walk:
    """One person and one rented machine."""

    def __init__(self, folder: Path) -> None:
        os.environ["FRESNEL_STATE_DIR"] = str(folder / "state")
        work = folder / "work"
        work.mkdir()
        self.folder = folder
        self.line = CommandLine(work)
        self.machine = RentedMachine(folder / "machine", "amd")

    def step(self, *words: str, exits: int | None = 0) -> str:
        """Do one step of the guide; what it said."""
        begun = time.monotonic()
        done = subprocess.run(
            [*COMMAND, *words],
            cwd=self.line.folder,
            env=self.line.environment({}),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        shown = " ".join(word for word in words if "=" not in word or word.startswith("e"))
        print(f"\n$ fresnel-tui {shown}   # {time.monotonic() - begun:.1f} s, {done.returncode}")
        print("\n".join((done.stdout + done.stderr).splitlines()[-12:]), flush=True)
        assert exits is None or done.returncode == exits, done
        return done.stdout.strip()


def main() -> None:
    """Walk, and take everything away again."""
    with tempfile.TemporaryDirectory(prefix="fresnel-bench-") as folder:
        walk = Walk(Path(folder))
        try:
            _walk(walk)
        finally:
            walk.line.run("kill", "--all", "--host", "amd", exits=None)
            put_away(walk.line)
            walk.machine.wire.close()
            walk.machine.stop()


def _walk(walk: Walk) -> None:
    machine, step = walk.machine, walk.step
    step("host", "add", "amd", machine.address, *machine.options, "--price", "1.99")
    step("host", "setup", "amd", "--python", sys.executable, "--budget", "20")
    step("push", "gaussian-tiny", "--host", "amd", "--dry-run")
    step("push", "gaussian-tiny", "--host", "amd")
    sets = [word for one in _SETTINGS for word in ("--set", one)]
    step("plan", "gaussian-tiny", *sets, "--host", "amd")
    run = step("launch", "gaussian-tiny", *sets, "--host", "amd")
    step("fetch", run, "--host", "amd", "--to", "got")  # while it runs
    _watch(walk, run)
    step("wait", run, "--host", "amd")
    step("metrics", run, "--host", "amd")
    step("host", "end", "amd", "--end-command", "true", "--yes", exits=4)
    truth = machine.state / "runs" / run
    _onto_a_full_disk(walk, run)
    step("fetch", run, "--host", "amd", "--to", "got")
    log = walk.line.folder / "got" / run / "output.log"
    best = next((walk.line.folder / "got" / run / "checkpoints").glob("*.pt"))
    _flip(log)
    best.write_bytes(best.read_bytes()[:1000])
    step("fetch", run, "--host", "amd", "--to", "got")
    for one in (log, best):
        same = one.read_bytes() == (truth / one.relative_to(log.parent)).read_bytes()
        print(f"  {one.name} as over there: {same}")
        assert same
    step("host", "end", "amd", "--end-command", "true", "--yes")


def _watch(walk: Walk, run: str) -> None:
    """Follow its output while the line is cut again and again."""
    cuts, followed = 0, walk.folder / "followed"
    with followed.open("wb") as file:
        follower = walk.line.begin("logs", "-f", run, "--host", "amd", stdout=file)
        while follower.poll() is None:
            size, until = followed.stat().st_size, time.monotonic() + _QUIET_S
            while followed.stat().st_size == size and time.monotonic() < until:
                time.sleep(0.02)
            cuts += walk.machine.wire.cut() > 0
    truth = (walk.machine.state / "runs" / run / "output.log").read_bytes()
    same = followed.read_bytes() == truth
    print(f"\nwatched over {cuts} cuts: {len(truth):,} bytes, the same as over there: {same}")
    assert same


def _onto_a_full_disk(walk: Walk, run: str) -> None:
    """A disk of 64 kB, in a mount namespace of its own."""
    small = walk.line.folder / "small"
    small.mkdir()
    words = [*COMMAND, "fetch", run, "--host", "amd", "--to", str(small)]
    script = 'mount -t tmpfs -o size=64k none "$0" && exec "$@"'
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", script, small, *words],
        cwd=walk.line.folder,
        env=walk.line.environment({}),
        capture_output=True,
        text=True,
        check=False,
    )
    print(f"\nfetch onto a disk of 64 kB: exit {done.returncode}: {done.stderr.strip()[-300:]}")
    assert done.returncode != 0 and "Traceback" not in done.stderr
    assert run in walk.line.json("fetched", "--host", "amd")["unfetched"]


def _flip(path: Path) -> None:
    """Change one bit, and leave size and time as they were."""
    status, content = path.stat(), bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


if __name__ == "__main__":
    main()
