"""Flags and configuration files of the trainers: what is read, and how mistakes are told."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

pytest.importorskip("torch")

from trainers.common.settings_parser import (
    SettingsParser,
    number_between,
    output_file,
    output_folder,
    whole_number,
)

pytestmark = pytest.mark.trainers


@pytest.fixture
def parser() -> SettingsParser:
    parser = SettingsParser("Train.", "  python train.py --lr 1e-3")
    parser.add_argument("--config", type=Path)
    parser.add_argument("--lr", type=number_between(0, 1), default=1e-2)
    parser.add_argument("--batch_size", type=whole_number(1), default=4)
    parser.add_argument("--loss", choices=("l1", "l2"), default="l1")
    parser.add_argument("--sizes", type=int, nargs="+", default=[1])
    parser.add_argument("--stage1_epochs", type=int, default=1)
    parser.add_argument("--flip", action=argparse.BooleanOptionalAction, default=False)
    parser.refuse("--gpu", reason="set CUDA_VISIBLE_DEVICES instead")
    return parser


def refused(parser: SettingsParser, capsys, *arguments: str) -> str:
    with pytest.raises(SystemExit) as ended:
        parser.read(list(arguments))
    told = capsys.readouterr().err
    assert ended.value.code == 2
    assert told.startswith("error: ") and told.count("\n") == 1
    return told


def test_of_flags_that_are_refused_together_the_one_given_is_named(
    parser: SettingsParser, tmp_path: Path, capsys
) -> None:
    parser.refuse("--gate", "--gate_epochs", reason="no gate ends a run")
    assert (
        refused(parser, capsys, "--gate_epochs", "3")
        == "error: --gate_epochs: no gate ends a run\n"
    )
    config = tmp_path / "c.yaml"
    config.write_text("gate_epochs: 3\n")
    assert "gate_epochs: no gate ends a run" in refused(parser, capsys, f"--config={config}")


def test_json_with_comments_is_read_and_flags_win(parser: SettingsParser, tmp_path: Path) -> None:
    config = tmp_path / "c.json"
    config.write_text(
        '{ // the rate\n "training": {"lr": 1e-4, "loss": "l2", "stage1": {"epochs": 7},},\n'
        ' /* all\n sizes */ "sizes": [2, 3], # and\n "flip": true, "batch-size": 8 }'
    )
    got = parser.read(["--config", str(config), "--batch_size", "16"])
    assert (got.lr, got.loss, got.sizes, got.flip) == (1e-4, "l2", [2, 3], True)
    assert (got.batch_size, got.stage1_epochs) == (16, 7)


def test_yaml_without_a_point_in_its_exponent_is_a_number(
    parser: SettingsParser, tmp_path: Path
) -> None:
    config = tmp_path / "c.yaml"
    config.write_text("lr: 5e-4\nsizes: 3\n")
    got = parser.read([f"--config={config}"])
    assert (got.lr, got.sizes, got.batch_size) == (5e-4, [3], 4)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("training: {batchsize: 3}", "unknown key 'training.batchsize'; the nearest is batch_size"),
        ("lr: 2", "lr: 2 is not between 0 and 1"),
        ("loss: l3", "loss: invalid choice: 'l3'"),
        ("flip: 3", "flip: 3 is neither true nor false"),
        ("batch_size: [1, 2]", "batch_size: [1, 2] is not a single value"),
        ("lr: 0.1\nlr: 0.2", "key 'lr' is there twice"),
        ("a: {lr: 0.1}\nb: {lr: 0.2}", "'a.lr' and 'b.lr' set the same thing"),
        ("gpu: 3", "gpu: set CUDA_VISIBLE_DEVICES instead"),
        ("lr:", "lr is empty"),
        ("- 1", "has to hold keys and values"),
        ("lr: [", "is not valid"),
    ],
)
def test_a_mistake_in_a_file_is_one_line_naming_it(
    text: str, expected: str, parser: SettingsParser, tmp_path: Path, capsys
) -> None:
    config = tmp_path / "c.yaml"
    config.write_text(text)
    told = refused(parser, capsys, "--config", str(config))
    assert expected in told and str(config) in told


def test_what_is_written_is_looked_at_before_any_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    assert output_folder("new/deep") == Path("new/deep") and output_file("new") == Path("new")
    assert output_folder("folder") == Path("folder") and output_file("file") == Path("file")
    for read, text, reason in (
        (output_folder, "file", "Not a directory"),
        (output_folder, "file/deep", "Not a directory"),
        (output_folder, "/proc/deep", "No such file"),
        (output_file, "file/name.onnx", "Not a directory"),
        (output_file, "folder", "is a folder"),
    ):
        with pytest.raises(argparse.ArgumentTypeError, match=reason):
            read(text)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder"]


def test_json_names_the_line_of_a_mistake(parser: SettingsParser, tmp_path: Path, capsys) -> None:
    config = tmp_path / "c.json"
    config.write_text('{ /* two\nlines */\n "lr": }')
    assert "line 3" in refused(parser, capsys, "--config", str(config))


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--batchsize", "3"], "unknown argument --batchsize; the nearest is --batch_size"),
        (["--gpu", "3"], "--gpu: set CUDA_VISIBLE_DEVICES instead"),
        (["--config", "nowhere.yaml"], "nowhere.yaml cannot be read"),
        (["--config"], "expected one argument"),
    ],
)
def test_a_mistaken_flag_is_one_line(
    arguments: list[str], expected: str, parser: SettingsParser, capsys
) -> None:
    assert expected in refused(parser, capsys, *arguments)


def test_help_shows_examples_and_no_refused_flag(parser: SettingsParser, capsys) -> None:
    with pytest.raises(SystemExit):
        parser.read(["--help"])
    told = capsys.readouterr().out
    assert "  python train.py --lr 1e-3" in told and "--gpu" not in told


def test_settings_are_written_as_plain_json(tmp_path: Path) -> None:
    from trainers.common.settings_parser import read_settings_file, write_settings

    given = {"data": Path("/d"), "sizes": (1, 2), "rate": 0.5, "none": None}
    write_settings(tmp_path / "settings.json", "toy", given)
    assert json.loads((tmp_path / "settings.json").read_text())["trainer"] == "toy"
    expected = {"data": "/d", "sizes": [1, 2], "rate": 0.5, "none": None}
    assert read_settings_file(tmp_path / "settings.json") == ("toy", expected)
