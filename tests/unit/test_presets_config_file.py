"""A program's configuration file: keys as parameters, edited copies, the original untouched."""

import json
from pathlib import Path

import pytest

from runners.lifecycle.launch.planning import Planned, make_plan
from runners.model.errors import WrongInput
from runners.model.spec import RunSpec
from runners.presets.load import load_preset
from runners.scheduling.allocation import Allocation
from runners.state.layout import StateDirectory

YAML = """\
# the run of the guide
train:
  batch_size: 4        # per GPU
  lr: 1e-3
  betas: [0.9, 0.999]
data: {path: "skulls/train.csv", workers: 8}
"""
JSON = """\
{
  // per GPU
  "batch_size": 16, /* stage 1 */
  "url": "http://host//x",
\t"stages": {"first": {"epochs": 100,},},
}
"""
PRESET = """\
launcher: command
command: [echo, go]
working_directory: ${preset_dir}
config:
  file: FILE
  flag: --config
  parameters:
"""


def preset(folder: Path, text: str, name: str, parameters: str) -> Path:
    """A preset beside its configuration file."""
    (folder / name).write_text(text)
    path = folder / "exp.yaml"
    path.write_text(PRESET.replace("FILE", name) + parameters)
    return path


def plan(spec: RunSpec, folder: Path) -> Planned:
    run = StateDirectory(folder / "state").run("run-1")
    return make_plan(spec, run, Allocation(), None, None)


def value(spec: RunSpec, name: str) -> object:
    return next(one.value for one in spec.parameters if one.name == name)


def test_values_come_from_the_file_and_an_unchanged_file_is_used_itself(tmp_path: Path) -> None:
    path = preset(
        tmp_path,
        YAML,
        "c.yaml",
        "    train.batch_size: {minimum: 1}\n    train.lr: {type: float}\n",
    )
    spec = load_preset(path)
    assert (value(spec, "train.batch_size"), value(spec, "train.lr")) == (4, 1e-3)
    planned = plan(spec, tmp_path)
    assert planned.plan.argv[-2:] == ("--config", str(tmp_path / "c.yaml"))
    assert planned.files == {} and planned.plan.config_changes == ()


def test_a_change_goes_into_a_copy_that_keeps_comments_and_everything_else(tmp_path: Path) -> None:
    path = preset(tmp_path, YAML, "c.yaml", "    train.batch_size: {}\n    data.workers: {}\n")
    planned = plan(load_preset(path, ["train.batch_size=2", "data.workers=0"]), tmp_path)
    copy = tmp_path / "state" / "runs" / "run-1" / "config.yaml"
    assert planned.plan.argv[-2:] == ("--config", str(copy))
    assert planned.plan.config_changes == ("train.batch_size: 4 → 2", "data.workers: 8 → 0")
    changed = YAML.replace("batch_size: 4 ", "batch_size: 2 ").replace("workers: 8", "workers: 0")
    assert planned.files["config.yaml"] == changed
    assert (tmp_path / "c.yaml").read_text() == YAML


def test_json_with_comments_is_read_and_edited_in_place(tmp_path: Path) -> None:
    path = preset(
        tmp_path, JSON, "c.json", "    batch_size: {}\n    stages.first.epochs: {}\n    url: {}\n"
    )
    spec = load_preset(path, ["stages.first.epochs=3", "url=ftp://x"])
    assert value(spec, "batch_size") == 16
    text = plan(spec, tmp_path).files["config.json"]
    assert text == JSON.replace("100", "3").replace('"http://host//x"', '"ftp://x"')


def test_a_preset_s_own_value_is_a_change_of_the_file(tmp_path: Path) -> None:
    path = preset(tmp_path, YAML, "c.yaml", "    train.lr: 5e-4\n    data.path: elsewhere.csv\n")
    planned = plan(load_preset(path), tmp_path)
    assert planned.plan.config_changes == (
        'data.path: "skulls/train.csv" → "elsewhere.csv"',
        "train.lr: 0.001 → 0.0005",
    ) or planned.plan.config_changes == (
        "train.lr: 0.001 → 0.0005",
        'data.path: "skulls/train.csv" → "elsewhere.csv"',
    )
    assert json.dumps("elsewhere.csv") in planned.files["config.yaml"]


@pytest.mark.parametrize(
    ("text", "parameters", "said"),
    [
        (YAML, "    train.bs: 3\n", "has no key `train.bs`"),
        ("- a list\n", "    x: 1\n", "holds no mapping"),
        ("a: [1\n", "    a: 1\n", "c.yaml"),
    ],
)
def test_what_cannot_be_edited_is_refused_at_launch(
    tmp_path: Path, text: str, parameters: str, said: str
) -> None:
    spec = load_preset(preset(tmp_path, text, "c.yaml", parameters))
    with pytest.raises(WrongInput, match=said):
        plan(spec, tmp_path)


def test_a_file_that_is_not_there_yet_does_not_spoil_the_preset(tmp_path: Path) -> None:
    path = preset(tmp_path, YAML, "c.yaml", "    train.batch_size: {type: int}\n")
    (tmp_path / "c.yaml").unlink()
    spec = load_preset(path)
    assert value(spec, "train.batch_size") is None
    with pytest.raises(WrongInput, match="no file"):
        plan(spec, tmp_path)
