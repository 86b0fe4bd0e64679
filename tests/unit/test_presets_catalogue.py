"""Presets are found beside the person, in the user's folder, and with us; the nearest wins."""

from pathlib import Path

import pytest

from runners.model.errors import NotFound, WrongInput
from runners.model.program import chosen_gpus
from runners.model.spec import GpuRequest
from runners.presets.catalogue import find_preset, list_presets, resolve_preset, resolve_runs

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


@pytest.mark.parametrize(
    ("overrides", "wanted"),
    [
        ([], GpuRequest(1, memory=40 << 30, last=True)),
        (["two.gpus=3"], GpuRequest(3, memory=40 << 30, last=True, explicit=True)),
        (["two.gpus.memory=1G"], GpuRequest(1, memory=1 << 30, last=True)),
        (["two.gpus.ids=0"], GpuRequest(ids=("0",), memory=40 << 30, last=True, explicit=True)),
    ],
)
def test_a_group_s_gpus_and_an_override_leave_what_else_the_preset_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, overrides: list[str], wanted: GpuRequest
) -> None:
    monkeypatch.chdir("/")
    (tmp_path / "presets").mkdir()
    wishes = "{count: 2, memory: 40G, last: true}"
    (tmp_path / "presets/one.yaml").write_text(
        f"launcher: command\ncommand: echo\ngpus: {wishes}\n"
    )
    # Found beside the group, by name and by path.
    runs = "runs:\n  - preset: one\n  - {preset: ./one.yaml, name: two, gpus: 1}\n"
    (tmp_path / "presets/both.yaml").write_text(runs)
    alone, member = resolve_runs(str(tmp_path / "presets/both.yaml"), overrides)
    assert (alone.gpus.count, member.gpus) == (2, wanted)


@pytest.mark.parametrize(
    ("of_group", "override", "wanted"),
    [
        ("2", (), GpuRequest(2, required=True, memory=40 << 30, foreign=True)),
        ("{count: 2, allow_foreign: false}", (), GpuRequest(2, required=True, memory=40 << 30)),
        ("{count: 2, memory: 60G}", ("one.gpus=3",),
         GpuRequest(3, required=True, memory=60 << 30, foreign=True, explicit=True)),
    ],
)  # fmt: skip
def test_what_a_group_does_not_say_of_gpus_stays_and_what_it_says_counts(
    tmp_path: Path, of_group: str, override: tuple[str, ...], wanted: GpuRequest
) -> None:
    wishes = "{count: 1, memory: 40G, required: true, allow_foreign: true}"
    (tmp_path / "one.yaml").write_text(f"launcher: command\ncommand: echo\ngpus: {wishes}\n")
    group = tmp_path / "both.yaml"
    group.write_text(f"runs: [{{preset: ./one.yaml, name: one, gpus: {of_group}}}]\n")
    assert resolve_runs(str(group), override)[0].gpus == wanted
    preset = str(tmp_path / "one.yaml")
    if override:  # a flag says the same as a key, of a preset as of a group's
        base = resolve_preset(preset)
        (count,) = (text.partition("=")[2] for text in override)
        by_key = resolve_preset(preset, [f"gpus={count}"])
        by_flag = chosen_gpus(count, None)
        assert by_flag is not None and base.gpus.chosen(by_flag) == by_key.gpus


def test_a_group_that_names_no_preset_is_said_by_itself(folders: dict[str, Path]) -> None:
    (folders["here"] / "pair.yaml").write_text("runs:\n- preset: mien\n")
    (folders["here"] / "mine.yaml").write_text(TEXT.format("mine"))
    entries = {entry.name: entry for entry in list_presets()}
    assert entries["mine"].problem is None
    assert "mien" in (entries["pair"].problem or "") and "`mine`" in (entries["pair"].problem or "")


@pytest.mark.parametrize(
    "keys",
    [
        "total: {parameter: [epochs]}",
        "total: {parameter: {epochs: 1}}",
        f"on_stall: 0x{'f' * 5000}",
        f"parameters: {{epochs: {{value: 1, minimum: 0x{'f' * 5000}}}}}",
        f"gpus: {{count: 0x{'f' * 5000}}}",
    ],
)
def test_an_odd_value_makes_one_preset_unusable_and_no_other(
    folders: dict[str, Path], keys: str
) -> None:
    (folders["here"] / "odd.yaml").write_text(TEXT.format("odd") + keys)
    (folders["here"] / "mine.yaml").write_text(TEXT.format("mine"))
    entries = {entry.name: entry for entry in list_presets()}
    assert entries["mine"].problem is None and entries["odd"].problem
