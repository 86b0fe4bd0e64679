"""Configuration files: the guide's, both schemas, and every key that cannot be or does nothing."""

import json
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("nibabel")

from trainers.cascade.config import read_config  # noqa: E402
from trainers.cascade.options import OVERRIDES, make_parser, resolve  # noqa: E402
from trainers.common.settings_parser import SettingsError  # noqa: E402

pytestmark = pytest.mark.trainers
SHIPPED = Path(__file__).resolve().parents[2] / "trainers" / "cascade" / "config"
GUIDE = """{
  "xray_config": {"img_size": 512, "num_views": 2},
  "stage_configs": [
    {
      "name": "stage1",
      "volume_size": [64, 64, 64],
      "voxel_dim": 384,      // Can increase with more memory
      "vit_depth": 6,         // Can increase to 8
      "num_heads": 6
    }
  ],
  "training": {
    "batch_size": 8,          // 8 per GPU = 32 total
    "learning_rate": 1e-4,
    "num_epochs_per_stage": 100,
    "num_timesteps": 1000,
    "v_parameterization": true
  },
  "data": {
    "dataset_path": "./data/drr_patient_data",
    "augmentation": true,      // Enable for better generalization
    "cache_in_memory": false,  // True if dataset is small (<10GB)
    "num_workers": 4           /* 4 per GPU */
  }
}"""


TURNED = {
    "convention": "tigre", "DSO": 600, "DSD": 1000, "nDetector": [512, 512], "dDetector": [1, 1],
    "offDetector": [0, 0], "angles": [90, float("inf")], "field_of_view_mm": [300, 300, 300],
}  # fmt: skip


def written(folder: Path, change=None, text: str = GUIDE) -> Path:
    """A configuration file: the guide's, or a small one with a change."""
    path = folder / "config.json"
    if change is not None:
        content = {
            "stage_configs": [{"volume_size": [s] * 3, "voxel_dim": 32} for s in (16, 32)],
            "training": {}, "data": {}, "xray_config": {},
        }  # fmt: skip
        change(content)
        text = json.dumps(content)
    path.write_text(text)
    return path


def test_the_guide_s_file_is_read_with_its_comments_which_are_told(tmp_path) -> None:
    config = read_config(written(tmp_path))
    stage = config.stages[0]
    assert (stage.sizes.dim, stage.sizes.depth, stage.sizes.heads, stage.batch_size) == (
        384,
        6,
        6,
        8,
    )
    assert config.data["augmentation"] is True and config.data["num_workers"] == 4
    assert any("6 comments passed over" in note for note in config.notes)


@pytest.mark.parametrize("path", sorted(SHIPPED.glob("*.json")), ids=lambda path: path.stem)
def test_shipped_files_are_strict_json_and_right(path: Path) -> None:
    json.loads(path.read_text())
    config = read_config(path)
    assert config.stages and all(
        stage.sizes.size % stage.sizes.patch == 0 for stage in config.stages
    )


def test_the_guide_s_table_of_batches_is_the_shipped_one() -> None:
    stages = read_config(SHIPPED / "multi_view_config.json").stages
    assert [(stage.sizes.size, stage.batch_size) for stage in stages] == [
        (64, 16),
        (128, 8),
        (256, 4),
    ]


def test_the_other_schema_means_the_same(tmp_path) -> None:
    text = json.dumps(
        {"stages": [{"name": "stage1_low", "volume_size": [16] * 3, "voxel_dim": 32}],
         "xray_img_size": 64, "xray_channels": 1, "num_views": 2,
         "training": {"num_epochs": 7, "num_workers": 3, "gradient_accumulation_steps": 2}}
    )  # fmt: skip
    config = read_config(written(tmp_path, text=text))
    assert (
        config.training["num_epochs_per_stage"] == 7 and config.training["accumulation_steps"] == 2
    )
    assert (config.image_size, config.data["num_workers"], config.stages[0].name) == (
        64,
        3,
        "stage1_low",
    )


def put(section: str, **values):
    """A change that puts values into a section, or into the first stage."""

    def change(content):
        target = (
            content["stage_configs"][0] if section == "stage" else content.setdefault(section, {})
        )
        target.update(values)

    return change


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (put("training", learning_rat=1e-3), "training.learning_rat; did you mean learning_rate?"),
        (put("stage", voxel_dims=8), "stage_configs[0].voxel_dims; did you mean voxel_dim?"),
        (put("trainig", a=1), "unknown section trainig; did you mean training?"),
        (put("training", batch_size="8"), "batch_size is '8'; expected a whole number from 1"),
        (put("training", batch_size=True), "training.batch_size is True"),
        (put("training", learning_rate=-1), "training.learning_rate is -1"),
        (put("training", mixed_precision="fp8"), "expected one of no, fp16, bf16, auto"),
        (put("training", l1_weight=1), "l1_weight is refused: it belongs to the regression"),
        (put("training", num_epochs=3, num_epochs_per_stage=4), "say the same; keep one"),
        (put("data", normalize_range=[0, 1]), "data.normalize_range is [0, 1]; expected [-1, 1]"),
        (put("data", pin_memory=True), "data.pin_memory is refused: memory is pinned"),
        (put("data", target_xray_size=256), "size 256 and xray_config.img_size 512 must agree"),
        (put("data", train_split=0.9, val_split=0.2), "add up to 1.2, not 1"),
        (put("xray_config", num_views=3), "num_views is 3; expected a whole number from 1 to 2"),
        (put("xray_config", view_types=["frontal"]), "num_views is 2, but view_types names 1"),
        (put("xray_config", view_types=["frontal", "above"]), "must be some of frontal, lateral"),
        (put("xray_config", channels=3), "xray_config.channels is 3; expected one of 1"),
        (put("stage", volume_size=[16, 16, 8]), "must be a cube"),
        (put("stage", volume_size=[64, 64, 64]), "32 is smaller than the stage before (64)"),
        (put("stage", num_heads=5), "voxel_dim 32 must be even and divisible by num_heads 5"),
        (put("stage", patch_size=3), "volume_size 16 is not divisible by patch_size 3"),
        (put("stage", name="stage2"), "the name stage2 is taken"),
        (put("loss", stage1={}), "those of the regression programs"),
        (put("xray_config", geometry={"convention": [1]}), "geometry.convention must be one of"),
        (put("xray_config", geometry=TURNED), "geometry.angles must be a list of 2 numbers"),
        (lambda content: content.update(data=[]), "must be a section in"),
        (put("logging", wandb={"enable": True}), "logging.wandb.enable; did you mean enabled?"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_an_error_that_names_file_and_key(
    change, expected: str, tmp_path
) -> None:
    path = written(tmp_path, change)
    with pytest.raises(SettingsError) as caught:
        read_config(path, {"data.num_workers": 1})
    assert str(path) in str(caught.value) and expected in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (
            put("training", batch_size_stage4=2),
            "training.batch_size_stage4 has no effect: there are 2 stages",
        ),
        (
            put("training", num_epochs_stage3=2),
            "training.num_epochs_stage3 has no effect: there are 2 stages",
        ),
        (
            put("stage", use_physics_loss=False, physics_weight=0.3),
            "physics_weight has no effect while",
        ),
        (
            put("stage", physics_weight=0),
            "use_physics_loss has no effect while physics_weight is 0",
        ),
        (put("xray_config", num_views=1), "one view"),
    ],
)
def test_what_does_nothing_is_told(change, expected: str, tmp_path) -> None:
    assert any(expected in note for note in read_config(written(tmp_path, change)).notes)


def test_a_mistake_in_the_json_names_its_line(tmp_path) -> None:
    path = written(tmp_path, text='{\n  // fine\n  "training": {"batch_size": }\n}')
    with pytest.raises(SettingsError, match="line 3 column 30"):
        read_config(path)


def test_a_stage_has_epochs_of_its_own_and_the_flag_wins_over_them(tmp_path) -> None:
    path = written(tmp_path, put("training", num_epochs=9, num_epochs_stage1=40))
    assert [stage.epochs for stage in read_config(path).stages] == [40, 9]
    config = read_config(path, {"training.num_epochs_per_stage": 5})
    assert [stage.epochs for stage in config.stages] == [5, 5]
    assert any("num_epochs_stage1 gives way to --epochs" in note for note in config.notes)
    with pytest.raises(SettingsError, match="num_epochs_stage1 is 0"):
        read_config(written(tmp_path, put("training", num_epochs_stage1=0)))


def test_flags_win_over_the_file_and_batches_of_stages_give_way(tmp_path, monkeypatch) -> None:
    monkeypatch.delenv("FRESNEL_RUN_DIR", raising=False)
    path = written(tmp_path, put("training", batch_size=8, batch_size_stage2=2, num_epochs=9))
    assert [stage.batch_size for stage in read_config(path).stages] == [8, 2]
    flags = ["--batch_size", "3", "--epochs", "5", "--mixed_precision", "bf16", "--no-augmentation"]
    settings = make_parser().read(["--config", str(path), *flags])
    config = resolve(settings)
    assert [stage.batch_size for stage in config.stages] == [3, 3]
    assert (
        config.training["num_epochs_per_stage"] == 5
        and config.training["mixed_precision"] == "bf16"
    )
    assert any("batch_size_stage2 gives way" in note for note in config.notes)
    assert settings.checkpoint_dir == Path("checkpoints")


def test_the_launcher_s_precision_wins_over_the_file_s_and_a_flag_over_both(
    tmp_path, monkeypatch
) -> None:
    path = written(tmp_path, put("training", mixed_precision="bf16"))
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "fp16")
    read = make_parser().read
    assert resolve(read(["--config", str(path)])).training["mixed_precision"] == "fp16"
    asked = read(["--config", str(path), "--mixed_precision", "no"])
    assert resolve(asked).training["mixed_precision"] == "no"
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "no")
    assert resolve(read(["--config", str(path)])).training["mixed_precision"] == "bf16"


def test_every_override_is_a_flag_and_a_key(tmp_path) -> None:
    known = vars(make_parser().read([]))
    config = read_config(written(tmp_path, put("data")))
    for flag, key in OVERRIDES.items():
        section, name = key.split(".")
        assert flag in known and name in getattr(config, section)


def test_a_file_that_is_nowhere_names_those_shipped(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    settings = make_parser().read(["--config", "config/multi_view.json"])
    with pytest.raises(
        SettingsError, match=r"no file config/multi_view\.json; shipped are .*tiny\.json"
    ):
        resolve(settings)
