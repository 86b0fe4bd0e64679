"""settings.yaml: defaults without it, one clear error for each mistake in it."""

import os
from pathlib import Path

import pytest

from runners.model.errors import WrongInput
from runners.presets.reading.settings_edit import change_settings, changed_text
from runners.presets.reading.user_settings import (
    Settings,
    check_settings,
    read_settings,
)
from runners.state.layout import settings_file


def write(text: str) -> Path:
    path = settings_file()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_without_a_file_there_are_defaults() -> None:
    assert read_settings() == Settings() and read_settings().cost.metadata is False


def test_a_changed_file_is_read_again() -> None:
    path = write("cost: {metadata: true}\n")
    assert read_settings().cost.metadata is True
    path.write_text("# nothing is set\n")
    os.utime(path, ns=(1, 1))
    assert read_settings() == Settings()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("cost: {metdata: true}", ":1: cost.metdata: unknown key; did you mean `metadata`?"),
        ("\ncosts: {}", ":2: costs: unknown key; did you mean `cost`?"),
        ("cost:\n  metadata: 3", ":2: cost.metadata: expected true or false, got a whole number"),
        ("- 1", ":1: expected sections: cost"),
        ("cost: [", "not valid YAML"),
    ],
)
def test_a_mistake_is_named_with_file_line_and_key(text: str, words: str) -> None:
    path = write(text)
    with pytest.raises(WrongInput) as caught:
        read_settings()
    assert str(caught.value).startswith(str(path)) and words in str(caught.value)


def test_every_mistake_is_told_at_once() -> None:
    write("panel:\n  them: x\n  mouse: 3\nnotices: {bell: perhaps}\ncosts: {}\n")
    with pytest.raises(WrongInput) as caught:
        read_settings()
    told = caught.value.message.splitlines()
    assert len(told) == 4
    for words in (":2: panel.them:", ":3: panel.mouse:", ":4: notices.bell:", ":5: costs:"):
        assert sum(words in line for line in told) == 1, told


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "panel:\n  theme: \"nord\"\n"),
        ("# mine\npanel: # here\n  # dark\n  theme: old # because\n  mouse: true\n",
         "# mine\npanel: # here\n  # dark\n  theme: \"nord\" # because\n  mouse: true\n"),
        ("panel:\n  mouse: false # no\n", "panel:\n  theme: \"nord\"\n  mouse: false # no\n"),
        ("panel: {mouse: false} # x\n", "panel: {mouse: false, theme: \"nord\"} # x\n"),
        ("panel: {}\n", "panel: {theme: \"nord\"}\n"),
        ("panel:\ncost: {metadata: true}\n",
         "panel:\n  theme: \"nord\"\ncost: {metadata: true}\n"),
        ("cost: {metadata: true} # a\n", "cost: {metadata: true} # a\npanel:\n  theme: \"nord\"\n"),
    ],
)  # fmt: skip
def test_a_setting_is_changed_where_it_stands(before: str, after: str) -> None:
    changed = changed_text(before, "panel", "theme", "nord")
    assert changed == after and check_settings(changed).panel.theme == "nord"


def test_a_list_in_lines_is_replaced_and_what_follows_stays() -> None:
    text = "notices:\n  on:\n    - done\n    - lost\n  # the bell\n  bell: false\n"
    changed = changed_text(text, "notices", "on", ["failed"])
    settings = check_settings(changed)
    assert settings.notices.on == ["failed"] and settings.notices.bell is False
    assert "# the bell" in changed


def test_a_value_that_does_not_fit_is_not_written() -> None:
    path = write("panel: {mouse: true} # kept\n")
    with pytest.raises(WrongInput, match=r"panel\.mouse"):
        change_settings({("panel", "mouse"): "sometimes"})
    assert path.read_text() == "panel: {mouse: true} # kept\n"
    assert change_settings({("panel", "mouse"): False}).panel.mouse is False
    assert path.read_text() == "panel: {mouse: false} # kept\n"
    assert read_settings().panel.mouse is False
