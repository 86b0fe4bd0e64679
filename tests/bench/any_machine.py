"""Launches by `--host any` from two clients at once over three machines whose lines are cut:
`python tests/bench/any_machine.py [LAUNCHES] [--cut SECONDS]` (100, without cuts).

Real sshds on loopback ports, two simulated GPUs each. Prints how many launches started, how many
started twice or never, and how many GPUs were given to two runs at the same time.
"""

import argparse
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from runners.host.locks import is_held
from runners.places.fleet.waiting import queue_lock, read_launches
from runners.state.layout import StateDirectory
from tests.process.conftest import CommandLine
from tests.remote.conftest import add, put_away
from tests.remote.machines import RentedMachine

_PATIENCE_S = 900.0


def main() -> None:
    """Launch, wait until all have ended, count."""
    parser = argparse.ArgumentParser()
    parser.add_argument("launches", type=int, nargs="?", default=100)
    parser.add_argument("--cut", type=float, default=0.0)
    parser.add_argument("--seconds", type=float, default=0.5, help="how long each run takes")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fresnel-bench-") as name:
        folder = Path(name)
        os.environ["FRESNEL_STATE_DIR"] = str(folder / "one")
        work = folder / "work"
        work.mkdir()
        line = CommandLine(work)
        machines = [RentedMachine(folder / f"machine-{name}", name) for name in "abc"]
        clients = [folder / "one", folder / "two"]
        try:
            for machine in machines:
                add(line, machine)
            subprocess.run(["cp", "-a", *clients], check=True)
            began = time.monotonic()
            _launch_all(line, machines, clients, given)
            print(f"all had ended after {time.monotonic() - began:.0f} s")
            _count(line, clients, given.launches)
        finally:
            for client in clients:
                _end_queue(StateDirectory(client))
            line.run("kill", "--all", "--host", "all", exits=None)
            put_away(line)
            for machine in machines:
                machine.wire.close()
                machine.stop()


def _launch_all(
    line: CommandLine,
    machines: list[RentedMachine],
    clients: list[Path],
    given: argparse.Namespace,
) -> None:
    cut_s: float = given.cut
    over = threading.Event()

    def launch(client: Path) -> None:
        for number in range(given.launches // 2):
            name = f"{client.name}-{number}"
            words = ("launch", "--host", "any", "--name", name, "--", "sleep", str(given.seconds))
            line.run(*words, exits=None, FRESNEL_STATE_DIR=str(client))

    def cut() -> None:
        chance = random.Random(1)
        while cut_s and not over.wait(cut_s * chance.uniform(0.5, 1.5)):
            chance.choice(machines).wire.cut()

    threads = [threading.Thread(target=launch, args=(client,)) for client in clients]
    cutter = threading.Thread(target=cut)
    for thread in (*threads, cutter):
        thread.start()
    for thread in threads:
        thread.join()
    print("all are launched")
    until = time.monotonic() + _PATIENCE_S
    while time.monotonic() < until and any(
        not launch.ended for client in clients for launch in read_launches(StateDirectory(client))
    ):
        time.sleep(0.5)
        for client in clients:  # as any front end does: the queue's process may have been lost
            line.run("list", "--host", "any", exits=None, FRESNEL_STATE_DIR=str(client))
    over.set()
    cutter.join()
    for machine in machines:
        line.run("wait", "--all", "--host", machine.name, exits=None)


def _count(line: CommandLine, clients: list[Path], launches: int) -> None:
    found = json.loads(line.run("list", "--all", "--json", "--host", "all").stdout)
    runs = [(machine, run) for machine, rows in found.items() for run in rows]
    names = Counter(run["name"] for _, run in runs)
    wanted = [f"{client.name}-{i}" for client in clients for i in range(launches // 2)]
    held: dict[tuple[str, int], list[tuple[str, str]]] = {}
    for machine, run in runs:
        for gpu in run["gpus"]:
            held.setdefault((machine, gpu), []).append((run["started"], run["ended"] or "9"))
    overlaps = sum(
        first[1] > second[0]
        for spans in held.values()
        for first, second in itertools.pairwise(sorted(spans))
    )
    problems = Counter(
        launch.problem
        for client in clients
        for launch in read_launches(StateDirectory(client))
        if launch.problem
    )
    print(
        f"{launches} launches, {len(runs)} runs on {dict(Counter(machine for machine, _ in runs))};"
        f" started twice {sum(count > 1 for count in names.values())}, never "
        f"{sum(name not in names for name in wanted)}; GPUs held by two at once {overlaps}"
    )
    for problem, count in problems.items():
        print(f"  {count} ×: {problem}")


def _end_queue(state: StateDirectory) -> None:
    if is_held(queue_lock(state)):
        os.kill(int(queue_lock(state).read_text()), signal.SIGKILL)


if __name__ == "__main__":
    main()
