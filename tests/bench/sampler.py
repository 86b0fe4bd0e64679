"""The sampler's figures: what one reading of eight GPUs costs, and what the process does that
takes one a second.
"""

import statistics
import subprocess
import sys
import time
from pathlib import Path

import peers
from measure import Row, Table, cpu_fine_s, memory_mib, pump, spread, timed
from panel import NO_COMPILER, Mover, sampler_pid
from place import Bench, Place

TEXT = (
    "All on the tests' stand-in NVML with eight GPUs, whose numbers move every second and on "
    "each of which one process "
    "computes: the cost is Python's own, not a driver's. A reading is everything that is read "
    "of all GPUs; a step is a "
    "reading, the host, `gpus.json` and the history of the machine and of every run. "
    "Processor time of the process "
    "comes from the scheduler's nanoseconds."
)
# One process: the first reading opens and learns everything, then the time of each of the others.
ONE = """
import os, sys, time
from pathlib import Path
from runners.host.locks import acquire
from runners.state.layout import StateDirectory
from runners.gpus.driver_setting import parse
from runners.gpus.backends.detect import open_backend
from runners.gpus.sampler import Sampler
state = StateDirectory().create()
lock = acquire(Path(state.host / "bench.lock"))
backend = open_backend(parse("nvml"), state)
sampler = Sampler(state, lock, backend, 60.0)
sampler._holds_lock = lambda: True
assert sum(len(gpu.processes) for gpu in backend.snapshots(time.time())) == 8
for what in (lambda: backend.snapshots(time.time()), sampler._step):
    what()
    took = []
    for _ in range(int(sys.argv[1])):
        began = time.process_time_ns()
        what()
        took.append((time.process_time_ns() - began) / 1e6)
    print(*took)
"""


def measure(bench: Bench) -> Table:
    """The table of the sampler."""
    return Table("Sampler", timed(bench, _one_reading, _every_second), TEXT)


def _busy(bench: Bench, name: str) -> tuple[Place, Path, list[int]] | None:
    """Eight runs, each on a GPU of its own on which it computes; None without a compiler."""
    driver = peers.build_driver(bench.folder / f"{name}-driver")
    if driver is None:
        return None
    place = bench.place(name, "nvml", **driver)
    runs = place.launch_sleepers([f"{name}-{i}" for i in range(8)], gpus="1")
    pids = [place.record(run_id)["leader_pid"] for run_id in runs]
    scenario = Path(driver["NVML_STUB_SCENARIO"])
    peers.write_scenario(scenario, pids)
    return place, scenario, pids


def _one_reading(bench: Bench) -> list[Row]:
    found = _busy(bench, "client")
    if found is None:
        return [Row("one reading of 8 GPUs", NO_COMPILER)]
    place = found[0]
    words = [sys.executable, "-c", ONE, str(bench.count(300, 20))]
    ended = subprocess.run(
        words, env=place.env, cwd=place.folder, capture_output=True, text=True, check=True
    )
    reading, step = ([float(word) for word in line.split()] for line in ended.stdout.splitlines())
    return [
        Row(
            "processor time of one reading of 8 GPUs",
            spread(reading, "ms"),
            goal="≤ 5 ms",
            reached=statistics.median(reading) <= 5,
        ),
        Row("processor time of a whole step, 8 live runs", spread(step, "ms")),
    ]


def _every_second(bench: Bench) -> list[Row]:
    found = _busy(bench, "second")
    if found is None:
        return [Row("the sampler at 1 Hz", NO_COMPILER)]
    place, scenario, pids = found
    mover, shares, resident = Mover(scenario, pids), [], []
    pump([], bench.count(12, 2), mover)
    for _ in range(bench.count(5, 1)):
        pid = sampler_pid(place)
        before, began = cpu_fine_s(pid), time.monotonic()
        pump([], bench.count(20, 4), mover)
        shares.append(100 * (cpu_fine_s(pid) - before) / (time.monotonic() - began))
        resident.append(memory_mib(pid))
    megabytes = statistics.median(resident) * 2**20 / 1e6
    return [
        Row(
            "the sampler at 1 Hz, 8 GPUs, 8 live runs: processor",
            spread(shares, "% of a core"),
            goal="≤ 0.7 %",
            reached=statistics.median(shares) <= 0.7,
        ),
        Row(
            "its resident memory",
            f"{spread(resident, 'MiB')} = {megabytes:.1f} MB",
            goal="≤ 25 MB",
            reached=megabytes <= 25,
        ),
    ]
