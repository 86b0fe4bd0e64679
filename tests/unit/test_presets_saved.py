"""A run or a form kept as a preset does what it did: whatever of it differs from its own preset."""

import os
from pathlib import Path

import pytest

from runners.model.errors import WrongInput
from runners.presets.catalogue import resolve_preset
from runners.presets.load import command_spec
from runners.presets.reading.settings_edit import change_settings
from runners.presets.save import preset_path, save_preset
from runners.state.layout import settings_file

PRESET = """launcher: python
script: t.py
working_directory: ..
priority: 5
after: {run: other, on: any}
config: {file: one.yaml, parameters: {train.lr: null}}
parameters: {epochs: 3}
environment: {A: x}
restart: 3
"""
CHANGES = (
    "train.batch=8",
    "epochs=4",
    "environment.B=y",
    "restart.times=0",
    "priority=0",
    "after=null",
    "price=0.5",
    "limits.time=1h",
    "stop.ladder=[SIGTERM 5s]",
    "config.file=two.yaml",
    "place={slurm: {partition: gpu, time: 4h}}",
    "on_stall={after: 30m}",
    "tty=true",
    "metrics={patterns: ['loss=(?P<loss>.*)']}",
    "keep={last: 2}",
    "expect={utilization: 60-80%, memory: 40G}",
    "checks={files: [{path: t.py, count: 1-, size: 0-9}], commands: [{command: 'true'}]}",
    "verify=[data]",
    "arguments=[--fast]",
)
PLACES = {"preset", "name", "source", "working_directory", "usual_length", "estimate"}
"""What is another one's by itself."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "presets").mkdir()
    (tmp_path / "presets" / "first.yaml").write_text(PRESET)
    (tmp_path / "t.py").write_text("")
    for name, rate in (("one", 0.1), ("two", 0.2)):
        (tmp_path / f"{name}.yaml").write_text(f"train: {{lr: {rate}, batch: 4}}\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("change", ["", *CHANGES])
def test_a_saved_preset_is_as_it_was_launched(folder: Path, change: str) -> None:
    spec = resolve_preset("first", [change] if change else [])
    save_preset(spec, "second")
    again = resolve_preset("second")
    for name in set(spec.__struct_fields__) - PLACES - {"parameters"}:
        assert getattr(again, name) == getattr(spec, name), name
    values = [{part.name: part.value for part in each.parameters} for each in (spec, again)]
    assert values[0] == values[1]


def test_a_saved_command_keeps_what_was_set(folder: Path) -> None:
    spec = command_spec(["python", "t.py", "${X}"], ["epochs=40", "restart=2", "environment.A=1"])
    save_preset(spec, "second")
    again = resolve_preset("second")
    for name in ("command", "environment", "restart", "stop", "total"):
        assert getattr(again, name) == getattr(spec, name), name


def test_presets_are_saved_where_there_are_no_hard_links(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refused)
    spec = resolve_preset("first")
    path = save_preset(spec, "second")
    with pytest.raises(WrongInput, match="exists already"):
        save_preset(spec, "second")
    assert [found.name for found in path.parent.iterdir()] == ["second.yaml"]


def test_a_link_to_a_file_kept_elsewhere_stays_one(folder: Path) -> None:
    for link in (preset_path("second"), settings_file()):
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(folder / f"kept-{link.name}")
    (folder / "kept-second.yaml").write_text(PRESET)
    save_preset(resolve_preset("first", ["epochs=9"]), "second", overwrite=True)
    change_settings({("panel", "mouse"): False})
    assert preset_path("second").is_symlink() and settings_file().is_symlink()
    assert "9" in (folder / "kept-second.yaml").read_text()
    assert "mouse" in (folder / f"kept-{settings_file().name}").read_text()
