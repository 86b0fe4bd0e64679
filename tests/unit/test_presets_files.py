"""Files in a preset folder that are none: said in a word, quickly, and the other presets work."""

import os
from pathlib import Path

import pytest

from runners.model.errors import FresnelError
from runners.presets.catalogue import find_preset, list_presets, resolve_runs
from tests.support import CEILING_S

GOOD = "launcher: command\ncommand: echo\n"
BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{chr(98 + i)}: &{chr(98 + i)} [{', '.join([f'*{chr(97 + i)}'] * 9)}]\n" for i in range(8)
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    place = tmp_path / "presets"
    place.mkdir()
    (place / "good.yaml").write_text(GOOD)
    return place


def _dangling(place: Path) -> None:
    place.symlink_to("nowhere")


def _loop(place: Path) -> None:
    place.symlink_to(place.name)


def _sparse(place: Path) -> None:
    with place.open("wb") as file:
        file.truncate(3 << 30)


KINDS = {
    "a dangling link": (_dangling, "No such file"),
    "a link loop": (_loop, "symbolic links"),
    "a folder": (Path.mkdir, "not a plain file"),
    "a FIFO": (os.mkfifo, "not a plain file"),
    "a device": (lambda place: place.symlink_to("/dev/zero"), "not a plain file"),
    "a huge file": (_sparse, "longer than"),
    "an alias bomb": (lambda place: place.write_text(BOMB), "more than 20,000 values"),
    "not UTF-8": (lambda place: place.write_bytes(b"a: \xff\n"), "not UTF-8"),
}


@pytest.mark.timeout(CEILING_S)
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_preset_is_said_and_the_others_work(folder: Path, kind: str) -> None:
    make, words = KINDS[kind]
    make(folder / "bad.yaml")
    found = {entry.name: entry for entry in list_presets()}
    assert found["good"].problem is None and words in (found["bad"].problem or "")
    assert resolve_runs("good")[0].preset == "good"
    with pytest.raises(FresnelError):
        resolve_runs("bad")
    with pytest.raises(FresnelError):
        resolve_runs(str(folder / "bad.yaml"))
    with pytest.raises(FresnelError, match="did you mean `good`"):
        find_preset("goood")


def test_an_editor_s_lock_is_no_preset(folder: Path) -> None:
    (folder / ".#good.yaml").symlink_to("anna@box.1:2")
    assert "good" in {entry.name for entry in list_presets()}
    assert not any(entry.name.startswith(".#") for entry in list_presets())


def test_a_link_to_a_preset_is_one(folder: Path) -> None:
    (folder / "link.yaml").symlink_to("good.yaml")
    assert resolve_runs("link")[0].preset == "link"
