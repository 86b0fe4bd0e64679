"""Presets are found beside the person, in the user's folder, and with us; the nearest wins."""

from pathlib import Path

import pytest

from runners.model.errors import NotFound, WrongInput
from runners.presets.catalogue import find_preset, list_presets, resolve_preset

TEXT = "launcher: command\ncommand: 'true'\ndescription: {}\n"


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    here = tmp_path / "work"
    folders = {"here": here / "presets", "user": tmp_path / "config" / "fresnel-tui" / "presets"}
    for folder in folders.values():
        folder.mkdir(parents=True)
    monkeypatch.chdir(here)
    return folders


def test_the_nearest_folder_wins(folders: dict[str, Path]) -> None:
    for place, folder in folders.items():
        (folder / "mine.yaml").write_text(TEXT.format(place))
        (folder / f"only-{place}.yml").write_text(TEXT.format(place))
    (folders["user"] / "gaussian-validate.yaml").write_text(TEXT.format("user"))
    described = {entry.name: entry.spec.description for entry in list_presets() if entry.spec}
    assert described["mine"] == described["only-here"] == "here"
    assert described["only-user"] == described["gaussian-validate"] == "user"
    assert resolve_preset("mine").description == "here"
    assert resolve_preset("gaussian-validate").description == "user"


def test_the_user_s_folder_is_the_home_s_without_xdg(
    folders: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    folder = tmp_path / "home" / ".config" / "fresnel-tui" / "presets"
    folder.mkdir(parents=True)
    (folder / "homely.yaml").write_text(TEXT.format("home"))
    assert find_preset("homely") == folder / "homely.yaml"


def test_a_path_names_a_file_anywhere(folders: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "else where").mkdir()
    path = tmp_path / "else where" / "far.yaml"
    path.write_text(TEXT.format("far"))
    assert resolve_preset(str(path)).description == "far"


def test_prices_are_no_preset(folders: dict[str, Path]) -> None:
    assert "prices" not in {entry.name for entry in list_presets()}
    with pytest.raises(NotFound):
        find_preset("prices")


def test_a_misspelt_preset_names_the_nearest_and_where_was_looked(folders: dict[str, Path]) -> None:
    with pytest.raises(NotFound) as caught:
        find_preset("gausian-validate")
    assert "no preset `gausian-validate`; did you mean `gaussian-validate`?" in str(caught.value)
    assert str(folders["here"]) in str(caught.value) and str(folders["user"]) in str(caught.value)


def test_a_wrong_preset_nearby_is_said_and_not_passed_over(folders: dict[str, Path]) -> None:
    (folders["here"] / "gaussian-validate.yaml").write_text("launcher: pyton\n")
    with pytest.raises(WrongInput, match="did you mean `python`"):
        resolve_preset("gaussian-validate")
