"""What the panel says of a real NVIDIA GPU, held against nvidia-smi and against a real CUDA
process. Run by hand:

    python tests/hardware/check_nvidia.py [--gpu 0] [--gib 2] [--readings 5] [--markdown FILE]

Needs a machine with an NVIDIA GPU that nobody uses, its nvidia-smi, and this project's environment
(`make install`). It reads every GPU between two calls of nvidia-smi: a value agrees when it lies
between theirs, give or take what such a value moves by itself. Then it launches a run that takes
VRAM (with torch where that sees a GPU, else with the driver's own library), sees it under the run,
stops the run, and sees the memory come free. State goes to a temporary folder.

Prints a Markdown table for tests/bench/README.md. Exits 0 when all agrees, 1 when something does
not, 2 without GPU.
"""

import argparse
import csv
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "bench"))

from measure import Row, Table, cpu_fine_s, machine, memory_mib, revision, spread, write

MIB, GIB = 1 << 20, 1 << 30
PATIENCE_S = 60.0
FREED_WITHIN = 64 * MIB
"""VRAM counts as free again when no more than this is left of what the run took."""


class Field(NamedTuple):
    """A value that both tell: nvidia-smi's name, ours, how many of ours one of theirs is, and how
    far it may be off.
    """

    theirs: str
    ours: str
    unit: float = 1.0
    slack: float = 0.0
    share: float = 0.0


FIELDS = (
    Field("utilization.gpu", "utilization", slack=10),
    Field("utilization.memory", "memory_utilization", slack=10),
    Field("memory.total", "memory_total", MIB, slack=MIB),
    Field("memory.used", "memory_used", MIB, slack=64 * MIB),
    Field("temperature.gpu", "temperature_c", slack=2),
    Field("power.draw", "power_w", slack=5, share=0.15),
    Field("enforced.power.limit", "power_limit_w", slack=0.01),
    Field("clocks.sm", "clock_mhz", slack=30, share=0.1),
    Field("clocks.mem", "memory_clock_mhz", slack=30, share=0.1),
    Field("ecc.errors.uncorrected.volatile.total", "ecc_errors"),
)

# Takes VRAM, says so, and holds it until it is stopped.
HOLD = """
import ctypes, sys, time
size = int(sys.argv[1])
try:
    import torch
    assert torch.cuda.is_available()
    held, how = torch.ones(size, dtype=torch.uint8, device="cuda"), "torch"
    torch.cuda.synchronize()
except (ImportError, AssertionError):
    cuda, device = ctypes.CDLL("libcuda.so.1"), ctypes.c_int()
    held, context, how = ctypes.c_uint64(), ctypes.c_void_p(), "libcuda"
    for code in (
        cuda.cuInit(0),
        cuda.cuDeviceGet(ctypes.byref(device), 0),
        cuda.cuCtxCreate_v2(ctypes.byref(context), 0, device),
        cuda.cuMemAlloc_v2(ctypes.byref(held), ctypes.c_size_t(size)),
        cuda.cuMemsetD8_v2(held, ctypes.c_ubyte(1), ctypes.c_size_t(size)),
    ):
        assert code == 0, f"CUDA error {code}"
print(f"holding {size} bytes by {how}", flush=True)
time.sleep(3600)
"""


def main() -> int:
    """Compare, launch, stop, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--gpu", default="0", metavar="INDEX", help="which GPU the run gets (default 0)"
    )
    parser.add_argument("--gib", type=float, default=2.0, help="how much VRAM it takes (default 2)")
    parser.add_argument(
        "--readings",
        type=int,
        default=5,
        metavar="N",
        help="how often values are compared (default 5)",
    )
    parser.add_argument(
        "--program",
        metavar="FILE",
        help="another Python program that takes VRAM and says `holding …`",
    )
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table there too")
    chosen = parser.parse_args()
    if shutil.which("nvidia-smi") is None or not ask_smi("index"):
        write("no NVIDIA GPU that nvidia-smi knows")
        return 2
    with tempfile.TemporaryDirectory(prefix="fresnel-hardware-") as folder:
        panel = Panel(Path(folder))
        try:
            rows = [*compare(panel, chosen.readings), *watch_a_run(panel, chosen)]
            rows.append(held_by_another(panel, chosen.gpu))
        finally:
            panel.run("stop", "--all", "--force", "--wait", check=False)
    driver = ask_smi("driver_version")[0]["driver_version"]
    names = ", ".join(sorted({row["name"] for row in ask_smi("name")}))
    text = (
        f"{names}, driver {driver}; {machine()}; {time.strftime('%-d %B %Y')}, commit {revision()}"
    )
    table = Table("On a real NVIDIA GPU", rows, text).markdown()
    print(table)
    if chosen.markdown:
        chosen.markdown.write_text(table)
    return int(any(row.reached is False for row in rows))


class Panel:
    """The command line with a state folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        ours = {
            "FRESNEL_STATE_DIR": str(folder / "state"),
            "FRESNEL_GPUS": "nvml",
        }
        # Where GPUs are claimed is the machine's: a test with GPUs of its own has a place of its own.
        self.env = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("FRESNEL_") or name == "FRESNEL_CLAIMS_DIR"
        } | ours

    def run(self, *words: str, check: bool = True) -> str:
        """What a headless command prints; RuntimeError with its own words when it fails."""
        ended = subprocess.run(
            [
                sys.executable,
                *(("-P",) if sys.version_info >= (3, 11) else ()),
                "-m",
                "fresnel_tui",
                "--no-ui",
                *words,
            ],
            env=self.env,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if check and ended.returncode:
            raise RuntimeError(f"`{words[0]}`: exit code {ended.returncode}: {ended.stderr[-500:]}")
        return ended.stdout

    def gpus(self) -> list[dict[str, Any]]:
        """`gpus --json`, whole GPUs only."""
        found: list[dict[str, Any]] = json.loads(self.run("gpus", "--json"))
        return [gpu for gpu in found if gpu["mig_parent"] is None]

    def gpu(self, index: str) -> dict[str, Any]:
        """One of them."""
        return next(gpu for gpu in self.gpus() if str(gpu["index"]) == index)


def ask_smi(*fields: str, what: str = "gpu") -> list[dict[str, str]]:
    """nvidia-smi's answer, a row for each GPU (or process); empty when it fails."""
    words = ["nvidia-smi", f"--query-{what}={','.join(fields)}", "--format=csv,noheader,nounits"]
    ended = subprocess.run(words, capture_output=True, text=True, check=False)
    if ended.returncode:
        return []
    lines = csv.reader(ended.stdout.splitlines(), skipinitialspace=True)
    return [dict(zip(fields, line, strict=True)) for line in lines if len(line) == len(fields)]


def number(text: str) -> float | None:
    """A value of nvidia-smi; `[N/A]`, `[Not Supported]` and their like are None."""
    try:
        return float(text)
    except ValueError:
        return None


def agrees(field: Field, ours: float | None, theirs: list[float | None]) -> bool:
    """Whether our value lies between theirs, or no further off than it moves by itself; unknown is
    equal to unknown.
    """
    known = [value * field.unit for value in theirs if value is not None]
    if ours is None or not known:
        return ours is None and not known
    slack = field.slack + field.share * max(known)
    return min(known) - slack <= ours <= max(known) + slack


# ── values ────────────────────────────────────────────────────────────────────────────────────────


def compare(panel: Panel, readings: int) -> list[Row]:
    """A row for each value: how far ours were off at most, over all GPUs and readings."""
    names = ("index", "uuid", "name", "pci.bus_id", *(field.theirs for field in FIELDS))
    off: dict[str, list[float]] = {field.theirs: [] for field in FIELDS}
    wrong: dict[str, list[str]] = {name: [] for name in names}
    for _ in range(readings):
        before, ours, after = (
            ask_smi(*names),
            {str(gpu["index"]): gpu for gpu in panel.gpus()},
            ask_smi(*names),
        )
        for first, last in zip(before, after, strict=True):
            gpu = ours.get(first["index"])
            if gpu is None:
                wrong["index"].append(f"GPU {first['index']} is missing")
                continue
            for name, mine in (
                ("uuid", gpu["uuid"]),
                ("name", gpu["name"]),
                ("pci.bus_id", gpu["pci"]),
            ):
                if not first[name].lower().endswith(str(mine).lower()):
                    wrong[name].append(f"{mine} for {first[name]}")
            for field in FIELDS:
                theirs, mine = [number(row[field.theirs]) for row in (first, last)], gpu[field.ours]
                if not agrees(field, mine, theirs):
                    wrong[field.theirs].append(
                        f"GPU {gpu['index']}: {mine} for {first[field.theirs]}"
                    )
                if mine is not None and theirs[0] is not None:
                    off[field.theirs].append(abs(mine - theirs[0] * field.unit) / field.unit)
        time.sleep(1.0)
    identity = [*wrong["index"], *wrong["uuid"], *wrong["name"], *wrong["pci.bus_id"]]
    rows = [
        Row(
            "index, UUID, name and PCI address",
            _verdict(identity),
            goal="as nvidia-smi",
            reached=not identity,
        )
    ]
    for field in FIELDS:
        found, bad = off[field.theirs], wrong[field.theirs]
        here = _verdict(bad) if bad or not found else f"at most {max(found):.3g} off"
        rows.append(Row(f"`{field.theirs}`", here, goal="as nvidia-smi", reached=not bad))
    return rows


def _verdict(wrong: list[str]) -> str:
    return "; ".join(wrong[:3]) or "the same"


# ── a run ─────────────────────────────────────────────────────────────────────────────────────────


def watch_a_run(panel: Panel, chosen: argparse.Namespace) -> list[Row]:
    """A real process seen under its run with its memory, and gone with it."""
    size, program = int(chosen.gib * GIB), Path(chosen.program or panel.folder / "hold.py")
    if not chosen.program:
        program.write_text(HOLD)
    free = panel.gpu(chosen.gpu)["memory_used"]
    words = (
        "--gpu-ids",
        chosen.gpu,
        "--name",
        "hardware-check",
        "--",
        sys.executable,
        str(program),
        str(size),
    )
    run_id = panel.run("launch", "--no-queue", *words).strip()
    output = panel.folder / "state" / "runs" / run_id / "output.log"
    said = _until(
        lambda: re.search(r"holding \d+ bytes by (\w+)", output.read_text()),
        f"a word in {output.name}",
    )
    began = time.monotonic()

    def taken() -> dict[str, Any] | None:
        gpu = panel.gpu(chosen.gpu)
        return gpu if now_used(gpu, free) >= size else None

    held: dict[str, Any] = _until(taken, "its VRAM in use")
    seen_s = time.monotonic() - began
    mine = [process for process in held["processes"] if process["run"] == run_id]
    others = [process for process in held["processes"] if process["outside"]]
    own = sum(process["memory_used"] or 0 for process in mine)
    theirs = {
        row["pid"]: number(row["used_memory"])
        for row in ask_smi("pid", "used_memory", what="compute-apps")
    }
    same = [
        theirs.get(str(process["pid"])) == (process["memory_used"] or 0) // MIB for process in mine
    ]
    sampler = _sampler_row(panel, chosen.readings)
    panel.run("stop", run_id, "--wait")
    began = time.monotonic()
    _until(lambda: now_used(panel.gpu(chosen.gpu), free) <= FREED_WITHIN, "its VRAM free again")
    freed_s = time.monotonic() - began
    usage = _until(
        lambda: json.loads(panel.run("status", run_id, "--json"))["usage"], "its usage.json"
    )
    peak = usage[0]["peak_memory"] or 0
    seen = (
        f"{own / MIB:,.0f} MiB under the run"
        if mine
        else f"{len(others)} process from outside this container"
    )
    return [
        Row(
            f"a real CUDA process ({said.group(1)}, {chosen.gib:g} GiB) under its run",
            f"{seen}; seen {seen_s:.1f} s after it said so",
            f"nvidia-smi: {', '.join(f'{value:,.0f} MiB' for value in theirs.values() if value)}",
            goal="its pid and memory, as nvidia-smi (in a container: from outside)",
            reached=(own >= size and all(same)) if mine else bool(others),
        ),
        Row("its VRAM free again after `stop`", f"{freed_s:.1f} s", goal="free", reached=True),
        Row(
            "peak VRAM kept with the run",
            f"{peak / MIB:,.0f} MiB",
            goal="what it took",
            reached=peak >= size,
        ),
        sampler,
    ]


def held_by_another(panel: Panel, gpu: str) -> Row:
    """A run that does not touch its GPU yet, as another state folder of this machine sees it."""
    other = Panel(panel.folder / "other")
    other.folder.mkdir()
    run = panel.run("launch", "--no-queue", "--gpu-ids", gpu, "--", "sleep", "600").strip()
    holder = _until(lambda: other.gpu(gpu)["claimed"], "the GPU held, in another state folder")
    plan = other.run("plan", "--gpu-ids", gpu, "--", "true", check=False)
    panel.run("stop", run, "--wait")
    _until(lambda: not other.gpu(gpu)["claimed"], "the GPU given back")
    return Row("a GPU held by a run that does not use it yet, in another state folder",
               f"held by a run of {holder}; free again once it was stopped",
               goal="seen, and not planned with", reached="held by a run of" in plan)  # fmt: skip


def now_used(gpu: dict[str, Any], before: int | None) -> int:
    """Bytes in use beyond those before the run."""
    return int(gpu["memory_used"] or 0) - (before or 0)


def _sampler_row(panel: Panel, times: int) -> Row:
    lock = next((panel.folder / "state" / "hosts").glob("*/sampler.lock"))
    pid = int(json.loads(lock.read_bytes())["pid"])
    shares = []
    for _ in range(times):
        before, began = cpu_fine_s(pid), time.monotonic()
        time.sleep(2.0)
        shares.append(100 * (cpu_fine_s(pid) - before) / (time.monotonic() - began))
    here = f"{spread(shares, '% of a core')}, {memory_mib(pid):.0f} MiB"
    return Row(f"the sampler at 1 Hz on {len(panel.gpus())} real GPUs: processor and memory", here)


def _until(found: Callable[[], Any], what: str) -> Any:
    deadline = time.monotonic() + PATIENCE_S
    while not (value := found()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"never saw {what}")
        time.sleep(0.1)
    return value


if __name__ == "__main__":
    sys.exit(main())
