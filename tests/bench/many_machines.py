"""The panel with fifty machines of eight GPUs: `python tests/bench/many_machines.py [MACHINES]`.

The machines are a stand-in `ssh` on the PATH, a small process each, that speaks as an agent does: a
snapshot first, then each second what changed (two live runs on each), or where nothing lives a sign
every ten seconds. Prints first screen, keys, the idle panel's processor time, and bytes per host,
beside a panel without machines.
"""

import json
import os
import re
import sys
import tempfile
import time
from pathlib import Path

import msgspec
from drawn import DrawnScreen
from measure import cpu_s, memory_mib, pump, quantile
from place import FRESNEL, Place

from runners.model.gpus import GpuReading, GpuSnapshot
from runners.model.states import State
from runners.places.run_row import RunRow
from runners.places.snapshot import PlaceSnapshot
from runners.places.ssh.registry import RemoteHost, RemoteRegistry
from runners.places.ssh.snapshot_updates import difference, snapshot_to_tree
from runners.state.layout import StateDirectory
from runners.state.leases import Lease
from tests.support import make_run
from tui.views.runs.row_reading import row_of_view
from tui.views.runs.run_view import view_run

GPUS, KEYS, IDLE_S = 8, 40, 30.0
SIZE = (60, 200)
_TITLE = r"([\w-]+)(?: · box-\d+)? · output\.log"
_SSH = """\
#!{python} -ISs
import json, os, select, sys, time

words = sys.argv[1:]
if "-O" in words or "host-agent" not in words[-1] or words[-1].split()[-1] == "account":
    sys.exit(255)
number = words[words.index("--") + 1].rpartition("-")[2]
frames = json.load(open({frames!r}))[{busy!r} if int(number) < {live} else "calm"]
count = open(os.path.join({counts!r}, number), "ab", 0)


def say(number, fields):
    line = json.dumps({{"id": number, **fields}}, separators=(",", ":")).encode() + b"\\n"
    os.write(1, line)
    count.write(b"%d %d\\n" % (time.time(), len(line)))


os.write(1, b"\\n\\x1efresnel-tui link 1\\n")
watch, turn, buffer, due = None, 0, b"", time.time() + int(number) % 10 / 10
while True:
    if select.select([0], [], [], max(0.0, due - time.time()))[0]:
        data = os.read(0, 65536)
        if not data:
            break
        buffer += data
        *lines, buffer = buffer.split(b"\\n")
        for line in lines:
            asked = json.loads(line)
            if asked["do"] == "hello":
                say(asked["id"], {{"answer": {{"time": time.time(), "version": "bench"}}}})
            elif asked["do"] == "watch":
                watch = asked["id"]
                say(watch, {{"snapshot": frames["first"]}})
        continue
    due += frames["every"]
    if watch is not None:
        turn += 1
        say(watch, frames["then"][turn % len(frames["then"])])
"""


def main() -> None:
    """Measure without machines, with calm ones, and with busy ones."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    print(f"load {os.getloadavg()[0]:.1f}; {count} machines of {GPUS} GPUs; terminal 200×60")
    for name, machines, live in (("none", 0, 0), ("calm", count, 0), ("busy", count, count)):
        # A sampler may write its last reading while the folder goes.
        with tempfile.TemporaryDirectory(
            prefix="fresnel-bench-", ignore_cleanup_errors=True
        ) as folder:
            _measure(name, Path(folder), machines, live)


def _measure(name: str, folder: Path, machines: int, live: int) -> None:
    with Place(folder, "sim:8xMI300X", FRESNEL_SAMPLER_LINGER_S="600") as place:
        place.launch_sleepers([f"here-{i}" for i in range(6)])
        place.run("gpus")
        _add_machines(place, machines, live)
        with DrawnScreen(FRESNEL, place.env, place.folder, size=SIZE) as panel:
            first = panel.find_shown(r"(here-\d)", bool)[0] - panel.began
            text = f"{name}: first screen {first:.2f} s"
            if machines:
                _wait_for_hosts(panel, machines)
                text += f", all machines {time.monotonic() - panel.began:.1f} s"
            pump([panel], 5.0)
            panel.press("2")
            took = sorted(_walk(panel))
            text += f"; key median {took[len(took) // 2]:.0f} ms, p95 {quantile(took, 0.95):.0f} ms"
            before, written, began = cpu_s(panel.pid), panel.written, time.time()
            pump([panel], IDLE_S)
            idle = (cpu_s(panel.pid) - before) / IDLE_S
            sent = (panel.written - written) / IDLE_S
            text += f"; idle {idle:.1%} of a core, {sent:.0f} B/s to the terminal"
            text += f", {memory_mib(panel.pid):.0f} MiB"
            if machines:
                text += f"; {_bytes_since(place, began) / IDLE_S / machines:.1f} B/s per machine"
            print(f"{text} (load {os.getloadavg()[0]:.1f})", flush=True)


def _wait_for_hosts(panel: DrawnScreen, machines: int) -> None:
    pump([panel], 1.0)
    while True:
        panel.press("h")
        try:
            panel.find_shown(r"(GPUs free)", bool, 8.0)
            break
        except TimeoutError:
            continue
    every = f"of {(machines + 1) * GPUS} GPUs free"
    panel.find_shown(f"({re.escape(every)})(?! · )", bool, 60.0)


def _walk(panel: DrawnScreen) -> list[float]:
    """Milliseconds from an arrow key to the selected run's log title, up and down the list."""
    took, shown = [], panel.find_shown(_TITLE, bool)[1]
    for turn in range(KEYS):
        pump([panel], 0.1 + 0.017 * (turn % 7))
        pressed, before = panel.press("\x1b[B" if turn % 4 < 2 else "\x1b[A"), shown
        moment, shown = panel.find_shown(_TITLE, lambda name, old=before: name != old, 20)
        took.append(1000 * (moment - pressed))
    return took


def _add_machines(place: Place, machines: int, live: int) -> None:
    state = StateDirectory(place.state)
    registry = RemoteRegistry(state)
    for number in range(machines):
        host = RemoteHost(
            f"box-{number:02}",
            f"root@box-{number:02}",
            command="/far/fresnel-tui",
            folder="/far/work",
            added=float(number),
        )
        registry.save(host)
        registry.known_hosts(host.name).write_text("")
    frames, counts, programs = (place.folder / name for name in ("frames", "counts", "bin"))
    counts.mkdir()
    programs.mkdir()
    frames.write_text(json.dumps({"calm": _frames(0, 10.0), "busy": _frames(2, 1.0)}))
    ssh = programs / "ssh"
    ssh.write_text(
        _SSH.format(
            python=sys.executable, frames=str(frames), counts=str(counts), busy="busy", live=live
        )
    )
    ssh.chmod(0o755)
    place.env["PATH"] = f"{programs}:{place.env['PATH']}"


def _frames(live: int, every: float) -> dict[str, object]:
    """What a machine says: its first snapshot, then one of two changes in turn."""
    trees = [snapshot_to_tree(_snapshot(live, turn)) for turn in (0, 1)]
    then: list[dict[str, object]] = [
        {"changes": difference(trees[0], trees[1])},
        {"changes": difference(trees[1], trees[0])},
    ]
    # The second is said first: the snapshot is the tree that it changes.
    return {"first": trees[0], "then": then[::-1] if live else [{"same": 1}], "every": every}


def _snapshot(live: int, turn: int) -> PlaceSnapshot:
    base = row_of_view(view_run(make_run()))
    rows: dict[str, RunRow] = {}
    leases: dict[str, list[Lease]] = {}
    for number in range(live):
        run = f"20261120-10150{number}-far-{number}-7f3a"
        rows[run] = msgspec.structs.replace(
            base,
            id=run,
            name=f"far-{number}",
            state=State.RUNNING,
            is_live=True,
            gpus=(number,),
            step=100 + turn,
            steps=1000,
            fraction=0.1 + turn / 1000,
            headline="loss",
            last=0.5 - turn / 100,
        )
        leases[f"GPU-{number}"] = [Lease(f"GPU-{number}", run, 0, "p", 0.0)]
    gpus = tuple(
        GpuSnapshot(
            index,
            f"GPU-{index}",
            "AMD Instinct MI300X",
            "amd",
            utilization=(90.0 - turn if index < live else 0.0),
            memory_used=10 << 30 if index < live else 1 << 28,
            memory_total=192 << 30,
            temperature_c=60.0 + turn,
            power_w=600.0 + turn,
        )
        for index in range(GPUS)
    )
    reading = GpuReading(time.time(), "box", "amd", gpus)
    return PlaceSnapshot(host="box", runs=rows, reading=reading, leases=leases)


def _bytes_since(place: Place, moment: float) -> int:
    total = 0
    for path in (place.folder / "counts").iterdir():
        for line in path.read_text().splitlines():
            when, size = line.split()
            total += int(size) if int(when) >= moment else 0
    return total


if __name__ == "__main__":
    main()
