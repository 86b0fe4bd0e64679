"""The engine's figures: output, launching, supervisors, lists of many runs, many runs at once."""

import json
import math
import os
import signal
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
from measure import Row, Screen, Table, cpu_fine_s, memory_mib, pairwise, pump, spread, timed, wall
from place import FRESNEL, PYTHON, Bench, Place

# Waits for the file `go`, writes `count` times a block of lines, notes the seconds that took.
CHATTY = """\
import os, sys, time
go, result, count, lines = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
block = (b"epoch 3 step 12345 loss 0.1234 lr 1e-4 samples/s 123.4 and so on".ljust(99) + b"\\n") * lines
os.write(1, b"ready to go\\n")
while not os.path.exists(go):
    time.sleep(0.005)
began = time.monotonic()
for _ in range(count):
    os.write(1, block)
took = time.monotonic() - began
with open(result + ".new", "w") as out:
    out.write(repr(took))
os.rename(result + ".new", result)
"""
# Writes lines from when `go` is there until it is gone, and notes the moment after every `each`.
STEADY = """\
import json, os, sys, time
go, result, each = sys.argv[1], sys.argv[2], int(sys.argv[3])
line = b"epoch 3 step 12345 loss 0.1234 lr 1e-4 samples/s 123.4 and so on".ljust(99) + b"\\n"
os.write(1, b"ready to go\\n")
while not os.path.exists(go):
    time.sleep(0.005)
moments = []
while os.path.exists(go):
    for _ in range(each):
        os.write(1, line)
    moments.append(time.monotonic())
with open(result + ".new", "w") as out:
    json.dump(moments, out)
os.rename(result + ".new", result)
"""
SLICE_S, SETTLE_S = 0.3, 0.1
FIRST_BYTE = "import os, time; os.write(1, b'%d\\n' % time.monotonic_ns())"
CEILING_S = 120.0


def measure(bench: Bench) -> Table:
    """The table of the engine."""
    return Table(
        "Engine",
        timed(bench, _throughput, _distinguished, _launch, _supervisor, _lists, _hundred),
        "Output: a child's writes timed by itself, 100-byte lines, one per write or 640 per write; "
        "`panel attached` is the real panel in a terminal that is read, following that run's log, "
        "beside `child >>file`. Supervisors' processor time comes from the scheduler's "
        "nanoseconds. `Of it`: within one child's output, in turns of 0.3 s, some of ours are "
        "halted (SIGSTOP) and go on; the mean of the pairs and its standard error, beside the same "
        "turns with nobody halted, which is what such pairs say of nothing.",
    )


# ── output ────────────────────────────────────────────────────────────────────────────────────────


def _throughput(bench: Bench) -> list[Row]:
    rows = []
    for number, (words, count, lines) in enumerate(
        (("a line", 2_000_000, 1), ("64 kB", 8_000, 640))
    ):
        count = bench.count(count, count // 10)
        place = bench.place(f"throughput-{number}")
        (place.folder / "chatty.py").write_text(CHATTY)
        attached, direct = [], []
        for _ in range(bench.count(5, 1)):
            attached.append(_chatty(place, count, lines, attached=True))
            direct.append(_chatty(place, count, lines, attached=False))
        megabytes = count * lines / 1e4
        ratios = pairwise(direct, attached)
        rows.append(
            Row(
                f"output of a child that writes {words} at a time, panel attached",
                spread([megabytes / took for took in attached], "MB/s"),
                f"redirected to a file: {spread([megabytes / took for took in direct], 'MB/s')}",
                spread(ratios, "×"),
                "≥ 0.98 ×",
                statistics.median(ratios) >= 0.98,
            )
        )
    return rows


def _chatty(place: Place, count: int, lines: int, attached: bool) -> float:
    go, result, output = (place.folder / name for name in ("go", "result", "output"))
    for path in (go, result, output):
        path.unlink(missing_ok=True)
    command = [*PYTHON, "chatty.py", str(go), str(result), str(count), str(lines)]
    if not attached:
        with output.open("ab") as out:
            child = subprocess.Popen(command, cwd=place.folder, stdout=out)
        try:
            while not output.stat().st_size:
                time.sleep(0.01)
            time.sleep(0.5)
            go.touch()
            child.wait(CEILING_S)
        finally:
            child.kill()
        output.unlink()
        return float(result.read_text())
    run_id = place.launch("chatty", *command)
    with Screen(FRESNEL, place.env, place.folder) as panel:
        panel.until("ready to go")
        panel.quiet()
        go.touch()
        pump([panel], CEILING_S, each=lambda: not result.exists())
        pump([panel], 0.5)
    place.run("wait", run_id)
    (place.state / "runs" / run_id / "output.log").unlink()
    return float(result.read_text())


def _distinguished(bench: Bench) -> list[Row]:
    place = bench.place("told-apart")
    (place.folder / "steady.py").write_text(STEADY)
    everyone = {"the panel": ("panel",), "supervisor and sampler": ("supervisor", "sampler")}
    pairs: dict[str, list[float]] = {name: [] for name in (*everyone, "nobody")}
    for _ in range(bench.count(8, 1)):
        for name, found in pairs.items():
            found += _slices(place, everyone.get(name, ()), bench.count(8, 2))
    noise = _mean(pairs.pop("nobody"))
    return [
        Row(
            f"of it: {name} at work against halted, a line at a time",
            _mean(found),
            f"nobody halted: {noise}",
        )
        for name, found in pairs.items()
    ]


def _mean(found: list[float]) -> str:
    error = statistics.stdev(found) / math.sqrt(len(found)) if len(found) > 1 else math.inf
    return f"{statistics.fmean(found):.3f} × (± {error:.3f}, {len(found)} pairs)"


def _slices(place: Place, kinds: tuple[str, ...], count: int) -> list[float]:
    """Return a child's speed while processes of these kinds work over that while they are halted,
    once for each of `count` pairs of slices.
    """
    go, result = place.folder / "go", place.folder / "moments"
    result.unlink(missing_ok=True)
    run_id = place.launch("steady", *PYTHON, "steady.py", str(go), str(result), "500")
    spans: list[tuple[float, float]] = []
    with Screen(FRESNEL, place.env, place.folder) as panel:
        panel.until("ready to go")
        panel.quiet()
        pids = [panel.pid] if "panel" in kinds else []
        pids += [
            process.pid
            for process in psutil.process_iter(["cmdline"])
            if str(place.state) in (words := " ".join(process.info["cmdline"] or ()))
            and any(kind in words for kind in kinds)
        ]
        go.touch()
        pump([panel], 0.5)
        try:
            for number in range(2 * count):
                # Work, halt; halt, work; …: neither is always first.
                halts = number % 4 in (1, 2)
                for pid in pids:
                    os.kill(pid, signal.SIGSTOP if halts else signal.SIGCONT)
                pump([panel], SETTLE_S)
                began = time.monotonic()
                pump([panel], SLICE_S)
                spans.append((began, time.monotonic()))
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGCONT)
        go.unlink()
        pump([panel], CEILING_S, each=lambda: not result.exists())
    place.run("wait", run_id)
    (place.state / "runs" / run_id / "output.log").unlink()
    moments = json.loads(result.read_text())
    speeds = [_speed(moments, *span) for span in spans]
    ratios = []
    for pair in range(count):
        first, second = speeds[2 * pair : 2 * pair + 2]
        ratios.append(second / first if pair % 2 else first / second)
    return ratios


def _speed(moments: list[float], began: float, ended: float) -> float:
    """Blocks a second between the first and the last moment within a span."""
    within = [moment for moment in moments if began <= moment <= ended]
    return (len(within) - 1) / (within[-1] - within[0])


# ── launching ─────────────────────────────────────────────────────────────────────────────────────


def _launch(bench: Bench) -> list[Row]:
    place = bench.place("launch")
    ours, whole, theirs = [], [], []
    child = [*PYTHON, "-c", FIRST_BYTE]
    for _ in range(bench.count(15, 3) + 1):
        began = time.monotonic_ns()
        run_id = place.launch("first-byte", *child)
        whole.append((time.monotonic_ns() - began) / 1e6)
        ours.append((_stamp(place.state / "runs" / run_id / "output.log") - began) / 1e6)
        output = place.folder / "output"
        output.unlink(missing_ok=True)
        began = time.monotonic_ns()
        with output.open("wb") as out:
            subprocess.Popen(["setsid", *child], stdout=out, cwd=place.folder, env=place.env).wait()
        theirs.append((_stamp(output) - began) / 1e6)
    more = [mine - other for mine, other in zip(ours, theirs, strict=True)][1:]
    return [
        Row(
            "`launch` (the command's start) to the child's first byte",
            spread(ours[1:], "ms"),
            f"`setsid child >file`: {spread(theirs[1:], 'ms')}",
            f"+{spread(more, 'ms')}",
            "≤ +120 ms",
            statistics.median(more) <= 120,
        ),
        Row("`launch`, the whole command", spread(whole[1:], "ms")),
    ]


def _stamp(path: Path) -> int:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        if path.exists() and (text := path.read_text()).endswith("\n"):
            return int(text)
        time.sleep(0.002)
    raise TimeoutError("the child wrote nothing")


# ── supervisors ───────────────────────────────────────────────────────────────────────────────────


def _supervisor(bench: Bench) -> list[Row]:
    place = bench.place("supervisor")
    records = [
        place.record(run_id) for run_id in place.launch_sleepers([f"quiet-{i}" for i in range(5)])
    ]
    supervisors = [record["supervisor_pid"] for record in records]
    waiters = [record["waiter_pid"] for record in records]
    seconds = bench.count(60, 5)
    time.sleep(2)
    before = [cpu_fine_s(pid) for pid in supervisors]
    time.sleep(seconds)
    spent = [cpu_fine_s(pid) - start for pid, start in zip(supervisors, before, strict=True)]
    resident = [memory_mib(pid) for pid in supervisors]
    own = [memory_mib(pid, "RssAnon") for pid in supervisors]
    waiting = [memory_mib(pid) for pid in waiters]
    megabytes = statistics.median(resident) * 2**20 / 1e6
    return [
        Row(
            "a supervisor's resident memory (five of them)",
            f"{spread(resident, 'MiB')} = {megabytes:.1f} MB",
            f"of it its own, not shared with the others: {spread(own, 'MiB')}",
            goal="≤ 15 MB",
            reached=megabytes <= 15,
        ),
        Row(
            f"a supervisor's processor time in {seconds} quiet seconds",
            spread([1000 * s for s in spent], "ms"),
            goal="≤ 50 ms in 60 s",
            reached=statistics.median(spent) <= 0.05 if seconds == 60 else None,
        ),
        Row("a waiter's resident memory", spread(waiting, "MiB")),
    ]


# ── many runs ─────────────────────────────────────────────────────────────────────────────────────


def _lists(bench: Bench) -> list[Row]:
    crowd, empty = bench.crowd(), bench.place("empty")
    some = [*FRESNEL, "--no-ui", "list"]
    commands = {
        "list": (some, crowd),
        "none": (some, empty),
        "json": ([*some, "--json"], crowd),
        "all": ([*some, "--all"], crowd),
        "best": ([*some, "--sort", "best:loss"], crowd),
        "find": ([*some, "loss<0.5", "state:done"], crowd),
        "python": ([sys.executable, "-c", "pass"], empty),
    }
    times: dict[str, list[float]] = {name: [] for name in commands}
    for turn in range(bench.count(7, 2) + 1):
        for name, (words, place) in commands.items():
            if name == "all" and turn > bench.count(5, 2):
                continue
            times[name].append(wall(words, place.env, place.folder))
    times = {name: values[1:] for name, values in times.items()}
    took = statistics.median(times["list"])
    return [
        Row(
            f"`list` with {bench.spoken()}, whole process",
            spread(times["list"], "s"),
            f"without any run {spread(times['none'], 's')}; `python -c pass` "
            f"{spread(times['python'], 's')}",
            goal="≤ 0.4 s (10,000 ended)",
            reached=took <= 0.4 if bench.ended == 10_000 else None,
        ),
        Row("`list --json`, the same", spread(times["json"], "s")),
        Row("`list --all`, the same: every run is read and shown", spread(times["all"], "s")),
        Row(
            "`list --sort best:loss`, the same: all are looked at, 100 shown",
            spread(times["best"], "s"),
            goal="≤ 0.4 s (10,000 ended)",
            reached=statistics.median(times["best"]) <= 0.4 if bench.ended == 10_000 else None,
        ),
        Row("`list 'loss<0.5' state:done`, the same", spread(times["find"], "s")),
    ]


def _hundred(bench: Bench) -> list[Row]:
    count = bench.count(100, 6)
    parts: dict[str, list[float]] = {"launch": [], "list": [], "stop": []}
    totals, errors = [], 0
    for turn in range(bench.count(3, 1)):
        place = bench.place(f"hundred-{turn}")
        marks = [time.monotonic()]
        errors += _launch_all(place, count)
        marks.append(time.monotonic())
        errors += abs(count - _states(place, "list", "--json").count("running"))
        marks.append(time.monotonic())
        errors += abs(
            count - _states(place, "stop", "--all", "--force", "--wait", "--json").count("stopped")
        )
        marks.append(time.monotonic())
        for name, start, end in zip(parts, marks, marks[1:], strict=False):
            parts[name].append(end - start)
        totals.append(marks[-1] - marks[0])
    detail = ", ".join(
        f"{name} {statistics.median(values):.1f} s" for name, values in parts.items()
    )
    return [
        Row(
            f"{count} runs alive at once: launch all (two commands at a time), list, stop all",
            f"{spread(totals, 's')}, {errors} errors",
            detail,
            goal=f"≤ 60 s, no error (100 runs; {os.cpu_count()} cores here)",
            reached=statistics.median(totals) <= 60 and not errors if count == 100 else None,
        )
    ]


def _launch_all(place: Place, count: int) -> int:
    """Launch; how many commands failed."""
    words = ["launch", "--gpus", "0", "--name", "one-of-many", "--", "sleep", "100000"]
    with ThreadPoolExecutor(2) as two:
        return sum(
            ended.returncode != 0
            for ended in two.map(lambda _: place.run(*words, check=False), range(count))
        )


def _states(place: Place, *words: str) -> list[str]:
    ended = place.run(*words, check=False)
    return [run["state"] for run in json.loads(ended.stdout)] if ended.returncode == 0 else []
