"""Rows of check_trainers.py on what all trainers share, and on the cascade's widest layers."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch
from measure import Row, spread

ROOT = Path(__file__).resolve().parents[2]


def first_steps(bench: Any) -> list[Row]:
    """C8: fp16's scaler drops steps at first; the ranks are compared after the first one taken."""
    from trainers.common.precision import Precision

    weight = torch.nn.Parameter(torch.full((4,), 1e-2, device=bench.device))
    optimiser, made = torch.optim.SGD([weight], lr=1e-8), Precision("fp16", bench.device)
    dropped, compared = 0, 0
    for _ in range(40):
        with made.autocast():
            loss = (weight.half() * 50.0).square().sum()
        made.backward(loss.float() * 8)
        _, stepped = made.step(optimiser, [weight])
        dropped, compared = dropped + (not stepped), compared + made.is_first
    return [Row("fp16: when the ranks are compared", f"{compared} time(s), {dropped} steps dropped",
                goal="once", reached=compared == 1)]  # fmt: skip


def memory_sentence(bench: Any) -> list[Row]:
    """C11: what a trainer says when the GPU's memory is not enough."""
    from trainers.common.failures import is_out_of_memory, out_of_memory

    try:
        if bench.device.type != "cuda":
            raise torch.OutOfMemoryError("CUDA out of memory (made up: no GPU here)")
        free = torch.cuda.mem_get_info()[0]
        torch.empty(2 * free, dtype=torch.uint8, device=bench.device)
        found = "nothing: twice the free memory was given"
    except RuntimeError as problem:
        settings = argparse.Namespace(batch_size=4, accumulate=1)
        found = out_of_memory(problem, settings) if is_out_of_memory(problem) else repr(problem)
    said = "--batch_size than 4" in found and "--accumulate" in found
    return [Row("out of memory", found.replace("|", "/"), goal="one line with what to change",
                reached=said and "\n" not in found)]  # fmt: skip


def patch_embedding(bench: Any) -> list[Row]:
    """C13: the cascade's patches by a strided Conv3d, by a product; what its head keeps a voxel."""
    from trainers.cascade.model import VoxelHead

    side, patch, dim = bench.size(256, 16), bench.size(8, 4), bench.size(512, 16)
    grid = side // patch
    layer = torch.nn.Conv3d(4, dim, patch, stride=patch).to(bench.device)
    voxels = torch.randn(1, 4, side, side, side, device=bench.device)

    def product() -> torch.Tensor:
        cut = voxels.view(1, 4, grid, patch, grid, patch, grid, patch)
        rows = cut.permute(0, 2, 4, 6, 1, 3, 5, 7).flatten(4).flatten(1, 3)
        return torch.nn.functional.linear(rows, layer.weight.flatten(1), layer.bias)

    def strided() -> torch.Tensor:
        return layer(voxels).flatten(2).transpose(1, 2)

    with torch.no_grad():
        apart = float((product() - strided()).abs().max() / strided().abs().max())
    took = [bench.seconds(lambda work=work: work().sum().backward()) for work in (strided, product)]
    rows = [Row(f"patches of {side}³ by Conv3d", spread([1000 * s for s in took[0]], "ms"),
                beside=f"{spread([1000 * s for s in took[1]], 'ms')} by a product",
                compared=f"{min(took[0]) / min(took[1]):.1f} x, apart {apart:.0e}")]  # fmt: skip
    head = VoxelHead(16, 4, dim).to(bench.device)
    inputs = torch.randn(1, 20, side, side, side, device=bench.device)
    condition = torch.randn(1, dim, device=bench.device)
    held = bench.peak(lambda: head(inputs, condition).sum().backward())
    return [*rows, Row(f"the cascade's head at {side}³", f"{held:.2f} GiB a sample",
                       beside=f"{held * 2**30 / side**3:.0f} bytes a voxel")]  # fmt: skip


def processes(bench: Any) -> list[Row]:
    """C14: a process that was given the last GPU leaves the first one alone."""
    count = torch.cuda.device_count() if bench.device.type == "cuda" else 0
    if count < 2:
        return [Row("a process on the last GPU", f"not looked at: {count} GPU(s)")]
    code = (
        "import pynvml, torch, os; from trainers.common.ranks import join_ranks;"
        " ranks = join_ranks('cuda'); torch.ones(1, device=ranks.device); pynvml.nvmlInit();"
        " first = pynvml.nvmlDeviceGetHandleByIndex(0);"
        " print(os.getpid() in [p.pid for p in pynvml.nvmlDeviceGetComputeRunningProcesses(first)])"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"LOCAL_RANK": str(count - 1), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    found = (ended.stdout or ended.stderr).strip().splitlines() or ["it says nothing"]
    return [Row("a process on the last GPU is on the first too", found[-1], goal="False",
                reached=found[-1] == "False")]  # fmt: skip


def precisions(bench: Any) -> list[Row]:
    """What half precision costs in quality: short trainings from one seed, side by side."""
    small = ("--made_up", "3", "--made_up_size", "32", "--grid_res", "32", "--epochs", "1",
             "--pointcloud_n", "2000", "--validate_every", "1")  # fmt: skip
    grids = small if bench.dry else ("--made_up", "6", "--made_up_size", "64", "--grid_res", "64",
                                     "--epochs", "40", "--validate_every", "40")  # fmt: skip
    crops = ("--max_images", "8", "--epochs", "1", "--image_size", "32") if bench.dry else (
        "--max_images", "60", "--epochs", "40", "--batch_size", "8")  # fmt: skip
    rows = []
    for trainer, flags, figure in (
        ("voxelization", grids, "val/psr_iou"),
        ("gaussian", (*crops, "--no-export_onnx"), "held_out_psnr"),
    ):
        ways = ("fp32",) if bench.dry else ("fp32", "fp32 again", "bf16", "fp16")
        runs = {way: _begun(bench, trainer, way, flags) for way in ways}
        told = {way: _figure(running, folder, figure) for way, (running, folder) in runs.items()}
        rows.append(Row(f"{trainer}: {figure} by precision, one seed",
                        "; ".join(f"{way} {found}" for way, found in told.items()),
                        reached=None if all(map(_is_number, told.values())) else False))  # fmt: skip
    return rows


def _begun(bench: Any, trainer: str, way: str, flags: tuple[str, ...]) -> tuple[Any, Path]:
    folder = bench.folder / f"{trainer} in {way}"
    folder.mkdir()
    device = "cpu" if bench.dry else "cuda"
    command = [sys.executable, str(ROOT / "trainers" / trainer / "train.py"), *flags, "--device",
               device, "--precision", way.split()[0], "--no-tensorboard"]  # fmt: skip
    env = os.environ | {"FRESNEL_RUN_DIR": str(folder), "OMP_NUM_THREADS": "2"}
    running = subprocess.Popen(
        command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    return running, folder


def _figure(running: Any, folder: Path, name: str) -> str:
    _, problem = running.communicate()
    if running.returncode:
        return f"exit code {running.returncode}: {(problem.strip().splitlines() or [''])[-1]}"
    found = "no such figure"
    for line in (folder / "events.jsonl").read_text().splitlines():
        values = json.loads(line).get("values") or {}
        found = f"{values[name]:.4g}" if name in values else found
    return found


def _is_number(text: str) -> bool:
    return text.replace(".", "", 1).isdigit()


def launchers(bench: Any) -> list[Row]:
    """Loading processes beside CUDA; torchrun with one process; two processes for one GPU."""
    device = "cpu" if bench.dry else "cuda"
    common = ("--max_images", "8", "--epochs", "1", "--image_size", "32", "--no-export_onnx",
              "--no-tensorboard", "--device", device)  # fmt: skip
    torchrun = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node")
    rows = []
    for name, words, fails in (
        ("two loading processes", (), False),
        ("torchrun, one process", (*torchrun, "1"), False),
        ("torchrun, two processes for one GPU", (*torchrun, "2"), not bench.dry),
    ):
        folder = bench.folder / name
        folder.mkdir()
        more = ("--workers", "2") if not words else ()
        ended = subprocess.run(
            [sys.executable, *words, str(ROOT / "trainers" / "gaussian" / "train.py"), *common,
             *more], env=os.environ | {"FRESNEL_RUN_DIR": str(folder), "OMP_NUM_THREADS": "1"},
            capture_output=True, text=True)  # fmt: skip
        lines = [line for line in ended.stderr.splitlines() if line.startswith("error")]
        here = lines[-1] if lines else f"exit code {ended.returncode}"
        rows.append(Row(name, here.replace("|", "/"), goal="refused in a line" if fails else "it runs",
                        reached=bool(lines) if fails else ended.returncode == 0))  # fmt: skip
    return rows
