"""A stream of numbered lines over a line that is cut again and again: `python
tests/bench/remote_cuts.py [CUTS]` (200).

A real sshd on a loopback port behind a wire that is cut at any byte. Prints how many lines came,
how many were lost, how many doubled.
"""

import os
import random
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.process.conftest import CommandLine
from tests.remote.conftest import add, put_away
from tests.remote.machines import RentedMachine

# Numbered lines until somebody writes the file that it is given; then a last one.
_WRITER = """
import os, sys, time
i = 0
while not os.path.exists(sys.argv[1]):
    os.write(1, "".join(f"line {n}\\n" for n in range(i, i + 200)).encode())
    i += 200
    time.sleep(0.05)
print("line", i, flush=True)
"""
_QUIET_S = 30.0


def main() -> None:
    """Cut, compare, print."""
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    with tempfile.TemporaryDirectory(prefix="fresnel-bench-") as name:
        folder = Path(name)
        os.environ["FRESNEL_STATE_DIR"] = str(folder / "state")
        work = folder / "work"
        work.mkdir()
        line = CommandLine(work)
        machine = RentedMachine(folder / "machine")
        try:
            add(line, machine)
            _cut(line, machine, folder, wanted)
        finally:
            line.run("kill", "--all", "--host", "rented", exits=None)
            put_away(line)
            machine.wire.close()
            machine.stop()


def _cut(line: CommandLine, machine: RentedMachine, folder: Path, wanted: int) -> None:
    over, followed, chance = folder / "over", folder / "followed", random.Random(1)
    words = ("launch", "--gpus", "0", "--host", "rented", "--", "python3", "-c", _WRITER, over)
    line.run(*map(str, words))
    begun, cuts = time.monotonic(), 0
    with followed.open("wb") as file:
        follower = line.begin("logs", "-f", "last", "--host", "rented", stdout=file)
        while cuts < wanted and follower.poll() is None:
            _wait_for_more(followed, follower)
            time.sleep(chance.uniform(0.0, 0.3))  # at any byte
            cuts += machine.wire.cut() > 0
        over.touch()
        follower.wait(120)
    numbers = [int(text.split()[1]) for text in followed.read_text().splitlines()]
    lost = len(set(range(max(numbers) + 1)) - set(numbers))
    doubled = len(numbers) - len(set(numbers))
    order = "in order" if numbers == sorted(numbers) else "OUT OF ORDER"
    took = time.monotonic() - begun
    missed = f"{lost} lost, {doubled} doubled"
    print(f"{cuts} cuts in {took:.0f} s: {len(numbers):,} lines {order}, {missed}")


def _wait_for_more(path: Path, follower: object) -> None:
    size, until = path.stat().st_size, time.monotonic() + _QUIET_S
    while path.stat().st_size == size and time.monotonic() < until:
        time.sleep(0.01)


if __name__ == "__main__":
    main()
