"""What the trainers do on a real GPU: each suspicion that none was at hand for, as a measured row.

    python tests/hardware/check_trainers.py [--markdown FILE]        NVIDIA or AMD, about ten minutes
    python tests/hardware/check_trainers.py --dry                    small, on a CPU: does it run?

Needs the `train` extra; triton and gsplat where they are to be looked at. Trainings go to a
temporary folder. Prints a Markdown table; exits 0 when all that has a goal reaches it, 1 when
something does not, 2 without a GPU.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import median_low
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "bench"), str(HERE)]

import torch  # noqa: E402
from measure import Row, Table, keep, machine, revision, spread, write  # noqa: E402
from shared_rows import (  # noqa: E402
    first_steps,
    launchers,
    memory_sentence,
    patch_embedding,
    precisions,
    processes,
)
from torch.nn import functional as F  # noqa: E402

GIB = 2**30
STEP_ENDS = "common/precision.py"
DRY = (
    "DRY RUN: small sizes on a CPU, Triton by its interpreter. It shows that every row comes about;"
    " no number here says anything of a GPU"
)


class Bench(NamedTuple):
    """Where it is measured, whether only dry, and a folder for trainings."""

    device: torch.device
    dry: bool
    folder: Path

    def size(self, real: int, small: int) -> int:
        """The size to measure at."""
        return small if self.dry else real

    def wait(self) -> None:
        """Wait for the GPU."""
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def seconds(self, work: Callable[[], Any], times: int = 5) -> list[float]:
        """How long some work takes, several times, once warm."""
        work()
        found = []
        for _ in range(1 if self.dry else times):
            self.wait()
            begun = time.monotonic()
            work()
            self.wait()
            found.append(time.monotonic() - begun)
        return found

    def peak(self, work: Callable[[], Any]) -> float:
        """The most GiB a GPU's allocator holds during some work; 0 on a CPU."""
        if self.device.type != "cuda":
            work()
            return 0.0
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        work()
        return torch.cuda.max_memory_allocated() / GIB


# ------------------------------------------------------------------------------------ the machine


def shared_memory(bench: Bench) -> list[Row]:
    """C1: what the guide's settings ask of /dev/shm."""
    from trainers.common.loading import check_shared_memory

    item = 512**3 // 8 + 30_720 * 12
    try:
        return [Row("voxelization at 512³, batch 4, 8 workers", check_shared_memory(item, 4, 8))]
    except ValueError as problem:
        return [Row("voxelization at 512³, batch 4, 8 workers", str(problem), reached=False)]


def convolutions(bench: Bench) -> list[Row]:
    """C2, C15: 3-D convolutions in half precision: time, memory, error; what the trainers say."""
    from trainers.common.arithmetic import conv3d_trouble_here

    side = bench.size(96, 12)
    chance = torch.Generator().manual_seed(0)
    volume = torch.randn(2, 32, side, side, side, generator=chance).to(bench.device)
    kernel = (0.05 * torch.randn(32, 32, 3, 3, 3, generator=chance)).to(bench.device)
    exact = F.conv3d(volume[:1].double().cpu(), kernel.double().cpu(), padding=1)
    rows, usual = [], 0.0
    for name, dtype in (("fp32", torch.float32), ("bf16", torch.bfloat16), ("fp16", torch.float16)):
        x, w = volume.to(dtype), kernel.to(dtype).requires_grad_()

        def work(x: Any = x, w: Any = w) -> None:
            F.conv3d(x, w, padding=1).square().mean().backward()

        with torch.no_grad():
            error = float(
                (F.conv3d(x[:1], w, padding=1).double().cpu() - exact).std() / exact.std()
            )
        took, peak = bench.seconds(work), bench.peak(work)
        usual = usual or min(took)
        trouble = conv3d_trouble_here(name, bench.device)
        sane = error < 0.02 and (name == "fp32" or bench.dry or min(took) < 1.5 * usual)
        here = f"{spread([1000 * s for s in took], 'ms')}, {peak:.2f} GiB, error {error:.1e}"
        rows.append(
            Row(
                f"conv3d {name}, forward and backward, {side}³",
                here,
                beside=trouble or "nothing is known against it",
                goal="right and not slower, or known",
                reached=sane or bool(trouble),
            )
        )
    return rows


def products(bench: Bench) -> list[Row]:
    """C9: what TF32 gives."""
    side = bench.size(8192, 256)
    a = torch.randn(side, side, device=bench.device)
    before, found = torch.get_float32_matmul_precision(), []
    for precision in ("highest", "high"):
        torch.set_float32_matmul_precision(precision)
        found.append(min(bench.seconds(lambda: a @ a)))
    torch.set_float32_matmul_precision(before)
    return [Row(f"float32 product of {side}²", f"{1000 * found[1]:.2f} ms with TF32",
                beside=f"{1000 * found[0]:.2f} ms without",
                compared=f"{found[0] / found[1]:.1f} x")]  # fmt: skip


# ------------------------------------------------------------------------------------ the trainers


def searches(bench: Bench) -> list[Row]:
    """C3: farthest points and neighbours, by each search that can be had; equal to the index."""
    from trainers.pcdiff import neighbours_torch
    from trainers.pcdiff.geometry import fastest_search
    from trainers.pcdiff.model import Sizes

    count = bench.size(30_720, 600)
    balls = Sizes().balls() if not bench.dry else Sizes().balls()[-1:]
    taken, words = fastest_search(bench.device, (bench.size(8, 1), count), balls)
    rows = [Row(f"a survey of {count:,} points", words, goal="under 0.2 s", compared=taken)]
    try:
        from trainers.pcdiff import neighbours_triton
    except ImportError as problem:
        return [*rows, Row("Triton's searches", f"not looked at: {problem}")]
    cloud = torch.randn(2, count, 3, generator=torch.Generator().manual_seed(0)).to(bench.device)
    centres, ball = cloud[:, : bench.size(2560, 20)], balls[0]
    questions: dict[str, tuple[Any, ...]] = {
        "farthest_points": (cloud, centres.shape[1]),
        "ball_query": (cloud, centres, ball.radius, ball.slots),
        "three_nearest": (cloud, centres),
    }
    for name, question in questions.items():
        ours, torchs = getattr(neighbours_triton, name), getattr(neighbours_torch, name)
        mine = _tuple(ours(*question))
        if name == "ball_query":
            slots = torch.arange(ball.slots, device=bench.device)
            mine = mine[0][slots < mine[1][:, None]], mine[1]
        pairs = zip(mine, _tuple(torchs(*question)), strict=True)
        same = all(torch.equal(mine, other) for mine, other in pairs)
        took = bench.seconds(lambda ours=ours, question=question: ours(*question))
        rows.append(Row(f"Triton's {name.replace('_', ' ')}", "the same" if same else "others",
                        beside="torch's", compared=spread([1000 * s for s in took], "ms"),
                        goal="the same", reached=same))  # fmt: skip
    return rows


def _tuple(found: Any) -> tuple[torch.Tensor, ...]:
    return found if isinstance(found, tuple) else (found,)


def renderers(bench: Bench) -> list[Row]:
    """C4, C5: gsplat against the batched renderer; steps of training and what they leave out."""
    from trainers.gaussian import tiles
    from trainers.gaussian.decoder import DecoderSettings, make_decoder
    from trainers.gaussian.fused import draw_with_gsplat, why_not_gsplat
    from trainers.gaussian.projection import Camera

    torch.manual_seed(0)
    decoder = make_decoder(DecoderSettings()).to(bench.device)
    camera = Camera(bench.size(256, 32), 0.3)
    features = torch.randn(bench.size(16, 1), 384, 37, 37, device=bench.device)

    def step(draw: Callable[..., Any]) -> None:
        draw(decoder(features), camera).square().mean().backward()

    took = bench.seconds(lambda: step(tiles.draw_in_tiles))
    rows = [Row(f"a step at {camera.size} px, batch {len(features)}, batched renderer",
                spread([1000 * s for s in took], "ms"),
                beside=f"{bench.peak(lambda: step(tiles.draw_in_tiles)):.2f} GiB",
                compared=f"{tiles.MEMORY.take_left_out():,} pairs left out")]  # fmt: skip
    why = why_not_gsplat(bench.device)
    if why:
        return [*rows, Row("gsplat", f"not used: {why}")]
    took = bench.seconds(lambda: step(draw_with_gsplat))
    with torch.no_grad():
        made = decoder.eval()(features)
        apart = (tiles.draw_in_tiles(made, camera) - draw_with_gsplat(made, camera))[:, :3].abs()
    here = f"{spread([1000 * s for s in took], 'ms')}, apart {float(apart.mean()):.1e} in the mean"
    return [*rows, Row("the same step by gsplat", here, goal="apart < 1e-3",
                       reached=float(apart.mean()) < 1e-3)]  # fmt: skip


def similarity(bench: Bench) -> list[Row]:
    """C7: the cascade's 3-D SSIM on the device."""
    from trainers.cascade.metrics import ssim

    side = bench.size(256, 24)
    a, b = torch.randn(2, 1, side, side, side, device=bench.device).unbind()
    took = bench.seconds(lambda: ssim(a, b))
    return [Row(f"SSIM of {side}³", spread([1000 * s for s in took], "ms"))]


def trainings(bench: Bench) -> list[Row]:
    """C6, C10, C12, C16: a short training of each trainer, side by side: waiting, checkpoints."""
    device = ("--device", "cpu" if bench.dry else "cuda")
    often = [str(number) if not bench.dry else "2" for number in (8, 30, 30)]
    gaussian = ("--max_images", "40", "--epochs", often[0], "--no-export_onnx")
    points = ("--made_up", "3", "--bs", "2", "--niter", often[1], "--num_points", "512", "--num_nn",
              "64", "--vizIter", "0", "--diagIter", "0", "--val_freq", "0")  # fmt: skip
    grids = ("--made_up", "3", "--made_up_size", "32", "--grid_res", "32", "--epochs",
             often[2], "--pointcloud_n", "2000", "--batch_size", "1", "--validate_every", often[2])  # fmt: skip
    made = str(bench.folder / "made_up")
    volumes = ("--config", "tiny.json", "--made_up", "12", "--dataset_path", made, "--epochs",
               "1" if bench.dry else "4", "--batch_size", "1", "--sampling_steps", "2", "--validation_samples", "1")  # fmt: skip
    commands = {
        "gaussian": (*gaussian, *(("--image_size", "32") if bench.dry else ("--batch_size", "4"))),
        "pcdiff": (*points, *(("--width_mult", "0.25", "--embed_dim", "8") if bench.dry else ())),
        "voxelization": grids,
        "cascade": volumes,
    }
    begun, running = time.monotonic(), {}
    for name, flags in commands.items():
        folder = bench.folder / name
        folder.mkdir()
        command = [sys.executable, str(Path(__file__)), "--trainer", name, *flags, *device]
        env = os.environ | {"FRESNEL_RUN_DIR": str(folder), "OMP_NUM_THREADS": "1"}
        running[name] = subprocess.Popen(
            [*command, "--no-tensorboard"],
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
    rows = []
    for name, one in running.items():
        out, problem = one.communicate()
        ended = subprocess.CompletedProcess(one.args, one.returncode, out, problem)
        rows += _read_training(name, bench.folder / name, ended, time.monotonic() - begun)
    return rows


def compiled(bench: Bench) -> list[Row]:
    """C16: the voxelization network's step as it is, compiled, and as CUDA graphs."""
    if bench.dry:
        from trainers.common.compiling import compile_network

        try:
            compile_network(False, torch.nn.Identity(), bench.device, graphs=True)
        except ValueError as refused:
            return [Row("a step compiled, and as CUDA graphs", f"refused here: {refused}")]
    rows, usual = [], 0.0
    for flag in ("", "--compile", "--cuda_graphs"):
        folder = bench.folder / f"compiled{flag}"
        folder.mkdir()
        ended = subprocess.run(
            [sys.executable, str(Path(__file__)), "--trainer", "voxelization", "--made_up", "3",
             "--made_up_size", "64", "--grid_res", "64", "--epochs", "12", "--validate_every", "12",
             "--no-tensorboard", *([flag] if flag else [])],
            env=os.environ | {"FRESNEL_RUN_DIR": str(folder)}, capture_output=True, text=True,
        )  # fmt: skip
        (row, *_) = _read_training(f"voxelization {flag or 'as it is'}", folder, ended, 0.0)
        speed = float(row.here.split()[0]) if row.here.endswith("samples/s") else 0.0
        usual = usual or speed
        told = f"{speed / usual:.2f} x" if speed else ""
        rows.append(replace(row, compared=told, beside=""))
    return rows


def _read_training(name: str, folder: Path, ended: Any, took: float) -> list[Row]:
    if ended.returncode:
        told = (ended.stderr.strip().splitlines() or ["it says nothing"])[-1]
        return [Row(f"{name}: a short training", f"exit code {ended.returncode}: {told}",
                    reached=False)]  # fmt: skip
    lines = (folder / "events.jsonl").read_text().splitlines()
    events = [json.loads(line) for line in lines]
    values: dict[str, Any] = {}
    for event in events:
        if event["type"] in ("metrics", "epoch"):
            values |= event.get("values", {})
    counted = [line for line in ended.stdout.splitlines() if line.startswith("syncs ")]
    here = f"{values.get('samples_per_second', 0):.1f} samples/s"
    rows = [Row(f"{name}: a short training", here, beside=counted[-1] if counted else "",
                compared=f"{took:.0f} s with its start")]  # fmt: skip
    places = set()
    for path in folder.rglob("*.pt*"):
        content = torch.load(path, weights_only=True)
        places |= {part.device.type for part in _tensors(content)}
    rows.append(Row(f"{name}: where its checkpoints' tensors lie", ", ".join(sorted(places)),
                    goal="cpu", reached=places == {"cpu"}))  # fmt: skip
    return rows


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    for item in (
        value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    ):
        yield from _tensors(item)


@contextmanager
def counted_syncs() -> Iterator[list[str]]:
    """Note each wait of the host for a GPU inside by the line that does, as PyTorch warns."""
    found: list[str] = []
    before = warnings.showwarning

    def show(message: Any, category: Any, filename: str, lineno: int, *more: Any) -> None:
        if "synchroniz" in str(message):
            place = filename.rsplit("/trainers/")[-1].rsplit("site-packages/")[-1]
            found.append(f"{place}:{lineno}")
        else:
            before(message, category, filename, lineno, *more)

    warnings.simplefilter("always")
    warnings.showwarning = show
    if torch.cuda.is_available():
        torch.cuda.set_sync_debug_mode("warn")
    try:
        yield found
    finally:
        warnings.showwarning = before


def waits_of_a_step(waits: Sequence[str]) -> dict[str, int]:
    """How often each place waits in the middle one of the steps, each of which ends where the
    gradient's norm is read. Checkpoints and starts, with a wait for each tensor, fall out so.
    """
    steps = [Counter[str]()]
    for place in waits:
        steps[-1][place] += 1
        if place.startswith(STEP_ENDS):
            steps.append(Counter())
    whole = steps[1:-1] or steps[:1]
    middle = {place: median_low(step[place] for step in whole) for place in dict.fromkeys(waits)}
    return {place: count for place, count in middle.items() if count}


def train_and_count(name: str, arguments: list[str]) -> int:
    """Run a trainer in this process and print how often it waited for the GPU, a step."""
    from importlib import import_module

    with counted_syncs() as found:
        code = int(import_module(f"trainers.{name}.train").main(arguments))
    each = waits_of_a_step(found)
    told = ", ".join(f"{place} {count}" for place, count in each.items())
    print(f"syncs {sum(each.values())} a step; {told}", flush=True)
    return code


def _rows_of(part: Callable[[Bench], list[Row]], bench: Bench) -> list[Row]:
    # What one part meets must not cost the others their minutes on a rented GPU.
    try:
        return part(bench)
    except Exception as problem:
        told = (str(problem).splitlines() or [""])[0]
        return [Row(part.__name__, f"{type(problem).__name__}: {told}", reached=False)]


PARTS = (
    *(shared_memory, convolutions, products, searches, renderers, similarity, trainings, compiled),
    *(first_steps, memory_sentence, patch_embedding, processes, launchers, precisions),
)


def main() -> int:
    """Measure every part and print the table."""
    if sys.argv[1:2] == ["--trainer"]:
        return train_and_count(sys.argv[2], sys.argv[3:])
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dry", action="store_true", help="small, on the CPU")
    parser.add_argument("--only", choices=[part.__name__ for part in PARTS], action="append")
    parser.add_argument("--markdown", type=Path, help="write the table there too")
    asked = parser.parse_args()
    if not (asked.dry or torch.cuda.is_available()):
        write("no GPU that PyTorch sees; --dry runs it small on the CPU")
        return 2
    device = torch.device("cpu" if asked.dry else "cuda")
    if asked.dry:
        os.environ["TRITON_INTERPRET"] = "1"  # read when a kernel is declared
    name = DRY if asked.dry else torch.cuda.get_device_name()
    cudnn = torch.backends.cudnn.version()
    about = f"{name}; PyTorch {torch.__version__}, cuDNN {cudnn}; {machine()}; at {revision()}"
    title = "The trainers on a GPU" + (" (DRY: small, on a CPU)" if asked.dry else "")
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(device, asked.dry, Path(folder))
        for part in PARTS:
            if asked.only and part.__name__ not in asked.only:
                continue
            begun = time.monotonic()
            found = _rows_of(part, bench)
            rows += found
            write(f"  {part.__name__}: {time.monotonic() - begun:.0f} s")
            for row in found:
                write(f"    {row.what}: {row.here}; {row.beside} {row.compared}")
            keep(Table(title, rows, about), asked.markdown)
    print(Table(title, rows, about).markdown())
    return int(any(row.reached is False for row in rows))


if __name__ == "__main__":
    sys.exit(main())
