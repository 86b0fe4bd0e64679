"""settings.yaml: defaults without it, one clear error for each mistake in it."""

import os
from pathlib import Path

import pytest

from runners.model.errors import WrongInput
from runners.presets.reading.settings import Settings, read_settings, settings_file


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
