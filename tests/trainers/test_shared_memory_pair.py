"""What `verify` reckons of /dev/shm for a shipped preset is what its trainer checks at its start."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("nrrd")
pytest.importorskip("nibabel")

from runners.model.scaling import batch_of  # noqa: E402
from runners.model.spec import RunSpec  # noqa: E402
from runners.presets.catalogue import list_presets, resolve_runs  # noqa: E402
from runners.verify.config_facts import config_facts  # noqa: E402
from runners.verify.facts import BatchFacts, LaunchFacts  # noqa: E402
from runners.verify.host_checks import shared_memory_asked, workers_each  # noqa: E402
from tests.support import make_plan  # noqa: E402
from tests.trainers.test_gaussian_photographs import make_folder  # noqa: E402
from trainers.cascade.config import read_config  # noqa: E402
from trainers.cascade.dataset import PatientSet, item_bytes  # noqa: E402
from trainers.common.kept_items import size_of  # noqa: E402
from trainers.common.loading import shared_memory_asked as trainer_asks  # noqa: E402
from trainers.gaussian.photographs import PhotographSet, collect  # noqa: E402
from trainers.implants import volume_pairs  # noqa: E402
from trainers.pcdiff.data import Recipe, SkullPoints  # noqa: E402
from trainers.pcdiff.options import make_parser as pcdiff_parser  # noqa: E402
from trainers.skulls.listing import SkullSample  # noqa: E402
from trainers.voxelization import data as voxelization  # noqa: E402
from trainers.voxelization.config import read_config as voxelization_config  # noqa: E402

pytestmark = pytest.mark.trainers
ROOT = Path(__file__).resolve().parents[2]


def facts_of(spec: RunSpec) -> LaunchFacts:
    """What `verify` knows of a preset on as many GPUs as it names."""
    count = spec.gpus.number or len(spec.gpus.ids)
    processes = count if spec.launcher != "python" else 1
    batch = batch_of(spec, processes)
    script = ROOT / spec.script.replace("${trainers}", "trainers")
    return LaunchFacts(
        spec,
        make_plan(processes=processes),
        batch=batch and BatchFacts(batch.each, batch.total, processes),
        config=config_facts(spec, script.parent, {"trainers": str(ROOT / "trainers")}, script),
    )


LOADED = {
    spec.name: spec
    for preset in list_presets()
    if not preset.name.endswith("upstream") and preset.name != "example"
    for spec in resolve_runs(preset.name, [], "")
    if spec.script and workers_each(facts_of(spec))
}


def photograph(values: dict[str, Any], folder: Path) -> int:
    """With features of DINOv2 small and depth, as preprocessing makes them."""
    found = collect(make_folder(folder, 2, depths=2), "auto", None, None, 0.5)
    return size_of(PhotographSet(found.training, found, values["image_size"])[0])


def skull_points(values: dict[str, Any], folder: Path) -> int:
    usual = pcdiff_parser("", "").read(["--path", "x.csv"])
    cloud = folder / "cloud.npy"
    np.save(cloud, np.random.default_rng(0).random((9, 3)).astype(np.float32))
    recipe = Recipe(usual.num_points, usual.num_nn, usual.time_num, False, 0)
    return size_of(SkullPoints([SkullSample("x", None, cloud, cloud, cloud)], recipe)[0, 0])


def skull_pair(values: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> int:
    """As two small grids say that it grows: 512³ would take seconds."""
    config = ROOT / "trainers" / "voxelization" / "configs" / "train_skullbreak.yaml"
    count = voxelization_config(config)["data.pointcloud_n"]
    pair = voxelization.Pair(Path("x_vox.npz"), Path("x_pc.npz"))

    def item(side: int) -> int:
        psr, points = np.full((side,) * 3, np.float32(0.5)), np.full((9, 3), np.float32(0.5))
        psr[0] = -0.5
        arrays = {"psr": psr, "points": points}
        monkeypatch.setattr(voxelization, "read_array", lambda path, key=None: arrays[key])
        return voxelization.VoxelPairs([pair], (side,) * 3, count).item_bytes()

    each = (item(32) - item(16)) / (32**3 - 16**3)
    return round(item(16) + each * (int(values["grid_res"]) ** 3 - 16**3))


def volumes(values: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> int:
    grid = int(values["grid_res"])
    mask = np.zeros((grid,) * 3, bool)
    monkeypatch.setattr(volume_pairs, "read_volume", lambda _: SimpleNamespace(mask=mask))
    sample = SkullSample("x", None, *[Path("x.nrrd")] * 3)
    return size_of(volume_pairs.Volumes([sample], grid, 0).pair(0))


def test_a_patient_s_bytes_are_reckoned_as_they_are() -> None:
    """By what PatientData gives."""
    size, pixels, views = 16, 24, 2
    shapes = {"volume": (1, size, size, size), "xrays": (views, pixels, pixels),
              "integrals": (views, size, size), "spacing": (3,)}  # fmt: skip
    item = {name: torch.zeros(shape) for name, shape in shapes.items()}
    data: Any = SimpleNamespace(load=lambda _: item)
    found = PatientSet(data, [SimpleNamespace()])[0]  # type: ignore[list-item]
    config: Any = SimpleNamespace(views="fl", image_size=pixels)
    assert item_bytes(config, size) == size_of(found)


@pytest.mark.parametrize("name", LOADED)
def test_verify_reckons_what_the_trainer_does(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = LOADED[name]
    facts, values = facts_of(spec), {one.name: one.value for one in spec.parameters}
    workers, processes = workers_each(facts), facts.plan.processes
    program = Path(spec.script).parent.name
    if program == "cascade":
        config = read_config(ROOT / "trainers" / "cascade" / spec.config.path)
        own = max(
            trainer_asks(
                item_bytes(config, stage.sizes.size),
                stage.batch_size, config.data["num_workers"], processes,
            )
            for stage in config.stages
        )  # fmt: skip
    elif program == "pcdiff":
        read = pcdiff_parser("", "").read(
            ["--path", "x.csv", "--bs", str(values["bs"]), "--workers", str(values["workers"])]
        )
        item, share = skull_points(values, tmp_path), read.bs // processes
        own = trainer_asks(item, share, read.workers // processes, processes, read.prefetch_factor)
    else:
        item = (
            photograph(values, tmp_path / "data")
            if program == "gaussian"
            else skull_pair(values, monkeypatch)
            if program == "voxelization"
            else volumes(values, monkeypatch)
        )
        own = trainer_asks(item, values["batch_size"], values["workers"], processes)
    assert workers and shared_memory_asked(facts) == own


def test_every_program_with_workers_is_among_them() -> None:
    programs = {Path(spec.script).parent.name for spec in LOADED.values()}
    assert programs == {"cascade", "gaussian", "implants", "pcdiff", "voxelization"}
