"""What all tests share: an empty state folder each, no GPU unless asked for, samplers that leave
soon.
"""

import gc
import os
import signal
from collections.abc import Generator, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import settings

import trainers  # noqa: F401 - before torch: workers share the cores, and its threads wait asleep

# A busy machine is no failure: what takes long is measured in tests/bench. The same examples each
# time say whether a change is right; `make test-random` looks for others.
settings.register_profile("same", deadline=None, derandomize=True)
settings.register_profile("random", deadline=None)
settings.load_profile("same")

# Some images set it: what a buffer holds at the end would never be tried.
os.environ.pop("PYTHONUNBUFFERED", None)

REPOSITORY = Path(__file__).resolve().parents[1]


@pytest.hookimpl(optionalhook=True, tryfirst=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """How tests are dealt to several workers."""
    from tests.dealing import make_scheduler

    return make_scheduler(config, log)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(config: pytest.Config) -> None:
    """How workers are started."""
    from tests.workers import fork_workers

    fork_workers(config)


FAILED = pytest.StashKey[bool]()
"""Of a test: whether it has failed; what it shared with others may be in any state then."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Note on each test whether it has failed, for fixtures that are shared."""
    report = yield
    item.stash[FAILED] = item.stash.get(FAILED, False) or report.failed
    return report


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--shuffle SEED`: no test depends on those before it. `--record-seconds`: see dealing.py."""
    parser.addoption("--shuffle", type=int, metavar="SEED", help="run the tests in random order")
    parser.addoption(
        "--record-seconds",
        action="store_true",
        help="write down what each test file took, by which tests are dealt to workers",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Record seconds where it was asked for; of several workers, the process that leads them."""
    # Begun in a shell's background, Ctrl+C would be ignored by all that the tests start, too.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if hasattr(config, "workerinput"):
        return
    # What is ended in order ends what it has started.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if config.getoption("--record-seconds"):
        from tests.dealing import Recorder

        config.pluginmanager.register(Recorder())


def pytest_unconfigure(config: pytest.Config) -> None:
    """End what the tests have left, when all workers have ended."""
    if not hasattr(config, "workerinput"):
        from tests.leftovers import end_writers

        end_writers(config._tmp_path_factory.getbasetemp())  # type: ignore[attr-defined]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Shuffle the files, and the tests within each; 0 only turns the order round."""
    seed = config.getoption("--shuffle")
    if seed is None:
        return
    files: dict[str, list[pytest.Item]] = {}
    for item in reversed(items):
        files.setdefault(item.nodeid.partition("::")[0], []).append(item)
    order, chance = list(files.values()), Random(seed)
    if seed:
        chance.shuffle(order)
        for tests in order:
            chance.shuffle(tests)
    items[:] = [item for tests in order for item in tests]


def pytest_collection_finish() -> None:
    """All tests and what they import stay to the end: no garbage is looked for in them."""
    gc.freeze()
    gc.set_threshold(10_000, 10, 10)


@pytest.fixture(autouse=True)
def clean_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """State, configuration and GPUs of its own for every test; nothing of the machine's user
    shows.
    """
    for name in [
        name for name in os.environ if name.startswith(("FRESNEL_", "CUDA_", "HIP_", "ROCR_"))
    ]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("FRESNEL_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("FRESNEL_GPUS", "none")
    monkeypatch.setenv("FRESNEL_SAMPLER_LINGER_S", "2")
    folder = Path.cwd()
    yield
    os.chdir(folder)
