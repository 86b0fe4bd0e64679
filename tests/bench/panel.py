"""The panel's figures: first paint, memory, the cost of idling, and how soon it answers keys."""

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import peers
from drawn import DrawnScreen
from measure import (
    REPOSITORY,
    Row,
    Screen,
    Table,
    cpu_s,
    has_gpu,
    memory_mib,
    pairwise,
    pump,
    quantile,
    spread,
    timed,
    wall,
    write,
)
from place import FRESNEL, Bench, Place

MINIMAL = [sys.executable, str(Path(__file__).with_name("minimal_app.py"))]
GPU = "°"
UP, DOWN, F2 = "\x1b[A", "\x1b[B", "\x1bOQ"
COMPUTE = """
import torch, time
a = torch.randn(4096, 4096, device="cuda")
while True:
    for _ in range(20):
        b = a @ a
    torch.cuda.synchronize()
    time.sleep(0.02)
"""
NO_COMPILER = "open: no C compiler here for the stand-in NVML"
TEXT = (
    "First paint: a text is in the terminal's stream (60 rows of 140), counted from before "
    "the fork; `filled` is when "
    "the newest run and a GPU's temperature are both there. Idling: panel, nvitop and the "
    "minimal app stand side by "
    "side in three terminals and are measured in the same windows, on the tests' stand-in "
    "NVML with eight GPUs, whose "
    "numbers move every second; nvitop reads the driver itself, for the panel the sampler "
    "does. Keys: from the write "
    "into the terminal to the text that must come."
)


def measure(bench: Bench) -> Table:
    """The table of the panel."""
    parts = (_first_paint, _keys, _launch_key, _idle, _idle_on_a_gpu, _hang)
    return Table("Panel", timed(bench, *parts), TEXT)


# ── first paint ───────────────────────────────────────────────────────────────────────────────────


def _first_paint(bench: Bench) -> list[Row]:
    crowd, empty = bench.crowd(), bench.place("paint", "sim:8xMI300X")
    _warm_sampler(empty)
    times: dict[str, list[float]] = {
        name: [] for name in ("text", "filled", "empty", "minimal", "import")
    }
    resident: dict[str, list[float]] = {"panel": [], "minimal": []}
    for turn in range(bench.count(5, 1) + 1):
        with Screen(FRESNEL, crowd.env, crowd.folder) as panel:
            first, newest, gpu = (
                moment - panel.began
                for moment in panel.until("fresnel-tui", "newest", GPU, ceiling_s=60)
            )
            pump([panel], bench.count(4, 1))
            resident["panel"].append(memory_mib(panel.pid))
        times["text"].append(first)
        times["filled"].append(max(newest, gpu))
        with Screen(FRESNEL, empty.env, empty.folder) as panel:
            times["empty"].append(max(panel.until("no runs yet", GPU)) - panel.began)
        with Screen(MINIMAL, crowd.env, crowd.folder) as minimal:
            times["minimal"].append(minimal.until("minimal-row")[0] - minimal.began)
            pump([minimal], bench.count(4, 1))
            resident["minimal"].append(memory_mib(minimal.pid))
        times["import"].append(
            wall([sys.executable, "-c", "import textual.app"], crowd.env, crowd.folder)
        )
        if turn == 0:
            for values in (*times.values(), *resident.values()):
                values.clear()
    ratios = pairwise(times["filled"], times["minimal"])
    beside = (
        f"minimal Textual app {spread(times['minimal'], 's')}; `import textual.app` "
        f"{spread(times['import'], 's')}"
    )
    return [
        Row(
            f"first paint, filled, 8 simulated GPUs, {bench.spoken()}",
            spread(times["filled"], "s"),
            beside,
            spread(ratios, "×"),
            "≤ 1.5 × the minimal app (10,000 ended)",
            statistics.median(ratios) <= 1.5 if bench.ended == 10_000 else None,
        ),
        Row("first text on the screen, the same", spread(times["text"], "s")),
        Row("first paint, filled, without any run", spread(times["empty"], "s")),
        Row(
            f"resident memory after {bench.count(4, 1)} s with them",
            spread(resident["panel"], "MiB"),
            f"minimal Textual app {spread(resident['minimal'], 'MiB')}",
            goal="≤ 90 MiB after an hour with a 10 GB log (open: takes an hour)",
        ),
    ]


def _warm_sampler(place: Place) -> None:
    """Have a sampler that lives on, as it does where a run is alive."""
    place.env["FRESNEL_SAMPLER_LINGER_S"] = "600"
    place.run("gpus")


# ── keys ──────────────────────────────────────────────────────────────────────────────────────────


def _keys(bench: Bench) -> list[Row]:
    crowd = bench.crowd()
    with DrawnScreen(FRESNEL, crowd.env, crowd.folder) as panel:
        panel.until("newest", GPU)
        panel.quiet(0.3)
        moved = _walk(panel, bench.count(40, 10))
        helped = []
        for _ in range(bench.count(10, 3)):
            pressed = panel.press("?")
            helped.append(1000 * (panel.until("sort by the next column")[0] - pressed))
            panel.press("\x1b")
            panel.quiet(0.3)
    return [
        _key_row(f"key `↓`, `↑` → cursor and log of another run, {bench.spoken()}", moved),
        _key_row("key `?` → help, the same", helped),
    ]


def _walk(panel: DrawnScreen, count: int) -> list[float]:
    """Milliseconds from an arrow key to the selected run's log title, up and down the list."""
    took, shown = [], ""
    for turn in range(count):
        pump([panel], 0.03 + 0.017 * (turn % 7))
        pressed = panel.press(DOWN if turn % 4 < 2 else UP)
        before = shown
        moment, shown = panel.find_shown(
            r"([\w-]+) · output\.log", lambda name, old=before: name != old, 20
        )
        took.append(1000 * (moment - pressed))
    return took


def _key_row(what: str, took: list[float]) -> Row:
    p95 = quantile(took, 0.95)
    return Row(
        what, f"{spread(took, 'ms')}, p95 {p95:.0f} ms", goal="p95 ≤ 100 ms", reached=p95 <= 100
    )


def _launch_key(bench: Bench) -> list[Row]:
    place = bench.place("launch-key", "sim:8xMI300X")
    written, shown, whole = [], [], []
    with DrawnScreen(FRESNEL, place.env, place.folder) as panel:
        panel.until("no runs yet", GPU)
        for turn in range(bench.count(5, 1) + 1):
            panel.quiet(0.3)
            panel.press("n")
            panel.until("aa-first-byte", "device 0")
            panel.quiet(0.3)
            pressed = panel.press(F2)
            moment, stamp = panel.find_shown(
                r"T=(\d{12,})\. first byte",
                lambda stamp, pressed=pressed: int(stamp) > 1e9 * pressed,
            )
            if turn:
                written.append(int(stamp) / 1e6 - 1000 * pressed)
                shown.append(1000 * moment - int(stamp) / 1e6)
                whole.append(1000 * (moment - pressed))
            place.run("stop", "--all", "--force", "--wait")
            pump([panel], 1.0)
    return [
        Row(
            "key `F2` in the launch dialog → the child's first byte on the screen",
            spread(whole, "ms"),
            f"key → child writes {spread(written, 'ms')}; child writes → on screen "
            f"{spread(shown, 'ms')}",
        )
    ]


# ── idling ────────────────────────────────────────────────────────────────────────────────────────


def _idle(bench: Bench) -> list[Row]:
    driver = peers.build_driver(bench.folder / "driver")
    if driver is None:
        return [Row("idling at 1 Hz beside nvitop", NO_COMPILER)]
    place = bench.place("idle", "nvml", **driver)
    scenario = Path(driver["NVML_STUB_SCENARIO"])
    runs = place.launch_sleepers([f"idle-{i}" for i in range(8)], gpus="1")
    pids = [place.record(run_id)["leader_pid"] for run_id in runs]
    return _side_by_side(bench, place, "8 GPUs, 8 live runs", Mover(scenario, pids))


def _idle_on_a_gpu(bench: Bench) -> list[Row]:
    if not has_gpu():
        return [Row("idling beside nvitop on a real driver", "open: no GPU here")]
    place = bench.place("driver", "nvml")
    place.launch("computes", sys.executable, "-c", COMPUTE, gpus="1")
    return _side_by_side(bench, place, "a real driver, a run that computes", lambda: True)


def _side_by_side(bench: Bench, place: Place, title: str, each: Callable[[], bool]) -> list[Row]:
    nvitop, why = peers.nvitop()
    programs = {"panel": FRESNEL, "minimal": MINIMAL}
    if nvitop is not None:
        programs["nvitop"] = [str(nvitop), "--interval", "1"]
    screens = {name: Screen(words, place.env, place.folder) for name, words in programs.items()}
    for screen in screens.values():
        bench.stack.enter_context(screen)
    pump(list(screens.values()), bench.count(6, 2), each=each)
    windows = []
    for _ in range(bench.count(5, 1)):
        windows.append(_window(screens, place, bench.count(20, 4), each))
    memory = {name: memory_mib(screen.pid) for name, screen in screens.items()}
    memory["sampler"] = memory_mib(sampler_pid(place))
    for screen in screens.values():
        screen.__exit__()
    return _idle_rows(title, windows, memory, why)


class Mover:
    """Writes new numbers for the GPUs once a second, whenever it is called."""

    def __init__(self, scenario: Path, pids: list[int], hang: bool = False) -> None:
        self.scenario, self.pids, self.hang, self.due = scenario, pids, hang, 0.0

    def __call__(self) -> bool:
        if time.monotonic() >= self.due:
            self.due = time.monotonic() + 1
            peers.write_scenario(self.scenario, self.pids, self.hang)
        return True


def _window(
    screens: dict[str, Screen], place: Place, seconds: float, each: Callable[[], bool]
) -> dict[str, float]:
    """Processor share and bytes per second of everybody, in one window."""
    pids = {name: screen.pid for name, screen in screens.items()} | {"sampler": sampler_pid(place)}
    cpu = {name: cpu_s(pid) for name, pid in pids.items()}
    written = {name: screen.written for name, screen in screens.items()}
    began = time.monotonic()
    pump(list(screens.values()), seconds, each)
    took = time.monotonic() - began
    found = {f"cpu {name}": 100 * (cpu_s(pid) - cpu[name]) / took for name, pid in pids.items()}
    return found | {
        f"bytes {name}": (screen.written - written[name]) / took for name, screen in screens.items()
    }


def sampler_pid(place: Place) -> int:
    sys.path.insert(0, str(REPOSITORY))
    from runners.gpus.sampler_lock import owner_of
    from runners.state.layout import StateDirectory

    owner = owner_of(StateDirectory(place.state))
    if owner is None:
        raise RuntimeError("no sampler runs")
    return owner.pid


def _idle_rows(
    title: str, windows: list[dict[str, float]], memory: dict[str, float], why: str
) -> list[Row]:
    def series(name: str) -> list[float]:
        return [window[name] for window in windows]

    both = [
        panel + sampler
        for panel, sampler in zip(series("cpu panel"), series("cpu sampler"), strict=True)
    ]
    apart = (
        f"panel {spread(series('cpu panel'), '%', 2)}, sampler "
        f"{spread(series('cpu sampler'), '%', 2)}"
    )
    minimal = f"minimal Textual app {spread(series('cpu minimal'), '%', 2)}"
    beside, ratios, sent = f"{minimal}; {why}", [], []
    if "cpu nvitop" in windows[0]:
        beside = f"nvitop {spread(series('cpu nvitop'), '%', 2)}; {minimal}"
        ratios = pairwise(both, series("cpu nvitop"))
        sent = pairwise(series("bytes panel"), series("bytes nvitop"))
    other = f"nvitop {spread(series('bytes nvitop'), 'B/s')}; " if sent else ""
    alone = pairwise(series("cpu panel"), series("cpu nvitop")) if ratios else []
    return [
        Row(
            f"idling at 1 Hz, {title}: processor, panel and sampler together",
            spread(both, "%", 2),
            beside,
            spread(ratios, "×") if ratios else "",
            "≤ 1.25 × nvitop",
            statistics.median(ratios) <= 1.25 if ratios else None,
        ),
        Row("apart", apart, compared=f"panel alone {spread(alone, '×')}" if alone else ""),
        Row(
            "bytes to the terminal, the same",
            spread(series("bytes panel"), "B/s"),
            f"{other}minimal Textual app {spread(series('bytes minimal'), 'B/s')}",
            spread(sent, "×") if sent else "",
            "≤ 2 × nvitop",
            statistics.median(sent) <= 2 if sent else None,
        ),
        Row(
            "resident memory, the same",
            f"panel {memory['panel']:.0f} MiB, sampler {memory['sampler']:.0f} MiB",
            ", ".join(
                f"{name} {memory[name]:.0f} MiB" for name in ("nvitop", "minimal") if name in memory
            ),
        ),
    ]


def _hang(bench: Bench) -> list[Row]:
    """Keys while a call into the driver does not come back."""
    driver = peers.build_driver(bench.folder / "hanging-driver")
    if driver is None:
        return [Row("keys while the driver hangs", NO_COMPILER)]
    place = bench.place("hang", "nvml", **driver)
    scenario = Path(driver["NVML_STUB_SCENARIO"])
    place.launch_sleepers([f"live-{i}" for i in range(8)], gpus="1")
    with DrawnScreen(FRESNEL, place.env, place.folder) as panel:
        panel.until("live-7", GPU)
        peers.write_scenario(scenario, hang=True)
        try:
            panel.until("stale since", ceiling_s=30)  # waited for first: it is painted once
            said = "the pane's title says since when the readings are stale"
        except TimeoutError:
            said = "the panel did not say that the readings are stale"
        took = _walk(panel, bench.count(40, 10))
        peers.write_scenario(scenario)
    write(f"  {said}")
    row = _key_row("key `↓`, `↑` → log of another run while the driver hangs", took)
    return [Row(row.what, row.here, said, "", row.goal, row.reached)]
