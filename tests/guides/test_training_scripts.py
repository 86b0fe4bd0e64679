"""The training scripts' guide, on eight simulated GPUs and made-up skulls where it has them."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.guides.conftest import GuideCommands, checkout
from tests.support import REPOSITORY

pytest.importorskip("torch")
pytest.importorskip("skimage")
pytestmark = pytest.mark.trainers

DATA = "pcdiff/datasets/SkullBreak"


@pytest.fixture(scope="module")
def guide(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuideCommands]:
    for commands in checkout(tmp_path_factory, "pcdiff-implant", "sim:8xH100-80GB"):
        commands.program(
            "skulls/made_up.py", "--root", DATA, "--count", 3, "--size", 24, "--points", 600
        )
        commands.program("skulls/prepare.py", "--root", DATA, "--num_points", 256, "--num_nn", 32)
        yield commands


def verified(guide: GuideCommands, *words: str, exits: int = 0) -> dict[str, list[Any]]:
    """By run: what `verify` found, as verdict and text."""
    found = guide.json("verify", *words, exits=exits)
    return {
        run["name"]: [(one["verdict"], one["message"], one["advice"]) for one in run["checks"]]
        for run in found["runs"]
    }


def failures(found: list[Any]) -> list[str]:
    return [f"{message} {advice}" for verdict, message, advice in found if verdict == "FAIL"]


@pytest.mark.parametrize("preset", ["launch-both", "skull-both"])
def test_both_runs_find_the_data_where_the_guide_has_it(guide: GuideCommands, preset: str) -> None:
    found = verified(guide, preset, "--only", "data")
    assert set(found) == {"pcdiff", "voxelization"}
    for checks in found.values():
        assert any(DATA in message for _, message, _ in checks)


def test_a_folder_given_for_the_list_is_answered_with_the_list(guide: GuideCommands) -> None:
    found = verified(guide, "pcdiff", "--only", "data", "--set", f"path={DATA}", exits=1)
    assert any(f"{DATA}/train.csv" in text for text in failures(found["pcdiff"]))


def written(guide: GuideCommands, place: str, gpu: int) -> None:
    """The voxelizer's configuration at `place` of the checkout, with this number in it."""
    shipped = REPOSITORY / "trainers" / "voxelization" / "configs" / "train_skullbreak.yaml"
    path = guide.folder / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(shipped.read_text().replace("gpu: 0", f"gpu: {gpu}"))


@pytest.mark.parametrize(
    ("preset", "flags"),
    [
        ("voxelization", ("--set", "config=voxelization/configs/train_skullbreak.yaml")),
        ("voxelization-upstream", ()),
    ],
)
def test_gpu_7_in_the_configuration_is_refused_and_its_remedy_works(
    guide: GuideCommands, preset: str, flags: tuple[str, ...]
) -> None:
    written(guide, "voxelization/configs/train_skullbreak.yaml", 7)
    (guide.folder / "voxelization" / "train.py").write_text("import sys\nprint(sys.argv[1:])\n")
    refused = guide.run("launch", preset, *flags, exits=1).stderr
    remedy = "--set train.gpu=0"
    assert "train.gpu: 7" in refused and remedy in refused
    plan = guide.json("plan", preset, *flags, *remedy.split())
    assert plan["config_changes"] == ["train.gpu: 7 → 0"]
    checks = verified(guide, preset, *flags, *remedy.split(), "--only", "config")
    assert not failures(checks[preset])
    original = guide.folder / "voxelization" / "configs" / "train_skullbreak.yaml"
    assert "gpu: 7" in original.read_text()


def test_the_guides_batch_size_2_in_the_configuration(guide: GuideCommands) -> None:
    command = guide.json("plan", "voxelization", "--no-verify", "--set", "train.batch_size=2")[
        "argv"
    ]
    assert command[command.index("--batch_size") + 1] == "2"


def test_voxelization_alone_takes_the_gpu_that_pcdiff_leaves(guide: GuideCommands) -> None:
    gpus = guide.json("plan", "voxelization", "--no-verify")["gpus"]
    assert [gpu["index"] for gpu in gpus] == [7]
