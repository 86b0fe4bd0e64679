"""Asked to stop while it reads or judges, a trainer leaves that for when it goes on, and loses nothing."""

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("nibabel")
pytest.importorskip("skimage")

from tests.trainers import pcdiff_world as world  # noqa: E402
from tests.trainers.saved_state import differing_files  # noqa: E402
from tests.warm import TORCH  # noqa: E402
from trainers.cascade import diffusion, judging, metrics, preparing  # noqa: E402
from trainers.cascade import train as cascade  # noqa: E402
from trainers.cascade.make_patients import make_patients  # noqa: E402
from trainers.gaussian import evaluation  # noqa: E402
from trainers.gaussian import train as gaussian  # noqa: E402
from trainers.implants import train_unet, unet  # noqa: E402
from trainers.pcdiff import judging as pcdiff_judging  # noqa: E402
from trainers.pcdiff import samplers  # noqa: E402
from trainers.pcdiff import train as pcdiff  # noqa: E402
from trainers.skulls.made_up import make_up  # noqa: E402
from trainers.skulls.prepare import prepare_pairs  # noqa: E402
from trainers.voxelization import train as voxelization  # noqa: E402
from trainers.voxelization import validation  # noqa: E402

pytestmark = pytest.mark.trainers
ROOT = Path(__file__).resolve().parents[2]
CPU = ("--device", "cpu", "--threads", "1", "--no-tensorboard")


class Stop(NamedTuple):
    """What does a part of a judging, at which of its calls a stop is asked for, and how many of
    them are one to a stop.
    """

    module: Any
    part: str
    at: int
    together: int = 1


class Case(NamedTuple):
    """A trainer, its words, and the stops that one run of it is asked for, each after the last."""

    main: Callable[[list[str]], int]
    words: list[str]
    stops: tuple[Stop, ...]
    folder: str = "--output_dir"
    resume: str = "--resume"


@pytest.fixture(scope="module")
def skulls(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("skulls")
    make_up(folder, 3, 32, points=500, held_out=1)
    assert prepare_pairs(folder, folder / "train.csv", (180, 20)) == []
    return folder


VOXELS = """
data: {{train_path: "{0}/voxelization/train.csv", eval_path: "{0}/voxelization/eval.csv",
       pointcloud_n: 200, num_offset: 2}}
model:
  grid_res: 16
  c_dim: 8
  encoder_kwargs: {{hidden_dim: 8, grid_resolution: 4, unet3d_kwargs: {{num_levels: 2, f_maps: 8}}}}
  decoder_kwargs: {{hidden_size: 8}}
train: {{batch_size: 2, n_workers: 0, validate_every: 1, checkpoint_every: 1, total_epochs: 2}}
"""
STAGE = {"voxel_dim": 16, "vit_depth": 1, "num_heads": 2, "head_channels": 4}
VOLUMES = {
    "xray_config": {"img_size": 16, "num_views": 2},
    "stage_configs": [STAGE | {"name": "stage1", "volume_size": [8] * 3},
                      STAGE | {"name": "stage2", "volume_size": [16] * 3, "patch_size": 4}],
    "training": {"num_timesteps": 50, "batch_size": 4, "num_epochs_per_stage": 2,
                 "ema_decay": 0.9, "sampling_steps": 3, "validation_patients": 2},
    "data": {"train_split": 0.7, "val_split": 0.2, "test_split": 0.1, "num_workers": 0},
}  # fmt: skip


@pytest.fixture(scope="module")
def volumes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("patients")
    make_patients(folder / "data", 10, 16, 16, seed=1, shown=False)
    path = folder / "small.json"
    data = VOLUMES["data"] | {"dataset_path": str(folder / "data")}
    path.write_text(json.dumps(VOLUMES | {"data": data}))
    return path


@pytest.fixture
def cases(
    skulls: Path, volumes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], Case]:
    """A trainer by its name."""
    monkeypatch.delenv("FRESNEL_RUN_DIR", raising=False)
    stand_in = lambda _: torch.nn.Conv3d(1, 1, 3, padding=1)  # noqa: E731
    for module in (unet, train_unet):
        monkeypatch.setattr(module, "make_network", stand_in)
    listed = ["--path", str(skulls / "train.csv")]
    (tmp_path / "voxels.yaml").write_text(VOXELS.format(skulls))
    points = [*listed, *world.SMALL, "--no-tensorboard", "--bs", "5", "--niter", "2"]
    points += ["--checkpoint_freq", "1", "--val_freq", "1", "--diagIter", "1", "--vizIter", "1"]
    points += ["--viz_steps", "3", "--viz_samples", "1", "--diag_steps", "4"]
    grids = ["--grid_res", "8", "--channels", "4", "--levels", "2", "--epochs", "2"]
    grids += ["--batch_size", "5", "--validate_every", "1"]
    patients, where = ["--config", str(volumes), *CPU], ("--checkpoint_dir", "--resume_from")
    photographs = ["--max_images", "6", "--image_size", "32", "--held_out", "0.5", "--epochs", "2"]
    photographs += ["--gaussians_per_patch", "1", "--batch_size", "1", "--no-export_onnx"]
    scores = Stop(validation, "grid_scores", 1), Stop(validation, "grid_scores", 3)
    levels = len(pcdiff_judging.LEVELS)
    made = {
        "gaussian": Case(
            gaussian.main, [*CPU, *photographs], (Stop(evaluation, "judge_batch", 2),)
        ),
        "pcdiff": Case(
            pcdiff.main,
            points,
            (
                Stop(pcdiff_judging, "noise_losses", 6, levels),  # its loss
                Stop(samplers, "_at", 2),  # its implants
                Stop(pcdiff_judging, "noise_losses", 23),  # its bits
            ),
        ),
        "voxelization": Case(voxelization.main, [str(tmp_path / "voxels.yaml"), *CPU], scores),
        "unet": Case(train_unet.main, [*listed, *CPU, *grids], (Stop(train_unet, "dice", 3, 2),)),
        "cascade": Case(
            cascade.main,
            patients,
            (
                Stop(preparing, "patient_seed", 1),
                Stop(judging, "losses_at", 1),
                Stop(diffusion.VolumeDiffusion, "split", 4),
                Stop(metrics.VolumeStatistics, "add", 2),
                Stop(judging, "physics_error", 5),
            ),
            *where,
        ),
    }
    return made.__getitem__


@pytest.mark.parametrize("name", ["gaussian", "pcdiff", "voxelization", "unet", "cascade"])
def test_a_stop_ends_judging_at_once_and_a_run_that_goes_on_begins_with_it(
    name: str,
    cases: Callable[[str], Case],
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    case, whole, parts = cases(name), tmp_path / "whole", tmp_path / "parts"

    def train(folder: Path, *more: str) -> str:
        with world.signals_kept():
            code = case.main([*case.words, case.folder, str(folder), *more])
        told = capfd.readouterr()
        assert code == 0, told.err
        return told.out

    for stop in case.stops:
        stop_one(stop, lambda: train(parts, case.resume, "auto-or-new"))
    train(parts, case.resume, "auto-or-new")
    train(whole)
    saved = [path.relative_to(whole) for path in whole.rglob("*.pt")]
    saved = [path for path in saved if path.stem.endswith(("last", "best"))]
    assert len(saved) > 1
    assert [found for path in saved for found in differing_files(whole / path, parts / path)] == []


def stop_one(stop: Stop, train: Callable[[], str]) -> None:
    """Ask a training to stop in its judging, which ends it there."""
    part, done = getattr(stop.module, stop.part), 0

    def stopped_in(*given: Any, **more: Any) -> Any:
        nonlocal done
        # Losses split what they see, too.
        done += stop.part != "split" or not torch.is_grad_enabled()
        if done == stop.at:
            os.kill(os.getpid(), signal.SIGTERM)
        return part(*given, **more)

    with pytest.MonkeyPatch.context() as here:
        here.setattr(stop.module, stop.part, stopped_in)
        told = train()
    assert stop.at <= done < stop.at + stop.together, "judging went on"
    assert "is left for when the run goes on" in told and "SIGTERM" in told


ASKED_ALONE = f"""
import os, signal, sys
sys.path.insert(0, {str(ROOT)!r})
from trainers.common.main_program import run_main
from trainers.common.ranks import join_ranks, sum_over_ranks
from trainers.common.settings_parser import SettingsParser
from trainers.common.stopping import StoppedError, StopRequest

def train(settings):
    stop, ranks, done = StopRequest(), join_ranks("cpu"), []
    stop.listen()

    def own():
        for part in stop.watched(range(3)):
            done.append(part)
            if ranks.rank == 1 and part == 1:
                os.kill(os.getpid(), signal.SIGTERM)
        return len(done)

    try:
        print(sum_over_ranks([float(stop.shared(ranks.device, own))], ranks.device))
    except StoppedError:
        os.write(1, ("rank %d after %s\\n" % (ranks.rank, done)).encode())  # both have one pipe
    return 0

sys.exit(run_main(train, SettingsParser("", ""), []))
"""


def test_what_one_of_several_processes_was_asked_ends_the_judging_of_all(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(ASKED_ALONE)
    ended = TORCH.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2",
         str(script)],
        env={**os.environ, "OMP_NUM_THREADS": "1", "FRESNEL_RUN_DIR": ""},
        capture_output=True, text=True, timeout=250,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    lines = sorted(ended.stdout.splitlines())
    assert lines == ["rank 0 after [0, 1, 2]", "rank 1 after [0, 1]"], ended.stderr
