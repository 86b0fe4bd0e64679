"""Which files of a folder are pushed, with git and without."""

import os
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from runners.places.ssh.push import plan_push
from runners.places.ssh.push_list import PushList, list_to_push


def _list(folder: Path, is_program: bool = True, secrets: bool = False) -> PushList:
    return list_to_push(folder, is_program=is_program, excludes=[], secrets=secrets)


def _make(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x")


def test_a_repository_inside_a_folder_is_listed_by_its_own_rules(tmp_path: Path) -> None:
    inner = tmp_path / "data" / "inner"
    _make(inner, "kept.py", "built.o")
    (inner / ".gitignore").write_text("*.o\n")
    subprocess.run(["git", "init", "-q", inner], check=True)
    listed = _list(tmp_path / "data", is_program=False)
    assert set(listed.files) == {"inner/.gitignore", "inner/kept.py"}


def test_a_program_that_its_repository_ignores_is_listed_all_the_same(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    (tmp_path / ".gitignore").write_text("/scratch/\n")
    _make(tmp_path, "scratch/train.py")
    assert set(_list(tmp_path / "scratch").files) == {"train.py"}


def test_a_deleted_file_that_git_knows_is_not_listed(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    _make(tmp_path, "train.py", "old.py")
    subprocess.run(["git", "-C", tmp_path, "add", "."], check=True)
    (tmp_path / "old.py").unlink()
    listed = _list(tmp_path)
    assert set(listed.files) == {"train.py"} and not listed.left_out


def test_without_git_everything_is_listed_and_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _make(tmp_path, "train.py", "deep/a.log", "venv/lib.py", "deep/.env")
    (tmp_path / "everything").symlink_to("/")
    (tmp_path / "deep" / ".gitignore").write_text("*.log\n")
    monkeypatch.setenv("PATH", "")
    listed = _list(tmp_path)
    assert set(listed.files) == {"train.py", "deep/a.log", "deep/.gitignore"}
    assert listed.secrets == ("deep/.env",)
    assert len(listed.left_out) == 2  # the link, and that there is no git


def test_what_no_message_can_name_is_left_out_and_said(tmp_path: Path) -> None:
    _make(tmp_path, "a")
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff")).write_text("x")
    os.mkfifo(tmp_path / "pipe")
    listed = _list(tmp_path, is_program=False)
    assert set(listed.files) == {"a"}
    assert len(listed.left_out) == 1  # git names no pipes


def test_a_configuration_of_one_s_own_goes_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.json").write_text('{"training": {"batch_size": 2}}')
    host: Any = SimpleNamespace(folder="/there")
    plan = plan_push("cascade-4gpu-accelerate", ["config=mine.json"], host)
    assert plan.overrides["config"] == "/there/mine.json"
    assert "config" not in plan_push("cascade-4gpu-accelerate", [], host).overrides
