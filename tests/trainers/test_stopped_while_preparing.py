"""Asked to stop while data are made or checked, a program ends after the item it is at."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import psutil
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("nibabel")
pytest.importorskip("nrrd")
pytest.importorskip("skimage")

from PIL import Image  # noqa: E402

from tests.support import eventually  # noqa: E402
from tests.trainers import pcdiff_world as world  # noqa: E402
from tests.warm import TORCH  # noqa: E402
from trainers.cascade import make_patients as patients  # noqa: E402
from trainers.cascade import train as cascade  # noqa: E402
from trainers.common import making, reading  # noqa: E402
from trainers.common.stopping import StopRequest  # noqa: E402
from trainers.gaussian import photographs, preprocess_training_data  # noqa: E402
from trainers.gaussian import train as gaussian  # noqa: E402
from trainers.implants import implant, train_unet  # noqa: E402
from trainers.pcdiff import data as pcdiff_data  # noqa: E402
from trainers.pcdiff import train as pcdiff  # noqa: E402
from trainers.skulls import made_up, prepare  # noqa: E402
from trainers.voxelization import train as voxelization  # noqa: E402

pytestmark = pytest.mark.trainers
ROOT = Path(__file__).resolve().parents[2]
CPU = ["--device", "cpu", "--threads", "1"]
SKULLS = ["--made_up", "4", "--made_up_size", "24"]


@pytest.fixture(scope="module")
def skulls(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return world.skulls(tmp_path_factory.mktemp("skulls"))


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pictures")
    for number in range(5):
        Image.new("RGB", (40, 40), (number, 9, 9)).save(folder / f"{number}.png")
    return folder


def words_of(name: str, skulls: Path, pictures: Path) -> tuple[Any, list[str], Any, str]:
    """A program, its words, and what does one item: its module and name."""
    shown = ["--data_dir", str(pictures), "--features", "patch", "--image_size", "32", *CPU]
    small = [*world.SMALL, "--no-tensorboard", "--bs", "2"]
    listed = ["--path", str(skulls)]
    root = ["--root", str(skulls.parent), "--steps", "pairs", "--list", str(skulls)]
    return {
        "pcdiff": (pcdiff.main, [*small, *SKULLS], made_up, "write_skull"),
        "pcdiff's clouds": (pcdiff.main, [*small, *listed], pcdiff_data, "load_cloud"),
        "voxelization": (voxelization.main, [*SKULLS, *CPU], made_up, "write_skull"),
        "unet": (train_unet.main, [*SKULLS, *CPU], made_up, "write_skull"),
        "implant": (implant.main, [*SKULLS, *CPU, "--shipped"], made_up, "write_skull"),
        "cascade": (cascade.main, ["--made_up", "4", *CPU], patients, "write_patient"),
        "gaussian": (gaussian.main, shown, reading, "_converted"),
        "gaussian's files": (gaussian.main, shown, photographs, "read_beside"),
        "gaussian's features": (gaussian.main, shown, photographs, "read_picture"),
        "made_up.py": (made_up.main, ["--count", "4", "--size", "24"], made_up, "write_skull"),
        "prepare.py": (prepare.main, root, prepare, "do_job"),
        "make_patients.py": (
            patients.main,
            ["--count", "4", "--volume_size", "16", "--img_size", "16"],
            patients,
            "write_patient",
        ),
        "preprocess_training_data.py": (
            preprocess_training_data.main,
            ["--data_dir", str(pictures)],
            preprocess_training_data,
            "process",
        ),
    }[name]


def folder_words(name: str, folder: Path) -> list[str]:
    """Where a program writes."""
    flag = {
        "cascade": "--checkpoint_dir",
        "made_up.py": "--root",
        "prepare.py": "",
        "make_patients.py": None,
    }.get(name, "--output_dir")
    return [str(folder)] if flag is None else [flag, str(folder)] if flag else []


@pytest.mark.parametrize(
    "name",
    [
        *("pcdiff", "pcdiff's clouds", "voxelization", "unet", "implant", "cascade"),
        *("gaussian", "gaussian's files", "gaussian's features"),
        *("made_up.py", "prepare.py", "make_patients.py", "preprocess_training_data.py"),
    ],
)
def test_a_stop_ends_the_making_and_checking_of_data_at_once(
    name: str,
    skulls: Path,
    pictures: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    main, words, module, part = words_of(name, skulls, pictures)
    done, own = 0, getattr(module, part)

    def stopped_in(*given: Any, **more: Any) -> Any:
        nonlocal done
        done += 1
        if done == 2:
            os.kill(os.getpid(), signal.SIGTERM)
        return None if part in ("process", "do_job") else own(*given, **more)

    monkeypatch.delenv("FRESNEL_RUN_DIR", raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(module, part, stopped_in)
    for network in ("make_network",):
        monkeypatch.setattr(train_unet, network, lambda _: torch.nn.Conv3d(1, 1, 3, padding=1))
    monkeypatch.setattr(preprocess_training_data, "load_network", lambda *_: None)
    monkeypatch.setattr(preprocess_training_data, "state_polarity", lambda *_: None)
    with world.signals_kept():
        code = main([*words, *folder_words(name, tmp_path / "out")])
    told = capfd.readouterr()
    assert done == 2, told.err
    if name.endswith(".py") or name == "implant":
        assert (code, "stopped: what is made stays" in told.err) == (143, True), told.err
    else:
        assert (code, "stopped on request" in told.out) == (0, True), told.err
    assert "Traceback" not in told.err


def test_processes_that_make_data_end_with_the_one_that_started_them(tmp_path: Path) -> None:
    """Whether it is asked to end, and finishes what was begun, or is killed."""
    program = ROOT / "trainers" / "skulls" / "made_up.py"
    words = [sys.executable, str(program), "--count", "60", "--size", "24"]
    words += ["--points", "100", "--workers", "2"]
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    for number in (signal.SIGTERM, signal.SIGKILL):
        root = tmp_path / number.name
        started = TORCH.start([*words, "--root", str(root), "--seed", str(int(number))],
            env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        eventually(lambda root=root: next(root.rglob("*_surf.npy"), None), 100)
        helpers = psutil.Process(started.pid).children(recursive=True)
        assert len(helpers) >= 2
        for process in helpers if number == signal.SIGTERM else []:
            process.send_signal(number)  # as to a whole process group
        started.send_signal(number)
        _, told = started.communicate(timeout=100)
        psutil.wait_procs(helpers, 30)
        assert not [process for process in helpers if process.is_running()]
        if number == signal.SIGTERM:
            assert started.returncode == 143 and "Traceback" not in told, told
            assert not list(root.rglob(".*")), "a file is half written"


def halved(number: int) -> float:
    if number == 3:
        raise ValueError("three")
    return number / 2


@pytest.mark.parametrize("workers", [0, 2])
def test_work_is_given_in_order_with_its_own_errors(workers: int) -> None:
    found: list[Any] = []
    for number, result in making.each_made(halved, [1, 2, 3, 4], workers):
        try:
            found.append((number, result()))
        except ValueError as problem:
            found.append((number, str(problem)))
    assert found == [(1, 0.5), (2, 1.0), (3, "three"), (4, 2.0)]


def noted(folder: Path, number: int) -> int:
    """Done at once by 0, by others only once no more work is to be begun."""
    (folder / str(number)).touch()
    if number:
        assert making.LEAVING[0].wait(100)
    return number


def test_what_waits_in_a_pool_is_not_begun_after_a_stop(tmp_path: Path) -> None:
    def watched(items: list[int]) -> Iterator[int]:
        yield items[0]
        raise making.StoppedError

    found = making.each_made(partial(noted, tmp_path), list(range(20)), 2, watched)
    assert [result() for _, result in islice(found, 1)] == [0]
    eventually(lambda: len(list(tmp_path.iterdir())) == 3)
    with pytest.raises(making.StoppedError):
        next(found)
    assert {path.name for path in tmp_path.iterdir()} == {"0", "1", "2"}


def test_what_data_programs_answer_to_their_shell(capsys: pytest.CaptureFixture[str]) -> None:
    def failing(problem: BaseException) -> Callable[[Any], int]:
        def work(_stop: Any) -> int:
            raise problem

        return work

    codes = {
        130: KeyboardInterrupt(),
        2: making.SettingsError("no such thing"),
        1: OSError(28, "No space left on device"),
    }
    with world.signals_kept():
        assert making.make_data(lambda _: 0) == 0
        for code, problem in codes.items():
            assert making.make_data(failing(problem)) == code
    assert "error: no such thing" in capsys.readouterr().err


def ends(_: int) -> None:
    """As the kernel ends a process for want of memory."""
    os.kill(os.getpid(), signal.SIGKILL)


def asks_for_too_much(_: int) -> None:
    """As NumPy does."""
    raise MemoryError("Unable to allocate 512. GiB")


@pytest.mark.parametrize(
    ("part", "expected"),
    [(ends, "a loading process has ended"), (asks_for_too_much, "out of memory on this machine")],
)
def test_memory_that_does_not_suffice_is_one_line(
    part: Callable[[int], None], expected: str, capfd: pytest.CaptureFixture[str]
) -> None:
    def work(stop: StopRequest) -> int:
        for _, wait in making.each_made(part, [1, 2, 3], 2, stop.watched):
            wait()
        return 0

    with world.signals_kept():
        assert making.make_data(work) == 1
    said = capfd.readouterr().err
    assert said.startswith(f"error: {expected}") and said.count("\n") == 1


def test_what_cannot_be_written_is_said_before_any_work(
    skulls: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A disk that is only read, with volumes in it: each took its minute and failed then."""
    root, done = tmp_path / "skulls", []
    shutil.copytree(skulls.parent, root, ignore=shutil.ignore_patterns("voxelization"))
    (root / "voxelization").touch()
    monkeypatch.setattr(prepare, "do_job", done.append)
    with world.signals_kept():
        assert prepare.main(["--root", str(root), "--workers", "1"]) == 1
    assert str(root / "voxelization") in capfd.readouterr().err
    assert not done
    next((root / "implant").rglob("*_surf.npy")).unlink()
    kept = prepare.check_writable

    def refusing(folder: Path) -> None:
        if folder.parent.name == "implant":
            raise OSError(30, "Read-only file system", str(folder))
        kept(folder)

    monkeypatch.setattr(prepare, "check_writable", refusing)
    with world.signals_kept():
        assert prepare.main(["--root", str(root), "--workers", "1", "--steps", "clouds"]) == 1
    assert "Read-only file system" in capfd.readouterr().err and not done
