"""Real failures of CUDA, and what the panel says of each; a GPU that somebody else uses; a stop.

    python tests/hardware/check_failures.py [--markdown FILE]        two minutes, one NVIDIA GPU

Needs a PyTorch that sees the GPU. The messages are the driver's and PyTorch's of that machine, not
samples. Exits 0 when each cause has the right name, 1 when not, 2 without a GPU.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path
from typing import Any, NamedTuple

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / "bench"), str(Path(__file__).parent)]

from check_nvidia import HOLD, Panel, _until, ask_smi  # noqa: E402
from measure import Row, Table, keep, machine, revision, write  # noqa: E402


class Failure(NamedTuple):
    """A program that fails on a GPU, and the kind of cause that it is."""

    name: str
    kind: str
    program: str
    launcher: tuple[str, ...] = ()
    hidden: bool = False


FAILURES = (
    Failure("more memory than the GPU has", "gpu_out_of_memory",
            "torch.empty(1 << 42, dtype=torch.uint8, device='cuda')"),
    Failure("memory that runs out step by step", "gpu_out_of_memory",
            "held = [torch.empty(1 << 32, dtype=torch.uint8, device='cuda') for _ in range(100)]"),
    Failure("a product where nothing is free", "gpu_out_of_memory",
            "size, held = 1 << 32, []\n"
            "while size >= 1 << 20:\n"
            "    try:\n"
            "        held.append(torch.empty(size, dtype=torch.uint8, device='cuda'))\n"
            "    except torch.OutOfMemoryError:\n"
            "        size //= 2\n"
            "a = held[-1].view(torch.float16)[:4096].view(64, 64)\n"
            "print((a @ a).sum().item())"),
    Failure("a label out of range", "device_side_assert",
            "scores, labels = torch.randn(4, 10, device='cuda'), torch.full((4,), 11, device='cuda')\n"
            "print(torch.nn.functional.cross_entropy(scores, labels).item())"),
    Failure("a device that is not given", "invalid_device_ordinal",
            "torch.ones(1, device='cuda:7')"),
    Failure("a checkpoint read onto GPU 7", "checkpoint_other_device",
            "torch.save({'w': torch.ones(3)}, 'saved.pt')\n"
            "torch.load('saved.pt', map_location='cuda:7')"),
    Failure("tensors on two devices", "tensors_on_two_devices",
            "torch.nn.Linear(4, 4, device='cuda')(torch.ones(1, 4))"),
    Failure("an address that is not the GPU's", "gpu_memory_access_fault",
            "import kernel_file\nkernel_file.run()"),
    Failure("CUDA in a forked process", "cuda_in_forked_process",
            "import multiprocessing\n"
            "torch.ones(1, device='cuda')\n"
            "with multiprocessing.get_context('fork').Pool(1) as pool:\n"
            "    pool.apply(torch.ones, (1,), {'device': 'cuda'})"),
    Failure("two processes on one GPU by NCCL", "two_ranks_one_gpu",
            "import torch.distributed as dist\n"
            "torch.cuda.set_device(0)\n"
            "dist.init_process_group('nccl')\n"
            "dist.all_reduce(torch.ones(1, device='cuda'))\n"
            "torch.cuda.synchronize()",
            launcher=("-m", "torch.distributed.run", "--nproc-per-node=2")),
    Failure("no GPU seen", "no_gpu_visible", "torch.ones(1, device='cuda')", hidden=True),
)  # fmt: skip

KERNEL = """
import torch, triton, triton.language as tl

@triton.jit
def write(place, offset):
    tl.store(place + offset, 1.0)

def run():
    write[(1,)](torch.zeros(1, device="cuda"), 1 << 40)
    torch.cuda.synchronize()
"""


def failed(panel: Panel, failure: Failure) -> Row:
    """Launch one, and what is said of it."""
    write(f"  {failure.name}")
    work = panel.folder / failure.name.replace(" ", "_").replace("'", "")
    work.mkdir()
    (work / "train.py").write_text("import torch\n" + textwrap.dedent(failure.program) + "\n")
    (work / "kernel_file.py").write_text(KERNEL)
    program = (*failure.launcher, str(work / "train.py"))
    gpus = "0" if failure.hidden else "1"
    words = ("--gpus", gpus, "--", sys.executable, *program)
    panel.run("launch", "--wait", *words, check=False)
    run = json.loads(panel.run("status", "last", "--json"))
    found = run.get("diagnosis") or {}
    log = panel.folder / "state" / "runs" / run["id"] / "output.log"
    kind = found.get("class") or "nothing"
    if kind != failure.kind:
        write(f"--- {failure.name}: {kind}\n{log.read_text(errors='replace')[-1500:]}\n---")
    said = (found.get("title") or "nothing", found.get("line") or "")
    write(f"    {kind}")
    here = ": ".join(text.strip().replace("|", "/")[:160] for text in said if text)
    return Row(failure.name, f"`{kind}`: {here}", goal=failure.kind, reached=kind == failure.kind)


def held_by_another(panel: Panel) -> list[Row]:
    """A GPU that a process from outside uses: seen, named, and not handed out."""
    other = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(4 << 30)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert other.stdout is not None
        other.stdout.readline()
        held: list[dict[str, Any]] = _until(
            lambda: [p for p in panel.gpu("0")["processes"] if p["memory_used"]], "its memory"
        )
        (seen,) = held
        plan = panel.run("plan", "--gpus", "1", "--", "true", check=False)
        told = [line for line in plan.splitlines() if line.startswith("GPUs")]
    finally:
        other.kill()
        other.wait()
    _until(lambda: not panel.gpu("0")["processes"], "the GPU free again")
    used = (seen["memory_used"] or 0) / 2**30
    return [
        Row("a process from outside", f"pid {'right' if seen['pid'] == other.pid else 'wrong'},"
            f" {used:.1f} GiB", goal="its pid and memory", reached=seen["pid"] == other.pid),
        Row("`plan` beside it", "; ".join(told)),
    ]  # fmt: skip


def main() -> int:
    """Fail in every way, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table there too")
    asked = parser.parse_args()
    if not ask_smi("index"):
        write("no NVIDIA GPU that nvidia-smi knows")
        return 2
    driver = ask_smi("name", "driver_version")[0]
    about = f"{driver['name']}, driver {driver['driver_version']}; {machine()}; at {revision()}"
    rows: list[Row] = []
    table = Table("Real failures on a GPU", rows, about)
    with tempfile.TemporaryDirectory(prefix="fresnel-failures-") as folder:
        panel = Panel(Path(folder))
        rows += held_by_another(panel)
        for failure in FAILURES:
            rows.append(failed(panel, failure))
            keep(table, asked.markdown)
    print(table.markdown())
    return int(any(row.reached is False for row in rows))


if __name__ == "__main__":
    sys.exit(main())
