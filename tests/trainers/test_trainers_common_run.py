"""A small trainer built on trainers.common: in one process and two, stopped, killed, resumed."""

from __future__ import annotations

import importlib.util
import multiprocessing
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

torch = pytest.importorskip("torch")

from torch.utils.data import TensorDataset  # noqa: E402

from tests.warm import TORCH  # noqa: E402
from trainers.common import main_program  # noqa: E402
from trainers.common.loading import make_loader  # noqa: E402
from trainers.common.ranks import epoch_batches  # noqa: E402
from trainers.common.stopping import STOP_SIGNALS  # noqa: E402

pytestmark = pytest.mark.trainers
TOY = Path(__file__).with_name("common_toy_trainer.py")
QUIET = ("--no-tensorboard", "--device", "cpu", "--epochs", "3")
LINE = re.compile(r"^step (\d+) loss (\S+)$", re.MULTILINE)


@pytest.fixture(scope="module")
def toy() -> ModuleType:
    path_before = list(sys.path)
    found = importlib.util.spec_from_file_location("common_toy_trainer", TOY)
    assert found is not None and found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    sys.path[:] = path_before
    return module


@pytest.fixture
def run(toy: ModuleType, monkeypatch: pytest.MonkeyPatch, capfd):
    """Runs the trainer inside this process, and returns its exit code, lines and errors."""
    for name in ("FRESNEL_RUN_DIR", "RANK", "WORLD_SIZE", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)
    before = {number: signal.getsignal(number) for number in STOP_SIGNALS}

    def start(output: Path, *more: str) -> tuple[int, str, str]:
        capfd.readouterr()
        arguments = [*QUIET, "--output_dir", str(output), *more]
        code = main_program.run_main(toy.train, toy.make_parser(), arguments)
        told = capfd.readouterr()
        return code, told.out, told.err

    yield start
    for number, handler in before.items():
        signal.signal(number, handler)


def launch(output: Path, *more: str, processes: int = 1) -> subprocess.CompletedProcess[str]:
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={processes}"]
    return TORCH.run(
        [sys.executable, *(launcher if processes > 1 else []), str(TOY), *QUIET,
         "--output_dir", str(output), *more],
        env={**os.environ, "OMP_NUM_THREADS": "1"} | {"FRESNEL_RUN_DIR": ""},
        capture_output=True, text=True, timeout=90,
    )  # fmt: skip


def content(path: Path) -> dict:
    return torch.load(path, weights_only=True)


def same(one: object, other: object) -> bool:
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    return one == other


def losses(told: str) -> dict[int, float]:
    return {int(step): float(loss) for step, loss in LINE.findall(told)}


def test_killed_at_once_and_resumed_it_ends_to_the_bit_as_if_never_stopped(
    run, tmp_path: Path
) -> None:
    noisy = ("--dropout", "0.2", "--precision", "bf16", "--lr", "0.01")
    assert run(tmp_path / "straight", *noisy)[0] == 0
    killed = launch(tmp_path / "run", *noisy, "--plant", "save, SIGKILL at 6")
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    code, told, _ = run(tmp_path / "run", *noisy, "--resume", "auto")
    assert code == 0 and min(losses(told)) == 7
    ours, theirs = (
        content(tmp_path / name / "checkpoints" / "epoch_0003.pt") for name in ("run", "straight")
    )
    for part in ("model", "ema", "optimiser", "precision", "position", "random"):
        assert same(ours[part], theirs[part]), part


def test_two_processes_with_half_the_batch_train_like_one_until_a_gradient_is_not_shared(
    run, tmp_path: Path
) -> None:
    five = ("--epochs", "5", "--clip", "0")
    alone = losses(run(tmp_path / "one", *five)[1])
    pieces = losses(run(tmp_path / "pieces", *five, "--batch_size", "1", "--accumulate", "4")[1])
    planted = ("--batch_size", "2", "--plant", "a gradient that is not shared")
    two = launch(tmp_path / "two", *five, *planted, processes=2)
    together = losses(two.stdout)
    assert alone.keys() == together.keys() == pieces.keys() == set(range(1, 21)), two.stderr
    assert max(abs(alone[step] - together[step]) for step in alone) <= 1e-5
    assert max(abs(alone[step] - pieces[step]) for step in alone) <= 1e-5
    assert "2 x CPU" in two.stdout and two.stdout.count("found ") == 1
    assert two.returncode == 1
    assert "after step 21 the weights of rank(s) 1 differ from rank 0's in 0.weight" in two.stderr
    # What two processes wrote, one goes on from, and says that it is another number.
    code, told, errors = run(tmp_path / "two", "--epochs", "6", "--resume", "auto")
    assert code == 0 and losses(told).keys() == {21, 22, 23, 24}
    assert "resume: batch_size is 2 there and 4 here" in errors
    assert "2 process(es) wrote the checkpoint and 1 go on" in errors


def test_a_signal_saves_inside_an_epoch_and_another_batch_goes_on_with_the_rest(
    run, tmp_path: Path
) -> None:
    code, told, _ = run(tmp_path, "--plant", "SIGUSR1 at 6")
    assert code == 0 and "stopped on SIGUSR1 after step 6" in told
    saved = tmp_path / "checkpoints" / "epoch_0002_step_000002.pt"
    assert content(saved)["position"] == [1, 6, 8, 2]
    code, told, errors = run(tmp_path, "--resume", str(saved), "--batch_size", "8")
    assert code == 0 and "batch_size is 4 there and 8 here" in errors
    # Eight of sixteen samples were left of the second epoch: one step of eight, then two.
    assert losses(told).keys() == {7, 8, 9}


def test_a_loading_process_outlives_the_signals_that_stop_its_trainer() -> None:
    data = TensorDataset(torch.arange(40))
    loader = iter(make_loader(data, [[index] for index in range(40)], torch.device("cpu"), 1))
    drawn = [int(next(loader)[0])]
    (worker,) = multiprocessing.active_children()
    for number in STOP_SIGNALS:
        os.kill(worker.pid, number)
    drawn += [int(batch[0]) for batch in loader]
    assert drawn == list(range(40))


def test_what_is_left_of_an_epoch_is_the_same_for_any_batch_and_world() -> None:
    whole = [index for batch in epoch_batches(20, 4, 5, 1, 0, 1) for index in batch]
    for batch_size, world in ((4, 1), (2, 2), (3, 3), (8, 1)):
        ranks = [epoch_batches(20, batch_size, 5, 1, rank, world, 8) for rank in range(world)]
        drawn = [index for batches in ranks for batch in batches for index in batch]
        assert set(drawn) == set(whole[8:]) and len(drawn) < 12 + world
    assert epoch_batches(20, 4, 5, 1, 0, 1, 20) == []


def test_errors_are_one_line_and_say_what_they_are_by_exit_code(
    run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, _, told = run(tmp_path, "--resume", "auto")
    assert code == 2 and told.startswith("error: --resume auto") and told.count("\n") == 1
    monkeypatch.setenv("FRESNEL_GPU_COUNT", "1")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    code, _, told = run(tmp_path, "--device", "auto")
    assert code == 2 and "PyTorch sees none" in told and told.count("\n") == 1


def test_numbers_too_small_to_matter_are_zero_while_training_and_no_longer(toy: ModuleType) -> None:
    if not torch.set_flush_denormal(False):
        pytest.skip("this processor always computes with them")

    def smallest() -> float:
        return float(torch.full((8,), 1e-40).mul(1.0)[0])

    seen: list[float] = []
    code = main_program.run_main(
        lambda _: seen.append(smallest()) or 0, toy.make_parser(), [*QUIET]
    )
    assert code == 0 and seen == [0.0]
    assert smallest() > 0
