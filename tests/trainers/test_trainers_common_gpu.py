"""What a GPU would meet, shown without one: versions, memory, checkpoints, shared memory."""

from __future__ import annotations

import argparse
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402

from runners.verify.program_checks import half_volumes_trouble  # noqa: E402
from tests.trainers.waits import Waits  # noqa: E402
from trainers.cascade.options import make_parser as cascade_parser  # noqa: E402
from trainers.common import arithmetic, compiling, loading, precision, ranks  # noqa: E402
from trainers.common.checkpoint import on_cpu  # noqa: E402
from trainers.common.compiling import compile_network  # noqa: E402
from trainers.common.errors import SettingsError  # noqa: E402
from trainers.common.failures import out_of_memory  # noqa: E402
from trainers.common.main_program import run_main  # noqa: E402
from trainers.common.ranks import Ranks  # noqa: E402
from trainers.common.settings_parser import SettingsParser  # noqa: E402
from trainers.common.stopping import StopRequest  # noqa: E402
from trainers.gaussian.options import make_parser as gaussian_parser  # noqa: E402
from trainers.pcdiff.options import make_parser as pcdiff_parser  # noqa: E402
from trainers.voxelization.options import make_parser as voxelization_parser  # noqa: E402

pytestmark = pytest.mark.trainers
CPU, CUDA = torch.device("cpu"), torch.device("cuda")


@pytest.mark.parametrize(
    ("name", "release", "cudnn", "trouble"),
    [
        ("bf16", "2.8.0+cu128", 90800, "wrongly"),
        ("bf16", "2.10.0", 91002, "wrongly"),
        ("fp16", "2.8.0", 91002, ""),
        ("fp16", "2.9.1+cu128", 91002, "17 times"),
        ("bf16", "2.9.0", 91400, "17 times"),
        ("bf16", "2.9.1", 91501, ""),
        ("fp32", "2.9.1", 91002, ""),
        ("bf16", "2.13.0", 91900, ""),
        ("bf16", "2.13.0+cpu", None, ""),
    ],
)
def test_volumes_are_not_convolved_in_half_precision_where_that_is_wrong_or_slow(
    name: str, release: str, cudnn: int | None, trouble: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = arithmetic.conv3d_trouble(name, release, cudnn)
    assert trouble in found and bool(trouble) == bool(found)
    monkeypatch.setattr(precision, "conv3d_trouble_here", lambda _name, _device: found)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda **_: name == "bf16")
    if name != "fp32":
        assert precision.choose_precision("auto", CUDA)[0] == name, "pictures are no volumes"
        chosen = precision.choose_precision("auto", CUDA, volumes=True)
        assert chosen == (("fp32", found) if trouble else (name, ""))
    if trouble:
        with pytest.raises(SettingsError, match="use fp32"):
            precision.choose_precision(name, CUDA, volumes=True)


def test_verify_and_the_trainers_say_the_same_of_cudnn() -> None:
    """Two programs that may not import each other: the panel's core and the trainers."""
    for release in ("2.8.0+cu128", "2.9.0", "2.9.1+cu128", "2.10.0", "2.13.0"):
        for cudnn in (90700, 90800, 91002, 91099, 91100, 91400, 91500, 91900):
            found = any(arithmetic.conv3d_trouble(n, release, cudnn) for n in ("bf16", "fp16"))
            assert bool(half_volumes_trouble(release, cudnn)) == found, (release, cudnn)


def test_the_ranks_are_compared_after_the_first_step_that_was_taken() -> None:
    """fp16's scaler drops the first: what was compared then had not changed yet."""
    weight = nn.Parameter(torch.ones(2))
    optimiser, made = torch.optim.SGD([weight], lr=0.1), precision.Precision("fp16", CPU)
    firsts = []
    for gradient in (torch.inf, 1.0, torch.inf, 1.0):
        made.backward((weight * gradient).sum())
        made.step(optimiser, [weight])
        firsts.append(made.is_first)
    assert firsts == [False, True, False, False]


def test_what_is_saved_lies_on_the_cpu() -> None:
    with FakeTensorMode():
        there, here = torch.empty(3, device="cuda"), torch.empty(3)
        saved = on_cpu({"a": [there, (there, 1)], "b": {"c": here, "d": "text"}})
        assert [saved["a"][0].device, saved["a"][1][0].device] == [CPU, CPU]
    assert saved["b"] == {"c": here, "d": "text"} and saved["b"]["c"] is here
    assert saved["a"][1][1] == 1


MEMORY_TOLD = "out of memory on the GPU"
PARSERS = {
    "gaussian": (gaussian_parser, [], ("--batch_size", "--accumulate")),
    "pcdiff": (lambda: pcdiff_parser("", ""), [], ("--bs", "--accumulate")),
    "voxelization": (voxelization_parser, ["--made_up", "3"], ("--batch_size", "--accumulate")),
    "cascade": (
        cascade_parser,
        [],
        ("--batch_size", "--accumulation_steps", "--gradient_checkpointing"),
    ),
}


@pytest.mark.parametrize("name", PARSERS)
def test_out_of_memory_is_one_line_that_says_what_to_change(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    make, arguments, flags = PARSERS[name]

    def train(_settings: argparse.Namespace) -> int:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB.\nMore.")

    # A rank that does not lead says it too: the others know nothing of it.
    monkeypatch.setenv("RANK", "1")
    assert run_main(train, make(), arguments) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "CUDA out of memory. Tried to allocate 20.00 GiB." in error
    assert all(flag in error for flag in flags)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("CUDA error: out of memory\nSearch for `cudaErrorMemoryAllocation'", MEMORY_TOLD),
        ("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(h)`", MEMORY_TOLD),
        ("NCCL error: Failed, Cuda failure 2 'out of memory'", MEMORY_TOLD),
        ("CUDA error: no kernel image is available for execution on the device", "has no code for"),
        ("CUDA error: CUDA-capable device(s) is/are busy or unavailable", "the GPU is busy"),
        ("CUDA error: uncorrectable ECC error encountered", "must be reset or replaced"),
    ],
)
def test_what_a_driver_says_is_one_line(
    words: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def train(_settings: argparse.Namespace) -> int:
        raise RuntimeError(words)

    assert run_main(train, voxelization_parser(), ["--made_up", "3"]) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and error.startswith("error: ") and told in error


def test_out_of_memory_says_what_was_found_and_leaves_pytorchs_advice_out() -> None:
    found = "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has 79 GiB, 1 GiB is free."
    advice = " If reserved but unallocated memory is large try setting PYTORCH_ALLOC_CONF"
    told = out_of_memory(torch.OutOfMemoryError(found + advice), argparse.Namespace(batch_size=4))
    assert told == f"out of memory on the GPU ({found}); try a smaller --batch_size than 4"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("RuntimeError: Failed to find C compiler.\n\nSet TORCHDYNAMO_VERBOSE=1", "Failed to find C"),
        ("CppCompileError: C++ compile error\n\nCommand:\ng++ x\n\nOutput:\nx.cpp:3: error: no room\n",
         "x.cpp:3: error: no room"),
    ],
)  # fmt: skip
def test_a_compiler_that_fails_is_one_line(
    words: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """As where Triton finds no C compiler at its first kernel, or the compiler itself fails."""
    named = {"__module__": "torch._inductor.exc"}
    inductor = type("InductorError", (RuntimeError,), named)

    def train(_settings: argparse.Namespace) -> int:
        raise inductor(words)

    assert run_main(train, voxelization_parser(), ["--made_up", "3", "--compile"]) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and told in error
    assert "leave --compile and --cuda_graphs away" in error


def test_an_error_that_is_not_about_memory_stays_what_it_is() -> None:
    def train(_settings: argparse.Namespace) -> int:
        raise RuntimeError("something else")

    with pytest.raises(RuntimeError, match="something else"):
        run_main(train, SettingsParser("", ""), [])


def test_shared_memory_is_reckoned_before_workers_fill_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(loading, "SHARED_MEMORY", str(tmp_path))
    free = loading.shutil.disk_usage(tmp_path).free
    item = free // 10
    assert "GiB" in loading.check_shared_memory(item, batch=1, workers=4)
    with pytest.raises(SettingsError, match=r"--workers 2\b"):
        loading.check_shared_memory(item, batch=2, workers=8)
    assert loading.check_shared_memory(free, batch=9, workers=0)
    monkeypatch.setattr(loading, "SHARED_MEMORY", str(tmp_path / "none"))
    assert loading.check_shared_memory(free, batch=9, workers=9)


def test_photographs_that_do_not_fit_into_shared_memory_are_refused_before_the_first_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """At full size, though the first photographs are read at half of it."""
    pytest.importorskip("skimage")
    from trainers.gaussian import train

    monkeypatch.setattr(loading.shutil, "disk_usage", lambda _: SimpleNamespace(free=18_000_000))
    words = [
        "--max_images",
        "6",
        "--image_size",
        "128",
        "--train_resolution",
        "64",
        "--device",
        "cpu",
    ]
    words += ["--batch_size", "2", "--workers", "2", "--epochs", "4", "--no-tensorboard"]
    assert train.main([*words, "--output_dir", str(tmp_path)]) == 2
    told = capsys.readouterr()
    assert "0.02 GiB of /dev/shm" in told.err and "--workers 1" in told.err, told.err
    assert "epoch 1/" not in told.out and list(tmp_path.iterdir()) == []


def test_how_a_gpu_computes_is_decided_in_one_place_and_can_be_switched() -> None:
    before = torch.get_float32_matmul_precision(), torch.backends.cudnn.benchmark
    tf32 = torch.backends.cudnn.allow_tf32
    try:
        found = []
        for arguments in ([], ["--no-tf32", "--no-cudnn_benchmark"]):
            run_main(
                lambda _: found.append(arithmetic.describe_arithmetic()) or 0,
                voxelization_parser(),
                ["--made_up", "3", *arguments],
            )
        assert ["TF32" in sentence for sentence in found] == [True, False]
        assert ["fastest" in sentence for sentence in found] == [True, False]
    finally:
        torch.set_float32_matmul_precision(before[0])
        torch.backends.cudnn.benchmark, torch.backends.cudnn.allow_tf32 = before[1], tf32


class Index(list[int]):
    """A batch's places, which stay on the host: what is read of them is no wait."""

    def tolist(self) -> list[int]:
        return list(self)


def test_a_step_of_the_cascade_waits_for_the_gpu_once(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("diffusers")
    from trainers.cascade import config, train
    from trainers.cascade.cascade import Cascade
    from trainers.common.ema import Ema

    stage = {"volume_size": [8] * 3, "voxel_dim": 16, "patch_size": 4}
    made = config.build_config(
        {"xray_config": {"img_size": 16}, "stage_configs": [stage, stage | {"name": "second"}]}, []
    )
    cascade = Cascade.of(made)
    network = [cascade.add_stage(CPU) for _ in made.stages][-1]
    optimiser = torch.optim.AdamW(network.parameters(), 1e-3)
    run = argparse.Namespace(
        settings=argparse.Namespace(seed=0), config=made, cascade=cascade, model=network,
        ranks=Ranks(0, 1, CPU), stage=made.stages[-1], optimiser=optimiser, ema=Ema(network, 0.9),
        position=argparse.Namespace(stage=2, epoch=0, step=0),
        precision=precision.Precision("fp32", CPU),
    )  # fmt: skip
    batch = {"hu": torch.zeros(2, 1, 8, 8, 8, dtype=torch.int16), "xrays": torch.rand(2, 2, 16, 16),
             "integrals": torch.rand(2, 2, 8, 8), "spacing": torch.ones(2, 3)}  # fmt: skip
    monkeypatch.setattr(train, "to_device", lambda loaded, _: dict(loaded))
    group = [{**batch, "index": Index([0, 1])} for _ in range(2)]
    waits = Waits(monkeypatch)
    # Its own counters lie on the CPU wherever the weights are.
    monkeypatch.setattr(optimiser, "step", waits.aside(optimiser.step))
    with waits:
        found = train.train_step(run, group, 1e-3)
    assert waits.found == ["tolist"] and found["count"] == 4 and found["norm"] > 0
    assert found["total"] == pytest.approx(found["diffusion"] + 0.1 * found["physics"])


def test_a_step_in_fp16_waits_for_the_gpu_once(monkeypatch: pytest.MonkeyPatch) -> None:
    weight = nn.Parameter(torch.ones(2))
    optimiser, made = torch.optim.SGD([weight], lr=0.1), precision.Precision("fp16", CPU)
    with Waits(monkeypatch) as waits:
        made.backward(weight.sum())
        norm, stepped = made.step(optimiser, [weight], beside=torch.ones(3))
    assert stepped and norm > 0 and waits.found == ["tolist"]
    assert weight.tolist() == pytest.approx([0.9, 0.9])


def test_views_from_elsewhere_are_turned_without_a_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is sent to a GPU as it is waits for all that the GPU has to do before."""
    from trainers.cascade.geometry import ConeBeam
    from trainers.gaussian.geometry import seen_from
    from trainers.gaussian.projection import Gaussians
    from trainers.gaussian.views import turned_photographs

    pose, points = torch.full((2, 2), 0.1), torch.rand(2, 5, 3)
    turns = torch.eye(3).expand(2, 5, 3, 3)
    made = Gaussians(points, points, turns, points, points[..., 0])
    offsets, sides = ((1.0, 2.0), (0.0, -3.0)), (300.0, 400.0)
    cone = ConeBeam(500.0, 900.0, sides, offsets, (200.0, 200.0, 200.0), ("front", "left"))
    with Waits(monkeypatch) as waits:
        seen_from(made, pose)
        turned_photographs(torch.rand(2, 3, 8, 8), torch.rand(2, 1, 8, 8), pose)
        for view in ("frontal", "lateral"):
            cone.spread(torch.rand(2, 1, 8, 8), view, 8)
    assert waits.found == []


def on_the_host(numbers: list[int]) -> SimpleNamespace:
    """What a copy that has arrived answers, without a wait."""
    return SimpleNamespace(tolist=lambda: numbers)


def test_a_step_of_the_gaussian_trainer_waits_for_the_gpu_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the renderer of GPUs, which knows from a copy how full its tiles were, and in windows."""
    pytest.importorskip("skimage")
    from trainers.gaussian import tiles, train
    from trainers.gaussian.photographs import PhotographSet

    words = ["--max_images", "6", "--image_size", "32", "--batch_size", "2", "--renderer", "torch"]
    words += ["--fast_mode", "--epochs", "3", "--device", "cpu", "--no-tensorboard"]
    words += ["--output_dir", str(tmp_path)]
    run = train.prepare(gaussian_parser().read(words), StopRequest())
    run.model.train()
    photographs = PhotographSet(run.collection.training, run.collection, run.phase.resolution)
    group = list(train.epoch_batches_of(run, train.loader_of(run, photographs)))[:2]
    waits = Waits(monkeypatch)
    tolist = waits.aside(torch.Tensor.tolist)
    monkeypatch.setattr(tiles, "MEMORY", tiles.FillMemory(dear=lambda _: True))
    monkeypatch.setattr(tiles, "_copied", lambda counts: (on_the_host(tolist(counts)), counts))
    # Drawn on the CPU, where a step's own counters lie too.
    monkeypatch.setattr(train, "random_window", waits.aside(train.random_window))
    monkeypatch.setattr(run.optimiser, "step", waits.aside(run.optimiser.step))
    meter = SimpleNamespace(count=lambda _: None)
    for _ in range(2):
        with waits:
            found = train.train_step(run, group, meter)
    assert waits.found == ["tolist"] * 2 and found["loss"] > 0 and found["gradient_norm"] > 0


def test_validation_reads_its_sums_at_the_end_and_not_batch_by_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("skimage")
    from trainers.common.loading import EpochLoader
    from trainers.gaussian import train
    from trainers.gaussian.evaluation import NAMES, evaluate
    from trainers.gaussian.photographs import PhotographSet

    words = ["--max_images", "6", "--image_size", "32", "--renderer", "torch", "--epochs", "1"]
    words += ["--device", "cpu", "--no-tensorboard", "--output_dir", str(tmp_path)]
    run = train.prepare(gaussian_parser().read(words), StopRequest())
    # A renderer's own looks are its own matter.
    picture = torch.rand(1, 3, 32, 32)
    found = []
    monkeypatch.setattr(
        "trainers.gaussian.evaluation.render",
        lambda gaussians, *_: SimpleNamespace(image=picture.expand(len(gaussians[0]), 3, 32, 32)),
    )
    for size in (1, 3):
        run.settings.batch_size = size
        held = PhotographSet(run.collection.training, run.collection, 32)
        waits = Waits(monkeypatch)
        with waits:
            figures = evaluate(run, EpochLoader(held, run.ranks.device), 1, None)
        found.append((waits.found, figures))
    (many, one), (few, other) = found
    assert many == few and len(few) <= len(NAMES) + 1
    assert one == pytest.approx(other)


def test_a_dozen_networks_of_a_class_are_all_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a cascade's stages with several kinds of batches; PyTorch by itself stops at eight."""

    class Stage(torch.nn.Module):
        def __init__(self, width: int) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(width, width)

        def forward(self, part: torch.Tensor) -> torch.Tensor:
            return self.layer(part) + 1

    plain, ran = torch.nn.Module.compile, []

    def noted(graph: torch.nn.Module, _: object) -> Any:
        return lambda *given: ran.append(1) or graph(*given)

    monkeypatch.setattr(compiling, "why_not_compiled", lambda device: "")
    monkeypatch.setattr(torch.nn.Module, "compile", lambda one: plain(one, backend=noted))
    for width in range(2, 14):
        network = Stage(width)
        compile_network(True, network, torch.device("cpu"))
        network(torch.rand(3, width))
        assert len(ran) == width - 1


def test_compiling_is_refused_where_there_is_nothing_to_compile_with(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    gpu, cpu = torch.device("cuda", 0), torch.device("cpu")
    monkeypatch.setattr(compiling, "find_spec", lambda name: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    network = SimpleNamespace(compile=lambda **how: asked.append(how))
    asked: list[dict[str, str]] = []
    with pytest.raises(SettingsError, match="--compile: it needs the package triton on a GPU"):
        compile_network(True, network, gpu)
    with pytest.raises(SettingsError, match=r"--compile: it needs a C\+\+ compiler on a CPU"):
        compile_network(True, network, cpu)
    compile_network(False, network, gpu)
    compiler = tmp_path / "mine"
    compiler.write_text("#!/bin/sh\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    compile_network(True, network, cpu)
    monkeypatch.setattr(compiling, "find_spec", lambda name: name)
    compile_network(True, network, gpu)
    assert asked == [{}, {}]


def test_cuda_graphs_are_refused_where_batches_are_accumulated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A replay does not add to the gradients of the one before: pytorch/pytorch#169545."""
    monkeypatch.setattr(compiling, "find_spec", lambda name: name)
    network = SimpleNamespace(compile=lambda **how: None)
    compile_network(True, network, CUDA, parts=2)
    compile_network(False, network, CUDA, graphs=True, parts=1)
    with pytest.raises(SettingsError, match="gradients of 2 accumulated batches would be wrong"):
        compile_network(False, network, CUDA, graphs=True, parts=2)
    # Both programs say how many there are, by the flag and by the file.
    from trainers.cascade import run as cascade_run
    from trainers.cascade import train as cascade
    from trainers.voxelization import train as voxelization

    told: list[tuple[Any, ...]] = []

    def refuse(asked: bool, network: Any, device: Any, *how: Any) -> None:
        told.append(how[:2])
        raise SettingsError("seen")

    words = ["--device", "cpu", "--cuda_graphs", "--no-tensorboard"]
    monkeypatch.setattr(voxelization, "compile_network", refuse)
    monkeypatch.setattr(cascade_run, "compile_network", refuse)
    monkeypatch.setattr(voxelization, "find_data", lambda *_: ([], []))
    monkeypatch.setattr(voxelization, "turn_normals", lambda *_: None)
    grids = ["--made_up", "3", "--grid_res", "24", "--accumulate", "3"]
    assert voxelization.main([*words, *grids, "--output_dir", str(tmp_path / "grids")]) == 2
    file = tmp_path / "small.json"
    file.write_text(
        '{"stage_configs": [{"volume_size": [16, 16, 16], "voxel_dim": 16, "patch_size": 4}],'
        ' "training": {"accumulation_steps": 4}}'
    )
    volumes = ["--config", str(file), "--made_up", "3", "--dataset_path", str(tmp_path / "made")]
    assert cascade.main([*words, *volumes, "--checkpoint_dir", str(tmp_path / "volumes")]) == 2
    assert told == [(True, 3), (True, 4)]


def test_cuda_graphs_are_a_way_to_compile_and_a_cpu_has_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[dict[str, str]] = []
    network = SimpleNamespace(compile=lambda **how: asked.append(how))
    monkeypatch.setattr(compiling, "find_spec", lambda name: None)
    with pytest.raises(SettingsError, match="--cuda_graphs: it needs the package triton"):
        compile_network(False, network, CUDA, graphs=True)
    monkeypatch.setattr(compiling, "find_spec", lambda name: name)
    for compiled in (False, True):
        with pytest.raises(SettingsError, match="--cuda_graphs: only a GPU has them"):
            compile_network(compiled, network, CPU, graphs=True)
        compile_network(compiled, network, CUDA, graphs=True)
    assert asked == [{"mode": "reduce-overhead"}] * 2
    for make in (cascade_parser, voxelization_parser):
        assert make().parse_args(["--cuda_graphs"]).cuda_graphs


@pytest.mark.parametrize("takes", [True, False])
def test_a_process_group_on_gpus_is_told_which_is_its_own(
    takes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a stand-in: PyTorch's function as it is now, and as it was before it took device_id."""
    told: list[tuple[str, dict[str, Any]]] = []

    def now(backend: str, *, timeout: Any, device_id: Any = None) -> None:
        told.append((backend, {"device_id": device_id}))

    def before(backend: str, *, timeout: Any) -> None:
        told.append((backend, {}))

    chosen = torch.device("cuda", 1)
    monkeypatch.setattr(torch.distributed, "init_process_group", now if takes else before)
    monkeypatch.setattr(ranks, "choose_device", lambda asked, local: (chosen, "a stand-in"))
    for name, value in (("RANK", "1"), ("WORLD_SIZE", "2"), ("LOCAL_RANK", "1")):
        monkeypatch.setenv(name, value)
    assert ranks.join_ranks("cuda").device == chosen
    assert told == [("nccl", {"device_id": chosen} if takes else {})]
    monkeypatch.setattr(ranks, "choose_device", lambda asked, local: (torch.device("cpu"), ""))
    ranks.join_ranks("cpu")
    assert told[1][0] == "gloo" and told[1][1].get("device_id") is None
