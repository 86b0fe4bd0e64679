"""What the trainers' tests share: a trainer run as its own program."""

import json
import multiprocessing.process
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.trainers.kernels import compile_once, shared_folder
from tests.warm import TORCH
from tests.warm_server import WHOLE

ROOT = Path(__file__).resolve().parents[2]
TRAINER = ROOT / "trainers" / "gaussian" / "train.py"
SMALL = (
    "--max_images",
    "5",
    "--image_size",
    "32",
    "--batch_size",
    "1",
    "--threads",
    "1",
    "--device",
    "cpu",
)

if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))


def environment(run_directory: Path | None, **more: str) -> dict[str, str]:
    """A trainer's environment, with `$FRESNEL_RUN_DIR` only where a folder is given."""
    kept = {name: value for name, value in os.environ.items() if name != "FRESNEL_RUN_DIR"}
    return kept | ({"FRESNEL_RUN_DIR": str(run_directory)} if run_directory else {}) | more


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    """Networks as small as those of tests take three times the processor's time on two threads."""
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)


@pytest.fixture(scope="session", autouse=True)
def loops_compiled_once(tmp_path_factory: pytest.TempPathFactory) -> None:
    """What numba compiles is there before tests and trainings need it at the same time."""
    compile_once(tmp_path_factory)


@pytest.fixture(scope="session", autouse=True)
def cache_of_its_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What programs keep for the next run does not go to the user's own cache; made-up skulls are
    made by one worker for all.
    """
    with pytest.MonkeyPatch.context() as here:
        here.setenv("XDG_CACHE_HOME", str(shared_folder(tmp_path_factory) / "cache"))
        yield


@pytest.fixture
def curves() -> None:
    """For a test of the curves that a training draws at its end."""


@pytest.fixture(autouse=True)
def no_curves(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A training in this process draws no curves, which can take longer than it trains."""
    if "curves" not in request.fixturenames:
        monkeypatch.setitem(sys.modules, "matplotlib.backends.backend_agg", None)


@pytest.fixture(scope="session")
def run_trainer() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs the trainer by its path on a few small images and waits for it; `curves`: with what
    draws them.
    """

    def run(
        *more: str,
        run_directory: Path | None = None,
        cwd: Path | None = None,
        processes: int = 1,
        curves: bool = False,
        **variables: str,
    ) -> subprocess.CompletedProcess[str]:
        launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={processes}"]
        whole = {WHOLE: "1"} if curves else {}
        return TORCH.run(
            [sys.executable, *(launcher if processes > 1 else []), str(TRAINER), *SMALL, *more],
            env=environment(run_directory, **variables, **whole),
            cwd=cwd,
            capture_output=True,
            text=True,
            timeout=300,
        )

    return run


@pytest.fixture(scope="session")
def start_trainer() -> Callable[..., subprocess.Popen[str]]:
    """Starts the trainer by its path on a few small images and returns at once."""

    def start(*more: str, run_directory: Path) -> subprocess.Popen[str]:
        return TORCH.start(
            [sys.executable, str(TRAINER), *SMALL, *more],
            env=environment(run_directory),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    return start


@pytest.fixture(scope="session")
def read_events() -> Callable[..., list[dict[str, Any]]]:
    """Reads the events of a run, all of them or those of one type."""

    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is not JSON")

    def read(run_directory: Path, kind: str | None = None) -> list[dict[str, Any]]:
        lines = (run_directory / "events.jsonl").read_text(encoding="utf-8").splitlines()
        events = [json.loads(line, parse_constant=refuse) for line in lines]
        return [event for event in events if kind in (None, event["type"])]

    return read


@pytest.fixture(scope="session")
def draw() -> Any:
    """What draws Gaussians on this machine's CPU."""
    torch = pytest.importorskip("torch")
    from trainers.gaussian.render import choose_drawer

    return choose_drawer("auto", torch.device("cpu"))


@pytest.fixture
def first_gradient_spoiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first step of a trainer in this process has a gradient that is not finite."""
    from trainers.common.precision import Precision

    step, left = Precision.step, [True]

    def spoiled(precision: Any, optimiser: Any, parameters: Any, *more: Any) -> Any:
        parameters = list(parameters)
        if left and left.pop():
            parameters[0].grad.fill_(float("nan"))
        return step(precision, optimiser, parameters, *more)

    monkeypatch.setattr(Precision, "step", spoiled)


@pytest.fixture
def little_shared_memory(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Says how many bytes of /dev/shm are free, to a trainer in this process."""
    from trainers.common import loading

    def leave(free: int) -> None:
        monkeypatch.setattr(loading.shutil, "disk_usage", lambda _: SimpleNamespace(free=free))

    monkeypatch.delenv("FRESNEL_RUN_DIR", raising=False)
    return leave


@pytest.fixture
def processes_begun(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The processes that are begun inside this one, as loaders begin their workers."""
    begun: list[str] = []
    start = multiprocessing.process.BaseProcess.start

    def counted(process: multiprocessing.process.BaseProcess) -> None:
        begun.append(process.name)
        start(process)

    monkeypatch.setattr(multiprocessing.process.BaseProcess, "start", counted)
    return begun


@pytest.fixture
def keep_signals() -> Iterator[None]:
    """Puts the signal handlers back that a trainer run inside this process replaces."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)
