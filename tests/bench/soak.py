"""Days of use in minutes: does memory stay, does a file grow without end, is every process ended?

    python tests/bench/soak.py [--minutes 15] [--launchers 2]

Beside an open panel that follows a log written all the time (with an output limit), a guard, and a
sampler that reads ten times as often as usual, short runs are launched and end one after another.
Twice a minute: resident memory and open files of every process of ours, and the sizes of the files
that all runs share. Memory's growth is fitted over the second half. At the end all runs are stopped,
the panel is left, the guard lifted: then none of our processes may be left.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from measure import REPOSITORY, Screen, memory_mib, pump
from place import FRESNEL, Place

sys.path.insert(0, str(REPOSITORY))

from runners.host.procfs import HELPER_MARK, environment_of, read_processes

_EVERY_S = 30.0
_LEFT_WITHIN_S = 90.0
_SAMPLES = 10
"""So many readings a second: the sampler grows ten times as old."""
SAMPLER = (
    f"import sys; sys.path[0] = {str(REPOSITORY)!r}; from runners.gpus import sampler; "
    f"sampler.INTERVAL_S = {1 / _SAMPLES}; sampler.main(['--state-dir', sys.argv[1]])"
)
WRITER = (
    "import os, time; line = b'step 12345 loss 0.0123 ' + b'x' * 76 + b'\\n'\n"
    "while True: os.write(1, line * 1000); time.sleep(0.01)"
)


def ours(state: Path) -> dict[int, str]:
    """Every process of ours that belongs to this state folder, by what it is."""
    found = {}
    for pid in read_processes():
        environment = environment_of(pid) or {}
        if environment.get("FRESNEL_STATE_DIR") == str(state) and pid != os.getpid():
            found[pid] = environment.get(HELPER_MARK, "") or "another"
    return found


def growth(times: Sequence[float], values: Sequence[float]) -> float:
    """Per hour, by least squares."""
    middle, mean = sum(times) / len(times), sum(values) / len(values)
    spread = sum((at - middle) ** 2 for at in times)
    pairs = zip(times, values, strict=True)
    return 3600 * sum((at - middle) * (value - mean) for at, value in pairs) / spread


class Soak:
    """The place, what lives in it, and what was seen of that."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.launched = 0
        self.failed: list[str] = []
        self.is_over = threading.Event()
        self.seen: dict[str, list[tuple[float, float, int]]] = defaultdict(list)
        self.sizes: dict[str, list[int]] = defaultdict(list)

    def launch(self) -> None:
        """Launch short runs, one after another, until it is over."""
        while not self.is_over.is_set():
            try:
                self.place.run("launch", "--gpus", "0", "--wait", "--", "sh", "-c", "echo done")
                self.launched += 1
            except (RuntimeError, subprocess.TimeoutExpired) as error:
                self.failed.append(str(error))

    def look(self, named: dict[int, str]) -> None:
        """Note what lives for long, and how big the shared files are."""
        now = time.monotonic()
        for pid, name in named.items():
            with suppress(OSError, IndexError):  # it has just ended
                files = sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())
                self.seen[name].append((now, memory_mib(pid), files))
        for path in self.place.state.rglob("*"):
            if "runs" not in path.parts and path.is_file():
                self.sizes[str(path.relative_to(self.place.state))].append(path.stat().st_size)

    def report(self) -> None:
        """Print what was seen."""
        print(f"{self.launched} runs launched and ended, {len(self.failed)} commands failed")
        for error in self.failed[:5]:
            print(f"  {error}")
        for name, points in sorted(self.seen.items()):
            half = points[len(points) // 2 :]
            if len(half) < 4:
                continue
            times, memory, files = zip(*half, strict=True)
            print(
                f"{name}: {points[0][1]:.1f} → {memory[-1]:.1f} MiB, {growth(times, memory):+.1f} "
                f"MiB/h in the second half; open files {points[0][2]} → {files[-1]}"
            )
        for name, sizes in sorted(self.sizes.items(), key=lambda item: -max(item[1]))[:12]:
            print(f"{name}: {sizes[0]:,} → {sizes[-1]:,} bytes, {max(sizes):,} at most")


def watched(place: Place, panel: Screen, sampler: int, writer: dict[str, int]) -> dict[int, str]:
    """The processes that live for as long as the soak."""
    named = {panel.pid: "panel", sampler: "sampler", writer["supervisor_pid"]: "supervisor"}
    found = {pid: name for pid, name in ours(place.state).items() if name in ("guard", "watcher")}
    return {**found, **named}


def soak(folder: Path, minutes: float, launchers: int) -> bool:
    """Do it; whether nothing was left."""
    with Place(folder, "sim:8xMI300X", FRESNEL_SAMPLER_LINGER_S="5") as place:
        place.run("session", "start", "--rate", "8", "--since", "now")
        place.run("guard", "set", "--max-age", "2d")
        words = [sys.executable, "-c", SAMPLER, str(place.state)]
        sampler = subprocess.Popen(words, env=place.env, cwd="/", stdin=subprocess.DEVNULL)
        limits = ("--set", "output_limit=64M", "--gpus", "1", "--name", "writer")
        command = ("launch", *limits, "--", sys.executable, "-I", "-S", "-c", WRITER)
        writer = place.record(place.run(*command).stdout.strip())
        it = Soak(place)
        with Screen(FRESNEL, place.env, folder) as panel:
            panel.until("writer")
            threads = [threading.Thread(target=it.launch) for _ in range(launchers)]
            for thread in threads:
                thread.start()
            until = time.monotonic() + minutes * 60
            while time.monotonic() < until:
                pump([panel], _EVERY_S)
                it.look(watched(place, panel, sampler.pid, writer))
            it.is_over.set()
            for thread in threads:
                while thread.is_alive():
                    pump([panel], 0.2)
            panel.press("q")
            panel.quiet(0.5)
        place.run("stop", "--all", "--force", "--wait", check=False)
        place.run("guard", "off", check=False)
        place.run("session", "end", check=False)
        it.report()
        deadline = time.monotonic() + _LEFT_WITHIN_S
        while (left := ours(place.state)) and time.monotonic() < deadline:
            sampler.poll()
            time.sleep(0.5)
        print(f"left after the end: {left or 'nothing'}")
        if sampler.poll() is None:
            sampler.kill()
        return not left and not it.failed


def main() -> int:
    """1 where something was left, or a command failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=15.0)
    parser.add_argument("--launchers", type=int, default=2)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fresnel-soak-") as folder:
        return 0 if soak(Path(folder), given.minutes, given.launchers) else 1


if __name__ == "__main__":
    sys.exit(main())
