"""The metrics page beside `wandb leet`: the same four runs of 3,000 steps and five metrics in
both.
"""

import statistics
import subprocess
import time
from pathlib import Path

import peers
from measure import Row, Screen, Table, cpu_s, memory_mib, pairwise, pump, spread, timed
from place import FRESNEL, PYTHON, Bench, Place

RUNS, STEPS = 4, 3000
NAMES = ("loss", "acc", "val_psnr", "lr", "grad_norm")
VALUES = """\
import math, random
def values(run, i):
    random.seed(run * 100_003 + i)
    return {
        "loss": math.exp(-i / (600 + 150 * run)) + 0.05 * random.random(),
        "acc": 1 - math.exp(-i / 900),
        "val_psnr": 20 + i / 600 + random.random(),
        "lr": 1e-4 * (1 - i / 3001) * (run + 1),
        "grad_norm": random.random() * (10 if i == 1500 else 1),
    }
"""
OURS = (
    VALUES
    + """
import json, os, sys, time
with open(os.environ["FRESNEL_RUN_DIR"] + "/events.jsonl", "a") as out:
    tell = lambda **event: out.write(json.dumps({"time": time.time(), **event}) + "\\n")
    tell(type="start", epochs=10, steps=int(sys.argv[2]), settings={"lr": 1e-4, "run": sys.argv[1]})
    for i in range(1, int(sys.argv[2]) + 1):
        tell(type="metrics", epoch=i // 301 + 1, step=i, values=values(int(sys.argv[1]), i))
"""
)
THEIRS = (
    VALUES
    + """
import sys, wandb
for number in range(int(sys.argv[1])):
    run = wandb.init(project="bench", name=f"run{number}", dir=".", config={"run": number})
    for i in range(1, int(sys.argv[2]) + 1):
        run.log(values(number, i))
    run.finish()
"""
)
TEXT = (
    f"{RUNS} ended runs of {STEPS:,} steps and five metrics. leet is timed from the start of "
    "the program until the "
    "last of its first curves is there; from the start of the panel, `m` is pressed when it "
    "shows the run. Idling: "
    "both side by side, all four runs drawn in the panel's page and as it opens in leet, "
    "which is two processes as "
    "long as it is open: a Python and the program itself."
)


def measure(bench: Bench) -> Table:
    """The table of the metrics page."""
    return Table("Metrics page", timed(bench, _page), TEXT)


def _page(bench: Bench) -> list[Row]:
    place, steps = bench.place("metrics"), bench.count(STEPS, 300)
    _make_ours(place, steps)
    wandb, why = peers.wandb()
    leet = None if wandb is None else [str(wandb), "leet", str(_make_theirs(place, wandb, steps))]
    ours, theirs, opened, together = [], [], [], []
    for turn in range(bench.count(5, 1) + 1):
        with Screen(FRESNEL, place.env, place.folder) as panel:
            panel.until("curve-3")
            panel.press("m")
            ours.append(panel.until(*NAMES)[-1] - panel.began)
            panel.quiet(0.3)
            pressed = panel.press("a")
            together.append(1000 * (panel.until("d curve-0")[0] - pressed))
            panel.quiet(0.3)
            panel.press("\x1b")
            panel.until("output.log")
            panel.quiet(0.3)
            pressed = panel.press("m")
            opened.append(1000 * (max(panel.until(*NAMES)) - pressed))
        if leet is not None:
            with Screen(leet, place.env, place.folder) as screen:
                theirs.append(max(screen.until(*NAMES)) - screen.began)
        if turn == 0:
            for values in (ours, theirs, opened, together):
                values.clear()
    both = [(first + then) / 1000 for first, then in zip(opened, together, strict=True)]
    rows = [
        _beside("four runs' curves, keys `m` and `a` in the open panel", both, theirs, why),
        _beside("the newest run's curves, from the start of the program", ours, theirs, why),
        Row("key `m` in the open panel → the newest run's curves", spread(opened, "ms")),
        Row("key `a` → four runs overlaid", spread(together, "ms")),
    ]
    return rows + _idle(bench, place, leet, why)


def _beside(what: str, ours: list[float], theirs: list[float], why: str) -> Row:
    """A row of seconds beside leet's until its curves are there."""
    if not theirs:
        return Row(what, spread(ours, "s"), why)
    ratios = pairwise(ours, theirs)
    reached = statistics.median(ratios) <= 1
    return Row(
        what,
        spread(ours, "s"),
        f"leet {spread(theirs, 's')}",
        spread(ratios, "×"),
        "≤ leet's",
        reached,
    )


def _idle(bench: Bench, place: Place, leet: list[str] | None, why: str) -> list[Row]:
    with Screen(FRESNEL, place.env, place.folder) as panel:
        panel.until("curve-3")
        panel.press("m")
        panel.until(*NAMES)
        panel.press("a")
        screens = [panel]
        if leet is not None:
            screens.append(bench.stack.enter_context(Screen(leet, place.env, place.folder)))
        pump(screens, bench.count(6, 2))
        family = [[panel.pid], _family(screens[1].pid) if leet is not None else []]
        windows = [_window(screens, family, bench.count(20, 4)) for _ in range(bench.count(5, 1))]
        ours = memory_mib(panel.pid)
        theirs = [memory_mib(pid) for pid in family[1]]
        for screen in screens[1:]:
            screen.__exit__()
    mine = [window[0] for window in windows]
    other = [window[1] for window in windows]
    written = [window[2] for window in windows]
    return [
        Row(
            "processor while nothing happens, four runs drawn",
            spread(mine, "%", 2),
            f"leet {spread(other, '%', 2)}" if leet is not None else why,
            spread(pairwise(mine, other), "×", 2) if leet is not None and min(other) > 0 else "",
            "≤ leet's, to a tick of the clock (0.05 %)",
            statistics.median(mine) <= statistics.median(other) + 0.05
            if leet is not None
            else None,
        ),
        Row("bytes to the terminal, the same", spread(written, "B/s", 2)),
        Row(
            "resident memory, the same",
            f"{ours:.0f} MiB",
            f"leet {sum(theirs):.0f} MiB: itself {theirs[-1]:.0f}, its Python {theirs[0]:.0f}"
            if theirs
            else why,
            f"{ours / sum(theirs):.2f} ×" if theirs else "",
            "≤ leet's",
            ours <= sum(theirs) if theirs else None,
        ),
    ]


def _window(
    screens: list[Screen], families: list[list[int]], seconds: float
) -> tuple[float, float, float]:
    """Processor shares in percent of the panel and of leet, and what the panel wrote per second."""
    before = [sum(cpu_s(pid) for pid in family) for family in families]
    began, written = time.monotonic(), screens[0].written
    pump(screens, seconds)
    took = time.monotonic() - began
    shares = [
        100 * (sum(cpu_s(pid) for pid in family) - was) / took
        for family, was in zip(families, before, strict=True)
    ]
    return shares[0], shares[1], (screens[0].written - written) / took


def _family(pid: int) -> list[int]:
    """A process and those it started."""
    found = [pid]
    for task in Path(f"/proc/{pid}/task").iterdir():
        found += [int(child) for child in (task / "children").read_text().split()]
    return found


def _make_ours(place: Place, steps: int) -> None:
    (place.folder / "tell.py").write_text(OURS)
    for number in range(RUNS):
        place.run(
            "launch",
            "--gpus",
            "0",
            "--name",
            f"curve-{number}",
            "--wait",
            "--",
            *PYTHON,
            "tell.py",
            str(number),
            str(steps),
        )


def _make_theirs(place: Place, wandb: Path, steps: int) -> Path:
    folder = place.folder / "theirs"
    folder.mkdir()
    (folder / "tell.py").write_text(THEIRS)
    words = [str(wandb.with_name("python")), "tell.py", str(RUNS), str(steps)]
    env = {**place.env, "WANDB_MODE": "offline", "WANDB_SILENT": "true", "HOME": str(folder)}
    env.pop("PYTHONPATH", None)
    ended = subprocess.run(
        words, cwd=folder, env=env, capture_output=True, text=True, timeout=300, check=False
    )
    if ended.returncode:
        raise RuntimeError(f"wandb: exit code {ended.returncode}: {ended.stderr[-200:]}")
    place.env |= {"HOME": str(folder), "WANDB_ERROR_REPORTING": "false"}
    return folder / "wandb"
